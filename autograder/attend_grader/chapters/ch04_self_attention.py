"""Chapter 04, self-attention: its exercises. What must hold lies in the modules beside it."""

from attend_solutions import self_attention

from attend_grader.chapters import ch04_attention, ch04_masks, ch04_permutation, ch04_softmax
from attend_grader.exercise import Chapter, Exercise
from attend_grader.misconceptions import ch04_alternatives as right
from attend_grader.misconceptions import ch04_attention as wrong
from attend_grader.misconceptions import ch04_masks as wrong_masks
from attend_grader.misconceptions import ch04_softmax as wrong_softmax

ID = "04_self_attention"

READY_MADE = ("scipy", "torch", "jax", "tensorflow", "sklearn", "transformers")
"""Libraries that hold a finished softmax, attention or mask."""

EXERCISES = (
    Exercise(
        chapter=ID,
        title="Softmax under a mask",
        goal="Give no weight to hidden places, and none at all where everything is hidden.",
        reference=self_attention.masked_softmax,
        properties=ch04_softmax.MASKED,
        draws=ch04_softmax.masked_draws,
        misconceptions=wrong_softmax.MASKED,
        alternatives=right.MASKED,
        hints=(
            (
                "Which score has an exponential of exactly 0? Put it where the mask is False, and "
                "keep all other scores. What then happens in a row where every score is that one?"
            ),
            (
                "`np.where(mask, a, b)` takes a where the mask is True and b elsewhere, and "
                "broadcasts. Fill first, and find the largest score only then. In an empty row the "
                "largest is −inf and the sum of exponentials is 0: swap each for a harmless number "
                "before you subtract and divide."
            ),
            (
                "Make the scores floats; if there is a mask, replace what it hides by -np.inf. "
                "Take each row's maximum (axis=-1, keepdims=True) and put 0 where it is -np.inf. "
                "Exponentiate the scores minus that. Sum the rows (keepdims), put 1 where the sum "
                "is 0, and divide."
            ),
        ),
        minutes=12,
        difficulty=3,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Self-attention",
        goal="Let the tokens of a sentence look at each other, as far as a mask allows.",
        reference=self_attention.self_attention,
        properties=ch04_attention.SELF,
        draws=ch04_attention.self_draws,
        misconceptions=wrong.SELF,
        alternatives=right.SELF,
        hints=(
            (
                "Chapter 03's attention needs queries, keys and values. Which three products make "
                "them from x, and which of them does each matrix give?"
            ),
            (
                "`x @ w_q` projects every token of every sentence at once. Compare queries and "
                "keys with attention_scores, which divides by √D. Then your masked_softmax takes "
                "the place of softmax."
            ),
            (
                "Scores: attention_scores of x @ w_q and x @ w_k. Weights: masked_softmax of the "
                "scores and the mask (it knows what None means). Output: weights times x @ w_v. "
                "Return the output first, the weights second."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=5,
        uses=("masked_softmax",),
        forbidden=READY_MADE,
        results=("output", "weights"),
    ),
    Exercise(
        chapter=ID,
        title="Moving the tokens",
        goal="Find out whether self-attention notices in which order the tokens come.",
        reference=self_attention.permutation_matrix_test,
        properties=ch04_permutation.PERMUTATION,
        draws=ch04_permutation.permutation_draws,
        misconceptions=wrong.PERMUTATION,
        alternatives=right.PERMUTATION,
        hints=(
            (
                "Three runs of self_attention: on x, on P x with the same mask, on P x with the "
                "mask moved. Which of them gets P applied to its output?"
            ),
            (
                "Row i of P has its only 1 in column order[i]. `np.eye(T)` has a row for every "
                "place: take its rows in that order. P M Pᵀ is `p @ mask @ p.T`; it comes out in "
                "numbers, and a mask is made of booleans."
            ),
            (
                "P is np.eye(T) indexed with the order. First result: P times the output of x "
                "under the mask. Second: the output of P @ x under the mask. Third: the output of "
                "P @ x under P @ mask @ P.T, compared with 0 to get booleans; without a mask it "
                "stays None. self_attention returns two things: take the output."
            ),
        ),
        minutes=12,
        difficulty=3,
        importance=3,
        uses=("masked_softmax", "self_attention"),
        forbidden=READY_MADE,
        results=("expected", "mask_stays", "mask_moves"),
    ),
    Exercise(
        chapter=ID,
        title="The causal mask",
        goal="Hide the future, for a whole text and for the last few places of one.",
        reference=self_attention.causal_mask,
        properties=ch04_masks.CAUSAL,
        draws=ch04_masks.causal_draws,
        misconceptions=wrong_masks.CAUSAL,
        alternatives=right.CAUSAL,
        hints=(
            (
                "Write down the mask for 2 queries and 5 keys by hand. The queries are the last "
                "two places: at which place does query 0 stand, counted from 0?"
            ),
            (
                "Query t stands at place t + keys − queries. It may look at key s if s is not "
                "after that place. Comparing a column of places with a row of places gives the "
                "whole table."
            ),
            (
                "If keys is None, it equals queries. Make a column with np.arange(queries)[:, "
                "None], add keys − queries, and compare: the row np.arange(keys) must be less than "
                "or equal to it. The comparison is the mask."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="The padding mask",
        goal="Hide what only fills a batch of sentences of different lengths.",
        reference=self_attention.padding_mask,
        properties=ch04_masks.PADDING,
        draws=ch04_masks.padding_draws,
        misconceptions=wrong_masks.PADDING,
        alternatives=right.PADDING,
        hints=(
            (
                "A sentence of 3 tokens in 5 places: which places are tokens when the filling is "
                "on the right? And when it is on the left? What do you compare the place with?"
            ),
            (
                "np.arange(size) holds the places. To compare them with each sentence's length, "
                "the lengths need the shape (B, 1, 1): the result is then (B, 1, S)."
            ),
            (
                "Turn the lengths into an array and give it two more axes with [:, None, None]. "
                "Right: places less than the length. Left: places greater than or equal to size − "
                "length. Return the comparison."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=4,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Several masks at once",
        goal="Allow what every mask allows, with None for a mask that hides nothing.",
        reference=self_attention.combine_masks,
        properties=ch04_masks.COMBINE,
        draws=ch04_masks.combine_draws,
        misconceptions=wrong_masks.COMBINE,
        alternatives=right.COMBINE,
        hints=(
            (
                "In the function, `masks` is a tuple of all that was passed. What is left of it "
                "when you take out every None? What do you return when nothing is left?"
            ),
            (
                "Start with nothing (None) and go through the masks. The first one that is not "
                "None is the result so far; every other one is combined with it by `&`, which "
                "works entry by entry and broadcasts."
            ),
            (
                "combined = None; for each mask that is not None: if combined is None it becomes "
                "the mask, else combined & mask (a new array, not &=). After the loop return "
                "combined."
            ),
        ),
        minutes=6,
        difficulty=2,
        importance=3,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Cross-attention",
        goal="Let one text look at another, as a translator looks at the source.",
        reference=self_attention.cross_attention,
        properties=ch04_attention.CROSS,
        draws=ch04_attention.cross_draws,
        misconceptions=wrong.CROSS,
        alternatives=right.CROSS,
        hints=(
            (
                "Who asks, and where is the answer found? Which of queries, keys and values come "
                "from x, and which from the context?"
            ),
            (
                "It is self_attention with one change: keys and values are made from the context. "
                "The shapes tell you too: w_k and w_v have C_c rows, as wide as a token of the "
                "context."
            ),
            (
                "Scores: attention_scores of x @ w_q and context @ w_k. Weights: masked_softmax of "
                "scores and mask. Output: weights times context @ w_v. Return output and weights."
            ),
        ),
        minutes=6,
        difficulty=1,
        importance=4,
        uses=("masked_softmax", "self_attention"),
        forbidden=READY_MADE,
        results=("output", "weights"),
    ),
)

CHAPTER = Chapter(
    id=ID,
    title="Self-attention and masks",
    question="Who may look at whom?",
    exercises=EXERCISES,
)
