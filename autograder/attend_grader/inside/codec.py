"""Values as JSON plus raw array buffers: the only language checks and submissions share.

Checks hold inputs and oracles; a submission may run in another process. Whatever passes between
them is data of a few exact types (``None``, bool, int, float, complex, str, list, tuple, dict,
NumPy arrays and scalars, torch tensors), never pickled objects: unpickling runs code.
Anything else arrives as :class:`Opaque`, which only remembers its type's name.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate, pairwise
from typing import IO, Any, NamedTuple

import numpy as np

from attend_grader.inside.settings import torch_if_imported

MAX_FRAME_BYTES = 256 * 2**20
"""No exercise moves more than a few MiB; a larger frame is refused before it is read."""

MAX_ANSWER_TEXT = 4 * 2**20
"""Bytes of JSON that a submission may answer with: three of them can make a list of 64 bytes."""

MAX_INT_BITS = 14_000
"""Python writes integers of 4,300 digits at most as text."""

MAX_TYPE_NAME = 200
"""Characters kept of the name of a type that is not data."""

MAX_NUMBERED = 1_000
"""Keys of a dict that are no text: their hashes can be chosen to be all the same, and then making
the dict takes the square of their number; hashes of text cannot."""

_ARRAY_KINDS = "biufc"
_SPACED = "spaced"
_MALFORMED = (
    *(ValueError, LookupError, TypeError, AttributeError),
    *(ArithmeticError, RuntimeError, MemoryError),
)
"""What decoding raises where the other side sent nonsense."""


@dataclass(frozen=True)
class Opaque:
    """Stands for a value that is not data: a function, a generator, an object array, …"""

    type_name: str


class ProtocolError(RuntimeError):
    """The other side sent something that is not a frame of this protocol."""


def encode(value: Any, buffers: list[bytes]) -> Any:
    """Turn ``value`` into JSON-able form, appending array contents to ``buffers``."""
    kind = type(value)
    if kind is int and value.bit_length() > MAX_INT_BITS:
        return {"$opaque": f"int of about {value.bit_length() * 0.30103:,.0f} digits"}
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is complex:
        return {"$complex": [repr(value.real), repr(value.imag)]}
    if kind is list:
        return [encode(item, buffers) for item in value]
    if isinstance(value, tuple):  # a named tuple too, as a plain one
        return {"$tuple": [encode(item, buffers) for item in tuple.__iter__(value)]}
    if kind is dict:
        if set(map(type, value)) <= {str}:
            return {"$map": {key: encode(item, buffers) for key, item in value.items()}}
        return {"$dict": [[encode(k, buffers), encode(v, buffers)] for k, v in value.items()]}
    if plain_tensor(value):
        array = value.detach().numpy()
        buffers.append(array.tobytes())
        return {"$dense": [array.dtype.str, len(buffers) - 1, *array.shape]}
    if kind is np.ndarray and value.dtype.kind in _ARRAY_KINDS:
        return _encode_array(value, buffers)
    if isinstance(value, np.generic) and value.dtype.kind in _ARRAY_KINDS:
        return {"$scalar": _encode_array(np.asarray(value), buffers)}
    torch = sys.modules.get("torch")
    if torch is not None and kind in (torch.Tensor, torch.nn.Parameter):
        return _encode_tensor(torch, value, buffers)
    if isinstance(value, Opaque):
        return {"$opaque": value.type_name}
    if isinstance(value, np.ndarray):
        name = f"array of dtype {value.dtype}" if kind is np.ndarray else kind.__name__
        return {"$opaque": name}
    return {"$opaque": kind.__name__}


def decode(form: Any, buffers: list[bytes]) -> Any:
    """Inverse of :func:`encode`; every array is a fresh, writable copy with the same layout.

    Each buffer makes one array: ``buffers`` is empty where it has been used. Text comes out as it
    can be written to a file: halves of surrogate pairs become question marks.
    """
    if isinstance(form, str):
        return form if form.isascii() else form.encode("utf-8", "replace").decode()
    if isinstance(form, list):
        return [decode(item, buffers) for item in form]
    if not isinstance(form, dict):
        return form
    if len(form) != 1:
        raise ProtocolError(f"expected one tagged value, got the keys {sorted(form)}")
    ((tag, body),) = form.items()
    match tag:
        case "$float":
            return float(body)
        case "$complex":
            return complex(float(body[0]), float(body[1]))
        case "$tuple":
            return tuple(decode(item, buffers) for item in body)
        case "$dict":
            if sum(type(key) is not str for key, _ in body) > MAX_NUMBERED:
                raise ProtocolError(f"a dict with over {MAX_NUMBERED} keys that are no text")
            return {decode(k, buffers): decode(v, buffers) for k, v in body}
        case "$map":
            return {decode(key, buffers): decode(item, buffers) for key, item in body.items()}
        case "$dense":
            return _decode_dense(body, buffers)
        case "$array":
            return _decode_array(body, buffers)
        case "$scalar":
            return _decode_array(body["$array"], buffers)[()]
        case "$tensor":
            return _decode_tensor(body, buffers)
        case "$opaque":
            return Opaque(decode(str(body)[:MAX_TYPE_NAME], buffers))
    raise ProtocolError(f"unknown tag {tag!r}")


def copied(value: Any) -> Any:
    """What :func:`encode` and :func:`decode` make of ``value``, without a form in between.

    The same at less cost, for checks in one process, which copy every argument and every answer.
    """
    kind = type(value)
    if kind is str:
        return value[:1] + value[1:]  # another object: a comparison by `is` finds no text equal
    if value is None or (kind in _IMMUTABLE and kind is not int):
        return value
    if kind is np.ndarray and value.dtype.kind in _ARRAY_KINDS:
        if value.flags.c_contiguous:
            return value.copy()
        buffers: list[bytes] = []
        return _decode_array(_encode_array(value, buffers)["$array"], buffers)
    if kind is dict:
        return {
            key if type(key) is str else copied(key): copied(item) for key, item in value.items()
        }
    if isinstance(value, tuple):
        return tuple([copied(item) for item in tuple.__iter__(value)])
    if kind is list:
        return [copied(item) for item in value]
    if plain_tensor(value):
        torch = torch_if_imported()
        return value.detach().clone(memory_format=torch.contiguous_format)
    buffers = []
    return decode(encode(value, buffers), buffers)


def plain_tensor(value: Any) -> bool:
    """Whether it is a tensor laid out as C does, of numbers that NumPy has too."""
    torch = torch_if_imported()
    if torch is None:
        return False
    kinds, dtypes = _plain_parts(torch)
    return (
        type(value) in kinds
        and value.dtype in dtypes
        and value.layout == torch.strided
        and value.is_cpu
        and value.is_contiguous()
        and not value.is_neg()
    )


@cache
def _plain_parts(torch: Any) -> tuple[frozenset[type], frozenset[Any]]:
    """Types and dtypes of :func:`plain_tensor`."""
    dtypes = torch.float32, torch.float64, torch.int64, torch.bool
    return frozenset((torch.Tensor, torch.nn.Parameter)), frozenset(dtypes)


_IMMUTABLE = frozenset((bool, int, float, complex, str))


def _encode_array(array: np.ndarray, buffers: list[bytes]) -> dict[str, Any]:
    layout: list[int] | str | None = None  # as C lays them out
    stored = array
    if not array.flags.c_contiguous:
        order = sorted(range(array.ndim), key=lambda axis: -abs(array.strides[axis]))
        layout = order if array.transpose(order).flags.c_contiguous else _SPACED
        stored = array.transpose(layout) if isinstance(layout, list) else array
    buffers.append(stored.tobytes())
    body = {
        "dtype": array.dtype.str,
        "shape": list(array.shape),
        "layout": layout,
        "buffer": len(buffers) - 1,
    }
    return {"$array": body}


def _decode_array(body: dict[str, Any], buffers: list[bytes]) -> np.ndarray:
    dtype = np.dtype(body["dtype"])
    shape, layout = tuple(body["shape"]), body["layout"]
    if dtype.kind not in _ARRAY_KINDS:
        raise ProtocolError(f"arrays of dtype {dtype} are not data")
    spaced, plain = layout == _SPACED, layout is None
    stored = shape if spaced or plain else tuple(shape[axis] for axis in layout)
    raw, buffers[body["buffer"]] = buffers[body["buffer"]], b""
    if math.prod(stored) * dtype.itemsize != len(raw):
        raise ProtocolError(f"{len(raw)} bytes do not make an array of shape {shape} and {dtype}")
    array = np.frombuffer(raw, dtype).reshape(stored).copy()
    if spaced:
        wide = np.zeros((*shape[:-1], 2 * shape[-1]), dtype)
        wide[..., 1::2] = array
        return wide[..., 1::2]
    if plain or layout == sorted(layout):
        return array
    return array.transpose(np.argsort(layout))


def _decode_dense(body: list[Any], buffers: list[bytes]) -> Any:
    """A tensor laid out as C does; what its form says is checked by NumPy."""
    import torch

    name, place, *shape = body
    raw, buffers[place] = buffers[place], b""
    dtype = np.dtype(name)
    if dtype.kind not in _ARRAY_KINDS:
        raise ProtocolError(f"arrays of dtype {dtype} are not data")
    if math.prod(shape) * dtype.itemsize != len(raw):
        raise ProtocolError(f"{len(raw)} bytes do not make an array of shape {shape} and {dtype}")
    return torch.from_numpy(np.frombuffer(bytearray(raw), dtype).reshape(shape))


def _encode_tensor(torch: Any, tensor: Any, buffers: list[bytes]) -> dict[str, Any]:
    plain = tensor.detach().cpu()
    dtype = str(plain.dtype).removeprefix("torch.")
    if dtype == "bfloat16":  # NumPy has no bfloat16: send the bits
        plain = plain.view(torch.int16)
    return {"$tensor": {"dtype": dtype, "array": _encode_array(plain.numpy(), buffers)}}


def _decode_tensor(body: dict[str, Any], buffers: list[bytes]) -> Any:
    import torch

    form = body["array"]["$array"]
    array = _decode_array(form, buffers)
    if form["layout"] == _SPACED:  # a view, which begins after the memory it is a view of
        tensor = torch.from_numpy(array.base)[..., 1::2]
    else:
        tensor = torch.from_numpy(array)
    return tensor.view(torch.bfloat16) if body["dtype"] == "bfloat16" else tensor


class Sealed(NamedTuple):
    """A message as it travels: no value has been made of it yet.

    Attributes:
        form: its JSON-able form, nothing of which is known.
        sizes: bytes of each buffer.
        body: the buffers, one after the other.
    """

    form: Any
    sizes: Sequence[int]
    body: bytes

    def text(self) -> bytes:
        """The form and the sizes as JSON.

        Raises:
            ProtocolError: the form is nested too deeply.
        """
        header = {"message": self.form, "sizes": self.sizes}
        try:
            return json.dumps(header, separators=(",", ":")).encode()
        except RecursionError:
            raise ProtocolError("a form that is nested too deeply") from None


def sealed(message: Any) -> Sealed:
    """A message ready to travel."""
    buffers: list[bytes] = []
    form = encode(message, buffers)
    return Sealed(form, [len(b) for b in buffers], b"".join(buffers))


def opened(message: Sealed) -> Any:
    """The value that a message holds.

    Raises:
        ProtocolError: it holds none.
    """
    ends = list(accumulate(message.sizes, initial=0))
    try:
        return decode(message.form, [message.body[a:b] for a, b in pairwise(ends)])
    except ProtocolError:
        raise
    except _MALFORMED as error:
        raise ProtocolError(f"not a value: {type(error).__name__}: {error}") from None


def write_frame(stream: IO[bytes], message: Any) -> None:
    """Write one message."""
    write_sealed(stream, sealed(message))


def write_sealed(stream: IO[bytes], message: Sealed) -> None:
    """Write one message: two lengths, the JSON, then the raw buffers."""
    text, body = message.text(), message.body
    head = len(text).to_bytes(8, "little") + len(body).to_bytes(8, "little")
    stream.write(b"".join((head, text, body)))
    stream.flush()


def read_frame(stream: IO[bytes], *, most_text: int = MAX_ANSWER_TEXT) -> Any:
    """Read one message, whose JSON has ``most_text`` bytes at most.

    Raises:
        EOFError: the other side closed the channel.
        ProtocolError: the bytes are not a frame, or it is larger than it may be.
    """
    return opened(read_sealed(stream, most_text=most_text))


def read_sealed(stream: IO[bytes], *, most_text: int = MAX_ANSWER_TEXT) -> Sealed:
    """Read one message without making values of it; it raises as :func:`read_frame`."""
    head = _read_exactly(stream, 16)
    text_bytes, body_bytes = (int.from_bytes(head[i : i + 8], "little") for i in (0, 8))
    if text_bytes + body_bytes > MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {text_bytes + body_bytes} bytes is over the limit")
    if text_bytes > most_text:
        raise ProtocolError(f"a frame with {text_bytes} bytes of text is over the limit")
    try:
        header = json.loads(_read_exactly(stream, text_bytes))
        sizes = [int(size) for size in header["sizes"]]
        form = header["message"]
    except _MALFORMED as error:
        raise ProtocolError(f"not a frame: {error}") from None
    body = _read_exactly(stream, body_bytes)
    if sum(sizes) != body_bytes or any(size < 0 for size in sizes):
        raise ProtocolError("buffer sizes do not add up")
    return Sealed(form, sizes, body)


def _read_exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError("the channel closed in the middle of a frame")
    return data
