"""Chapter 06, tables: what must hold of learned positions and of T5's relative bias.

The oracle for T5's buckets finds them by their edges.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from attend_solutions.positions import LearnedPositions
from torch import Tensor

from attend_grader.checks.compare import FLOAT32
from attend_grader.checks.exercise import Call, Probe, Property
from attend_grader.checks.subject import Subject, SubjectError
from attend_grader.checks.torch_properties import (
    agree_gradients,
    agree_untouched,
    module_call,
    normal,
)

# LearnedPositions


def learned_worked(subject: Subject, probe: Probe) -> None:
    """Two tokens get the first two rows; from start = 1, the other two."""
    table = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])
    built, inside = probe.build(subject, 4, 2, parameters={"table": table})
    x = torch.tensor([[[10.0, 10.0], [20.0, 20.0]]])
    why = "the rows of the table are (1, 2), (3, 4), (5, 6), (7, 8)"
    want = torch.tensor([[[11.0, 12.0], [23.0, 24.0]]])
    inside.agree(built, x, want=want, tolerance=FLOAT32, why=why)
    want = torch.tensor([[[13.0, 14.0], [25.0, 26.0]]])
    inside.agree(built, x, start=1, want=want, tolerance=FLOAT32, why=why)


def learned_axes(subject: Subject, probe: Probe) -> None:
    """Every sequence of a batch gets the same rows; any leading axes."""
    for shape in ((3, 4), (2, 3, 4), (4, 4, 4), (2, 1, 5, 4)):
        built, inside = probe.build(subject, 7, 4)
        why = f"x of shape {shape}: T is its last axis but one"
        inside.agree(built, normal(probe.rng, *shape), tolerance=FLOAT32, why=why)


def learned_start(subject: Subject, probe: Probe) -> None:
    """Tokens that follow others go on in the table."""
    built, inside = probe.build(subject, 9, 3)
    table = inside.reference.state_dict()["table"]  # type: ignore[attr-defined]  # an instance
    x = normal(probe.rng, 2, 4, 3)
    for start in (2, 4):
        want = x + table[start : start + 4]
        inside.agree(built, x, start, want=want, tolerance=FLOAT32, why=f"start = {start}")
    inside.agree(built, x[:, :1], start=7, want=x[:, :1] + table[7], tolerance=FLOAT32)


def learned_gradient(subject: Subject, probe: Probe) -> None:
    """A row learns from every sequence that used it; rows not used learn nothing."""
    built, inside = probe.build(subject, 6, 3)
    x = normal(probe.rng, 4, 3, 3)
    agree_gradients(inside, built, x, 1, wrt=(0,), parameters=("table",))


def learned_end(subject: Subject, probe: Probe) -> None:
    """The last row can be used; past it there is nothing to add, also where shapes would fit."""
    built, inside = probe.build(subject, 5, 2)
    for count, start in ((2, 3), (1, 4)):
        why = f"5 rows, {count} from start = {start}: the last row, row 4, can be used"
        inside.agree(built, normal(probe.rng, 1, count, 2), start, tolerance=FLOAT32, why=why)
    refused, failed = False, []
    for count, start in ((6, 0), (3, 4), (1, 5), (2, 9)):
        x = normal(probe.rng, 1, count, 2)
        error = built.run((x, start)).error
        if error is not None and error.type == "NotImplementedError":
            raise SubjectError(error, inside.given((x, start), {}))
        if error is not None and error.type == "ValueError":
            refused = True
        else:
            did = "answers" if error is None else f"raises {error.type}"
            failed.append((x, start, did, error is None or error.type == "RuntimeError"))
    if not failed:
        return
    x, start, did, by_slice = failed[0]
    advice = ""
    if refused:
        advice = " It does refuse other calls: start + T may be 5 here, and not more."
    elif by_slice:
        advice = (
            " Slices never fail: they come out shorter, and a single row serves all tokens. "
            "Compare start + T with the number of rows first."
        )
    end = start + x.shape[1] - 1
    raise inside.miss(
        f"tokens at positions {start} to {end}, but the table has 5 rows, 0 to 4: expected a "
        f"ValueError; yours {did}.{advice}",
        x,
        start,
    )


def learned_awkward(subject: Subject, probe: Probe) -> None:
    """Views; x stays as it was."""
    built, inside = probe.build(subject, 8, 3)
    agree_untouched(inside, built, normal(probe.rng, 2, 4, 3))


LEARNED = (
    Property("a hand-worked example: two tokens, four rows", 1, learned_worked),
    Property("the same rows for every sequence, any leading axes", 1, learned_axes),
    Property("start: the first token's row", 2, learned_start),
    Property("gradients reach the rows used, and x", 1, learned_gradient),
    Property("the last row is used; past it, ValueError", 2, learned_end),
    Property("views; x stays as it was", 1, learned_awkward),
)


def learned_draws(rng: np.random.Generator) -> list[Call]:
    """A batch; a start; all lengths equal; up to the last row; past the end, by far and by one."""

    def call(rows: int, width: int, *args: Any, **kwargs: Any) -> Call:
        return module_call(LearnedPositions, rng, Call((rows, width)), *args, **kwargs)

    return [
        call(7, 4, normal(rng, 2, 3, 4)),
        call(9, 3, normal(rng, 2, 4, 3), 3),
        call(6, 4, normal(rng, 4, 4, 4), start=2),
        call(5, 2, normal(rng, 3, 2)),
        call(5, 2, normal(rng, 3, 2, 2), 4),
        call(5, 2, normal(rng, 1, 7, 2)),
    ]


# relative_bias


def bucket(distance: int, one_side: int, max_distance: int) -> int:
    """T5's bucket of a distance, found by its edges."""
    exact = one_side // 2
    if distance < exact:
        return distance
    far = one_side - exact
    edges = [exact * (max_distance / exact) ** (i / far) for i in range(far)]
    return exact + sum(edge <= distance + 1e-6 for edge in edges) - 1


def _clear(one_side: int, max_distance: int, up_to: int) -> list[int]:
    """Distances that lie on no bucket's edge: there rounding would decide."""
    exact = one_side // 2
    far = one_side - exact
    edges = [exact * (max_distance / exact) ** (i / far) for i in range(1, far)]
    return [d for d in range(up_to) if all(abs(d - edge) > 1e-3 for edge in edges)]


def _numbered(buckets: int, heads: int = 1) -> Tensor:
    """A table whose entries say their own bucket: head h of bucket b holds b + h / 10."""
    return torch.arange(buckets)[:, None] + torch.arange(heads) / 10


def _named(value: Any) -> str:
    if value.ndim == 3 and not np.allclose(value % 1, 0, atol=1e-3):
        return "Yours mixes buckets or heads: each entry should be one number of the table."
    return ""


def bias_worked(subject: Subject, probe: Probe) -> None:
    """Eight buckets for keys at or before the query: four exact, four for ever wider ranges."""
    relative = torch.tensor([[0, -1, -2, -3, -4, -5, -6, -7, -9, -11, -13, -40]])
    want = torch.tensor([[[0.0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 7, 7]]])
    why = "a table that holds each bucket's own number, 8 buckets, max_distance = 16, causal"
    probe.agree(subject, _numbered(8), relative, False, 16, want=want, tolerance=FLOAT32, why=why)


def bias_near(subject: Subject, probe: Probe) -> None:
    """Small distances have a bucket each, keys after the query in the second half."""
    relative = torch.arange(-3, 4)[None]
    want = torch.tensor([[[3.0, 2, 1, 0, 9, 10, 11]]])
    why = "a table that holds each bucket's own number, 16 buckets, both directions"
    probe.agree(subject, _numbered(16), relative, want=want, tolerance=FLOAT32, why=why)


def bias_causal(subject: Subject, probe: Probe) -> None:
    """Without bidirectional the whole table looks back; keys after the query are at distance 0."""
    relative = torch.tensor([[-7, -2, 0, 1, 5, 900]])
    want = torch.tensor([[[7.0, 2, 0, 0, 0, 0]]])
    why = "a table that holds each bucket's own number, 16 buckets, bidirectional = False"
    probe.agree(
        subject, _numbered(16), relative, bidirectional=False, want=want, tolerance=FLOAT32, why=why
    )


def bias_far(subject: Subject, probe: Probe) -> None:
    """Ranges widen in proportion; from max_distance on all share the last bucket."""
    for buckets, far, both in ((32, 128, False), (32, 128, True), (12, 50, False), (20, 77, True)):
        one_side = buckets // 2 if both else buckets
        clear = _clear(one_side, far, 3 * far)
        chosen = sorted({int(d) for d in probe.rng.choice(clear, 12)} | {5 * far})
        after = [one_side + bucket(d, one_side, far) if both and d else 0 for d in chosen]
        before = [bucket(d, one_side, far) for d in chosen]
        relative = torch.tensor([[-d for d in chosen], chosen])
        want = torch.tensor([[before, after]], dtype=torch.float32)
        why = (
            f"a table that holds each bucket's own number, {buckets} buckets, "
            f"max_distance = {far}, bidirectional = {both}"
        )
        given = (_numbered(buckets), relative, both, far)
        probe.agree(subject, *given, want=want, tolerance=FLOAT32, why=why, clue=_named)
    relative = torch.tensor([[-112, -113, -500]])
    want = torch.tensor([[[30.0, 31, 31]]])
    why = "a table that holds each bucket's own number, 32 buckets, max_distance left out, so 128"
    given = (_numbered(32), relative)
    probe.agree(subject, *given, bidirectional=False, want=want, tolerance=FLOAT32, why=why)


def bias_heads(subject: Subject, probe: Probe) -> None:
    """(H, T, S): a number of its own for each head, as the table has it."""
    for heads, queries, keys in ((3, 4, 6), (5, 5, 5), (1, 2, 3)):
        relative = torch.arange(keys) - torch.arange(queries)[:, None]
        table = normal(probe.rng, 16, heads)
        why = f"{heads} heads, T = {queries}, S = {keys}"
        probe.agree(subject, table, relative, tolerance=FLOAT32, why=why)


def bias_gradient(subject: Subject, probe: Probe) -> None:
    """Every entry of the table learns from all pairs that used it."""
    relative = torch.arange(6) - torch.arange(5)[:, None]
    agree_gradients(probe, subject, normal(probe.rng, 8, 2), relative, True, 16, wrt=(0,))


def bias_awkward(subject: Subject, probe: Probe) -> None:
    """Views; both arguments stay as they were."""
    relative = torch.arange(-9, 9).reshape(3, 6)
    agree_untouched(probe, subject, normal(probe.rng, 8, 2), relative, True, 16)


BIAS = (
    Property("a hand-worked example: 8 buckets looking back", 1, bias_worked),
    Property("near keys: a bucket each, those after it in the other half", 1, bias_near),
    Property("bidirectional=False: the whole table looks back", 1, bias_causal),
    Property("far keys share logarithmic buckets, up to max_distance", 2, bias_far),
    Property("(H, T, S), a number for each head", 1, bias_heads),
    Property("gradients reach the table", 1, bias_gradient),
    Property("views; arguments stay as they were", 1, bias_awkward),
)


def bias_draws(rng: np.random.Generator) -> list[Call]:
    """Both directions and one, near and far, T ≠ S and T = S = H, other sizes, nothing ahead."""
    near = torch.arange(6) - torch.arange(4)[:, None]
    wide = torch.tensor([_clear(8, 128, 400)[::7]])
    return [
        Call((normal(rng, 16, 3), near)),
        Call((normal(rng, 32, 2), torch.cat((-wide, wide)), False)),
        Call((normal(rng, 16, 2), torch.cat((-wide, wide)))),
        Call((normal(rng, 16, 4), near[:, :4], False)),
        Call((normal(rng, 8, 1), torch.tensor([[-50, -13, -3, 0, 3, 5, 13, 50]]), True, 16)),
        Call((normal(rng, 12, 2), torch.tensor([[-700, -31, -9, -7], [2, 9, 31, 700]]), False, 50)),
        Call((normal(rng, 16, 2), torch.tensor([[0, -2, -5, -9, -40]]))),
    ]
