"""Chapter 02: how hard attention goes wrong in practice.

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


def hard_counts_beyond(weights, uniforms, rewards, baseline=0.0):
    """The pieces that end *beyond* u are counted. The place is the number of those that end at u or
    before: ends <= uniforms[..., None].
    """
    places = (weights.cumsum(dim=-1) > uniforms[..., None]).sum(dim=-1)
    places = places.clamp(max=weights.shape[-1] - 1)
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
    "counted the ends beyond u": hard_counts_beyond,
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
