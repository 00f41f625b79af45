"""Data the course makes itself: deterministic by seed, nothing to download.

Each task has a module of its own, which says what it makes and for which question:
``from attend.data import copy_task``.
"""
