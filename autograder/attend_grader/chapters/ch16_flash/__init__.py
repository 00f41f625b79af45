"""Chapter 16, flash attention: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "online_softmax": 9,
    "merge_partials": 8,
    "stream_attention": 8,
    "flash_forward": 13,
    "flash_backward": 12,
    "tiles_needed": 7,
    "hbm_traffic": 7,
}
