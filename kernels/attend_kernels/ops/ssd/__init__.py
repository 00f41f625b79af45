"""Mamba-2's scan, which is also masked linear attention. Begin with ``api``."""
