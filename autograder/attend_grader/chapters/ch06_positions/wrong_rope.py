"""Chapter 06, rotations: how RoPE goes wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import torch


def _waves(positions, frequencies, x):
    angles = positions[..., None].double() * frequencies.double()
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def rope_neighbours(x, positions, frequencies):
    """You pair neighbours, (x_0, x_1), (x_2, x_3), …, as RoFormer and GPT-J do. Here pair i is
    (x_i, x_{i + D/2}): cut the last axis in two halves. The two are the same up to the order of the
    numbers, but queries, keys and trained weights must agree on one.
    """
    cos, sin = _waves(positions, frequencies, x)
    first, second = x[..., ::2], x[..., 1::2]
    turned = (first * cos - second * sin, second * cos + first * sin)
    return torch.stack(turned, dim=-1).flatten(-2)


def rope_clockwise(x, positions, frequencies):
    """You turn clockwise, by −pθ. Scores come out the same, but it is not the agreed rotation:
    first · cos − second · sin, and second · cos + first · sin.
    """
    cos, sin = _waves(positions, frequencies, x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos + second * sin, second * cos - first * sin), dim=-1)


def rope_without_minus(x, positions, frequencies):
    """There is no minus sign in your answer. A rotation takes (1, 0) to (cos, sin) and (0, 1) to
    (−sin, cos): without the minus, lengths change.
    """
    cos, sin = _waves(positions, frequencies, x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos + second * sin, second * cos + first * sin), dim=-1)


def rope_sine_for_cosine(x, positions, frequencies):
    """Sine and cosine have changed places: at position 0, where nothing turns, your answer is not
    x. The cosine multiplies a number itself, the sine its partner.
    """
    cos, sin = _waves(positions, frequencies, x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * sin - second * cos, second * sin + first * cos), dim=-1)


def rope_overwritten(x, positions, frequencies):
    """Your second halves are made from first halves that were already turned. Both lines of the
    rotation need the old numbers: give the new ones other names.
    """
    cos, sin = _waves(positions, frequencies, x)
    first, second = x.chunk(2, dim=-1)
    first = first * cos - second * sin
    second = second * cos + first * sin
    return torch.cat((first, second), dim=-1)


def rope_mixed_pairing(x, positions, frequencies):
    """Two conventions are mixed: the numbers are paired as (x_i, x_{i + D/2}), but the angles are
    laid out for neighbours (θ_0, θ_0, θ_1, θ_1, …). Repeat them as a whole, (θ_0, θ_1, …, θ_0, θ_1,
    …), or work on the two halves.
    """
    cos, sin = (w.repeat_interleave(2, dim=-1) for w in _waves(positions, frequencies, x))
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


def rope_counts(x, positions, frequencies):
    """The tokens are turned as if they stood at 0, 1, 2, … Use the numbers in `positions`."""
    cos, sin = _waves(torch.arange(x.shape[-2]), frequencies, x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rope_in_float32(x, positions, frequencies):
    """Near 0 all is right, but far out digits are lost: the angles were rounded to float32. Make
    them in float64 (`.double()`), take sine and cosine, and only then convert to x.dtype.
    """
    angles = positions[..., None].float() * frequencies.float()
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rope_product_in_float32(x, positions, frequencies):
    """Near 0 all is right, but far out digits are lost: position times frequency is right, and
    then the angles themselves are converted to float32. Take sine and cosine first, then convert.
    """
    angles = (positions[..., None].double() * frequencies.double()).float()
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rope_stacked(x, positions, frequencies):
    """The two halves lie on an axis of their own: you stack them. They belong one after the other
    on the last axis: torch.cat((…, …), dim=-1).
    """
    cos, sin = _waves(positions, frequencies, x)
    first, second = x.chunk(2, dim=-1)
    return torch.stack((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rope_in_turns(x, positions, frequencies):
    """The numbers are right, but those of the two halves take turns, as if pairs were neighbours
    (torch.stack and .flatten do this). Put the first half before the second: torch.cat.
    """
    return rope_stacked(x, positions, frequencies).flatten(-2)


def rope_in_dtype_of_x(x, positions, frequencies):
    """The angles were rounded to the dtype of x: in bfloat16 that is wrong by radians from position
    a few hundred on, in float32 by a thousandth at 100,000. Convert sines and cosines, not angles.
    """
    angles = positions[..., None].to(x.dtype) * frequencies.to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rope_stays_float64(x, positions, frequencies):
    """All numbers are right, but they come in float64 whatever x is: sines and cosines in float64
    pull everything along. Convert them with .to(x.dtype).
    """
    angles = positions[..., None].double() * frequencies.double()
    cos, sin = angles.cos(), angles.sin()
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rope_one_frequency(x, positions, frequencies):
    """All pairs turn by the angle of the first. Pair i has its own: positions as a column, times
    all frequencies.
    """
    cos, sin = _waves(positions, frequencies[:1], x)
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


def rope_in_place(x, positions, frequencies):
    """What you write into x itself (by `x[...] =` or `*=`) changes the caller's queries. A chunk or
    a slice is a view: make new tensors.
    """
    cos, sin = _waves(positions, frequencies, x)
    first, second = (half.clone() for half in x.chunk(2, dim=-1))
    x[..., : x.shape[-1] // 2] = first * cos - second * sin
    x[..., x.shape[-1] // 2 :] = second * cos + first * sin
    return x


def rope_detached(x, positions, frequencies):
    """The numbers are right, but no gradient reaches x (.data, .detach(), .numpy() or no_grad), so
    nothing before it would learn. Stay with tensor operations on x itself.
    """
    cos, sin = _waves(positions, frequencies, x)
    first, second = x.detach().chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


ROPE = {
    "neighbours as pairs": rope_neighbours,
    "turned clockwise": rope_clockwise,
    "no minus sign": rope_without_minus,
    "sine and cosine exchanged": rope_sine_for_cosine,
    "used numbers already turned": rope_overwritten,
    "two conventions mixed": rope_mixed_pairing,
    "counted instead of reading positions": rope_counts,
    "angles in float32": rope_in_float32,
    "angles converted before the sine": rope_product_in_float32,
    "stacked instead of joined": rope_stacked,
    "halves laid out in turns": rope_in_turns,
    "angles in the dtype of x": rope_in_dtype_of_x,
    "left in float64": rope_stays_float64,
    "one frequency for all pairs": rope_one_frequency,
    "changed x in place": rope_in_place,
    "x cut from the graph": rope_detached,
}
