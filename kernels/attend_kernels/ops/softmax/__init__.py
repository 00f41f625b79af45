"""Row softmax with its gradient. Begin with ``api``."""
