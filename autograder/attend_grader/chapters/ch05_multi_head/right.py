"""Chapter 05: other right ways to write each answer. All must get full marks."""

import math

import torch
from attend_solutions.multi_head import (
    GroupedQueryAttention,
    LatentAttention,
    MultiHeadAttention,
    masked_attention,
    merge_heads,
    repeat_kv,
    split_heads,
)

# split_heads


def split_by_stack(x, heads):
    """Chunks of the width, stacked along a new axis."""
    return torch.stack(x.chunk(heads, dim=-1), dim=1)


def split_by_slices(x, heads):
    """One head at a time, by slices."""
    width = x.shape[-1] // heads
    parts = [x[:, :, head * width : (head + 1) * width] for head in range(heads)]
    return torch.cat([part.unsqueeze(1) for part in parts], dim=1)


def split_unflatten(x, heads):
    """unflatten, then one permute; contiguous at the end."""
    return x.unflatten(2, (heads, -1)).permute(0, 2, 1, 3).contiguous()


SPLIT = {
    "chunks stacked": split_by_stack,
    "slices of the width": split_by_slices,
    "unflatten and permute": split_unflatten,
}

# merge_heads


def merge_by_cat(x):
    """The heads one by one, joined along the width."""
    return torch.cat(x.unbind(dim=1), dim=-1)


def merge_permuted(x):
    """permute, contiguous, view: as most libraries write it."""
    batch, heads, tokens, width = x.shape
    return x.permute(0, 2, 1, 3).contiguous().view(batch, tokens, heads * width)


def merge_flatten(x):
    """transpose and flatten."""
    return x.transpose(-2, -3).flatten(start_dim=-2)


MERGE = {
    "heads joined by cat": merge_by_cat,
    "permute, contiguous, view": merge_permuted,
    "transpose and flatten": merge_flatten,
}

# MultiHeadAttention


class HeadByHead(MultiHeadAttention):
    """A loop over the heads, with slices of the weights and additive masks."""

    def forward(self, x, mask=None):
        """One head at a time."""
        width = x.shape[-1] // self.heads
        results, tables = [], []
        for head in range(self.heads):
            rows = slice(head * width, (head + 1) * width)
            q, k, v = (x @ layer.weight[rows].T for layer in (self.query, self.key, self.value))
            scores = q @ k.transpose(1, 2) / math.sqrt(width)
            if mask is not None:
                allowed = (
                    mask if mask.ndim == 2 else mask.expand(len(x), self.heads, -1, -1)[:, head]
                )
                scores = scores.masked_fill(~allowed, -torch.inf)
            tables.append(scores.softmax(dim=-1))
            results.append(tables[-1] @ v)
        return self.output(torch.cat(results, dim=-1)), torch.stack(tables, dim=1)


class ByEinsum(MultiHeadAttention):
    """einsum throughout, queries scaled first."""

    def forward(self, x, mask=None):
        """All heads at once."""
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)) for layer in (self.query, self.key, self.value)
        )
        scores = torch.einsum("bthd,bshd->bhts", q * q.shape[-1] ** -0.5, k)
        if mask is not None:
            scores = torch.where(mask, scores, -1e30)
        weights = torch.softmax(scores, -1)
        return self.output(torch.einsum("bhts,bshd->bthd", weights, v).flatten(2)), weights


class OutputByHead(MultiHeadAttention):
    """The output projection as a sum over heads: each adds its own part."""

    def forward(self, x, mask=None):
        """Never merges."""
        q, k, v = (
            split_heads(layer(x), self.heads) for layer in (self.query, self.key, self.value)
        )
        found, weights = masked_attention(q, k, v, mask)
        parts = self.output.weight.unflatten(1, (self.heads, -1))  # (C, H, D)
        return torch.einsum("bhtd,chd->btc", found, parts), weights


HEADS = {
    "head by head": HeadByHead,
    "einsum": ByEinsum,
    "output projected head by head": OutputByHead,
}

# repeat_kv


def repeat_interleaved(x, repeats):
    """torch's own."""
    return torch.repeat_interleave(x, repeats, dim=1)


def repeat_by_index(x, repeats):
    """Each query head looks its key head up."""
    return x[:, torch.arange(x.shape[1] * repeats) // repeats]


def repeat_by_stack(x, repeats):
    """A stack of copies behind the heads, flattened."""
    return torch.stack([x] * repeats, dim=2).flatten(1, 2)


REPEAT = {
    "repeat_interleave": repeat_interleaved,
    "by index": repeat_by_index,
    "stacked and flattened": repeat_by_stack,
}

# GroupedQueryAttention


class WithoutCopies(GroupedQueryAttention):
    """Queries in groups (B, G, repeats, T, D) against keys (B, G, 1, S, D): nothing is copied."""

    def forward(self, x, mask=None):
        """Broadcasts over the group."""
        q = split_heads(self.query(x), self.heads).unflatten(1, (self.kv_heads, -1))
        k, v = (split_heads(p(x), self.kv_heads)[:, :, None] for p in (self.key, self.value))
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        scores = scores.flatten(1, 2)  # (B, H, T, T)
        if mask is not None:
            scores = scores.masked_fill(mask.logical_not(), -torch.inf)
        weights = scores.softmax(dim=-1)
        found = weights.unflatten(1, (self.kv_heads, -1)) @ v
        return self.output(merge_heads(found.flatten(1, 2))), weights


class RepeatedAfter(GroupedQueryAttention):
    """Repeats the matrices instead of keys and values: multi-head attention with equal rows."""

    def forward(self, x, mask=None):
        """As many heads as there are queries."""
        q = split_heads(self.query(x), self.heads)
        repeats = self.heads // self.kv_heads

        def spread(layer):
            rows = layer.weight.unflatten(0, (self.kv_heads, -1)).repeat_interleave(repeats, 0)
            return split_heads(x @ rows.flatten(0, 1).T, self.heads)

        found, weights = masked_attention(q, spread(self.key), spread(self.value), mask)
        return self.output(merge_heads(found)), weights


class GroupByGroup(GroupedQueryAttention):
    """A loop over the groups; within one, keys and values broadcast."""

    def forward(self, x, mask=None):
        """One group at a time."""
        groups = split_heads(self.query(x), self.heads).chunk(self.kv_heads, dim=1)
        keys = split_heads(self.key(x), self.kv_heads).split(1, dim=1)
        values = split_heads(self.value(x), self.kv_heads).split(1, dim=1)
        results = [
            masked_attention(q, k, v, mask) for q, k, v in zip(groups, keys, values, strict=True)
        ]
        found, weights = (torch.cat(part, dim=1) for part in zip(*results, strict=True))
        return self.output(merge_heads(found)), weights


GROUPED = {
    "nothing copied": WithoutCopies,
    "matrices repeated": RepeatedAfter,
    "group by group": GroupByGroup,
}

# LatentAttention


class LatentByEinsum(LatentAttention):
    """einsum in both forms."""

    def forward(self, x, mask=None):
        """Keys and values of every token."""
        c = self.compress(x)
        q, k, v = (
            y.unflatten(-1, (self.heads, -1)) for y in (self.query(x), self.key(c), self.value(c))
        )
        scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        return self.output(torch.einsum("bhts,bshd->bthd", weights, v).flatten(2)), weights

    def forward_absorbed(self, x, mask=None):
        """Two products in turn, never the keys."""
        c = self.compress(x)
        q = self.query(x).unflatten(-1, (self.heads, -1))
        up_key, up_value = (p.weight.unflatten(0, (self.heads, -1)) for p in (self.key, self.value))
        asked = torch.einsum("bthd,hdr->bthr", q, up_key) / math.sqrt(q.shape[-1])
        scores = torch.einsum("bthr,bsr->bhts", asked, c)
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        weights = scores.softmax(dim=-1)
        found = torch.einsum("bhts,bsr->bthr", weights, c)
        return self.output(torch.einsum("bthr,hdr->bthd", found, up_value).flatten(2)), weights


class LatentHeadByHead(LatentAttention):
    """A loop over the heads in both forms; W_uv folded into the output matrix."""

    def forward(self, x, mask=None):
        """One head at a time."""
        c, q = self.compress(x), split_heads(self.query(x), self.heads)
        k, v = (layer(c).chunk(self.heads, dim=-1) for layer in (self.key, self.value))
        rules = [None if mask is None else self._rule(mask, h) for h in range(self.heads)]
        pairs = [masked_attention(q[:, h], k[h], v[h], rule) for h, rule in enumerate(rules)]
        found = torch.cat([one for one, _ in pairs], dim=-1)
        return self.output(found), torch.stack([weights for _, weights in pairs], dim=1)

    def forward_absorbed(self, x, mask=None):
        """Each head's W_uv and W_o become one matrix."""
        c, q = self.compress(x), split_heads(self.query(x), self.heads)
        width = q.shape[-1]
        output, tables = torch.zeros_like(x), []
        for h in range(self.heads):
            rows = slice(h * width, (h + 1) * width)
            rule = None if mask is None else self._rule(mask, h)
            asked = q[:, h] @ self.key.weight[rows]
            found, weights = masked_attention(asked, c, c, rule, scale=width**-0.5)
            output = output + found @ (self.output.weight[:, rows] @ self.value.weight[rows]).T
            tables.append(weights)
        return output, torch.stack(tables, dim=1)

    def _rule(self, mask, head):
        return mask if mask.ndim == 2 else mask[:, min(head, mask.shape[1] - 1)]


class LatentShared(LatentAttention):
    """Both forms through one helper; the latents repeated for every head."""

    def forward(self, x, mask=None):
        """Keys and values of every token."""
        k, v = (split_heads(p(self.compress(x)), self.heads) for p in (self.key, self.value))
        return self._look(split_heads(self.query(x), self.heads), k, v, mask, None)

    def forward_absorbed(self, x, mask=None):
        """The latents themselves are keys and values."""
        q = split_heads(self.query(x), self.heads)
        c = repeat_kv(self.compress(x).unsqueeze(1), self.heads)
        width, rank = q.shape[-1], c.shape[-1]
        asked = (q / math.sqrt(width)) @ self.key.weight.reshape(self.heads, width, rank)
        return self._look(asked, c, c, mask, self.value.weight.reshape(self.heads, width, rank))

    def _look(self, q, k, v, mask, up):
        scale = None if up is None else 1.0
        found, weights = masked_attention(q, k, v, mask, scale)
        return self.output(merge_heads(found if up is None else found @ up.mT)), weights


LATENT = {
    "einsum": LatentByEinsum,
    "head by head, W_uv folded into W_o": LatentHeadByHead,
    "one helper for both": LatentShared,
}

# kv_cache_bytes


def bytes_by_ceil(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """A float in the middle, math.ceil at the end."""
    if window is not None and tokens > window:
        tokens = window
    each = latent if latent is not None else kv_heads * head_dim * 2
    return math.ceil(each * bits / 8 * tokens * layers * batch)


def bytes_by_loops(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """Adds up layer by layer."""
    total_bits = 0
    for _ in range(layers):
        numbers = kv_heads * (head_dim + head_dim)
        if latent is not None:
            numbers = latent
        total_bits += batch * min(tokens, window or tokens) * numbers * bits
    return (total_bits + 7) // 8


def bytes_divmod(tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None):
    """divmod, and one more byte for a rest."""
    kept = tokens if window is None else sorted((tokens, window))[0]
    per_token = {True: 2 * kv_heads * head_dim, False: latent}[latent is None]
    whole, rest = divmod(batch * layers * kept * per_token * bits, 8)
    return whole + (rest > 0)


BYTES = {
    "math.ceil": bytes_by_ceil,
    "layer by layer": bytes_by_loops,
    "divmod": bytes_divmod,
}
