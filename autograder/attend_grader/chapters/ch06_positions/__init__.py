"""Chapter 06, positions: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "sinusoidal_encoding": 9,
    "shift_matrix": 6,
    "LearnedPositions": 9,
    "relative_bias": 9,
    "apply_rope": 12,
    "repaired_rope": 9,
    "alibi_slopes": 6,
    "alibi_bias": 6,
    "position_interpolation": 6,
    "ntk_scale": 4,
    "yarn_frequencies": 6,
}
