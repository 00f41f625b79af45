"""Bytes read, bytes moved, and bytes held at once."""

from __future__ import annotations

import numpy as np
from attend.counting import SlowMemory, bytes_moved, peak_bytes


def test_each_piece_counts_and_the_whole_counts_whole():
    slow = SlowMemory(np.arange(24.0).reshape(6, 4))
    assert slow[:2].shape == (2, 4)
    assert slow.read == 2 * 4 * 8
    assert slow[..., 3:5, :].sum() == np.arange(12, 20).sum()
    assert slow.read == 4 * 4 * 8
    assert np.asarray(slow).shape == slow.shape == (6, 4)
    assert slow.read == (4 * 4 + 24) * 8
    assert len(slow) == 6


def test_pieces_cannot_change_the_memory():
    slow = SlowMemory(np.zeros(3))
    slow[:2][:] = 1
    assert not np.asarray(slow).any()


def test_moved_is_read_and_written():
    def half(x, n):
        return x[:n] * 2, x[:n].sum()

    assert bytes_moved(half, [np.ones(10)], 5) == (5 + 5) * 8 + (5 + 1) * 8


def test_peak_sees_what_is_let_go():
    def wasteful(n):
        return np.ones(n).sum()

    assert 8e6 <= peak_bytes(wasteful, 10**6) < 9e6
