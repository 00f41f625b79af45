"""Chapter 04, self-attention: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "masked_softmax": 12,
    "self_attention": 12,
    "cross_attention": 10,
    "permutation_matrix_test": 8,
    "causal_mask": 6,
    "repaired_attention": 9,
    "padding_mask": 7,
    "combine_masks": 8,
}
