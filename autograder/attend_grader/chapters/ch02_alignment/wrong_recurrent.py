"""Chapter 02: how the encoder and the decoder's step go wrong in practice.

Each function is written as a learner might write it; its docstring is what the learner is told. It
is told to whoever's code behaves alike, so it speaks of what comes out before it guesses at code.
"""

import torch
from attend_solutions.alignment import attend, multiplicative_score

# encode


def _read(x, cell, places, h=None):
    """States in the order in which they are made."""
    h = x.new_zeros(x.shape[0], cell[1].shape[1]) if h is None else h
    states = []
    for s in places:
        h = torch.gru_cell(x[:, s], h, *cell)
        states.append(h)
    return states


def _there(x):
    return range(x.shape[1])


def _back(x):
    return reversed(range(x.shape[1]))


def encode_not_turned_back(x, forward, backward):
    """The backward states lie in the order in which they were made: the state after reading the
    last word lies at place 0. Turn the list round before you stack it: states[::-1].
    """
    there, back = _read(x, forward, _there(x)), _read(x, backward, _back(x))
    return torch.cat([torch.stack(there, dim=1), torch.stack(back, dim=1)], dim=-1)


def encode_forward_twice(x, forward, backward):
    """Both cells read from the first word to the last. The second has to begin at the last word:
    run over reversed(range(S)).
    """
    there, again = _read(x, forward, _there(x)), _read(x, backward, _there(x))
    return torch.cat([torch.stack(there, dim=1), torch.stack(again, dim=1)], dim=-1)


def encode_one_cell(x, forward, backward):
    """The forward cell reads in both directions. On the way back, the weights are those of
    `backward`.
    """
    there, back = _read(x, forward, _there(x)), _read(x, forward, _back(x))
    return torch.cat([torch.stack(there, dim=1), torch.stack(back[::-1], dim=1)], dim=-1)


def encode_carries_on(x, forward, backward):
    """The backward reading starts from the last forward state. It starts from zeros, as the
    forward one does: set h to zeros again before the second loop.
    """
    there = _read(x, forward, _there(x))
    back = _read(x, backward, _back(x), there[-1])
    return torch.cat([torch.stack(there, dim=1), torch.stack(back[::-1], dim=1)], dim=-1)


def encode_backward_first(x, forward, backward):
    """The backward states come first. Put the forward states first: torch.cat([there,
    back], dim=-1).
    """
    there, back = _read(x, forward, _there(x)), _read(x, backward, _back(x))
    return torch.cat([torch.stack(back[::-1], dim=1), torch.stack(there, dim=1)], dim=-1)


def encode_last_states(x, forward, backward):
    """Only the last state of each direction comes out, one vector for the sentence. The decoder
    wants to look back at every word: keep the states of all places.
    """
    there, back = _read(x, forward, _there(x)), _read(x, backward, _back(x))
    return torch.cat([there[-1], back[-1]], dim=-1)


def encode_added(x, forward, backward):
    """Forward and backward states are added up, which leaves N numbers for each word. Put them side
    by side: torch.cat(..., dim=-1) gives 2N.
    """
    there, back = _read(x, forward, _there(x)), _read(x, backward, _back(x))
    return torch.stack(there, dim=1) + torch.stack(back[::-1], dim=1)


def encode_words_first(x, forward, backward):
    """The words lie on axis 0 and the sentences on axis 1. Stack along axis 1: torch.stack(states,
    dim=1).
    """
    there, back = _read(x, forward, _there(x)), _read(x, backward, _back(x))
    return torch.cat([torch.stack(there), torch.stack(back[::-1])], dim=-1)


def encode_without_memory(x, forward, backward):
    """Each word is encoded by itself: every step starts from zeros again. Give the cell the state
    that the step before returned: h = torch.gru_cell(x_s, h, *cell).
    """
    there = [_read(x, forward, [s])[0] for s in _there(x)]
    back = [_read(x, backward, [s])[0] for s in _there(x)]
    return torch.cat([torch.stack(there, dim=1), torch.stack(back, dim=1)], dim=-1)


def encode_state_before(x, forward, backward):
    """Each place holds the state from before its word was read. Take the step first, then keep the
    state.
    """
    zeros = x.new_zeros(x.shape[0], forward[1].shape[1])
    there = [zeros, *_read(x, forward, _there(x))[:-1]]
    back = [zeros, *_read(x, backward, _back(x))[:-1]]
    return torch.cat([torch.stack(there, dim=1), torch.stack(back[::-1], dim=1)], dim=-1)


def encode_detached(x, forward, backward):
    """The values are right, but no gradient goes from a state back to the words before: the state
    is detached between the steps. Pass it on as it is.
    """

    def read(places, cell):
        h = x.new_zeros(x.shape[0], cell[1].shape[1])
        states = {}
        for s in places:
            states[s] = h = torch.gru_cell(x[:, s], h.detach(), *cell)
        return torch.stack([states[s] for s in _there(x)], dim=1)

    return torch.cat([read(_there(x), forward), read(_back(x), backward)], dim=-1)


def encode_states_again(x, forward, backward):
    """The backward cell reads the forward states, which are N wide; it fits where C = N only. Both
    cells read the words: x[:, s].
    """
    there = torch.stack(_read(x, forward, _there(x)), dim=1)
    back = _read(there, backward, _back(x))
    return torch.cat([there, torch.stack(back[::-1], dim=1)], dim=-1)


def encode_state_as_wide_as_words(x, forward, backward):
    """It works where C = N only: the state of zeros is as wide as an embedding. It is (B, N), and N
    is the second length of a cell's second tensor: forward[1].shape[1].
    """
    zeros = x.new_zeros(x.shape[0], x.shape[2])
    there, back = _read(x, forward, _there(x), zeros), _read(x, backward, _back(x), zeros)
    return torch.cat([torch.stack(there, dim=1), torch.stack(back[::-1], dim=1)], dim=-1)


def encode_sentence_as_step(x, forward, backward):
    """x[s] is sentence s with all its words; it fits where B = S only. The cell wants word s of all
    sentences: x[:, s].
    """
    turned = x.transpose(0, 1)
    there = _read(turned, forward, _there(x), x.new_zeros(x.shape[0], forward[1].shape[1]))
    back = _read(turned, backward, _back(x), x.new_zeros(x.shape[0], backward[1].shape[1]))
    return torch.cat([torch.stack(there, dim=1), torch.stack(back[::-1], dim=1)], dim=-1)


def encode_first_axis(x, forward, backward):
    """The loop runs over the sentences, as if they were the words. The words lie on axis 1: take
    x[:, s], for s from 0 to S - 1.
    """
    return encode_words_first(x.transpose(0, 1), forward, backward)


ENCODE = {
    "backward states not turned round": encode_not_turned_back,
    "read forward twice": encode_forward_twice,
    "one cell for both directions": encode_one_cell,
    "backward reading not started from zeros": encode_carries_on,
    "backward states first": encode_backward_first,
    "kept the last states only": encode_last_states,
    "added the directions": encode_added,
    "stacked along axis 0": encode_words_first,
    "state not carried on": encode_without_memory,
    "kept the state before the step": encode_state_before,
    "read along the batch": encode_first_axis,
    "x[s] instead of x[:, s]": encode_sentence_as_step,
    "backward cell reads the forward states": encode_states_again,
    "state as wide as an embedding": encode_state_as_wide_as_words,
    "detached the state between steps": encode_detached,
}

# attention_decoder_step


def _look_keeping_axis(state, encoded, weight):
    return attend(multiplicative_score(state[:, None], encoded, weight), encoded)


def _look(state, encoded, weight):
    context, weights = _look_keeping_axis(state, encoded, weight)
    return context[:, 0], weights[:, 0]


def step_context_first(embedded, state, encoded, weight, cell):
    """The cell reads the context first, then the embedding. Its weights expect the embedding first:
    torch.cat([embedded, context], dim=-1).
    """
    context, weights = _look(state, encoded, weight)
    state = torch.gru_cell(torch.cat([context, embedded], dim=-1), state, *cell)
    return state, context, weights


def step_old_state(embedded, state, encoded, weight, cell):
    """The state comes back as it was. Return the one after the step, which torch.gru_cell gives."""
    context, weights = _look(state, encoded, weight)
    torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights


def step_looks_twice(embedded, state, encoded, weight, cell):
    """Context and weights belong to the state *after* the step. The state before the step asks, and
    its context goes into the cell: look back once, before torch.gru_cell.
    """
    context, _ = _look(state, encoded, weight)
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, *_look(state, encoded, weight)


def step_keeps_axis(embedded, state, encoded, weight, cell):
    """Context and weights still have the axis of the one query, of length 1. Take it away:
    context[:, 0] and weights[:, 0].
    """
    context, weights = _look(state, encoded, weight)
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context[:, None], weights[:, None]


def step_squeezes(embedded, state, encoded, weight, cell):
    """With one sentence (B = 1) or one word (S = 1), an axis too many is lost: squeeze() without an
    axis takes every axis of length 1. Take the query's own: squeeze(1), or [:, 0].
    """
    context, weights = _look(state, encoded, weight)
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context.squeeze(), weights.squeeze()


def step_squeezes_early(embedded, state, encoded, weight, cell):
    """With one sentence (B = 1) the context loses that axis too, and no longer fits beside the
    embedding: squeeze() without an axis takes every axis of length 1. Take the query's own:
    squeeze(1), or [:, 0].
    """
    context, weights = _look_keeping_axis(state, encoded, weight)
    context, weights = context.squeeze(), weights.squeeze()
    return (
        torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell),
        context,
        weights,
    )


def step_squeezes_context(embedded, state, encoded, weight, cell):
    """With one sentence (B = 1) the context loses that axis too, and no longer fits beside the
    embedding: squeeze() without an axis takes every axis of length 1. Take the query's own, as from
    the weights: context[:, 0].
    """
    context, weights = _look_keeping_axis(state, encoded, weight)
    context = context.squeeze()
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights[:, 0]


def step_order(embedded, state, encoded, weight, cell):
    """The weights come before the context. Return state, context, weights, in this order."""
    context, weights = _look(state, encoded, weight)
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, weights, context


def step_two_results(embedded, state, encoded, weight, cell):
    """The weights are missing. Return three results: state, context, weights."""
    context, _ = _look(state, encoded, weight)
    return torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell), context


def step_ignores_weight(embedded, state, encoded, weight, cell):
    """The score is the dot product even where a weight is given. Pass it on:
    multiplicative_score(query, encoded, weight).
    """
    context, weights = _look(state, encoded, None)
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights


def step_mixes_sentences(embedded, state, encoded, weight, cell):
    """The states of all sentences ask every sentence, and what comes back is that of the first
    alone. A state asks its own sentence: give it an axis of its own, state[:, None], so that the
    queries are (B, 1, N).
    """
    context, weights = attend(multiplicative_score(state, encoded, weight), encoded)
    context, weights = context[0], weights[0]
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights


def step_first_state_asks(embedded, state, encoded, weight, cell):
    """The first sentence's state asks all sentences. Each state asks its own: the queries are
    (B, 1, N), which is state[:, None]; state[None] is (1, B, N), and then [:, 0] takes the first.
    """
    context, weights = attend(multiplicative_score(state[None], encoded, weight), encoded)
    context, weights = context[:, 0], weights[:, 0]
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights


def step_embedding_asks(embedded, state, encoded, weight, cell):
    """The embedding asks, which fits where C = N only. The query is the state; the embedding goes
    into the cell.
    """
    context, weights = _look(embedded, encoded, weight)
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights


def step_mean_context(embedded, state, encoded, weight, cell):
    """The context is the plain mean of the encoded words, whatever the weights are. Take what
    attend returns first.
    """
    _, weights = _look(state, encoded, weight)
    context = encoded.mean(dim=1)
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights


def step_fresh_state(embedded, state, encoded, weight, cell):
    """The cell starts from zeros, so that the decoder forgets what it has written. Its second
    argument is the state before the step.
    """
    context, weights = _look(state, encoded, weight)
    after = torch.gru_cell(torch.cat([embedded, context], dim=-1), torch.zeros_like(state), *cell)
    return after, context, weights


def step_detached(embedded, state, encoded, weight, cell):
    """The values are right, but no gradient goes from the next state back through the context: it
    is detached. Then nothing teaches the decoder where to look. Pass it on as it is.
    """
    context, weights = _look(state, encoded, weight)
    state = torch.gru_cell(torch.cat([embedded, context.detach()], dim=-1), state, *cell)
    return state, context, weights


def step_detached_result(embedded, state, encoded, weight, cell):
    """State and context are right, with their gradients; the weights you *return* are detached. A
    loss may use them too: return them as they are.
    """
    context, weights = _look(state, encoded, weight)
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights.detach()


STEP = {
    "context before the embedding": step_context_first,
    "returned the state before the step": step_old_state,
    "looked back with the state after the step": step_looks_twice,
    "kept the axis of the one query": step_keeps_axis,
    "squeezed every axis of length 1": step_squeezes,
    "squeezed every axis before the cell": step_squeezes_early,
    "squeezed the context before the cell": step_squeezes_context,
    "weights before the context": step_order,
    "weights not returned": step_two_results,
    "ignored the weight": step_ignores_weight,
    "states ask other sentences": step_mixes_sentences,
    "the first state asks every sentence": step_first_state_asks,
    "the embedding asks": step_embedding_asks,
    "mean of all words as context": step_mean_context,
    "started the cell from zeros": step_fresh_state,
    "detached the context": step_detached,
    "detached the weights it returns": step_detached_result,
}
