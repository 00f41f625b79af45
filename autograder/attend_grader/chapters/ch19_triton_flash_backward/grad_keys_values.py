"""Exercise 19_triton_flash_backward/grad_keys_values: sums over queries, a program for its keys."""

from __future__ import annotations

from attend_solutions import triton_flash_backward as answers

from attend_grader.chapters.ch19_triton_flash_backward.shared import (
    SAYS,
    as_edits,
    drawn,
    kernel_properties,
)
from attend_grader.checks.exercise import Contract, Exercise, Slip

RESULTS = ("dk", "dv")
SCORES = "scores = tl.dot(k, q.T) * scale"
WEIGHTS = "weights = tl.exp(scores - lse[None, :])"
SEEN = "s[:, None] <= t[None, :] + S - T"
START = "start = tl.maximum(0, tl.program_id(0) * BLOCK_S + T - S) // BLOCK_T * BLOCK_T"
D_SCORES = "d_scores = weights * (d_weights - delta[None, :])"
ADD = "dk += tl.dot(d_scores.to(q.dtype), q)"

SLIPS = (
    Slip(
        "LSE and delta lie along the keys",
        ((WEIGHTS, WEIGHTS.replace("[None, :]", "[:, None]")),
         (D_SCORES, D_SCORES.replace("[None, :]", "[:, None]"))),
        "LSE and delta are subtracted along the keys. They belong to queries: with keys for rows, "
        "write [None, :].",
    ),
    Slip(
        "delta is subtracted after the product",
        (D_SCORES, "d_scores = weights * d_weights - delta[None, :]"),
        "dK: delta is subtracted from P ∘ dP, and should be from dP alone: P ∘ (dP − delta).",
    ),
    Slip(
        "forgot delta",
        (D_SCORES, "d_scores = weights * d_weights"),
        "dK lacks delta: the gradient of a score should be weight · (dP − delta).",
    ),
    Slip(
        "dK without the scale",
        ("    dk *= scale\n", ""),
        "dK lacks the factor `scale`. The scores were multiplied by it on the way forward: "
        "multiply their gradient by it on the way back.",
    ),
    Slip(
        "the scale twice in dK",
        ("    dk *= scale\n", "    dk *= scale * scale\n"),
        "dK is multiplied by the scale twice. Multiply either dX by it, or the sum at the end.",
    ),
    Slip(
        "delta is added",
        (D_SCORES, "d_scores = weights * (d_weights + delta[None, :])"),
        "delta is added to dP in dK. Subtract it: P ∘ (dP − delta).",
    ),
    Slip(
        "weights times the mask",
        (f"            weights = tl.where({SEEN}, weights, 0.0)\n",
         f"            weights = weights * ({SEEN})\n"),
        "What is hidden is multiplied by 0. But there exp(score − LSE) may be infinite, and "
        "infinity times 0 is NaN. Choose the 0 with tl.where.",
    ),
    Slip(
        "weights from unscaled scores",
        (SCORES, "scores = tl.dot(k, q.T)"),
        "The scores are not multiplied by the scale, so unless it is 1 they do not fit the LSE, "
        "and the weights are wrong.",
    ),
    Slip(
        "weights without the LSE",
        (WEIGHTS, "weights = tl.exp(scores)"),
        "exp(scores) are no weights yet: subtract each query's LSE first.",
    ),
    Slip(
        "hidden pairs are not masked",
        (f"            weights = tl.where({SEEN}, weights, 0.0)\n", "            scores += 0.0\n"),
        "Inside the tiles that are read, keys collect from queries that may not see them. Set "
        "those weights to 0.",
    ),
    Slip(
        "queries counted from the first key",
        ((SEEN, "s[:, None] <= t[None, :]"), (START, START.replace(" + T - S", ""))),
        "Under the mask, right where T = S only. The last query should stand at the last key, so "
        "query t at t + S − T.",
    ),
    Slip(
        "tiles of queries are read without a visible pair",
        (START, "start = 0"),
        "Values are right, but tiles of queries are read that stand before all of the program's "
        "keys. Begin at the tile of the first query that sees the first key.",
    ),
    Slip(
        "dV keeps the last tile only",
        ("dv += ", "dv = "),
        "dV holds what the last tile of queries gave. Every tile should add to it.",
    ),
    Slip(
        "dK keeps the last tile only",
        ("dk += ", "dk = "),
        "dK holds what the last tile of queries gave. Every tile should add to it.",
    ),
    Slip(
        "the loop begins as though T were S",
        (START, START.replace(" + T - S", "")),
        "Under the mask the loop may begin too late where there are fewer queries than keys. Take "
        "s − (S − T), or 0, for the first query that sees key s.",
    ),
    Slip(
        "the loop begins before the first query",
        (START, "start = (tl.program_id(0) * BLOCK_S + T - S) // BLOCK_T * BLOCK_T"),
        "Under the mask, where there are more keys than queries, s − (S − T) may be below 0, and "
        "rows before the head's are read. Begin at 0 or later: tl.maximum.",
    ),
    Slip(
        "the scale within the loop",
        (("    dk *= scale\n", ""), (ADD, f"{ADD}\n        dk *= scale")),
        "dK is right for one tile of queries; for several, the sum is multiplied by the scale "
        "after each tile. Multiply once, after the loop.",
    ),
    Slip(
        "a key is hidden from the query at its own place",
        (SEEN, SEEN.replace("<=", "<")),
        "Under the mask a query should see the key at its own place too: s <= t + S − T.",
    ),
)  # fmt: skip

ALTERNATIVES = as_edits(
    answers.grad_keys_values,
    {
        "rows are queries, transposed at the end": (
            (SCORES, "scores = tl.dot(q, tl.trans(k)) * scale"),
            (WEIGHTS, "weights = tl.exp(scores - lse[:, None])"),
            (SEEN, "s[None, :] <= t[:, None] + S - T"),
            ("dv += tl.dot(weights.to(d_out.dtype), d_out)",
             "dv += tl.dot(tl.trans(weights.to(d_out.dtype)), d_out)"),
            ("d_weights = tl.dot(v, d_out.T)", "d_weights = tl.dot(d_out, tl.trans(v))"),
            (D_SCORES, "d_scores = weights * (d_weights - delta[:, None])"),
            (ADD, "dk += tl.dot(tl.trans(d_scores.to(q.dtype)), q)"),
        ),
        "powers of two, tl.dot adds": (
            (WEIGHTS, "weights = tl.exp2((scores - lse[None, :]) * 1.4426950408889634)"),
            ("dv += tl.dot(weights.to(d_out.dtype), d_out)",
             "dv = tl.dot(weights.to(d_out.dtype), d_out, dv)"),
            (D_SCORES, "d_scores = weights * (d_weights - delta[None, :]) * scale"),
            ("    dk *= scale\n", ""),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="19_triton_flash_backward",
    title="dK and dV",
    goal="Sum the gradients of a tile of keys and values over tiles of queries.",
    reference=answers.grad_keys_values,
    contract=Contract(arguments_unchanged=True, says=SAYS),
    properties=kernel_properties(
        RESULTS, "reads the tiles of queries that see its keys, once", of="keys"
    ),
    draws=drawn(RESULTS),
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "Six lines in the loop: scores, weights, the causal mask, dV, the gradient of the scores, "
        "dK. With rows for keys, scores are tl.dot(k, q.T), and LSE and delta are rows: [None, :].",
        "weights = tl.exp(scores − LSE); dV adds tl.dot(weights, d_out); the weights' gradient is "
        "tl.dot(v, d_out.T); that of the scores weights · (it − delta); dK adds tl.dot(that, q). "
        "Cast the first factor to the second one's type. The first query that sees key s: "
        "t = s − (S − T).",
        "start = tl.maximum(0, tl.program_id(0) * BLOCK_S + T - S) // BLOCK_T * BLOCK_T, under "
        "`if CAUSAL:`. Inside, under `if CAUSAL:`, weights = tl.where(s[:, None] <= t[None, :] + "
        "S - T, weights, 0.0). After the loop dk *= scale.",
    ),
    minutes=25,
    difficulty=4,
    importance=5,
    results=("dK", "dV"),
)
