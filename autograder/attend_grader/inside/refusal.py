"""The error that a forbidden function raises while an exercise is checked."""


class NotAllowed(RuntimeError):
    """A function was called that the exercise forbids."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is not allowed in this exercise: build it yourself")
