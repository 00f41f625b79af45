"""The text that models are trained on: Python's documentation, another one in each version."""

from __future__ import annotations

import hashlib
from pydoc_data import topics

import pytest

TABLES = "621dd9979c0fa935"
"""Of the text that the tables and pictures were made of: that of Python 3.11.7."""


def _digest() -> str:
    text = " ".join(topics.topics[name] for name in sorted(topics.topics))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


of_the_tables = pytest.mark.skipif(
    _digest() != TABLES,
    reason="this Python's documentation is another text than the tables were made of",
)
"""For tests that compare with numbers or pictures of a model that was trained on it."""
