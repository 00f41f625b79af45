"""Chapter 07, the block: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "layer_norm": 9,
    "rms_norm": 8,
    "feed_forward": 9,
    "TransformerBlock": 10,
    "RepairedBlock": 8,
    "residual_init": 7,
    "parameter_count": 8,
}

READY_MADE = (
    "torch.nn.functional.layer_norm",
    "torch.nn.functional.rms_norm",
    "torch.nn.functional.group_norm",
    "torch.nn.functional.batch_norm",
    "torch.nn.functional.instance_norm",
    "torch.nn.LayerNorm",
    "torch.nn.RMSNorm",
    "torch.nn.GroupNorm",
    "torch.layer_norm",
    "torch.native_layer_norm",
    "torch.rms_norm",
    "torch.group_norm",
    "torch.native_group_norm",
    "torch.batch_norm",
    "torch.native_batch_norm",
    "torch.instance_norm",
    "torch.ops",
)
"""Finished norms."""

NO_NORMS = "torch's own norms (`functional.layer_norm` and the like) and `torch.ops`"
"""READY_MADE in words."""

READY_BLOCKS = (
    *READY_MADE,
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.MultiheadAttention",
    "transformers",
)
"""Finished norms and blocks."""

NO_BLOCKS = "torch's own norms, blocks and attention, `torch.ops` and `transformers`"
"""READY_BLOCKS in words."""
