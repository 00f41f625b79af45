"""Exercise 03_attention/attention_backward: attention backwards."""

from attend_solutions import attention

from attend_grader.chapters.ch03_attention import READY_MADE, right, wrong_backward
from attend_grader.chapters.ch03_attention import props_backward as ch03_backward
from attend_grader.checks.exercise import Exercise

EXERCISE = Exercise(
    chapter="03_attention",
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
)
