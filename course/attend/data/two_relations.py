"""People, friends and houses: a task whose every answer needs two relations at once.

Twelve people stand in a row, house by house. Each says five things: its name, the name of a
friend, its house, whether it is the first of its house, and a few random numbers of its own. Each
asks for two things at once:

    relation "friend"   the numbers of the one whose name is my friend's
    relation "house"    the numbers of the first of my house

The first is found by content, anywhere in the row; the second by place. Friend and first of the
house are always two different people, and nobody is their own friend. All numbers are independent
and standard normal, so whoever finds neither is off by 1 on average (mean squared error), and
whoever finds one of the two by 1/2.

    data = two_relations(seed=0, batch=16)
    data.x            (16, 12, 48)    what the people say, with zeros up to the width
    data.answers      (16, 12, 2, 4)  numbers of the friend, numbers of the first of the house
    data.places       (16, 12, 2)     where these two stand: for looking at weights, not for models
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

RELATIONS = ("friend", "house")
"""What each of the two answers is found by, in the order of ``answers`` and ``places``."""

NAMES = ("Ann", "Ben", "Cem", "Dov", "Eli", "Fay", "Gus", "Hoa", "Ivo", "Joy", "Kai", "Lea")

HOUSES = 3
"""Houses in a row; the people are divided evenly among them."""

VALUES = 4
"""Random numbers each person has."""

FEATURES = 2 * len(NAMES) + HOUSES + 1 + VALUES
"""Numbers that describe a person: name, friend's name, house, first or not, own numbers."""


@dataclass(frozen=True)
class TwoRelations:
    """One batch of rows of people.

    Shapes, with T = 12 people in a row and C numbers for each:
        x: (B, T, C)
        answers: (B, T, 2, VALUES), in the order of RELATIONS
        places: (B, T, 2), where in the row the two answers stand, from 0
        names: (B, T), which of NAMES each one is
    """

    x: Tensor
    answers: Tensor
    places: Tensor
    names: Tensor

    def row(self, number: int) -> list[str]:
        """The names in one row of the batch."""
        return [NAMES[name] for name in self.names[number].tolist()]


def two_relations(seed: int, batch: int, width: int = 48) -> TwoRelations:
    """Make ``batch`` rows; the same seed gives the same rows.

    Args:
        seed: draws all of it.
        batch: B, how many rows.
        width: C; numbers beyond FEATURES are 0.

    Raises:
        ValueError: ``width`` is too small for the features, or ``batch`` is not positive.
    """
    if width < FEATURES:
        raise ValueError(f"a person takes {FEATURES} numbers; got width = {width}.")
    if batch < 1:
        raise ValueError(f"there must be at least one row; got batch = {batch}.")
    rng = np.random.default_rng([seed, 5])
    people = len(NAMES)
    size = people // HOUSES
    at = np.arange(people)
    names = rng.permuted(np.tile(at, (batch, 1)), axis=1)  # (B, T)
    houses = rng.permuted(np.tile(np.arange(HOUSES), (batch, 1)), axis=1).repeat(size, axis=1)
    first = at // size * size  # (T,)
    luck = rng.random((batch, people, people))
    luck[:, at, at] = luck[:, at, first] = -1.0  # neither oneself nor the first of the house
    friend = luck.argmax(axis=-1)  # (B, T)
    values = rng.standard_normal((batch, people, VALUES))
    friends_name = np.take_along_axis(names, friend, axis=1)
    parts = [
        np.eye(people)[names],
        np.eye(people)[friends_name],
        np.eye(HOUSES)[houses],
        np.broadcast_to((at == first)[:, None], (batch, people, 1)),
        values,
        np.zeros((batch, people, width - FEATURES)),
    ]
    places = np.stack([friend, np.broadcast_to(first, friend.shape)], axis=-1)  # (B, T, 2)
    answers = values[np.arange(batch)[:, None, None], places]  # (B, T, 2, VALUES)
    return TwoRelations(
        torch.from_numpy(np.concatenate(parts, axis=-1)).float(),
        torch.from_numpy(answers).float(),
        torch.from_numpy(places),
        torch.from_numpy(names),
    )
