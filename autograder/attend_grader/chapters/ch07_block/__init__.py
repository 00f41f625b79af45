"""Chapter 07, the block: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "layer_norm": 9,
    "rms_norm": 8,
    "feed_forward": 8,
    "TransformerBlock": 10,
    "RepairedBlock": 8,
    "residual_init": 7,
    "parameter_count": 8,
}

READY_MADE = (
    "torch.nn.functional.layer_norm",
    "torch.nn.functional.rms_norm",
    "torch.nn.LayerNorm",
    "torch.nn.RMSNorm",
    "torch.layer_norm",
    "torch.native_layer_norm",
    "torch.rms_norm",
    "torch.ops",
)
"""Finished norms."""

READY_BLOCKS = (
    *READY_MADE,
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.MultiheadAttention",
    "transformers",
)
"""Finished norms and blocks."""
