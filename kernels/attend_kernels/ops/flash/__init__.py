"""Attention that writes no T × S matrix, with its gradient. Begin with ``api``."""
