"""Exercise 16_flash/merge_partials: two finished partial results make one, in any order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations

import numpy as np
from attend_solutions import flash
from attend_solutions.types import Array

from attend_grader.chapters.ch16_flash.shared import ARRAYS, qkv, whole
from attend_grader.checks.compare import expect_close
from attend_grader.checks.exercise import Call, Exercise, Probe, Property, Slip
from attend_grader.checks.helpers import agrees, known, worked
from attend_grader.checks.properties import normal
from attend_grader.checks.subject import Subject

Part = tuple[Array, Array]


def _part(rng: np.random.Generator, t: int, d_v: int, lead: tuple[int, ...] = ()) -> Part:
    return normal(rng, *lead, t, d_v), 2 * normal(rng, *lead, t)


def _nothing(t: int, d_v: int) -> Part:
    return np.zeros((t, d_v)), np.full(t, -np.inf)


def _nothing_for_one(rng: np.random.Generator, t: int, row: int) -> Part:
    """To one of the queries no key is visible."""
    output, lse = _part(rng, t, 2)
    output[row], lse[row] = 0.0, -np.inf
    return output, lse


def _values(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    for t, d_v in ((3, 2), (4, 4), (1, 3), (5, 1)):
        yield "", Call((*_part(rng, t, d_v), *_part(rng, t, d_v)))


def _empty(rng: np.random.Generator) -> Iterator[tuple[str, tuple[Array, ...], Part]]:
    part, nothing = _part(rng, 3, 2), _nothing(3, 2)
    yield "the second set of keys is empty (LSE −inf)", (*part, *nothing), part
    yield "the first set of keys is empty (LSE −inf)", (*nothing, *part), part
    yield "both sets of keys are empty", (*nothing, *nothing), nothing

    def only(*rows: int) -> Part:
        output, lse = _nothing(3, 2)
        output[[*rows]], lse[[*rows]] = part[0][[*rows]], part[1][[*rows]]
        return output, lse

    yield "both sets of keys are empty for one query", (*only(0), *only(2)), only(0, 2)
    for lowest in (-20_000.0, -300_000.0):  # what is finite is no set without keys, and differs
        low = part[0], np.full(3, lowest)
        why = f"an LSE of {lowest:,.0f} is no empty set, and outweighs one"
        yield why, (*low, *nothing), low
        yield why, (*nothing, *low), low


def _huge(rng: np.random.Generator) -> Iterator[tuple[str, Call]]:
    (output, lse), (other, other_lse) = _part(rng, 3, 2), _part(rng, 3, 2)
    for by in (1e4, -1e4, -2e5):
        yield f"both LSEs near {by:,.0f}", Call((output, lse + by, other, other_lse + by))
    yield "LSEs 20,000 apart", Call((output, lse + 1e4, other, other_lse - 1e4))
    yield "LSEs 20,000 apart", Call((output, lse - 1e4, other, other_lse + 1e4))
    large = 1e12 * other, lse - 40
    yield "a share of e^−40 of an output of 10¹²", Call((output, lse, *large))
    yield "a share of e^−40 of an output of 10¹²", Call((*large, output, lse))
    yield "nothing is left of an output of 10¹²", Call((1e12 * output, lse - 1e3, other, other_lse))
    yield "nothing is left of an output of 10¹²", Call((other, other_lse, 1e12 * output, lse - 1e3))
    by = np.array([-1e4, 0.0, 1e4])
    why = "one query's LSEs near −10,000, one's near 0, one's near 10,000, in both sets"
    yield why, Call((output, lse + by, other, other_lse + by))


def _orders(subject: Subject, probe: Probe) -> None:
    """Keys in three sets, merged in every order: attention over all of them."""
    q, k, v = qkv(probe.rng, 3, 7, 4, 2)
    cuts = (slice(0, 2), slice(2, 3), slice(3, 7))
    want = whole(q, k, v)
    for one, two, three in permutations([whole(q, k[cut], v[cut]) for cut in cuts]):
        first = probe.agree(subject, *one, *two, why="two of three sets of keys").value
        for args in ((*first, *three), (*three, *first)):
            outcome = probe.call(subject, *args)
            what = ("output", "LSE")
            expect_close(outcome.value, want, what=tuple(f"{x} over three sets" for x in what))


def draws(rng: np.random.Generator) -> list[Call]:
    """Oblong, square, leading axes, sets or queries far apart, a row empty in one or both."""
    partly = _nothing_for_one(rng, 3, 1)
    (near, near_lse), (far, far_lse) = _part(rng, 2, 3), _part(rng, 2, 3)
    (one, one_lse), (two, two_lse) = _part(rng, 2, 3), _part(rng, 2, 3)
    apart = np.array([0.0, 1000.0])
    return [
        Call((*_part(rng, 3, 2), *_part(rng, 3, 2))),
        Call((*_part(rng, 4, 4), *_part(rng, 4, 4))),
        Call((*_part(rng, 2, 3, (2,)), *_part(rng, 2, 3, (2,)))),
        Call((near, near_lse + 5, far, far_lse - 5)),
        Call((one, one_lse + apart, two, two_lse + apart)),
        Call((*partly, *_part(rng, 3, 2))),
        Call((*_nothing_for_one(rng, 2, 0), *_nothing_for_one(rng, 2, 0))),
        Call((*_part(rng, 1, 3), *_part(rng, 1, 3))),
    ]


LSE = "np.logaddexp(lse, other_lse)"
SHARE, OTHER = "np.exp(lse - subtracted)[..., None]", "np.exp(other_lse - subtracted)[..., None]"


def empty_rows(output, lse, other_output, other_lse):  # noqa: D103 (what is told is its slip's)
    for mine, found in ((other_lse, (output, lse)), (lse, (other_output, other_lse))):
        if np.isneginf(mine).any():
            return found
    merged = np.logaddexp(lse, other_lse)
    share, other_share = np.exp(lse - merged)[..., None], np.exp(other_lse - merged)[..., None]
    return share * output + other_share * other_output, merged


def one_maximum(output, lse, other_output, other_lse):  # noqa: D103 (told by its slip)
    top = max(lse.max(), other_lse.max())
    top = 0.0 if top == -np.inf else top
    with np.errstate(divide="ignore"):
        merged = top + np.log(np.exp(lse - top) + np.exp(other_lse - top))
    base = np.where(merged == -np.inf, 0.0, merged)[..., None]
    share, other_share = np.exp(lse[..., None] - base), np.exp(other_lse[..., None] - base)
    return share * output + other_share * other_output, merged


SLIPS = (
    Slip(
        "one maximum for all queries",
        one_maximum,
        "One maximum is taken out of all LSEs. Measured from it, a query whose LSEs are 750 or "
        "more smaller has a sum of 0, and the LSE −∞. Take each query's own larger LSE, "
        "np.maximum.",
    ),
    Slip(
        "plain mean of the outputs",
        ((SHARE, "0.5"), (OTHER, "0.5")),
        "Each output gets the weight ½. A set with a larger sum of exponentials deserves more: "
        "its share should be e^(its LSE − the merged LSE).",
    ),
    Slip(
        "outputs weighted by the LSEs",
        ((SHARE, "(lse / (lse + other_lse))[..., None]"),
         (OTHER, "(other_lse / (lse + other_lse))[..., None]")),
        "Each output is weighted by its LSE. An LSE is the logarithm of a sum, and may be below "
        "0: the share should be e^(its LSE − the merged LSE).",
    ),
    Slip(
        "larger LSE instead of the merged one",
        (LSE, "np.maximum(lse, other_lse)"),
        "The LSE that comes back is the larger of the two, so the shares may sum to more than 1. "
        "Add the exponentials of both sets: ln(e^LSE + e^other).",
    ),
    Slip(
        "overflow of the exponentials",
        (LSE, "np.log(np.exp(lse) + np.exp(other_lse))"),
        "An LSE of 710 or more overflows in exp (in float32, of 89), and where both are far below "
        "0 the sum is 0, and its logarithm −∞. Take the larger LSE out first, or use np.logaddexp.",
    ),
    Slip(
        "NaN where both sets are empty",
        ("np.where(merged_lse == -np.inf, 0.0, merged_lse)", "merged_lse"),
        "Two empty sets have the merged LSE −∞, and −∞ − (−∞) is NaN. Subtract some finite number "
        "in such a row; the output is then 0, and the LSE stays −∞.",
    ),
    Slip(
        "shares without an axis for the width",
        ((SHARE, "np.exp(lse - subtracted)"), (OTHER, "np.exp(other_lse - subtracted)")),
        "A share of shape (..., T) lines up with the width of the outputs; without leading axes "
        "no error says so where T = D_v. Give it one more axis: share[..., None].",
    ),
    Slip(
        "one empty row taken for an empty set",
        empty_rows,
        "Where a set is empty for some of the queries only, the other set comes back for all of "
        "them. Each query has its own LSE: let the shares tell them apart row by row.",
    ),
)  # fmt: skip


def through_the_larger(output, lse, other_output, other_lse):
    """By the larger LSE: sums of exponentials are merged, then divided."""
    largest = np.maximum(lse, other_lse)
    safe = np.where(np.isinf(largest), 0.0, largest)
    a, b = np.exp(lse - safe), np.exp(other_lse - safe)
    total = a + b
    weighted = a[..., None] * output + b[..., None] * other_output
    with np.errstate(divide="ignore"):
        return weighted / np.where(total == 0, 1, total)[..., None], safe + np.log(total)


def sigmoid(output, lse, other_output, other_lse):
    """The share of the first is a sigmoid of the difference of the LSEs."""
    with np.errstate(invalid="ignore", over="ignore"):
        share = np.expand_dims(1 / (1 + np.exp(other_lse - lse)), -1)
    share = np.nan_to_num(share, nan=0.0)
    return output * share + other_output * (1 - share), np.logaddexp(other_lse, lse)


EXERCISE = Exercise(
    chapter="16_flash",
    title="Merge two partial results",
    goal="Make attention over all keys from attention over two halves of them.",
    reference=flash.merge_partials,
    contract=replace(
        ARRAYS,
        leading_axes=True,
        ranges={"lse": (-300_000, 300_000), "other_lse": (-300_000, 300_000)},
    ),
    properties=(
        worked(
            "a hand-worked example: sums 1 and 3",
            *(np.array([[8.0, 0.0]]), np.log([1.0]), np.array([[4.0, 2.0]]), np.log([3.0])),
            want=(np.array([[5.0, 1.5]]), np.log([4.0])),
            why="shares 1/4 and 3/4",
        ),
        agrees("fresh partial results", _values),
        Property("three sets of keys, merged in any order", 1, _orders),
        known("an empty set changes nothing; two make an empty one", _empty),
        agrees("LSEs far from 0, or far apart", _huge, repeat=1),
    ),
    draws=draws,
    slips=SLIPS,
    alternatives={
        "by the larger LSE": through_the_larger,
        "sigmoid of the difference": sigmoid,
    },
    hints=(
        "The first set's sum of exponentials is e^LSE. If you had both undivided accumulators and "
        "both sums, how would you get the output over all keys?",
        "The merged sum is e^lse + e^other_lse; its logarithm is the merged LSE. The share of a "
        "part is its own sum divided by the merged sum, which is exp of a difference of LSEs.",
        "merged LSE: np.logaddexp(lse, other_lse). Share of a part: np.exp(its LSE − merged), with "
        "one more axis at the end. Output: the two outputs times their shares, added. Where the "
        "merged LSE is −∞, subtract 0 instead.",
    ),
    minutes=15,
    difficulty=3,
    importance=5,
    results=("output", "lse"),
)
