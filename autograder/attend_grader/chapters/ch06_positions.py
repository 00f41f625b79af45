"""Chapter 06, positions: its exercises. What must hold lies in the modules beside it."""

from attend_solutions import longer_positions, positions

from attend_grader.chapters import ch06_absolute, ch06_alibi, ch06_longer, ch06_rope, ch06_tables
from attend_grader.exercise import Chapter, Exercise
from attend_grader.misconceptions import ch06_absolute as wrong_absolute
from attend_grader.misconceptions import ch06_alibi as wrong_alibi
from attend_grader.misconceptions import ch06_alternatives as right
from attend_grader.misconceptions import ch06_longer as wrong_longer
from attend_grader.misconceptions import ch06_longer_alternatives as right_longer
from attend_grader.misconceptions import ch06_rope as wrong_rope
from attend_grader.misconceptions import ch06_tables as wrong_tables

ID = "06_positions"

READY_MADE = ("transformers", "torchtune", "rotary_embedding_torch", "x_transformers")
"""Libraries that hold finished position codes."""

EXERCISES = (
    Exercise(
        chapter=ID,
        title="Sines and cosines",
        goal="Encode any position by pairs of sines and cosines, exactly even at 100,000.",
        reference=positions.sinusoidal_encoding,
        properties=ch06_absolute.SINUSOID,
        draws=ch06_absolute.sinusoid_draws,
        misconceptions=wrong_absolute.SINUSOID,
        alternatives=right.SINUSOID,
        hints=(
            (
                "How large is the table of angles: a row for each position, a column for each "
                "frequency? Which two axes must meet so that each position is multiplied by each "
                "frequency?"
            ),
            (
                "Positions as a column times the frequencies as a row give the angles (T, C/2), in "
                "float64. Sine and cosine of an angle must end up next to each other: put them "
                "side by side on a new last axis, then merge the last two axes."
            ),
            (
                "positions[:, None] times angular_frequencies(width, base); torch.stack of the "
                "sine and the cosine with dim=-1 gives (T, C/2, 2); flatten(-2) makes it (T, C); "
                "convert to float32 at the very end."
            ),
        ),
        minutes=10,
        difficulty=2,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="A shift is a rotation",
        goal="Build the one matrix that moves every encoding by the same offset.",
        reference=positions.shift_matrix,
        properties=ch06_absolute.SHIFT,
        draws=ch06_absolute.shift_draws,
        misconceptions=wrong_absolute.SHIFT,
        alternatives=right.SHIFT,
        hints=(
            (
                "Write sin(a + b) and cos(a + b) with a = pθ and b = offset · θ. Which numbers "
                "multiply sin(pθ) and cos(pθ)? Do they depend on p?"
            ),
            (
                "For each pair you get a 2 × 2 block with cos(offset · θ) on its diagonal, the "
                "sine in the upper right and minus the sine in the lower left. The blocks lie "
                "along the diagonal of a matrix that is 0 elsewhere."
            ),
            (
                "Angles: offset times angular_frequencies(width, base). Stack cos, sin, −sin, cos "
                "on a new last axis, unflatten it to (2, 2), and hand the blocks to "
                "torch.block_diag with a star. Or fill a matrix of zeros in a loop over pairs. "
                "Convert to float32 at the end."
            ),
        ),
        minutes=12,
        difficulty=3,
        importance=4,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="A learned table",
        goal="Add a trained row to each token, and refuse positions that have none.",
        reference=positions.LearnedPositions,
        properties=ch06_tables.LEARNED,
        draws=ch06_tables.learned_draws,
        misconceptions=wrong_tables.LEARNED,
        alternatives=right.LEARNED,
        hints=(
            (
                "Which rows of the table belong to T tokens of which the first stands at `start`? "
                "Which of the axes of x counts the tokens?"
            ),
            (
                "The rows are a slice of self.table, from start up to (not including) start + T, "
                "where T is the length of the last axis but one. Leading axes take care of "
                "themselves by broadcasting."
            ),
            (
                "end = start + x.shape[-2]. If end is greater than self.table.shape[0], raise a "
                "ValueError that says so. Otherwise return a new tensor: x plus the slice."
            ),
        ),
        minutes=6,
        difficulty=1,
        importance=3,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="A bias for each distance",
        goal="Look up T5's bias: near distances one by one, far ones in widening buckets.",
        reference=positions.relative_bias,
        properties=ch06_tables.BIAS,
        draws=ch06_tables.bias_draws,
        misconceptions=wrong_tables.BIAS,
        alternatives=right.BIAS,
        hints=(
            (
                "Three questions, one after the other: which part of the table, how far away, and "
                "which bucket has that distance? Only then is anything looked up."
            ),
            (
                "If bidirectional: each side has half of the buckets, keys after the query "
                "(relative > 0) start at that half, and the distance is the absolute value. Else: "
                "all buckets, start 0, and the distance is −relative, but at least 0. Work out the "
                "bucket for near and for far distances, and choose between them with torch.where."
            ),
            (
                "With side buckets for one side and exact = side // 2: far = exact + (side − exact)"
                " · log(distance / exact) / log(max_distance / exact). Clamp that to 0 … side − 1 "
                "(distance 0 gives log 0 = −inf), and only then cut off with .long(). Choose near "
                "or far, add where the side starts, look up, and mind the order of the axes."
            ),
        ),
        minutes=20,
        difficulty=4,
        importance=3,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Rotary embedding",
        goal="Turn queries and keys, so that their score knows only how far apart they are.",
        reference=positions.apply_rope,
        properties=ch06_rope.ROPE,
        draws=ch06_rope.rope_draws,
        misconceptions=wrong_rope.ROPE,
        alternatives=right.ROPE,
        hints=(
            (
                "By which angle is pair i of the token at position p turned? What are the two "
                "numbers of a pair after a turn by that angle?"
            ),
            (
                "Angles: positions with a new last axis, times the frequencies, both in float64: "
                "(..., T, D/2). Cut x into its two halves along the last axis. The new first half "
                "is first · cos − second · sin; find the other one from the turn of (0, 1)."
            ),
            (
                "angles = positions[..., None].double() * frequencies.double(); cos and sin of "
                "them, each converted with .to(x.dtype); first, second = x.chunk(2, dim=-1); then "
                "torch.cat of the two new halves, both made from the old ones: the second is "
                "second · cos + first · sin."
            ),
        ),
        minutes=15,
        difficulty=3,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="ALiBi's slopes",
        goal="Give each head its own slope, for any number of heads.",
        reference=longer_positions.alibi_slopes,
        properties=ch06_alibi.SLOPES,
        draws=ch06_alibi.slopes_draws,
        misconceptions=wrong_alibi.SLOPES,
        alternatives=right_longer.SLOPES,
        hints=(
            ("What are the slopes of 4 heads, and of 8? Which of the 8 lie between two of the 4?"),
            (
                "Find the largest power of two that is not above the number of heads. Its slopes "
                "are 2^(−8h/power) for h = 1 … power. What is missing comes from the list for "
                "twice that many heads: every other slope, beginning with the first."
            ),
            (
                "power = 2 ** int(math.log2(heads)). First part: 2.0 ** (−8/power · arange(1, "
                "power + 1)). Second part: the odd h of twice as many heads, 2.0 ** (−4/power · "
                "arange(1, 2 · power, 2)). Join them with torch.cat and keep the first `heads`."
            ),
        ),
        minutes=10,
        difficulty=2,
        importance=2,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="ALiBi's bias",
        goal="Penalise each key by its distance from the query, a slope for each head.",
        reference=longer_positions.alibi_bias,
        properties=ch06_alibi.ALIBI,
        draws=ch06_alibi.alibi_draws,
        misconceptions=wrong_alibi.ALIBI,
        alternatives=right_longer.ALIBI,
        hints=(
            ("Which table (T, S) holds how far each key is from each query, without a sign?"),
            (
                "Query positions as a column minus key positions as a row, absolute value. Then "
                "each head multiplies the whole table by its slope, with a minus: which shape must "
                "the slopes have?"
            ),
            (
                "distance = (query_positions[:, None] - key_positions).abs(); slopes[:, None, "
                "None] has the shape (H, 1, 1) and broadcasts against (T, S). Mind the sign."
            ),
        ),
        minutes=6,
        difficulty=1,
        importance=4,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Position interpolation",
        goal="Squeeze the positions of a longer text into the trained range.",
        reference=longer_positions.position_interpolation,
        properties=ch06_longer.INTERPOLATION,
        draws=ch06_longer.interpolation_draws,
        misconceptions=wrong_longer.INTERPOLATION,
        alternatives=right_longer.INTERPOLATION,
        hints=(
            ("By which number must every position be multiplied, and when by none?"),
            (
                "The factor is trained_length / length, but never more than 1. Work in float64: "
                "angles will be made from these positions."
            ),
            ("positions.double() times min(1.0, trained_length / length)."),
        ),
        minutes=4,
        difficulty=1,
        importance=3,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="NTK-aware scaling",
        goal="Find the base with which only the slow pairs slow down.",
        reference=longer_positions.ntk_scale,
        properties=ch06_longer.NTK,
        draws=ch06_longer.ntk_draws,
        misconceptions=wrong_longer.NTK,
        alternatives=right_longer.NTK,
        hints=(
            (
                "Write down the frequency of the slowest pair, i = D/2 − 1, with the old base "
                "and with the new one. What must their ratio be?"
            ),
            (
                "new base^(−(D−2)/D) must be base^(−(D−2)/D) divided by the factor. Take both "
                "sides to the power −D/(D−2)."
            ),
            ("base * factor ** (width / (width - 2)); the brackets are needed."),
        ),
        minutes=6,
        difficulty=2,
        importance=3,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="YaRN",
        goal="Slow the pairs that never turned full circle, keep the fast ones, blend between.",
        reference=longer_positions.yarn_frequencies,
        properties=ch06_longer.YARN,
        draws=ch06_longer.yarn_draws,
        misconceptions=wrong_longer.YARN,
        alternatives=right_longer.YARN,
        hints=(
            (
                "How many full turns does a pair with frequency θ make in trained_length steps? "
                "Which share of θ does it keep at alpha turns, at beta turns, and halfway between?"
            ),
            (
                "turns = trained_length · θ / 2π. The share is (turns − alpha) / (beta − alpha), "
                "held between 0 and 1. The new frequency is share · θ + (1 − share) · θ / factor."
            ),
            (
                "θ = angular_frequencies(width, base); clamp the share with .clamp(0, 1); return "
                "two things: the blended frequencies, and 0.1 * math.log(factor) + 1."
            ),
        ),
        minutes=12,
        difficulty=3,
        importance=3,
        forbidden=READY_MADE,
        results=("frequencies", "scale"),
    ),
)

CHAPTER = Chapter(
    id=ID,
    title="Positions",
    question="How does the model know where it is?",
    exercises=EXERCISES,
)
