"""The convolution kernel of a diagonal state-space model, with its gradient. Begin with ``api``."""
