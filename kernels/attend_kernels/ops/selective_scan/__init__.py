"""Mamba-1's recurrence. Begin with ``api``."""
