"""Chapter 02: how hard and local attention go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import torch

# hard_attention_sample


def _draw(weights, uniforms):
    """The right places."""
    ends = weights.cumsum(dim=-1)
    return (ends <= uniforms[..., None]).sum(dim=-1).clamp(max=weights.shape[-1] - 1)


def _one_hot(places, weights):
    return torch.nn.functional.one_hot(places, weights.shape[-1]).to(weights.dtype)


def _reward(rewards, places):
    return rewards.gather(-1, places[..., None])


def hard_argmax(weights, uniforms, rewards, baseline=0.0):
    """It is always the place with the largest weight that is taken. Draw: the place in whose piece
    of the unit interval `uniforms` lies.
    """
    places = weights.argmax(dim=-1)
    return places, (_reward(rewards, places) - baseline) * (_one_hot(places, weights) - weights)


def hard_next_place(weights, uniforms, rewards, baseline=0.0):
    """The place drawn is one too far (the last stays the last). Count the pieces that *end* at u or
    before: that count is the index, from 0.
    """
    places = (_draw(weights, uniforms) + 1).clamp(max=weights.shape[-1] - 1)
    return places, (_reward(rewards, places) - baseline) * (_one_hot(places, weights) - weights)


def hard_right_edge(weights, uniforms, rewards, baseline=0.0):
    """A number u on the edge between two pieces goes to the left one. A piece begins at its left
    edge, u included: the place is the number of ends that are *at most* u (in searchsorted,
    right=True).
    """
    ends = weights.cumsum(dim=-1)
    places = (ends < uniforms[..., None]).sum(dim=-1).clamp(max=weights.shape[-1] - 1)
    return places, (_reward(rewards, places) - baseline) * (_one_hot(places, weights) - weights)


def hard_no_rest(weights, uniforms, rewards, baseline=0.0):
    """Rounding may let the weights sum to a little less than 1, and u lie above: then the place
    drawn does not exist. Let the last place own that rest: clamp(max=S - 1).
    """
    places = (weights.cumsum(dim=-1) <= uniforms[..., None]).sum(dim=-1)
    return places, (_reward(rewards, places) - baseline) * (_one_hot(places, weights) - weights)


def hard_first_larger_weight(weights, uniforms, rewards, baseline=0.0):
    """u is compared with the weights themselves. Compare it with where the pieces end: the
    cumulative sums, weights.cumsum(dim=-1).
    """
    places = (weights <= uniforms[..., None]).sum(dim=-1).clamp(max=weights.shape[-1] - 1)
    return places, (_reward(rewards, places) - baseline) * (_one_hot(places, weights) - weights)


def hard_by_weights(weights, uniforms, rewards, baseline=0.0):
    """The derivative of log a is taken with respect to the *weights*: 1 / a at the drawn place, 0
    elsewhere. The scores are what moves; through the softmax it is 1 - a at the drawn place and
    -a elsewhere.
    """
    places = _draw(weights, uniforms)
    grads = _one_hot(places, weights) / weights.clamp(min=1e-12)
    return places, (_reward(rewards, places) - baseline) * grads


def hard_drawn_only(weights, uniforms, rewards, baseline=0.0):
    """Only the drawn place gets a gradient. Raising one score lowers the other weights, so they get
    -a each: subtract the weights from the row of zeros and a one.
    """
    places = _draw(weights, uniforms)
    return places, (_reward(rewards, places) - baseline) * _one_hot(places, weights)


def hard_sign(weights, uniforms, rewards, baseline=0.0):
    """Every sign is flipped: this is the gradient of a loss. Here the reward is to rise: 1 at the
    drawn place minus the weights.
    """
    places = _draw(weights, uniforms)
    return places, (_reward(rewards, places) - baseline) * (weights - _one_hot(places, weights))


def hard_without_baseline(weights, uniforms, rewards, baseline=0.0):
    """The baseline changes nothing. Subtract it from the reward."""
    places = _draw(weights, uniforms)
    return places, _reward(rewards, places) * (_one_hot(places, weights) - weights)


def hard_baseline_added(weights, uniforms, rewards, baseline=0.0):
    """The baseline is added to the reward. Subtract it: what counts is how much better than
    expected the draw was.
    """
    places = _draw(weights, uniforms)
    return places, (_reward(rewards, places) + baseline) * (_one_hot(places, weights) - weights)


def hard_baseline_outside(weights, uniforms, rewards, baseline=0.0):
    """The baseline is taken from the whole estimate. That shifts every entry, and the estimate is
    biased; take it from the reward, before the product.
    """
    places = _draw(weights, uniforms)
    return places, _reward(rewards, places) * (_one_hot(places, weights) - weights) - baseline


def hard_all_rewards(weights, uniforms, rewards, baseline=0.0):
    """The rewards of all places are used: each entry its own, or their mean. Only the drawn place's
    reward is known: pick it with rewards.gather(-1, places[..., None]).
    """
    places = _draw(weights, uniforms)
    return places, (rewards - baseline) * (_one_hot(places, weights) - weights)


def hard_no_draw(weights, uniforms, rewards, baseline=0.0):
    """The gradient is the exact one, a · (reward - mean reward), which needs the rewards of all
    places. Only the drawn one's is known: (reward - baseline) · (drawn - weights).
    """
    exact = weights * (rewards - (weights * rewards).sum(dim=-1, keepdim=True))
    return _draw(weights, uniforms), exact


def hard_one_hot_places(weights, uniforms, rewards, baseline=0.0):
    """The places are rows of zeros and a one. Return the index of the place, one whole number for
    each query.
    """
    places = _draw(weights, uniforms)
    drawn = _one_hot(places, weights)
    return drawn, (_reward(rewards, places) - baseline) * (drawn - weights)


HARD = {
    "took the largest weight, drew nothing": hard_argmax,
    "one place too far": hard_next_place,
    "edges given to the left piece": hard_right_edge,
    "no owner for a rest from rounding": hard_no_rest,
    "compared u with the weights": hard_first_larger_weight,
    "derivative with respect to the weights": hard_by_weights,
    "gradient for the drawn place only": hard_drawn_only,
    "sign flipped": hard_sign,
    "baseline not used": hard_without_baseline,
    "baseline added": hard_baseline_added,
    "baseline taken from the estimate": hard_baseline_outside,
    "used rewards nobody knows": hard_all_rewards,
    "exact gradient instead of an estimate": hard_no_draw,
    "places as rows of zeros and a one": hard_one_hot_places,
}

# local_attention


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
    "no window": local_no_window,
    "σ = window": local_sigma_is_window,
    "the 2 of 2 σ² forgotten": local_without_half,
    "edges of the window left out": local_edges_outside,
    "centre rounded": local_rounded,
    "bell although gaussian=False": local_always_bell,
    "no bell": local_never_bell,
    "places counted from 1": local_counted_from_one,
    "contexts without the bell": local_bell_on_hidden_only,
    "one centre for all queries": local_one_centre,
    "centre detached": local_detached_centre,
}
