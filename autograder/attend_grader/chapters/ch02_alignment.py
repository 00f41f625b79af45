"""Chapter 02, alignment: its exercises. What must hold lies in the modules beside it."""

from attend_solutions import alignment

from attend_grader.chapters import ch02_places, ch02_recurrent, ch02_scores
from attend_grader.exercise import Chapter, Exercise
from attend_grader.misconceptions import ch02_alternatives as right
from attend_grader.misconceptions import ch02_hard as wrong_hard
from attend_grader.misconceptions import ch02_local as wrong_local
from attend_grader.misconceptions import ch02_recurrent as wrong_recurrent
from attend_grader.misconceptions import ch02_scores as wrong_scores

ID = "02_alignment"

READY_MADE = (
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.MultiheadAttention",
    "torch.nn.Bilinear",
    "torch.nn.functional.bilinear",
    "transformers",
)
"""Where a finished score or attention lies."""

FINISHED_GRU = ("torch.nn.GRU", "torch.nn.RNNBase", "torch.gru", "torch._VF.gru", "torch.ops")
"""Where the loop over the words lies finished."""

EXERCISES = (
    Exercise(
        chapter=ID,
        title="The encoder",
        goal="Read a sentence in both directions, and keep what was known at every word.",
        reference=alignment.encode,
        properties=ch02_recurrent.ENCODE,
        draws=ch02_recurrent.encode_draws,
        misconceptions=wrong_recurrent.ENCODE,
        alternatives=right.ENCODE,
        hints=(
            (
                "Start with one direction: a state of zeros, a loop over the words, a list that "
                "grows by one state at each word. What changes for the other direction?"
            ),
            (
                "The second loop runs over the words from the last to the first, with the other "
                "cell and a fresh state of zeros. Its list grows in that order too: turn it round "
                "before stacking, so that entry s belongs to word s."
            ),
            (
                "The state of zeros is (B, N): `x.new_zeros(B, N)`, N from the second tensor of a "
                "cell, `cell[1].shape[1]`. In the loop, `h = torch.gru_cell(x[:, s], h, *cell)`, "
                "then append. `torch.stack(states, dim=1)` gives (B, S, N); `torch.cat` puts both "
                "directions side by side along the last axis."
            ),
        ),
        minutes=15,
        difficulty=3,
        importance=4,
        forbidden=FINISHED_GRU,
    ),
    Exercise(
        chapter=ID,
        title="Additive score",
        goal="Compare a state with every encoded word by a small network.",
        reference=alignment.additive_score,
        properties=ch02_scores.ADDITIVE,
        draws=ch02_scores.additive_draws,
        misconceptions=wrong_scores.ADDITIVE,
        alternatives=right.ADDITIVE,
        hints=(
            (
                "Two products make the query's part, A numbers for each query, and the key's "
                "part, A numbers for each key. Which shape must their sum have, so that every "
                "pair has A numbers of its own?"
            ),
            (
                "The sum has the shape (..., T, S, A). Give the query's part an axis of length 1 "
                "for the keys, and the key's part one for the queries; broadcasting does the rest."
            ),
            (
                "`(queries @ w_query)[..., :, None, :]` is (..., T, 1, A); make the key's part "
                "(..., 1, S, A) in the same way. Add, take `torch.tanh`, and multiply by `v` with "
                "`@`: that sums over the last axis."
            ),
        ),
        minutes=12,
        difficulty=3,
        importance=4,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Multiplicative score",
        goal="Compare them by a product instead: dot, or general with a weight in between.",
        reference=alignment.multiplicative_score,
        properties=ch02_scores.MULTIPLICATIVE,
        draws=ch02_scores.multiplicative_draws,
        misconceptions=wrong_scores.MULTIPLICATIVE,
        alternatives=right.MULTIPLICATIVE,
        hints=(
            "Without a weight: which matrix product holds the dot product of every query with "
            "every key?",
            (
                "The last two axes of the keys have to be exchanged, and only those: `keys.mT`. "
                "With a weight (N, E), the queries become as wide as the keys first."
            ),
            (
                "If `weight` is not None, let the queries be `queries @ weight`, (..., T, E). Then "
                "multiply by `keys.mT`. Do not divide by anything."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Attend",
        goal="Turn scores into weights, and the weights into one context for each query.",
        reference=alignment.attend,
        properties=ch02_scores.ATTEND,
        draws=ch02_scores.attend_draws,
        misconceptions=wrong_scores.ATTEND,
        alternatives=right.ATTEND,
        hints=(
            "Each row of scores belongs to one query. Along which axis do its weights sum to 1?",
            "The softmax runs along the last axis. A context is a sum over the same axis: weight "
            "times value, for every key.",
            (
                "`torch.softmax(scores, dim=-1)` gives the weights (..., T, S). Multiplied with "
                "the values (..., S, E) by `@` they give the contexts. Return contexts, then "
                "weights."
            ),
        ),
        minutes=6,
        difficulty=1,
        importance=5,
        forbidden=READY_MADE,
        results=("contexts", "weights"),
    ),
    Exercise(
        chapter=ID,
        title="One step of the decoder",
        goal="Look back with the state, then go on to the next state.",
        reference=alignment.attention_decoder_step,
        properties=ch02_recurrent.STEP,
        draws=ch02_recurrent.step_draws,
        misconceptions=wrong_recurrent.STEP,
        alternatives=right.STEP,
        hints=(
            "Follow the order of the picture: which three things are made, one after the other, "
            "and what does each of them need?",
            (
                "The score functions take queries (B, T, N). Here T = 1: give the state an axis, "
                "`state[:, None]`, and take it away from context and weights afterwards, "
                "`[:, 0]`."
            ),
            (
                "Scores from multiplicative_score(state with its axis, encoded, weight); context "
                "and weights from attend(scores, encoded), both without the axis; then "
                "`torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)`. Return "
                "the new state, the context, the weights."
            ),
        ),
        minutes=12,
        difficulty=3,
        importance=5,
        uses=("multiplicative_score", "attend"),
        forbidden=(*READY_MADE, *FINISHED_GRU),
        results=("state", "context", "weights"),
    ),
    Exercise(
        chapter=ID,
        title="Hard attention",
        goal="Draw one place instead of mixing all, and estimate the gradient from the reward.",
        reference=alignment.hard_attention_sample,
        properties=ch02_places.HARD,
        draws=ch02_places.hard_draws,
        misconceptions=wrong_hard.HARD,
        alternatives=right.HARD,
        hints=(
            (
                "Lay the weights end to end on a line from 0 to 1. Where does each piece end, and "
                "how many pieces end at u or before it?"
            ),
            (
                "The ends are `weights.cumsum(dim=-1)`; how many of them are ≤ u is the place "
                "(not beyond S - 1). For the estimate you need its reward and the row: 1 at the "
                "place, 0 elsewhere, minus the weights."
            ),
            (
                "Compare the ends with `uniforms[..., None]`, sum over the last axis, clamp. "
                "`rewards.gather(-1, places[..., None])` picks one reward for each query and "
                "keeps the axis. The row of zeros and a one is `torch.arange(S) == places[..., "
                "None]`, turned into the weights' dtype. (reward - baseline) times (row - weights)."
            ),
        ),
        minutes=18,
        difficulty=4,
        importance=3,
        forbidden=("torch.multinomial", "torch.distributions"),
        results=("places", "gradients"),
    ),
    Exercise(
        chapter=ID,
        title="Local attention",
        goal="Attend to the places near a centre only, and more to the nearer ones.",
        reference=alignment.local_attention,
        properties=ch02_places.LOCAL,
        draws=ch02_places.local_draws,
        misconceptions=wrong_local.LOCAL,
        alternatives=right.LOCAL,
        hints=(
            "How far is every place from every query's centre? Almost all you need follows from "
            "that one table, (..., T, S).",
            (
                "The distances are `torch.arange(S) - centre[..., None]`. Where they are larger "
                "than the window, in either direction, the score must be -inf before the softmax. "
                "The bell multiplies what comes out of it."
            ),
            (
                "`scores.masked_fill(distance.abs() > window, -torch.inf)`, softmax along the last "
                "axis; if `gaussian`, times `torch.exp(-distance**2 / (2 * sigma**2))` with sigma "
                "= window / 2. Do not divide by the new sum. The contexts are these weights @ "
                "values."
            ),
        ),
        minutes=12,
        difficulty=3,
        importance=3,
        forbidden=READY_MADE,
        results=("contexts", "weights"),
    ),
)

CHAPTER = Chapter(
    id=ID,
    title="Alignment",
    question="How did a decoder learn to look back?",
    exercises=EXERCISES,
)
