"""Chapter 19, flash attention backwards: its exercises in order; imports nothing heavy."""

EXERCISES = {
    "flash_delta": 10,
    "grad_keys_values": 10,
    "grad_queries": 10,
    "flash_attention": 8,
    "gradient_gaps": 6,
    "one_pass": 10,
}
