"""Chapter 18, flash attention forward in Triton: its exercises in order; imports nothing heavy."""

EXERCISES = {
    "one_tile": 9,
    "flash_loop": 6,
    "ragged_flash": 8,
    "flash_lse": 9,
    "causal_flash": 10,
    "grouped_flash": 8,
    "choose_tiles": 6,
}
