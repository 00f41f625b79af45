"""The real-gated linear recurrent unit of Griffin, with its gradient. Begin with ``api``."""
