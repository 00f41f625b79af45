"""Parameters of a torch module, given by name: in place, as training changes them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attend_grader.inside.settings import torch_if_imported


@contextmanager
def layers_undrawn() -> Iterator[None]:
    """Layers made within draw no random weights: for a module whose parameters are loaded next.

    To draw them takes most of the time that making a layer does in the jail. The number that they
    get instead is not 0: a sum with weights that were kept from before loading is wrong still.
    """
    torch = torch_if_imported()
    if torch is None:
        yield
        return
    layer = torch.nn.Linear
    drawn, layer.reset_parameters = layer.reset_parameters, _constant
    try:
        yield
    finally:
        layer.reset_parameters = drawn


def _constant(layer: Any) -> None:
    torch = torch_if_imported()
    with torch._C.DisableTorchFunction():
        for parameter in (layer.weight, layer.bias):
            if parameter is not None:
                parameter.data.fill_(0.375)


def load(module: Any, parameters: dict[str, Any]) -> None:
    """Copy numbers into a module's parameters and buffers.

    As ``load_state_dict``, at a third of its cost; a module of many small ones is loaded often.

    Args:
        module: the module.
        parameters: name → tensor, for every parameter and buffer.

    Raises:
        ValueError: it has others, or of other shapes; the message names the differences.
    """
    own = module.state_dict()  # detached, over the same memory
    wanted = {name: tuple(value.shape) for name, value in parameters.items()}
    got = {name: tuple(value.shape) for name, value in own.items()}
    if wanted != got:
        raise ValueError(_unlike(wanted, got))
    for name, value in parameters.items():
        own[name].copy_(value)


def _unlike(wanted: dict[str, tuple], got: dict[str, tuple]) -> str:
    missing = [f"{n} {s}" for n, s in wanted.items() if n not in got]
    unknown = [f"{n} {s}" for n, s in got.items() if n not in wanted]
    other = [f"{n} {got[n]} instead of {s}" for n, s in wanted.items() if got.get(n, s) != s]
    told = [
        f"{what}: {', '.join(names)}"
        for what, names in (("missing", missing), ("not expected", unknown), ("wrong shape", other))
        if names
    ]
    return f"the module's parameters are not those of the exercise; {'; '.join(told)}"
