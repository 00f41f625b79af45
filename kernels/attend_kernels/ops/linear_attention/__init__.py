"""Attention without softmax: plain, decaying, gated and with the delta rule. Begin with ``api``."""
