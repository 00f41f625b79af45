"""Names of arguments that people bring from other libraries, and what they are called here."""

from __future__ import annotations

from collections.abc import Mapping

SCALE = {"softmax_scale": "scale", "sm_scale": "scale"}
ATTENTION = SCALE | {
    "is_causal": "causal",
    "window_size": "window",
    "alibi_slopes": "alibi",
    "logits_soft_cap": "softcap",
    "s_aux": "sinks",
    "learnable_sink": "sinks",
    "return_attn_probs": "return_lse",
    "return_softmax_lse": "return_lse",
    "dropout_p": "nothing: there is no dropout here; drop what comes out",
    "attn_mask": "causal, window or alibi; for any other mask, "
    "torch.nn.functional.scaled_dot_product_attention",
    "enable_gqa": "nothing: fewer key/value heads than query heads are understood",
}
PACKED = ATTENTION | {
    "max_seqlen_q": "nothing: only the starts are asked for",
    "max_seqlen_k": "nothing: only the starts are asked for",
    "layout": "nothing: packed rows are (T, H, D), heads after time",
}
DECODE = SCALE | {
    "cache_seqlens": "lengths",
    "page_table": "block_table",
    "window_size": "window, a number of keys back",
    "num_splits": "splits",
    "s_aux": "sinks",
    "learnable_sink": "sinks",
    "causal": "nothing: the last query stands at the last key",
    "return_softmax_lse": "return_lse",
}
LINEAR = {
    "g": "gate",
    "gk": "gate",
    "g_gamma": "decay",
    "scale": "nothing: multiply q by it before the call",
    "output_final_state": "output_state",
    "chunk_size": "chunk",
    "head_first": "layout, 'bhtd' (heads before time) or 'bthd'",
    "input_layout": "layout, 'bhtd' (heads before time) or 'bthd'",
    "normalize": "nothing: there is no normaliser; divide by the sum of weights outside",
    "cu_seqlens": "nothing yet: packed sequences are ssd's and flash_attention_varlen's",
}
ROPE = {
    "position_ids": "positions",
    "seqlen_offsets": "positions, torch.arange(T) + offset",
    "unsqueeze_dim": "layout, 'bhtd' (heads before time) or 'bthd'",
    "inplace": "nothing: what is given is left as it is",
}
SCAN = {
    "delta_softplus": "softplus",
    "dt_softplus": "softplus",
    "dt_bias": "delta_bias",
    "return_last_state": "output_state",
    "prev_state": "initial_state",
    "initial_states": "initial_state",
}
SSD = {
    "chunk_size": "chunk",
    "dt_softplus": "softplus",
    "initial_states": "initial_state",
    "return_final_states": "output_state",
    "seq_idx": "cu_seqlens, where each sequence starts",
    "z": "nothing: gate what comes out, y * silu(z)",
    "dt_limit": "nothing: clamp dt before the call",
}
CONV = {
    "weight": "w",
    "bias": "b",
    "initial_states": "state",
    "conv_state": "state",
    "return_final_states": "output_state",
}


def refuse(function: str, given: Mapping[str, object], known: Mapping[str, str]) -> None:
    """Refuse arguments that a function has not, and say what they are called here.

    Raises:
        TypeError: there is one.

    >>> refuse("flash_attention", {"softmax_scale": 0.1}, ATTENTION)
    Traceback (most recent call last):
    TypeError: flash_attention has no argument softmax_scale. Next: scale.
    """
    for name in given:
        following = known.get(name, f"help({function}) lists what there is")
        raise TypeError(f"{function} has no argument {name}. Next: {following}.")
