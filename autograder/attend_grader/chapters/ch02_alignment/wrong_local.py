"""Chapter 02: how local attention goes wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import torch


def _distance(scores, centre):
    return torch.arange(scores.shape[-1]) - centre[..., None]


def _inside(scores, distance, window):
    return torch.softmax(scores.masked_fill(distance.abs() > window, -torch.inf), dim=-1)


def _bell(distance, sigma):
    return torch.exp(-(distance**2) / (2 * sigma**2))


def local_renormalised(scores, values, centre, window, gaussian=True):
    """With the bell, your weights sum to 1 again. That also happens where the bell's exponent is
    added to the scores before the softmax. The paper leaves the products as they are.
    """
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
        weights = weights / weights.sum(dim=-1, keepdim=True)
    return weights @ values, weights


def local_softmax_first(scores, values, centre, window, gaussian=True):
    """The softmax runs over all places, and those outside are cut off afterwards: the rest does not
    sum to 1. Hide them before the softmax, with a score of -inf.
    """
    distance = _distance(scores, centre)
    weights = torch.softmax(scores, dim=-1).masked_fill(distance.abs() > window, 0.0)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_zero_scores(scores, values, centre, window, gaussian=True):
    """Places outside get the score 0, and exp(0) is 1: they still take weight. Give them -inf."""
    distance = _distance(scores, centre)
    weights = torch.softmax(scores.masked_fill(distance.abs() > window, 0.0), dim=-1)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_cut_on_the_right(scores, values, centre, window, gaussian=True):
    """Places too far to the right are hidden, those too far to the left are not. The distance has a
    sign; what counts is its size: distance.abs() > window.
    """
    distance = _distance(scores, centre)
    weights = torch.softmax(scores.masked_fill(distance > window, -torch.inf), dim=-1)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_cut_on_the_left(scores, values, centre, window, gaussian=True):
    """Places too far to the left are hidden, those too far to the right are not. The distance has a
    sign; what counts is its size: distance.abs() > window.
    """
    distance = _distance(scores, centre)
    weights = torch.softmax(scores.masked_fill(-distance > window, -torch.inf), dim=-1)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_hides_inside(scores, values, centre, window, gaussian=True):
    """The places inside are hidden, those outside get the weight. masked_fill fills where its
    condition is True: ask for a distance *larger* than the window.
    """
    distance = _distance(scores, centre)
    hidden = scores.masked_fill(distance.abs() <= window, -torch.inf)
    weights = torch.softmax(hidden, dim=-1)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_no_window(scores, values, centre, window, gaussian=True):
    """No place is hidden: the softmax runs over all. Those further than `window` from the centre
    get the score -inf.
    """
    distance = _distance(scores, centre)
    weights = torch.softmax(scores, dim=-1)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_sigma_is_window(scores, values, centre, window, gaussian=True):
    """The bell is too wide: σ is the window. It is half of it, σ = window / 2."""
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * _bell(distance, window)
    return weights @ values, weights


def local_without_half(scores, values, centre, window, gaussian=True):
    """The exponent is -(s - p)² / σ². It is half of that: divide by 2 σ²."""
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * torch.exp(-(distance**2) / (window / 2) ** 2)
    return weights @ values, weights


def local_sigma_not_squared(scores, values, centre, window, gaussian=True):
    """The exponent is divided by 2 σ; σ is not squared, which goes unnoticed where the window is 2
    and σ is 1. Divide by 2 σ².
    """
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * torch.exp(-(distance**2) / window)
    return weights @ values, weights


def local_times_sigma_squared(scores, values, centre, window, gaussian=True):
    """The exponent is divided by 2 and then *multiplied* by σ²: so Python reads d**2 / 2 * σ**2.
    Brackets make it one divisor: d**2 / (2 * σ**2).
    """
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * torch.exp(-(distance**2) / 2 * (window / 2) ** 2)
    return weights @ values, weights


def local_two_sigma_squared(scores, values, centre, window, gaussian=True):
    """The exponent is divided by (2 σ)², which is 4 σ². Only σ is squared: 2 * σ**2."""
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * torch.exp(-(distance**2) / window**2)
    return weights @ values, weights


def local_bell_upside_down(scores, values, centre, window, gaussian=True):
    """The bell grows with the distance: the exponent is positive. (-d)**2 has lost its sign; the
    minus stands outside the square: -(d**2).
    """
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights / _bell(distance, window / 2)
    return weights @ values, weights


def local_sigma_whole(scores, values, centre, window, gaussian=True):
    """σ is rounded down to a whole number, as by window // 2, which goes unnoticed where the window
    is even. For a window of 1 it becomes 0. Divide by `/`: σ = window / 2.
    """
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * _bell(distance, window // 2)
    return weights @ values, weights


def local_edges_outside(scores, values, centre, window, gaussian=True):
    """A place exactly `window` away is left out. It is still inside: hide where the distance is
    *larger* than the window.
    """
    distance = _distance(scores, centre)
    hidden = scores.masked_fill(distance.abs() >= window, -torch.inf)
    weights = torch.softmax(hidden, dim=-1)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_rounded(scores, values, centre, window, gaussian=True):
    """The centre is rounded to a whole place. It may lie between two: keep the real number."""
    distance = _distance(scores, centre.round())
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_always_bell(scores, values, centre, window, gaussian=True):
    """The bell is there even where gaussian is False. Look at the argument: if gaussian."""
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window) * _bell(distance, window / 2)
    return weights @ values, weights


def local_never_bell(scores, values, centre, window, gaussian=True):
    """The bell is missing: where gaussian is True (the default), multiply each weight by
    exp(-(s - p)² / (2 σ²)).
    """
    weights = _inside(scores, _distance(scores, centre), window)
    return weights @ values, weights


def local_counted_from_one(scores, values, centre, window, gaussian=True):
    """The places are counted from 1, so that the window lies one too far to the left. Count from 0:
    torch.arange(S).
    """
    distance = _distance(scores, centre) + 1
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_bell_on_hidden_only(scores, values, centre, window, gaussian=True):
    """The weights you return have the bell, but the contexts were made without it (or before it).
    Multiply first, then take the mean with the same weights.
    """
    distance = _distance(scores, centre)
    plain = _inside(scores, distance, window)
    weights = plain * _bell(distance, window / 2) if gaussian else plain
    return plain @ values, weights


def local_one_centre(scores, values, centre, window, gaussian=True):
    """All queries share the first one's centre. Each has its own: centre[..., None] gives every
    query a row of distances.
    """
    distance = _distance(scores, centre[..., :1].expand_as(centre))
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


def local_detached_result(scores, values, centre, window, gaussian=True):
    """The contexts are right, with their gradients; the weights you *return* are detached. A loss
    may use them too: return them as they are.
    """
    distance = _distance(scores, centre)
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights.detach()


def local_detached_centre(scores, values, centre, window, gaussian=True):
    """The values are right, but no gradient reaches the centre, which then never learns where to
    be. Something detaches it: .detach(), .item(), .tolist() or torch.tensor(...).
    """
    distance = _distance(scores, centre.detach())
    weights = _inside(scores, distance, window)
    if gaussian:
        weights = weights * _bell(distance, window / 2)
    return weights @ values, weights


LOCAL = {
    "made to sum to 1 after the bell": local_renormalised,
    "softmax over all places, then cut": local_softmax_first,
    "score 0 instead of -inf outside": local_zero_scores,
    "window cut on the right only": local_cut_on_the_right,
    "window cut on the left only": local_cut_on_the_left,
    "hid the window instead of the rest": local_hides_inside,
    "no window": local_no_window,
    "σ = window": local_sigma_is_window,
    "the 2 of 2 σ² forgotten": local_without_half,
    "2 σ instead of 2 σ²": local_sigma_not_squared,
    "multiplied by σ² instead of divided": local_times_sigma_squared,
    "(2 σ)² instead of 2 σ²": local_two_sigma_squared,
    "bell upside down": local_bell_upside_down,
    "σ rounded down": local_sigma_whole,
    "edges of the window left out": local_edges_outside,
    "centre rounded": local_rounded,
    "bell although gaussian=False": local_always_bell,
    "no bell": local_never_bell,
    "places counted from 1": local_counted_from_one,
    "contexts without the bell": local_bell_on_hidden_only,
    "one centre for all queries": local_one_centre,
    "centre detached": local_detached_centre,
    "detached the weights it returns": local_detached_result,
}
