"""The chapters that have exercises: an index that imports nothing, and the way to each."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from attend_grader.exercise import Chapter, Exercise

INDEX: dict[str, tuple[str, ...]] = {
    "01_recurrence": (
        "rnn_step",
        "rnn_forward",
        "bptt",
        "gradient_norms",
        "lstm_cell",
        "gru_cell",
    ),
    "02_alignment": (
        "encode",
        "additive_score",
        "multiplicative_score",
        "attend",
        "attention_decoder_step",
        "hard_attention_sample",
        "local_attention",
    ),
    "03_attention": (
        "softmax",
        "attention_scores",
        "scaled_dot_product_attention",
        "score_variance",
        "softmax_jacobian",
        "attention_backward",
    ),
    "04_self_attention": (
        "masked_softmax",
        "self_attention",
        "permutation_matrix_test",
        "causal_mask",
        "padding_mask",
        "combine_masks",
        "cross_attention",
    ),
    "05_multi_head": (
        "split_heads",
        "merge_heads",
        "MultiHeadAttention",
        "repeat_kv",
        "GroupedQueryAttention",
        "LatentAttention",
        "kv_cache_bytes",
    ),
    "06_positions": (
        "sinusoidal_encoding",
        "shift_matrix",
        "LearnedPositions",
        "relative_bias",
        "apply_rope",
        "alibi_slopes",
        "alibi_bias",
        "position_interpolation",
        "ntk_scale",
        "yarn_frequencies",
    ),
}
"""Chapter id → names of its exercises, in order: enough to find one without importing the rest."""


@cache
def chapter(chapter_id: str) -> Chapter:
    """The chapter with this id.

    Raises:
        KeyError: there is no such chapter, or it has no exercises yet.
    """
    if chapter_id not in INDEX:
        known = ", ".join(INDEX)
        raise KeyError(f"no chapter {chapter_id!r} has exercises; those that do: {known}")
    module = import_module(f"attend_grader.chapters.ch{chapter_id}")
    return module.CHAPTER


def exercises() -> list[Exercise]:
    """Every exercise of the course, in order (imports every chapter's reference)."""
    return [exercise for chapter_id in INDEX for exercise in chapter(chapter_id).exercises]


def exercise(exercise_id: str) -> Exercise:
    """The exercise with this id, such as ``"03_attention/softmax"``.

    Raises:
        KeyError: there is none.
    """
    chapter_id, _, name = exercise_id.partition("/")
    for found in chapter(chapter_id).exercises:
        if found.name == name:
            return found
    raise KeyError(f"chapter {chapter_id} has no exercise {name!r}: {', '.join(INDEX[chapter_id])}")


def named(name: str) -> list[str]:
    """Ids of the exercises called ``name``; a name may recur in another chapter."""
    return [f"{chapter_id}/{name}" for chapter_id, names in INDEX.items() if name in names]


def references(exercise_: Exercise) -> dict[str, Exercise]:
    """The earlier exercises that an answer may call, by name: its own chapter's first."""
    found: dict[str, Exercise] = {}
    for name in exercise_.uses:
        ids = sorted(named(name), key=lambda i: not i.startswith(f"{exercise_.chapter}/"))
        found[name] = exercise(ids[0])
    return found
