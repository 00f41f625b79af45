"""Chapter 02, alignment: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "encode": 9,
    "additive_score": 8,
    "multiplicative_score": 9,
    "attend": 8,
    "attention_decoder_step": 11,
    "repaired_decoder": 9,
    "hard_attention_sample": 10,
    "local_attention": 11,
}
