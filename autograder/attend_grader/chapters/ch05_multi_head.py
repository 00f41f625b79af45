"""Chapter 05, many heads: its exercises. What must hold lies in the modules beside it."""

from attend_solutions import multi_head

from attend_grader.chapters import ch05_heads, ch05_latent, ch05_shared
from attend_grader.exercise import Chapter, Exercise
from attend_grader.misconceptions import ch05_alternatives as right
from attend_grader.misconceptions import ch05_attention as wrong_attention
from attend_grader.misconceptions import ch05_bytes as wrong_bytes
from attend_grader.misconceptions import ch05_heads as wrong_heads
from attend_grader.misconceptions import ch05_latent as wrong_latent
from attend_grader.misconceptions import ch05_shared as wrong_shared

ID = "05_multi_head"

READY_MADE = (
    "torch.nn.MultiheadAttention",
    "torch.nn.modules.activation.MultiheadAttention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.functional.scaled_dot_product_attention",
    "torch._C._nn.scaled_dot_product_attention",
    "torch._native_multi_head_attention",
    "torch.nn.attention",
    "torch.ops",
    "transformers",
    "einops",
)
"""Finished attention; and einops, which would write the exercises of moving axes."""

EXERCISES = (
    Exercise(
        chapter=ID,
        title="Splitting into heads",
        goal="Cut every token's numbers into heads, and bring the heads before the tokens.",
        reference=multi_head.split_heads,
        properties=ch05_heads.SPLIT,
        draws=ch05_heads.split_draws,
        misconceptions=wrong_heads.SPLIT,
        alternatives=right.SPLIT,
        hints=(
            (
                "Two steps, not one. First cut: which axis becomes two, and how long are these "
                "two? Then move: which two axes change places?"
            ),
            (
                "The width C becomes (heads, D) with D = C // heads, so the shape is (B, T, heads,"
                " D) in between. reshape does that, because it keeps the reading order."
            ),
            (
                "Read B, T, C from x.shape. Reshape x to (B, T, heads, C // heads), then transpose"
                " axes 1 and 2 of that. Reshaping straight to (B, heads, T, D) gives the right "
                "shape with wrong numbers."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=5,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Merging heads",
        goal="Lay the heads of every token side by side again.",
        reference=multi_head.merge_heads,
        properties=ch05_heads.MERGE,
        draws=ch05_heads.merge_draws,
        misconceptions=wrong_heads.MERGE,
        alternatives=right.MERGE,
        hints=(
            "It undoes what split_heads did. In which order must its two steps be undone?",
            (
                "Bring the tokens before the heads again, then make one axis of the last two. "
                "After a transpose the numbers no longer lie in reading order in memory: `.view` "
                "refuses, `.reshape` copies."
            ),
            "Transpose axes 1 and 2, which gives (B, T, H, D), then reshape that to (B, T, H * D).",
        ),
        minutes=4,
        difficulty=1,
        importance=4,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Multi-head attention",
        goal="Let every head look for itself, then mix what they found.",
        reference=multi_head.MultiHeadAttention,
        properties=ch05_heads.HEADS,
        draws=ch05_heads.heads_draws,
        misconceptions=wrong_attention.HEADS,
        alternatives=right.HEADS,
        hints=(
            (
                "Follow one token through the five steps at the head of section 4: three "
                "projections, then heads, then attention, then one token again, then the last "
                "projection. Which of your two functions stands where?"
            ),
            (
                "Project first, split afterwards: split_heads(self.query(x), self.heads), and the "
                "same with key and value. masked_attention works on (B, H, T, D) as it is, since "
                "H is one more leading axis; hand it the mask."
            ),
            (
                "masked_attention(q, k, v, mask) returns two results: what the heads found, (B, H,"
                " T, D), and the weights. Merge the first, send it through self.output, and return"
                " that and the weights."
            ),
        ),
        minutes=15,
        difficulty=3,
        importance=5,
        uses=("split_heads", "merge_heads"),
        forbidden=READY_MADE,
        results=("output", "weights"),
    ),
    Exercise(
        chapter=ID,
        title="Sharing keys and values",
        goal="Hand every head of keys to a group of neighbouring query heads.",
        reference=multi_head.repeat_kv,
        properties=ch05_shared.REPEAT,
        draws=ch05_shared.repeat_draws,
        misconceptions=wrong_shared.REPEAT,
        alternatives=right.REPEAT,
        hints=(
            "With two heads and repeats = 3, in which order stand the six? Look at the example.",
            (
                "The copies of one head are neighbours: 0, 0, 0, 1, 1, 1. `x.repeat` lays whole "
                "rounds behind each other, 0, 1, 0, 1, 0, 1."
            ),
            (
                "Put a new axis behind the heads, x[:, :, None], expand it to `repeats` entries, "
                "and reshape (B, G, repeats, S, D) to (B, G * repeats, S, D). Or let torch do the "
                "same: there is a method whose name says that copies are interleaved."
            ),
        ),
        minutes=6,
        difficulty=2,
        importance=4,
        forbidden=READY_MADE,
    ),
    Exercise(
        chapter=ID,
        title="Grouped-query attention",
        goal="Write attention whose heads share keys and values, with MHA and MQA as its ends.",
        reference=multi_head.GroupedQueryAttention,
        properties=ch05_shared.GROUPED,
        draws=ch05_shared.grouped_draws,
        misconceptions=wrong_shared.GROUPED,
        alternatives=right.GROUPED,
        hints=(
            (
                "It is multi-head attention with one difference. How many heads do queries have, "
                "and how many have keys and values?"
            ),
            (
                "self.key(x) is only G·D wide: split it into self.kv_heads heads, not into "
                "self.heads. Before you attend, queries and keys must have equally many heads."
            ),
            (
                "Split the queries into self.heads, keys and values into self.kv_heads; repeat_kv "
                "both by self.heads // self.kv_heads; the rest is as in MultiHeadAttention."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=5,
        uses=("split_heads", "merge_heads", "repeat_kv"),
        forbidden=READY_MADE,
        results=("output", "weights"),
    ),
    Exercise(
        chapter=ID,
        title="Latent attention",
        goal="Make all keys and values from one short latent a token; then do without making them.",
        reference=multi_head.LatentAttention,
        properties=ch05_latent.LATENT,
        draws=ch05_latent.latent_draws,
        misconceptions=wrong_latent.LATENT,
        alternatives=right.LATENT,
        hints=(
            (
                "Write forward first: it is multi-head attention, except that keys and values come"
                " from self.compress(x) instead of from x. For forward_absorbed, write one score "
                "as a product of row vectors and move the brackets."
            ),
            (
                "q · k = q W_ukᵀ · c: multiply the query by the head's stored weight, (D, R), and "
                "it is R wide, as the latents are. So all heads can meet the same latents, (B, 1, "
                "T, R), as keys and as values. Mind the scale: it belongs to width D, not R."
            ),
            (
                "self.key.weight.unflatten(0, (self.heads, -1)) is (H, D, R); q (B, H, T, D) @ "
                "that gives the new queries. Attend with keys = values = latents[:, None] and "
                "scale = D ** -0.5. What comes back is (B, H, T, R): multiply it by the value "
                "matrix of each head, transposed to (H, R, D), merge, and project."
            ),
        ),
        minutes=25,
        difficulty=4,
        importance=4,
        uses=("split_heads", "merge_heads"),
        forbidden=READY_MADE,
        results=("output", "weights"),
    ),
    Exercise(
        chapter=ID,
        title="The size of the cache",
        goal="Count the bytes of keys and values that a model keeps.",
        reference=multi_head.kv_cache_bytes,
        properties=ch05_latent.BYTES,
        draws=ch05_latent.bytes_draws,
        misconceptions=wrong_bytes.BYTES,
        alternatives=right.BYTES,
        hints=(
            (
                "Count numbers first, bytes at the end. How many numbers does one token need in "
                "one layer?"
            ),
            (
                "One token in one layer: G keys and G values of D numbers each; or, where there is"
                " a latent, only its numbers. Multiply by the tokens that are kept, the layers and"
                " the sentences."
            ),
            (
                "Tokens kept: min(tokens, window), or all where window is None. Multiply all by "
                "bits, divide by 8 once, at the end, and round up: (n + 7) // 8 is an int."
            ),
        ),
        minutes=8,
        difficulty=2,
        importance=4,
        forbidden=READY_MADE,
    ),
)

CHAPTER = Chapter(
    id=ID,
    title="Many heads",
    question="Why many heads, and how few keys and values suffice?",
    exercises=EXERCISES,
)
