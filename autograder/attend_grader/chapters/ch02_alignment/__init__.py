"""Chapter 02, alignment: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "encode": 8,
    "additive_score": 7,
    "multiplicative_score": 8,
    "attend": 7,
    "attention_decoder_step": 9,
    "hard_attention_sample": 8,
    "local_attention": 10,
}

READY_MADE = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.MultiheadAttention",
    "torch.nn.Bilinear",
    "torch.nn.functional.bilinear",
    "transformers",
)
"""Where a finished score or attention lies."""

FINISHED_GRU = ("torch.nn.GRU", "torch.nn.RNNBase", "torch.gru", "torch._VF.gru", "torch.ops")
"""Where the loop over the words lies finished."""
