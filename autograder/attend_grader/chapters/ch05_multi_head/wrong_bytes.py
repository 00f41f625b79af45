"""Chapter 05, bytes: how kv_cache_bytes goes wrong in practice.

Each docstring is what the learner is told; see :mod:`.wrong_heads`.
"""

import math


def _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window):
    kept = tokens if window is None else min(tokens, window)
    return batch * layers * kept * (2 * kv_heads * head_dim if latent is None else latent)


def bytes_of_keys_only(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count half: keys alone. A value lies beside each key, so there are 2 · D numbers for
    each head.
    """
    kept = tokens if window is None else min(tokens, window)
    per_token = kv_heads * head_dim if latent is None else latent
    return -(-batch * layers * kept * per_token * bits // 8)


def bytes_are_bits(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You return bits. A byte has 8 of them."""
    return _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window) * bits


def bytes_of_one_layer(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count one layer. Every layer keeps keys and values of its own."""
    count = _numbers(tokens, 1, kv_heads, head_dim, batch, latent, window)
    return -(-count * bits // 8)


def bytes_without_batch(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count one sentence, whatever batch says. Sentences share no keys: multiply by batch."""
    count = _numbers(tokens, layers, kv_heads, head_dim, 1, latent, window)
    return -(-count * bits // 8)


def bytes_always_sixteen_bits(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count 2 bytes for every number, whatever bits says."""
    return 2 * _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)


def bytes_latent_twice(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count each latent twice. Keys and values are both made from the same one: it is kept
    once.
    """
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)
    return -(-count * (1 if latent is None else 2) * bits // 8)


def bytes_latent_of_each_head(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count a latent for every head. There is one for all heads: that is what it saves."""
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)
    return -(-count * (1 if latent is None else kv_heads) * bits // 8)


def bytes_latent_added(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You add the latent to the keys and values. It is kept in their place."""
    kept = tokens if window is None else min(tokens, window)
    per_token = 2 * kv_heads * head_dim + (latent or 0)
    return -(-batch * layers * kept * per_token * bits // 8)


def bytes_without_window(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """The window changes nothing. No more than that many tokens are kept."""
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, None)
    return -(-count * bits // 8)


def bytes_full_window(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You count a full window also where there are fewer tokens than that: take the smaller of
    the two.
    """
    kept = tokens if window is None else window
    count = _numbers(kept, layers, kv_heads, head_dim, batch, latent, None)
    return -(-count * bits // 8)


def bytes_as_float(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You return a float. Bytes are whole: round up and return an int; `/` always makes a float."""
    return _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window) * bits / 8


def bytes_rounded_down(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """Your bytes are rounded down: `//` drops the rest, and the last bits have no room. Round up,
    once, at the end.
    """
    return _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window) * bits // 8


def bytes_of_a_number_rounded(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You give every number whole bytes of its own. Numbers of 4 bits lie two in a byte: multiply
    by the bits first, round up once at the end.
    """
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)
    return count * math.ceil(bits / 8)


def bytes_of_a_number_rounded_down(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You divide the bits of one number by 8 first, rounded down: a number of 4 bits then takes no
    byte at all. Multiply by the bits first, and divide once, at the end.
    """
    return _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window) * (bits // 8)


def bytes_larger_of_window(
    tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None
):
    """You take the larger of tokens and window. No more than the window is kept, and no more than
    there are: the smaller of the two.
    """
    kept = tokens if window is None else max(tokens, window)
    count = _numbers(kept, layers, kv_heads, head_dim, batch, latent, None)
    return -(-count * bits // 8)


def bytes_in_kib(tokens, layers, kv_heads, head_dim, *, batch=1, bits=16, latent=None, window=None):
    """You return KiB: bytes divided by 1,024. Return the bytes themselves."""
    count = _numbers(tokens, layers, kv_heads, head_dim, batch, latent, window)
    return count * bits / 8 / 1024


BYTES = {
    "keys counted, values not": bytes_of_keys_only,
    "bits, not bytes": bytes_are_bits,
    "one layer": bytes_of_one_layer,
    "batch not used": bytes_without_batch,
    "bits not used": bytes_always_sixteen_bits,
    "latent counted twice": bytes_latent_twice,
    "a latent for every head": bytes_latent_of_each_head,
    "latent added to keys and values": bytes_latent_added,
    "window not used": bytes_without_window,
    "window always full": bytes_full_window,
    "a float": bytes_as_float,
    "rounded down": bytes_rounded_down,
    "every number rounded up": bytes_of_a_number_rounded,
    "every number rounded down": bytes_of_a_number_rounded_down,
    "the larger of tokens and window": bytes_larger_of_window,
    "KiB, not bytes": bytes_in_kib,
}
