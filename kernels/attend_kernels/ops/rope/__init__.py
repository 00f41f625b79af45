"""Rotary position embedding. Begin with ``api``."""
