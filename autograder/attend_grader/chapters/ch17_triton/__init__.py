"""Chapter 17, Triton: its exercises in order with their points; imports nothing heavy."""

EXERCISES = {
    "vector_add": 7,
}
