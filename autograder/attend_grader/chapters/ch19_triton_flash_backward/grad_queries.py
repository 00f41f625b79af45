"""Exercise 19_triton_flash_backward/grad_queries: sums over keys, a program for its queries."""

from __future__ import annotations

from attend_solutions import triton_flash_backward as answers

from attend_grader.chapters.ch19_triton_flash_backward.shared import (
    SAYS,
    as_edits,
    drawn,
    kernel_properties,
)
from attend_grader.checks.exercise import Contract, Exercise, Slip

RESULTS = ("dq",)
SEEN = "seen = s[None, :] < S"
CAUSAL = "seen = seen & (s[None, :] <= t[:, None] + S - T)"
STOP = "stop = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + S - T)"
WEIGHTS = "weights = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0)"
D_SCORES = "d_scores = weights * (tl.dot(d_out, v.T) - delta[:, None])"
ADD = "dq += tl.dot(d_scores.to(k.dtype), k)"

SLIPS = (
    Slip(
        "a sum of values",
        (ADD, "dq += tl.dot(d_scores.to(v.dtype), v)"),
        "The gradients of the scores are multiplied by the values. A score is a product of q and "
        "k, so dQ should sum rows of K.",
    ),
    Slip(
        "weights in the place of the scores' gradients",
        (ADD, "dq += tl.dot(weights.to(k.dtype), k)"),
        "dQ sums the keys with the weights P. What belongs there is dX, the gradient of the "
        "scores: P ∘ (dP − delta).",
    ),
    Slip(
        "forgot delta",
        (D_SCORES, "d_scores = weights * tl.dot(d_out, v.T)"),
        "dQ lacks delta: the gradient of a score should be weight · (dP − delta).",
    ),
    Slip(
        "dQ without the scale",
        ("dq * scale", "dq"),
        "dQ lacks the factor `scale`. The scores were multiplied by it on the way forward: "
        "multiply their gradient by it on the way back.",
    ),
    Slip(
        "empty places have a weight",
        (SEEN, "seen = s[None, :] >= 0"),
        "Without the causal mask, places behind the last key have a weight, but no true score. "
        "Where the LSE is so far below the one they are given that exp(score − LSE), or dX in "
        "float16, is infinite, infinity times 0 is NaN. Set the weight itself to 0 there, with "
        "tl.where.",
    ),
    Slip(
        "weights times the mask",
        (WEIGHTS, "weights = tl.exp(scores - lse[:, None]) * seen"),
        "What is hidden is multiplied by 0. But there exp(score − LSE) may be infinite, and "
        "infinity times 0 is NaN. Choose the 0 with tl.where.",
    ),
    Slip(
        "a key is hidden from the query at its own place",
        (CAUSAL, CAUSAL.replace("<=", "<")),
        "Under the mask a query should see the key at its own place too: s <= t + S − T.",
    ),
    Slip(
        "the scores lack the scale",
        ("tl.dot(q, k.T) * scale", "tl.dot(q, k.T)"),
        "Weights are made of scores without the scale, so unless it is 1 they do not fit the LSE. "
        "Make them exp(scale · QKᵀ − LSE).",
    ),
    Slip(
        "hidden pairs are not masked",
        (CAUSAL, "seen = seen & (s[None, :] < stop)"),
        "Inside the tiles that are read, queries collect from keys that they may not see. Set "
        "those weights to 0.",
    ),
    Slip(
        "queries counted from the first key",
        ((CAUSAL, CAUSAL.replace(" + S - T", "")), (STOP, STOP.replace(" + S - T", ""))),
        "Under the mask, right where T = S only. The last query should stand at the last key, so "
        "query t at t + S − T.",
    ),
    Slip(
        "tiles of keys are read without a visible pair",
        (STOP, "stop = S"),
        "Values are right, but tiles of keys are read that none of the program's queries may see. "
        "End the loop one place behind the last query's.",
    ),
    Slip(
        "dQ keeps the last tile only",
        ("dq += ", "dq = "),
        "dQ holds what the last tile of keys gave. Every tile should add to it.",
    ),
    Slip(
        "the loop ends as though T were S",
        (STOP, STOP.replace(" + S - T", "")),
        "Under the mask the loop may end too early where there are fewer queries than keys. Query "
        "t should stand at the place t + S − T.",
    ),
    Slip(
        "heads of keys taken to be T rows apart",
        ("tl.program_id(1) * S", "tl.program_id(1) * T"),
        "Keys and values are found with the queries' length. Head h's should begin at row h · S.",
    ),
    Slip(
        "stored without a mask",
        ("tl.store(dq_ptr + queries, dq * scale, mask=t[:, None] < T)",
         "tl.store(dq_ptr + queries, dq * scale)"),
        "Where T is no multiple of the block, the last program of a head writes behind its last "
        "row: into the next head's first, or behind the buffer. Give the store the mask t < T.",
    ),
)  # fmt: skip

ALTERNATIVES = as_edits(
    answers.grad_queries,
    {
        "rows are keys": (
            ("tl.dot(q, k.T) * scale  # (BLOCK_T, BLOCK_S): rows are queries",
             "tl.dot(k, q.T) * scale"),
            (SEEN, "seen = s[:, None] < S"),
            (CAUSAL, "seen = seen & (s[:, None] <= t[None, :] + S - T)"),
            (WEIGHTS, "weights = tl.where(seen, tl.exp(scores - lse[None, :]), 0.0)"),
            (D_SCORES, "d_scores = weights * (tl.dot(v, d_out.T) - delta[None, :])"),
            (ADD, "dq += tl.dot(tl.trans(d_scores.to(k.dtype)), k)"),
        ),
        "hidden scores, powers of two": (
            (WEIGHTS,
             "scores = tl.where(seen, scores, float(\"-inf\"))\n"
             "        weights = tl.exp2((scores - lse[:, None]) * 1.4426950408889634)"),
            (D_SCORES, "d_scores = scale * weights * (tl.dot(d_out, v.T) - delta[:, None])"),
            (ADD, "dq = tl.dot(d_scores.to(k.dtype), k, dq)"),
            ("dq * scale", "dq"),
        ),
    },
)  # fmt: skip

EXERCISE = Exercise(
    chapter="19_triton_flash_backward",
    title="dQ",
    goal="Sum the gradient of a tile of queries over tiles of keys, kernel and grid.",
    reference=answers.grad_queries,
    contract=Contract(arguments_unchanged=True, says=SAYS),
    properties=kernel_properties(
        RESULTS, "reads the keys that its queries see, once", of="queries"
    ),
    draws=drawn(RESULTS),
    slips=SLIPS,
    alternatives=ALTERNATIVES,
    hints=(
        "It is the walk of chapter 18's forward pass with another sum. Load before the loop what "
        "belongs to queries: q, d_out, LSE, delta. Load in it what belongs to keys: k and v.",
        "Rows are queries now: scores are tl.dot(q, k.T), LSE and delta are columns, [:, None]. "
        "Visible are places s < S and, if CAUSAL, s <= t + S − T. The loop ends at S or, if "
        "CAUSAL, one place behind the last query's.",
        "weights = tl.where(seen, tl.exp(scores - lse[:, None]), 0.0); d_scores = weights * "
        "(tl.dot(d_out, v.T) - delta[:, None]); dq += tl.dot(d_scores.to(k.dtype), k). Store "
        "dq * scale with the mask t < T. stop = tl.minimum(S, (tl.program_id(0) + 1) * BLOCK_T + "
        "S - T).",
    ),
    minutes=25,
    difficulty=4,
    importance=5,
)
