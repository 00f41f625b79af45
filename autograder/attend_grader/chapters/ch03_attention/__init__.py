"""Chapter 03, attention: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "softmax": 8,
    "attention_scores": 6,
    "scaled_dot_product_attention": 7,
    "score_variance": 4,
    "softmax_jacobian": 6,
    "attention_backward": 9,
    "repaired_backward": 8,
}
