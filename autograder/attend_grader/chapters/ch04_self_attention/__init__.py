"""Chapter 04, self-attention: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "masked_softmax": 10,
    "self_attention": 10,
    "permutation_matrix_test": 7,
    "causal_mask": 6,
    "padding_mask": 6,
    "combine_masks": 6,
    "cross_attention": 8,
}

READY_MADE = ("scipy", "torch", "jax", "tensorflow", "sklearn", "transformers")
"""Libraries that hold a finished softmax, attention or mask."""
