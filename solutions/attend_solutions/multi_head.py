"""Many heads, and fewer keys and values: multi-head, grouped-query and latent attention in torch.

One head spreads one unit of weight over the keys. H heads ask H questions at once, each with its
own D of the C numbers:

    q_h = x W_q[h],  k_h = x W_k[h],  v_h = x W_v[h]        for each head h
    o_h = softmax(q_h k_hᵀ / √D) v_h
    output = [o_1 … o_H] W_o

Letters:
    B  sentences in a batch     H  heads (of queries)
    T  queries                  G  heads of keys and values, H = G · repeats
    S  keys, and values         D  width of a head, C = H · D
    C  width of a token         R  width of a latent (MLA; d_c in the paper)

``nn.Linear`` keeps its matrix with outputs first: its weight is W transposed, and ``layer(x)`` is
x Wᵀ_stored. A mask is a table of permissions, True where a query may look at a key.

Source: Vaswani et al. 2017, "Attention Is All You Need", §3.2.2 (many heads); Shazeer 2019, "Fast
Transformer Decoding: One Write-Head is All You Need", §3 (one head of keys); Ainslie et al. 2023,
"GQA", §2.2 (groups); DeepSeek-AI 2024, "DeepSeek-V2", §2.1.2 (latents).
"""

import torch
from torch import Tensor, nn


def masked_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, scale: float | None = None
) -> tuple[Tensor, Tensor]:
    """Scaled dot-product attention under a mask, as in chapters 03 and 04, written in torch.

    Leading axes that differ broadcast: one of length 1 serves all. A query that may look at nothing
    gets weights of 0.

    Shapes:
        q: (..., T, D)
        k: (..., S, D)
        v: (..., S, D_v)
        mask: boolean, broadcasts with (..., T, S); True: may look; None: everyone may
        scale: what dot products are multiplied by; None: 1/√D
        returns: output (..., T, D_v) and weights (..., T, S)
    """
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is None:
        weights = scores.softmax(dim=-1)
    else:
        hidden = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
        weights = hidden.softmax(dim=-1).masked_fill(~mask, 0.0)
    return weights @ v, weights


def split_heads(x: Tensor, heads: int) -> Tensor:
    """Cut the last axis into heads of equal width, and bring the heads before the tokens.

    Head 0 gets the first D = C / heads numbers of every token, head 1 the next D, and so on.

    Shapes:
        x: (B, T, C); heads divides C
        returns: (B, heads, T, D)

    The input may be a view (not contiguous), of floats or integers. It is not modified.

    Source: Vaswani et al. 2017, §3.2.2.

    >>> x = torch.tensor([[[1, 2, 3, 4, 5, 6], [10, 20, 30, 40, 50, 60]]])  # B = 1, T = 2, C = 6
    >>> split_heads(x, 2)[0, 0]  # head 0
    tensor([[ 1,  2,  3],
            [10, 20, 30]])
    >>> split_heads(x, 2)[0, 1]  # head 1
    tensor([[ 4,  5,  6],
            [40, 50, 60]])
    """
    batch, tokens, width = x.shape
    return x.reshape(batch, tokens, heads, width // heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """Lay the heads of every token side by side again: the inverse of split_heads.

    Shapes:
        x: (B, H, T, D)
        returns: (B, T, H·D); the first D numbers of a token come from head 0

    The input may be a view (not contiguous), of floats or integers. It is not modified.

    Source: Vaswani et al. 2017, §3.2.2, "Concat".

    >>> x = torch.tensor([[[[1, 2], [3, 4], [5, 6]], [[10, 20], [30, 40], [50, 60]]]])
    >>> merge_heads(x)  # H = 2, T = 3, D = 2
    tensor([[[ 1,  2, 10, 20],
             [ 3,  4, 30, 40],
             [ 5,  6, 50, 60]]])
    """
    batch, heads, tokens, width = x.shape
    return x.transpose(1, 2).reshape(batch, tokens, heads * width)


class MultiHeadAttention(nn.Module):
    """Self-attention with several heads, each looking with its own part of the width.

    Args:
        width: C, of a token.
        heads: H; divides the width.

    Shapes of a call:
        x: (B, T, C)
        mask: boolean, broadcasts with (B, H, T, T): (T, T) serves all sentences and heads, and
            (B, 1, T, T) has a table for each sentence; every query may look at one key at
            least; None: everyone may look at everyone
        returns: output (B, T, C) and weights (B, H, T, T)

    Source: Vaswani et al. 2017, §3.2.2.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Let every token look at the others, once in each head."""
        ### BEGIN SOLUTION
        q = split_heads(self.query(x), self.heads)  # (B, H, T, D)
        k = split_heads(self.key(x), self.heads)
        v = split_heads(self.value(x), self.heads)
        found, weights = masked_attention(q, k, v, mask)
        return self.output(merge_heads(found)), weights
        ### END SOLUTION


def repaired_attention(
    q: Tensor, k: Tensor, v: Tensor, heads: int, mask: Tensor | None = None
) -> Tensor:
    """Attend in several heads to queries, keys and values that are projected already.

    Shapes:
        q: (B, T, C), all heads side by side; heads divides C
        k, v: (B, S, C)
        mask: boolean, broadcasts with (B, heads, T, S); every query may look at one key at least;
            None: everyone may look at everyone
        returns: (B, T, C), what the heads found, side by side

    Source: Vaswani et al. 2017, §3.2.2.

    >>> x = torch.tensor([[[2.0, 0.0], [4.0, 6.0]]])  # two tokens, two heads of one number
    >>> repaired_attention(0 * x, x, x, heads=2)  # equal weights: means of each head's numbers
    tensor([[[3., 3.],
             [3., 3.]]])
    """
    ### BEGIN SOLUTION
    q, k, v = (split_heads(part, heads) for part in (q, k, v))
    found, _ = masked_attention(q, k, v, mask)
    return merge_heads(found)
    ### END SOLUTION


def repeat_kv(x: Tensor, repeats: int) -> Tensor:
    """Give every head of keys or values to ``repeats`` heads of queries next to each other.

    Shapes:
        x: (B, G, S, D)
        returns: (B, G·repeats, S, D); heads 0 … repeats-1 are copies of head 0, the next ones of
            head 1, and so on

    The input may be a view (not contiguous), of floats or integers. It is not modified.

    Source: Ainslie et al. 2023, "GQA: Training Generalized Multi-Query Transformer Models from
    Multi-Head Checkpoints", §2.2.

    >>> x = torch.tensor([[[[1.0, 2.0]], [[3.0, 4.0]]]])  # G = 2, S = 1, D = 2
    >>> repeat_kv(x, 2)[0, :, 0]
    tensor([[1., 2.],
            [1., 2.],
            [3., 4.],
            [3., 4.]])
    """
    batch, groups, tokens, width = x.shape
    copies = x[:, :, None].expand(batch, groups, repeats, tokens, width)
    return copies.reshape(batch, groups * repeats, tokens, width)


class GroupedQueryAttention(nn.Module):
    """Self-attention whose query heads share fewer heads of keys and values.

    ``kv_heads = heads`` is multi-head attention, ``kv_heads = 1`` multi-query attention. Query
    heads next to each other share: with 4 heads and 2 kv_heads, heads 0 and 1 use the first.

    Args:
        width: C, of a token.
        heads: H, of queries; divides the width.
        kv_heads: G, of keys and values; divides the heads.

    Shapes of a call:
        x: (B, T, C)
        mask: boolean, broadcasts with (B, H, T, T); every query may look at one key at least;
            None: everyone may look at everyone
        returns: output (B, T, C) and weights (B, H, T, T)

    Source: Ainslie et al. 2023, §2.2; Shazeer 2019, §3, for one head of keys and values.
    """

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads = heads, kv_heads
        shared = width // heads * kv_heads  # G·D
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared, bias=False)
        self.value = nn.Linear(width, shared, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Let every token look at the others, several heads by the same keys and values."""
        ### BEGIN SOLUTION
        repeats = self.heads // self.kv_heads
        q = split_heads(self.query(x), self.heads)  # (B, H, T, D)
        k = split_heads(self.key(x), self.kv_heads)  # (B, G, T, D)
        v = split_heads(self.value(x), self.kv_heads)
        found, weights = masked_attention(q, repeat_kv(k, repeats), repeat_kv(v, repeats), mask)
        return self.output(merge_heads(found)), weights
        ### END SOLUTION


class LatentAttention(nn.Module):
    """Self-attention that remembers one short latent a token and makes keys and values from it.

    ``forward`` makes every head's keys and values, k = c W_uk and v = c W_uv, from the latents
    c = x W_dkv. ``forward_absorbed`` gives the same answers without ever making them: it carries
    W_uk over to the queries and applies W_uv after the look-up.

    Args:
        width: C, of a token.
        heads: H; divides the width.
        rank: R, numbers in one latent.

    Shapes of a call, of ``forward`` and of ``forward_absorbed``:
        x: (B, T, C)
        mask: boolean, broadcasts with (B, H, T, T); every query may look at one key at least;
            None: everyone may look at everyone
        returns: output (B, T, C) and weights (B, H, T, T)

    Left out of the paper's MLA: latents for queries, and the part of the key that carries RoPE.

    Source: DeepSeek-AI 2024, "DeepSeek-V2", §2.1.2, equations (9) to (11), and the remark on
    absorbing below them.
    """

    def __init__(self, width: int, heads: int, rank: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.compress = nn.Linear(width, rank, bias=False)  # W_dkv
        self.key = nn.Linear(rank, width, bias=False)  # W_uk
        self.value = nn.Linear(rank, width, bias=False)  # W_uv
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Make keys and values from the latents, then attend as many heads do."""
        ### BEGIN SOLUTION
        latents = self.compress(x)  # (B, T, R)
        q = split_heads(self.query(x), self.heads)  # (B, H, T, D)
        k = split_heads(self.key(latents), self.heads)
        v = split_heads(self.value(latents), self.heads)
        found, weights = masked_attention(q, k, v, mask)
        return self.output(merge_heads(found)), weights
        ### END SOLUTION

    def forward_absorbed(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Attend to the latents themselves: the same output and weights, no keys, no values."""
        ### BEGIN SOLUTION
        latents = self.compress(x)[:, None]  # (B, 1, T, R): one for all heads
        q = split_heads(self.query(x), self.heads)  # (B, H, T, D)
        up_key = self.key.weight.unflatten(0, (self.heads, -1))  # (H, D, R)
        up_value = self.value.weight.unflatten(0, (self.heads, -1))
        asked = q @ up_key  # (B, H, T, R)
        found, weights = masked_attention(asked, latents, latents, mask, q.shape[-1] ** -0.5)
        values = found @ up_value.transpose(-1, -2)  # (B, H, T, D)
        return self.output(merge_heads(values)), weights
        ### END SOLUTION


def kv_cache_bytes(
    tokens: int,
    layers: int,
    kv_heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
    latent: int | None = None,
    window: int | None = None,
) -> int:
    """Count the bytes a model keeps so as not to compute keys and values again.

    Each layer keeps, for every token of every sentence, one key and one value for each of its key
    and value heads.

    Args:
        tokens: S, in one sentence.
        layers: L.
        kv_heads: G, in one layer.
        head_dim: D, numbers in one key, and in one value.
        batch: B, sentences at once, all of the same length.
        bits: of one number: 16, 8, 4 …
        latent: numbers of a latent, which is kept in the place of all keys and values of a token
            in a layer (MLA); then kv_heads and head_dim do not count. None: there is none.
        window: only this many of the last tokens are looked at, so no more are kept. None: all.

    Returns:
        Whole bytes, rounded up at the end.

    Source: Shazeer 2019, §3; for latents DeepSeek-AI 2024, table 1.

    >>> kv_cache_bytes(tokens=10, layers=2, kv_heads=3, head_dim=4)  # 2 · 10 · 2 · 3 · 4 numbers
    960
    >>> kv_cache_bytes(10, 2, 3, 4, latent=7, bits=8)  # 10 · 2 · 7 numbers
    140
    >>> kv_cache_bytes(10, 2, 3, 4, window=5)
    480
    """
    kept = tokens if window is None else min(tokens, window)
    per_token = 2 * kv_heads * head_dim if latent is None else latent
    return -(-batch * layers * kept * per_token * bits // 8)  # rounds up


def heads_for_cache(
    budget: int,
    tokens: int,
    layers: int,
    heads: int,
    head_dim: int,
    *,
    batch: int = 1,
    bits: int = 16,
) -> int:
    """Choose the most heads of keys and values whose cache fits into a budget.

    Args:
        budget: bytes that are free for the cache.
        tokens: S, in one sentence; at least 1.
        layers: L.
        heads: H, of queries; the answer divides it.
        head_dim: D, numbers in one key, and in one value.
        batch: B, sentences at once.
        bits: of one number.

    Returns:
        the largest G that divides heads and fits; a cache of exactly the budget fits.

    Raises:
        ValueError: one head of keys and values does not fit.

    Source: Shazeer 2019, §3; Ainslie et al. 2023, §2.2.

    >>> heads_for_cache(budget=500, tokens=10, layers=1, heads=12, head_dim=2)  # 80 bytes a head
    6
    >>> heads_for_cache(budget=470, tokens=10, layers=1, heads=12, head_dim=2)
    4
    """
    ### BEGIN SOLUTION
    for kv_heads in range(heads, 0, -1):
        size = kv_cache_bytes(tokens, layers, kv_heads, head_dim, batch=batch, bits=bits)
        if heads % kv_heads == 0 and size <= budget:
            return kv_heads
    raise ValueError(f"one head of keys and values needs more than {budget} bytes")
    ### END SOLUTION
