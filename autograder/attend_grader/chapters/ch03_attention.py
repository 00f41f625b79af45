"""Chapter 03, attention: its exercises. What must hold lies in the modules beside it."""

from attend_solutions import attention

from attend_grader.chapters import ch03_backward, ch03_forward, ch03_softmax
from attend_grader.exercise import Chapter, Exercise
from attend_grader.misconceptions import ch03_alternatives as right
from attend_grader.misconceptions import ch03_attention as wrong
from attend_grader.misconceptions import ch03_backward as wrong_backward
from attend_grader.misconceptions import ch03_softmax as wrong_softmax

ID = "03_attention"

READY_MADE = ("scipy", "torch", "jax", "tensorflow", "sklearn")
"""Libraries that hold a finished softmax or attention."""

EXERCISES = (
    Exercise(
        chapter=ID,
        title="Softmax",
        goal="Turn any scores into weights that are positive and sum to 1, without overflow.",
        reference=attention.softmax,
        properties=ch03_softmax.SOFTMAX,
        draws=ch03_softmax.softmax_draws,
        misconceptions=wrong_softmax.SOFTMAX,
        alternatives=right.SOFTMAX,
        hints=(
            (
                "Follow the worked number: which score did you subtract from all of them first, "
                "and why did that not change the weights?"
            ),
            (
                "Three steps, all along `axis`: shift, exponentiate, normalise. The maximum and "
                "the sum each remove an axis; ask NumPy to keep it with length 1, so that the "
                "result broadcasts back against the scores."
            ),
            (
                "Make a new float array rather than changing the input: take away each slice's "
                "own maximum (`axis=axis, keepdims=True`), take `np.exp` of what is left, and "
                "divide by the sum of those exponentials along the same axis, kept in the same "
                "way."
            ),
        ),
        minutes=10,
        difficulty=2,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Scores",
        goal="Compare every query with every key in one matrix product, scaled by 1/√D.",
        reference=attention.attention_scores,
        properties=ch03_forward.SCORES,
        draws=ch03_forward.scores_draws,
        misconceptions=wrong.SCORES,
        alternatives=right.SCORES,
        hints=(
            (
                "Entry (t, s) is the dot product of row t of q and row s of k. Which matrix "
                "product holds all of these at once?"
            ),
            (
                "You need k with its last two axes exchanged, and only those two: `.T` would "
                "reverse the leading axes as well. `@` then multiplies matrix by matrix over all "
                "leading axes."
            ),
            (
                "Multiply q by k with its axes -1 and -2 swapped: the shape is (..., T, S). If "
                "`scaled`, divide by the square root of the length of q's last axis, not of the "
                "number of keys and not of D itself."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Attention",
        goal="Build the soft look-up: scores, weights, and the weighted mean of the values.",
        reference=attention.scaled_dot_product_attention,
        properties=ch03_forward.ATTENTION,
        draws=ch03_forward.attention_draws,
        misconceptions=wrong.ATTENTION,
        alternatives=right.ATTENTION,
        hints=(
            (
                "You have already written two thirds of it. Which two functions take you from q "
                "and k to weights?"
            ),
            (
                "Each query has its own distribution over the keys: the weights must sum to 1 "
                "along the key axis, which is the last. The output row of a query is its weights "
                "times the rows of v."
            ),
            (
                "Call attention_scores on q and k (scaled), pass the result to softmax along the "
                "last axis, and matrix-multiply the weights (..., T, S) with v (..., S, D_v). "
                "Return the product first, the weights second."
            ),
        ),
        minutes=8,
        difficulty=1,
        importance=5,
        uses=("attention_scores", "softmax"),
        forbidden=READY_MADE,
        results=("output", "weights"),
    ),
    Exercise(
        chapter=ID,
        title="Variance of the scores",
        goal="Measure what the derivation predicts: dot products of width D have variance D.",
        reference=attention.score_variance,
        properties=ch03_forward.VARIANCE,
        draws=ch03_forward.variance_draws,
        misconceptions=wrong.VARIANCE,
        alternatives=right.VARIANCE,
        hints=(
            ("Row i of q meets row i of k only: you want n numbers, not an n × n table."),
            (
                "A dot product is an elementwise product followed by a sum. Over which axis must "
                "the sum run, so that n numbers remain?"
            ),
            (
                "Multiply q and k elementwise and sum over the last axis. If `scaled`, divide "
                "these n numbers by √D. Then take their population variance (divide by n, NumPy's"
                " default) and turn it into a Python float."
            ),
        ),
        minutes=6,
        difficulty=1,
        importance=3,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="The softmax's Jacobian",
        goal="Write down how every weight answers to every score: diag(p) − p pᵀ.",
        reference=attention.softmax_jacobian,
        properties=ch03_backward.JACOBIAN,
        draws=ch03_backward.jacobian_draws,
        misconceptions=wrong_backward.JACOBIAN,
        alternatives=right.JACOBIAN,
        hints=(
            (
                "Two terms: one that lives on the diagonal only, and one that is the product of "
                "every weight with every weight. The argument is already p: no exponential is "
                "needed."
            ),
            (
                "All products p_i p_j come from broadcasting: p as a column (..., S, 1) against p"
                " as a row (..., 1, S). For the diagonal, `np.diag` handles one row only; an "
                "identity matrix broadcasts over all leading axes."
            ),
            (
                "Add an axis at the end of p to get the column, one before the last to get the "
                "row. The diagonal term is the column times an S×S identity (which keeps p_i at "
                "(i, i)); subtract column times row from it."
            ),
        ),
        minutes=12,
        difficulty=3,
        importance=4,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Attention backwards",
        goal="Carry a gradient back through attention by hand, without ever building a Jacobian.",
        reference=attention.attention_backward,
        properties=ch03_backward.BACKWARD,
        draws=ch03_backward.backward_draws,
        misconceptions=wrong_backward.BACKWARD,
        alternatives=right.BACKWARD,
        hints=(
            (
                "Go through the forward pass from the end to the start: output, weights, scaled "
                "scores, dot products. Check at each step that the gradient has the shape of what"
                " it is the gradient of."
            ),
            (
                "You need P again (your own forward function returns it). Then five lines, as in "
                "the table: dV, dP, dS, dQ, dK. In dS the row sum runs over the keys and keeps "
                "its axis. A transpose in the equations swaps the last two axes only."
            ),
            (
                "dV is Pᵀ times dO; dP is dO times Vᵀ. For dS take from dP its own P-weighted "
                "mean over the last axis (keepdims), then multiply by P elementwise. Divide by √D"
                " once, because the scores were divided by it. dQ is that times K; dK is its "
                "transpose times Q. Return them in the order q, k, v."
            ),
        ),
        minutes=20,
        difficulty=4,
        importance=5,
        uses=("softmax", "attention_scores", "scaled_dot_product_attention"),
        forbidden=(*READY_MADE, "softmax_jacobian"),
        results=("grad_q", "grad_k", "grad_v"),
    ),
)

CHAPTER = Chapter(
    id=ID,
    title="Scaled dot-product attention",
    question="What is scaled dot-product attention, and why √d_k?",
    exercises=EXERCISES,
)
