"""Two tasks that ask for a choice, and how five kinds of model do on them (chapter 24).

    selective copying   two of eight symbols somewhere in noise, asked for in order at the end
    induction           token 0 is always followed by the same random token: what follows it?

``rows`` reads the table that ``python course/24_mamba/train.py arms`` made.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

TABLE = Path(__file__).with_suffix(".json")
TASKS = ("selective copying", "induction")
ASKED, SYMBOLS, TOKENS = 2, 8, 16
"""Symbols to copy, of how many kinds; kinds of tokens in induction."""

IGNORED = -100
"""The target that cross_entropy leaves out; as in ``attend_solutions.mamba``."""

VOCABULARY = {"selective copying": 2 + SYMBOLS, "induction": TOKENS}


def batch(
    task: str, draw: torch.Generator, examples: int, length: int, times: int = 4
) -> tuple[Tensor, Tensor]:
    """Tokens and targets, both (examples, T); what is not asked is IGNORED.

    Args:
        task: one of TASKS.
        draw: where the random numbers come from.
        examples: B.
        length: of the text; the questions of selective copying come after it.
        times: in induction, at how many random places token 0 stands before the last one; from its
            second time on, the token that follows it is asked for.

    Raises:
        ValueError: the task is unknown.
    """
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; there are {', '.join(TASKS)}.")
    if task == "selective copying":
        from attend_solutions.mamba import selective_copy_data  # an answer: not where it is graded

        keys = torch.rand(examples, length, generator=draw)
        symbols = torch.randint(2, 2 + SYMBOLS, (examples, ASKED), generator=draw)
        return selective_copy_data(keys, symbols)
    tokens = torch.randint(1, TOKENS, (examples, length), generator=draw)
    targets = torch.full_like(tokens, IGNORED)
    answer = torch.randint(1, TOKENS, (examples, 1), generator=draw)
    pairs = torch.rand(examples, length // 2 - 1, generator=draw).argsort(1)[:, :times]
    places = 2 * pairs.sort(1).values
    tokens.scatter_(1, places, 0).scatter_(1, places + 1, answer.expand_as(places))
    targets.scatter_(1, places[:, 1:], answer.expand_as(places[:, 1:]))
    tokens[:, -1:], targets[:, -1:] = 0, answer
    return tokens, targets


@cache
def table() -> dict[str, dict[str, dict[str, Any]]]:
    """By task and arm: numbers in the model, tuning, best rate, losses, accuracy by length."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


def rows(task: str) -> list[dict[str, Any]]:
    """One row an arm, length and seed, with the percentage of right answers: for a chart."""
    return [
        {"arm": arm, "length": int(length), "right": 100 * share, "seed": seed}
        for arm, found in table()[task].items()
        for length, shares in found["accuracy"].items()
        for seed, share in enumerate(shares)
    ]
