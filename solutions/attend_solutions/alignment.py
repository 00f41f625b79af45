"""Alignment: how a decoder looks back at the source while it writes, in PyTorch.

An encoder turns each word of the source into a vector. For every word it writes, the decoder
compares its state with all of these vectors, takes their weighted mean as its context, and goes
one step on. The weights say which words of the source a written word belongs to: the alignment.

    e_ts = score(q_t, k_s)                     scores (additive, dot, general)
    a_ts = exp(e_ts) / Σ_j exp(e_tj)           weights: the alignment
    c_t  = Σ_s a_ts k_s                        contexts
    h_t  = GRU([y_t; c_t], h_{t-1})            states of the decoder

Letters:
    B    sentences in a batch           C    numbers in one embedding
    T    queries: words to write        N    numbers in one state of a GRU
    S    keys: words of the source      E    numbers in one key (an encoded word; often 2N)
    ...  any leading axes, the same     A    hidden units of the additive score

A GRU is told by its ``cell``, four tensors in PyTorch's layout, as ``torch.gru_cell`` takes them
after input and state: (w_input (3N, C), w_state (3N, N), b_input (3N,), b_state (3N,)).

Source: Bahdanau, Cho and Bengio 2015, "Neural Machine Translation by Jointly Learning to Align and
Translate"; Luong, Pham and Manning 2015, "Effective Approaches to Attention-based Neural Machine
Translation"; Xu et al. 2015, "Show, Attend and Tell"; Williams 1992, "Simple Statistical
Gradient-Following Algorithms for Connectionist Reinforcement Learning".
"""

import torch
from torch import Tensor


def encode(x: Tensor, forward: tuple[Tensor, ...], backward: tuple[Tensor, ...]) -> Tensor:
    """Read a sequence in both directions and give each place the two states that stand there.

    The cell ``forward`` reads from the first word to the last, ``backward`` from the last to the
    first. Both start from a state of zeros. What is returned for place s holds first the forward
    state after reading words 0 … s, then the backward state after reading words S-1 … s.

    Shapes:
        x: (B, S, C), S at least 1
        forward, backward: cells (3N, C), (3N, N), (3N,), (3N,), for ``torch.gru_cell``
        returns: (B, S, 2N)

    The loop over the words is the exercise. One step is ``torch.gru_cell(x_s, h, *cell)``,
    x_s (B, C), h (B, N).

    Source: Bahdanau et al. 2015, §3.2 and appendix A.2.1 (there with z and 1 - z exchanged).

    >>> x = torch.tensor([[[1.0], [0.0], [0.0]]])  # one sentence, three words, C = 1
    >>> zero = torch.zeros(3, 1)
    >>> cell = (torch.tensor([[0.0], [0.0], [9.0]]), zero, zero[:, 0], zero[:, 0])
    >>> encode(x, cell, cell)  # all gates are 1/2: h = tanh(9 x) / 2 + h / 2
    tensor([[[0.5000, 0.5000],
             [0.2500, 0.0000],
             [0.1250, 0.0000]]])
    """

    def read(places: list[int], cell: tuple[Tensor, ...]) -> Tensor:
        h = x.new_zeros(x.shape[0], cell[1].shape[1])
        states = {}
        for s in places:
            h = torch.gru_cell(x[:, s], h, *cell)
            states[s] = h
        return torch.stack([states[s] for s in sorted(states)], dim=1)  # (B, S, N)

    places = list(range(x.shape[1]))
    return torch.cat([read(places, forward), read(places[::-1], backward)], dim=-1)


def additive_score(
    queries: Tensor, keys: Tensor, w_query: Tensor, w_key: Tensor, v: Tensor
) -> Tensor:
    """Compare every query with every key by a small network: v · tanh(q W_query + k W_key).

    Shapes:
        queries: (..., T, N)
        keys: (..., S, E)
        w_query: (N, A)
        w_key: (E, A)
        v: (A,)
        returns: (..., T, S)

    Source: Bahdanau et al. 2015, appendix A.1.2 (there W_a, U_a, v_a).

    >>> queries, keys = torch.tensor([[0.0], [9.0]]), torch.tensor([[0.0], [9.0], [-9.0]])
    >>> w_query, w_key = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0]])
    >>> additive_score(queries, keys, w_query, w_key, torch.tensor([5.0, 2.0])).round()
    tensor([[ 0.,  7., -7.],
            [ 5.,  7., -2.]])
    """
    query_part = (queries @ w_query)[..., :, None, :]  # (..., T, 1, A)
    key_part = (keys @ w_key)[..., None, :, :]  # (..., 1, S, A)
    return torch.tanh(query_part + key_part) @ v


def multiplicative_score(queries: Tensor, keys: Tensor, weight: Tensor | None = None) -> Tensor:
    """Compare every query with every key by a product: q · k, or q W k with a ``weight``.

    Without ``weight`` this is Luong's "dot" (then E = N), with it his "general". Nothing is
    scaled.

    Shapes:
        queries: (..., T, N)
        keys: (..., S, E)
        weight: (N, E), or None
        returns: (..., T, S)

    Source: Luong et al. 2015, §3.1 (the functions "dot" and "general").

    >>> queries, keys = torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 1.0], [0.0, 4.0]])
    >>> multiplicative_score(queries, keys)
    tensor([[5., 8.]])
    >>> multiplicative_score(queries, keys, torch.tensor([[0.0, 1.0], [0.0, 0.0]]))
    tensor([[1., 4.]])
    """
    if weight is not None:
        queries = queries @ weight  # (..., T, E)
    return queries @ keys.mT


def attend(scores: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Turn scores into weights, and give each query the weighted mean of the values.

    Shapes:
        scores: (..., T, S)
        values: (..., S, E)
        returns: contexts (..., T, E) and weights (..., T, S); each row of weights sums to 1

    ``torch.softmax`` is allowed here; chapter 03 writes it by hand.

    Source: Bahdanau et al. 2015, §3.1, equations (5) and (6).

    >>> contexts, weights = attend(torch.zeros(1, 2), torch.tensor([[2.0, 0.0], [4.0, 1.0]]))
    >>> contexts
    tensor([[3.0000, 0.5000]])
    >>> weights
    tensor([[0.5000, 0.5000]])
    """
    weights = torch.softmax(scores, dim=-1)
    return weights @ values, weights


def attention_decoder_step(
    embedded: Tensor,
    state: Tensor,
    encoded: Tensor,
    weight: Tensor | None,
    cell: tuple[Tensor, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """Take one step of the decoder: look back with the state, then go on to the next state.

    The state *before* the step is the query; ``multiplicative_score`` (with ``weight``) compares
    it with the encoded words, ``attend`` makes the context. The cell's input is the embedding of
    the word written last, followed by the context.

    Shapes:
        embedded: (B, C)
        state: (B, N)
        encoded: (B, S, E), keys and values
        weight: (N, E), or None (then E = N)
        cell: (3N, C + E), (3N, N), (3N,), (3N,), for ``torch.gru_cell``
        returns: the next state (B, N), the context (B, E) and the weights (B, S)

    One step of the GRU is ``torch.gru_cell(input, state, *cell)``.

    Source: Bahdanau et al. 2015, §3.1, after equation (4), and appendix A.2.2; the score: Luong's.

    >>> embedded, state = torch.tensor([[0.0]]), torch.tensor([[1.0]])
    >>> encoded = torch.tensor([[[0.0], [9.0]]])
    >>> w_input = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])  # the context, not the word
    >>> cell = (w_input, torch.zeros(3, 1), torch.zeros(3), torch.zeros(3))
    >>> state, context, weights = attention_decoder_step(
    ...     embedded, state, encoded, torch.tensor([[0.0]]), cell
    ... )
    >>> weights, context  # all scores are 0
    (tensor([[0.5000, 0.5000]]), tensor([[4.5000]]))
    >>> state  # all gates are 1/2: tanh(4.5) / 2 + 1 / 2
    tensor([[0.9999]])
    """
    scores = multiplicative_score(state[:, None], encoded, weight)  # (B, 1, S)
    context, weights = attend(scores, encoded)
    context, weights = context[:, 0], weights[:, 0]
    state = torch.gru_cell(torch.cat([embedded, context], dim=-1), state, *cell)
    return state, context, weights


def repaired_decoder(
    embedded: Tensor,
    state: Tensor,
    encoded: Tensor,
    weight: Tensor | None,
    cell: tuple[Tensor, ...],
) -> tuple[Tensor, Tensor, Tensor]:
    """Give what `suspect_decoder` should give: all steps of the decoder, one after the other.

    Each step is that of ``attention_decoder_step``: the state before the step asks, and its context
    goes into the step. Copy the body of `suspect_decoder`, and repair it.

    Shapes:
        embedded: (B, T, C), the word written last, for each step; T at least 1
        state: (B, N), before the first step
        encoded: (B, S, E), keys and values
        weight: (N, E), or None (then E = N)
        cell: (3N, C + E), (3N, N), (3N,), (3N,), for ``torch.gru_cell``
        returns: states (B, T, N), contexts (B, T, E), weights (B, T, S)

    Source: Bahdanau et al. 2015, §3.1 and appendix A.2.2; asking with the state after the step
    instead is Luong et al. 2015, §3.

    >>> embedded, state = torch.zeros(1, 2, 1), torch.tensor([[1.0]])
    >>> encoded = torch.tensor([[[0.0], [9.0]]])
    >>> w_input = torch.tensor([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]])  # the context, not the word
    >>> cell = (w_input, torch.zeros(3, 1), torch.zeros(3), torch.zeros(3))
    >>> repaired_decoder(embedded, state, encoded, torch.tensor([[0.0]]), cell)[0]
    tensor([[[0.9999],
             [0.9998]]])
    """
    states, contexts, looked = [], [], []
    for y in embedded.unbind(dim=1):
        scores = multiplicative_score(state[:, None], encoded, weight)  # (B, 1, S)
        context, weights = (part[:, 0] for part in attend(scores, encoded))
        state = torch.gru_cell(torch.cat([y, context], dim=-1), state, *cell)
        states.append(state)
        contexts.append(context)
        looked.append(weights)
    return torch.stack(states, dim=1), torch.stack(contexts, dim=1), torch.stack(looked, dim=1)


def hard_attention_sample(
    weights: Tensor, uniforms: Tensor, rewards: Tensor, baseline: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Draw one place for each query, and estimate the gradient of the expected reward from it.

    The unit interval is cut into pieces as long as the weights, in order: place 0 owns the numbers
    u with 0 ≤ u < a_0, place 1 those with a_0 ≤ u < a_0 + a_1, and so on; rounding may leave a
    rest, which belongs to the last place (whose weight is then not 0). The place that owns
    ``uniforms`` is drawn.

    The estimate is (reward of the drawn place - baseline) · ∇ log a_drawn, where ∇ is the
    derivative with respect to the *scores* whose softmax the weights are.

    Shapes:
        weights: (..., S), each row a distribution
        uniforms: (...), numbers from 0 up to but not including 1
        rewards: (..., S); only that of the drawn place is known, the others may be NaN
        returns: places (...), of dtype int64, and gradients (..., S)

    Source: Williams 1992 (REINFORCE); Xu et al. 2015, §4.1.

    >>> weights = torch.tensor([[0.25, 0.75], [0.25, 0.75]])
    >>> rewards = torch.tensor([[8.0, 4.0], [8.0, 4.0]])
    >>> places, gradients = hard_attention_sample(weights, torch.tensor([0.1, 0.9]), rewards)
    >>> places
    tensor([0, 1])
    >>> gradients
    tensor([[ 6., -6.],
            [-1.,  1.]])
    """
    ends = weights.cumsum(dim=-1)
    places = (ends <= uniforms[..., None]).sum(dim=-1).clamp(max=weights.shape[-1] - 1)
    reward = rewards.gather(-1, places[..., None])  # (..., 1)
    drawn = torch.arange(weights.shape[-1], device=weights.device) == places[..., None]  # (..., S)
    return places, (reward - baseline) * (drawn.to(weights.dtype) - weights)


def local_attention(
    scores: Tensor, values: Tensor, centre: Tensor, window: int, gaussian: bool = True
) -> tuple[Tensor, Tensor]:
    """Attend to the places near a centre only, and more to the nearer ones.

    Places are numbered from 0. Inside are those at most ``window`` away from the centre; they
    share a softmax, and all others get the weight 0. With ``gaussian``, each weight is then
    multiplied by exp(-(s - centre)² / (2 σ²)), σ = window / 2; the products are *not* made to sum
    to 1 again. Without, this is Luong's "local-m"; with it, "local-p".

    Shapes:
        scores: (..., T, S)
        values: (..., S, E)
        centre: (..., T), real numbers between 0 and S - 1; gradients reach it (local-p)
        returns: contexts (..., T, E) and weights (..., T, S)

    ``window`` is at least 1 (the paper's D).

    Source: Luong et al. 2015, §3.2, equations (7) and (10).

    >>> scores, values = torch.zeros(1, 5), torch.tensor([[0.0], [6.0], [3.0], [9.0], [99.0]])
    >>> centre = torch.tensor([2.0])
    >>> contexts, weights = local_attention(scores, values, centre, window=1, gaussian=False)
    >>> contexts  # the mean of 6, 3 and 9
    tensor([[6.]])
    >>> weights
    tensor([[0.0000, 0.3333, 0.3333, 0.3333, 0.0000]])
    >>> local_attention(scores, values, centre, window=1)[1]  # exp(-2) = 0.135 of it at distance 1
    tensor([[0.0000, 0.0451, 0.3333, 0.0451, 0.0000]])
    """
    distance = (
        torch.arange(scores.shape[-1], device=scores.device) - centre[..., None]
    )  # (..., T, S)
    outside = distance.abs() > window
    weights = torch.softmax(scores.masked_fill(outside, -torch.inf), dim=-1)
    if gaussian:
        sigma = window / 2
        weights = weights * torch.exp(-(distance**2) / (2 * sigma**2))
    return weights @ values, weights
