"""Chapter 01, recurrence: its exercises. What must hold lies in the modules beside it."""

from attend_solutions import recurrence

from attend_grader.chapters import ch01_backward, ch01_forward, ch01_gates
from attend_grader.exercise import Chapter, Exercise
from attend_grader.misconceptions import ch01_alternatives as right
from attend_grader.misconceptions import ch01_bptt as wrong_bptt
from attend_grader.misconceptions import ch01_forward as wrong
from attend_grader.misconceptions import ch01_gru as wrong_gru
from attend_grader.misconceptions import ch01_lstm as wrong_lstm
from attend_grader.misconceptions import ch01_norms as wrong_norms

ID = "01_recurrence"

READY_MADE = ("torch", "jax", "tensorflow", "keras")
"""Libraries that hold finished recurrent networks, and gradients without work."""

EXERCISES = (
    Exercise(
        chapter=ID,
        title="One step",
        goal="Make the next state from an input and the state before it.",
        reference=recurrence.rnn_step,
        properties=ch01_forward.STEP,
        draws=ch01_forward.step_draws,
        misconceptions=wrong.STEP,
        alternatives=right.STEP,
        hints=(
            (
                "Three things are added before anything is squeezed: one comes from the input, "
                "one from the old state, one is always the same. Which are they?"
            ),
            (
                "Rows of x are sequences, and so are rows of h. `x @ w_x` has the shape (B, N),"
                " and so has `h @ w_h`; the bias, of shape (N,), broadcasts over the batch."
            ),
            "Return np.tanh of the sum of x @ w_x, h @ w_h and b, all three inside the brackets.",
        ),
        minutes=6,
        difficulty=1,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="A whole sequence",
        goal="Apply the step along a sequence and keep every state.",
        reference=recurrence.rnn_forward,
        properties=ch01_forward.FORWARD,
        draws=ch01_forward.forward_draws,
        misconceptions=wrong.FORWARD,
        alternatives=right.FORWARD,
        hints=(
            "What does step t need that only step t − 1 can give it? Keep that in a variable.",
            (
                "Time is axis 1 of x: `x[:, t]` holds the inputs of all sequences at step t, of"
                " shape (B, C). Put each new state into a list, and stack the list at the end."
            ),
            (
                "Start with h = h0 and an empty list. For t in range(x.shape[1]): let h be "
                "rnn_step of x[:, t] and h, and append it. Then np.stack the list with axis=1, "
                "which makes (B, T, N)."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=5,
        uses=("rnn_step",),
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Back through time",
        goal="Carry a gradient back through every step, to the weights, the inputs and the start.",
        reference=recurrence.bptt,
        properties=ch01_backward.BPTT,
        draws=ch01_backward.bptt_draws,
        misconceptions=wrong_bptt.BPTT,
        alternatives=right.BPTT,
        hints=(
            (
                "In what two ways does the loss depend on the state at step t? One way is given"
                " to you in grad_states. The other is known only after step t + 1 has been "
                "worked on."
            ),
            (
                "Walk from the last step to the first with one array in hand, `carried` of "
                "shape (B, N), zeros at the beginning: what comes back from later steps. At "
                "each step add grad_states[:, t], multiply by tanh's slope 1 − h², and you have"
                " the gradient of the sums a_t. All five results follow from it, as in the "
                "table."
            ),
            (
                "With da for the gradient of the sums at step t: grad_x[:, t] is da @ w_x.T; to"
                " grad_w_x add x[:, t].T @ da; to grad_w_h add the state before, transposed, @ "
                "da (that is states[:, t - 1], but h0 where t is 0); to grad_b add da summed "
                "over axis 0; and carried becomes da @ w_h.T. After the loop, carried is "
                "grad_h0."
            ),
        ),
        minutes=25,
        difficulty=4,
        importance=5,
        forbidden=(*READY_MADE, "rnn_forward"),
        results=("grad_x", "grad_h0", "grad_w_x", "grad_w_h", "grad_b"),
    ),
    Exercise(
        chapter=ID,
        title="How far a gradient reaches",
        goal="Measure how strongly the last state depends on each state before it.",
        reference=recurrence.gradient_norms,
        properties=ch01_backward.NORMS,
        draws=ch01_backward.norms_draws,
        misconceptions=wrong_norms.NORMS,
        alternatives=right.NORMS,
        hints=(
            (
                "Back-propagation takes one vector back through the steps. What would you have "
                "to take back to get the whole matrix ∂h_T/∂h_t, and what is it at t = T?"
            ),
            (
                "Start from the identity, one for each sequence: (B, N, N). Walk from the last "
                "step to the first. Note the norm of what you hold, then take it one step back:"
                " its columns times the slopes, then the product with w_h.T."
            ),
            (
                "For t from T − 1 down to 0: norms[:, t] = np.linalg.norm(jacobian, ord=2, "
                "axis=(1, 2)); then multiply jacobian by (1 − states[:, t]**2)[:, None, :] and "
                "then, with @, by w_h.T."
            ),
        ),
        minutes=15,
        difficulty=3,
        importance=4,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="A step of the LSTM",
        goal="Write the cell with three gates and a memory that is added to, not overwritten.",
        reference=recurrence.lstm_cell,
        properties=ch01_gates.LSTM,
        draws=ch01_gates.lstm_draws,
        misconceptions=wrong_lstm.LSTM,
        alternatives=right.LSTM,
        hints=(
            (
                "The sums are those of rnn_step before its tanh, four times as wide. Which four "
                "things do they decide, in which order, and which of them is no gate?"
            ),
            (
                "np.split(sums, 4, axis=-1) gives the blocks i, f, g, o. Sigmoid for the three "
                "gates, tanh for g. The new memory first, then the new state from it."
            ),
            (
                "new_c is sigmoid(f) times c plus sigmoid(i) times tanh(g), number by number; "
                "new_h is sigmoid(o) times tanh(new_c). Return new_h, new_c."
            ),
        ),
        minutes=12,
        difficulty=2,
        importance=4,
        forbidden=READY_MADE,
        results=("new_h", "new_c"),
    ),
    Exercise(
        chapter=ID,
        title="A step of the GRU",
        goal="Write the cell with two gates that needs no second memory.",
        reference=recurrence.gru_cell,
        properties=ch01_gates.GRU,
        draws=ch01_gates.gru_draws,
        misconceptions=wrong_gru.GRU,
        alternatives=right.GRU,
        hints=(
            (
                "Why does this cell have two biases, where the LSTM made do with one? Look at "
                "where the reset gate stands."
            ),
            (
                "Keep what comes from the input, x @ w_x + b_x, and what comes from the state, "
                "h @ w_h + b_h, apart, and split each into three blocks r, z, n."
            ),
            (
                "r and z are sigmoids of the two parts added. The candidate is tanh of the "
                "input's part plus r times the state's part. Return (1 − z) times the candidate"
                " plus z times h."
            ),
        ),
        minutes=12,
        difficulty=2,
        importance=4,
        forbidden=READY_MADE,
    ),
)

CHAPTER = Chapter(
    id=ID,
    title="Recurrence",
    question="What did sequence models do before attention?",
    exercises=EXERCISES,
)
