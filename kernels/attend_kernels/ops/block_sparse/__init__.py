"""Attention over chosen tiles of the scores alone, with its gradient. Begin with ``api``."""
