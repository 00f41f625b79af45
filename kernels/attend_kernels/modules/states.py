"""What layers carry from token to token: a memory of fixed size, or all keys and values."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from attend_kernels.common.shapes import assert_shape


@dataclass
class RecurrentState:
    """State of a recurrent layer after ``length`` steps; None where nothing was seen yet.

    ``memory`` is the recurrence's, in fp32, and ``conv`` the last inputs of each convolution.
    Gradients flow through it, until ``detach``.
    """

    memory: torch.Tensor | None = None
    conv: tuple[torch.Tensor | None, ...] = (None, None, None)
    length: int = 0

    def advance(
        self, steps: int, memory: torch.Tensor, conv: tuple[torch.Tensor | None, ...]
    ) -> None:
        """Replace what is carried by what it is ``steps`` steps later."""
        self.memory, self.conv, self.length = memory, conv, self.length + steps

    def detach(self) -> RecurrentState:
        """Return the state cut off from the graph that made it (truncated backpropagation)."""
        return RecurrentState(
            None if self.memory is None else self.memory.detach(),
            tuple(None if x is None else x.detach() for x in self.conv),
            self.length,
        )


class KVCache:
    """Keys and values of the tokens so far, with room for more; each sequence has its own length.

    Shapes: k and v ``(B, room, G, D)``, lengths ``(B,)`` int32.
    """

    def __init__(
        self,
        batch: int,
        room: int,
        heads: int,
        width: int,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        self.k = torch.zeros(batch, room, heads, width, device=device, dtype=dtype)
        self.v = torch.zeros_like(self.k)
        self.lengths = torch.zeros(batch, device=device, dtype=torch.int32)
        self.longest = 0  # no sequence has more; known without waiting for a GPU
        self.equal = True  # whether all have just that

    def append(self, k: torch.Tensor, v: torch.Tensor, lengths: torch.Tensor | None = None) -> None:
        """Put the keys and values of T new tokens behind those that are there.

        Args:
            k: keys.
            v: values.
            lengths: how many of the T count, for each sequence; the rest is padding. Only while
                the cache is empty.

        Shapes: k and v ``(B, T, G, D)``, lengths ``(B,)`` integers.

        Raises:
            ValueError: there is no room, or tokens of several lengths come when they cannot.
        """
        steps, room = k.shape[1], self.k.shape[1]
        if self.longest + steps > room:
            raise ValueError(
                f"the cache has room for {room} tokens and holds {self.longest}; expected at most "
                f"{room - self.longest} more, got {steps}. Next: new_state(batch, room) with a "
                f"larger room."
            )
        if self.longest and (lengths is not None or (steps > 1 and not self.equal)):
            raise ValueError(
                f"sequences of different lengths go on token by token; got {steps} tokens for a "
                f"cache that is not empty. Next: step for each, or one call for the whole prompt."
            )
        if self.equal:
            part = slice(self.longest, self.longest + steps)
            self.k[:, part], self.v[:, part] = k, v
        else:
            at = (torch.arange(len(k), device=k.device), self.lengths.long())
            self.k[at], self.v[at] = k[:, 0].to(self.k.dtype), v[:, 0].to(self.v.dtype)
        if lengths is None:
            self.lengths = self.lengths + steps
        else:
            assert_shape(lengths, "B", {"B": len(k)}, name="lengths")
            self.lengths, self.equal = lengths.to(self.lengths), False
        self.longest += steps
