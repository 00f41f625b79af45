"""Depthwise causal convolution. Begin with ``api``."""
