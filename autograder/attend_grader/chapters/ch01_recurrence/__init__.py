"""Chapter 01, recurrence: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "rnn_step": 5,
    "rnn_forward": 6,
    "bptt": 11,
    "gradient_norms": 8,
    "lstm_cell": 6,
    "gru_cell": 7,
}

READY_MADE = ("torch", "jax", "tensorflow", "keras")
"""Libraries that hold finished recurrent networks, and gradients without work."""
