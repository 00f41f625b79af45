"""Chapter 06, positions: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "sinusoidal_encoding": 7,
    "shift_matrix": 6,
    "LearnedPositions": 8,
    "relative_bias": 8,
    "apply_rope": 10,
    "alibi_slopes": 6,
    "alibi_bias": 5,
    "position_interpolation": 4,
    "ntk_scale": 4,
    "yarn_frequencies": 6,
}

READY_MADE = ("transformers", "torchtune", "rotary_embedding_torch", "x_transformers")
"""Libraries that hold finished position codes."""
