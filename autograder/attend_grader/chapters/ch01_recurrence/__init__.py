"""Chapter 01, recurrence: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "rnn_step": 6,
    "rnn_forward": 6,
    "bptt": 11,
    "repaired_bptt": 6,
    "gradient_norms": 8,
    "lstm_cell": 8,
    "gru_cell": 9,
}
