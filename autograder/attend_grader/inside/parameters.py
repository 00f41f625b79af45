"""Other numbers in place, as training changes them: a module's parameters, a call's arrays."""

from __future__ import annotations

from typing import Any


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


def refill(value: Any, other: Any) -> None:
    """Write the numbers of ``other`` into the arrays and tensors of ``value``, of the same form."""
    if isinstance(value, dict):
        for key, item in value.items():
            refill(item, other[key])
    elif isinstance(value, (tuple, list)):
        for item, its in zip(value, other, strict=True):
            refill(item, its)
    elif hasattr(value, "copy_"):
        value.detach().copy_(other)
    elif hasattr(value, "shape") and value.shape == getattr(other, "shape", None):
        value[...] = other


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
