"""Attention of new tokens over a cache, contiguous or paged, 8-bit too. Begin with ``api``."""
