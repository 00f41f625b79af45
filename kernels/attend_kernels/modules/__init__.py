"""Layers of ``torch.nn`` around the kernels, with the weights' names people's checkpoints have.

======================== ==================================== =================================
layer                    weights as in                        state for decoding
======================== ==================================== =================================
``FlashAttention``       Hugging Face's ``LlamaAttention``    ``KVCache``: keys and values
``MambaBlock``           Hugging Face's ``MambaMixer``        ``RecurrentState``, fixed size
``Mamba2Block``          Hugging Face's ``Mamba2Mixer``       likewise
``GatedLinearAttention`` fla's ``GatedLinearAttention``       likewise
``RetNet``               fla's ``MultiScaleRetention``        likewise
``DeltaNet``             fla's ``DeltaNet``                   likewise
``GatedDeltaNet``        ``Qwen3NextGatedDeltaNet``           likewise
======================== ==================================== =================================

(fla is flash-linear-attention.) So ``layer.load_state_dict(theirs.state_dict())`` works. Each maps
``(B, T, C)`` to ``(B, T, C)``, causally::

    y = layer(x)                       # training: a whole sequence
    state = layer.new_state()          # FlashAttention: new_state(batch, room)
    y = layer(prompt, state)           # the same, and the state is filled
    y = layer.step(token, state)       # one token, (B, C): the state goes on

A state is changed by the calls it is given to.
"""

from __future__ import annotations

from attend_kernels.modules.attention import FlashAttention
from attend_kernels.modules.deltanet import DeltaNet
from attend_kernels.modules.gated_deltanet import GatedDeltaNet
from attend_kernels.modules.gla import GatedLinearAttention
from attend_kernels.modules.mamba import MambaBlock
from attend_kernels.modules.mamba2 import Mamba2Block
from attend_kernels.modules.retnet import RetNet
from attend_kernels.modules.states import KVCache, RecurrentState

__all__ = [
    "DeltaNet",
    "FlashAttention",
    "GatedDeltaNet",
    "GatedLinearAttention",
    "KVCache",
    "Mamba2Block",
    "MambaBlock",
    "RecurrentState",
    "RetNet",
]
