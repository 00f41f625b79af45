"""Values through JSON and raw buffers and back; frames that are not frames are refused."""

import io
import math
from typing import Any

import numpy as np
import pytest
from attend_grader.inside.codec import (
    MAX_ANSWER_TEXT,
    MAX_FRAME_BYTES,
    Opaque,
    ProtocolError,
    copied,
    decode,
    encode,
    read_frame,
    write_frame,
)


def _through(value: Any) -> Any:
    stream = io.BytesIO()
    write_frame(stream, value)
    stream.seek(0)
    result = read_frame(stream)
    assert stream.read() == b""
    return result


PLAIN = [
    None,
    True,
    7,
    -(2**80),
    1.5,
    math.inf,
    -math.inf,
    1 + 2j,
    "text: √d_k 🐈",
    [1, [2.0, None]],
    (1, (2,), []),
    {"a": 1, 2: (3,), (4, 5): {}},
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_plain_values_keep_value_and_type(value: Any) -> None:
    result = _through(value)
    assert result == value
    assert type(result) is type(value)


def test_nan_survives() -> None:
    assert math.isnan(_through(math.nan))
    assert np.isnan(_through(np.array([np.nan, 1.0])))[0]


DTYPES = ["bool", "int8", "int64", "uint16", "float16", "float32", "float64", "complex128", ">f8"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_keep_dtype_and_values(dtype: str) -> None:
    array = np.arange(6).reshape(2, 3).astype(dtype)
    result = _through(array)
    assert result.dtype == array.dtype
    assert (result == array).all()
    assert result.flags.writeable


BASE = np.arange(24.0).reshape(2, 3, 4)
LAYOUTS = {
    "C": BASE,
    "transposed": BASE.T,
    "swapped": BASE.swapaxes(-1, -2),
    "spaced": BASE[..., ::2],
    "reversed": BASE[:, ::-1],
    "zero-dimensional": np.array(3.0),
    "empty": np.zeros((0, 3)),
    "size one": np.ones((1, 3, 1)).T,
    "broadcast": np.broadcast_to(np.arange(3.0), (4, 3)),
}


@pytest.mark.parametrize("array", LAYOUTS.values(), ids=LAYOUTS)
def test_layouts_keep_values(array: np.ndarray) -> None:
    result = _through(array)
    assert result.shape == array.shape
    np.testing.assert_array_equal(result, array)


@pytest.mark.parametrize("name", ["transposed", "swapped", "spaced"])
def test_a_view_arrives_as_no_contiguous_array(name: str) -> None:
    result = _through(LAYOUTS[name])
    assert not result.flags.c_contiguous
    if name != "spaced":
        assert result.strides == LAYOUTS[name].strides


def test_scalars_stay_numpy_scalars() -> None:
    result = _through(np.float32(1.5))
    assert type(result) is np.float32
    assert result == 1.5


def test_what_is_no_data_arrives_opaque() -> None:
    class Sly(np.ndarray):
        pass

    assert _through(lambda: 0) == Opaque("function")
    assert _through([object()]) == [Opaque("object")]
    assert _through(np.array([None])) == Opaque("array of dtype object")
    assert _through(np.zeros(2).view(Sly)) == Opaque("Sly")
    assert _through(type("Int", (int,), {})(3)) == Opaque("Int")
    assert _through({1, 2}) == Opaque("set")


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool"])
def test_tensors_keep_dtype_and_values(dtype: str) -> None:
    import torch

    tensor = torch.tensor([[1.0, 0.0], [2.5, 3.0]]).to(getattr(torch, dtype)).T
    result = _through(tensor)
    assert result.dtype == tensor.dtype
    assert torch.equal(result, tensor)
    parameter = _through(torch.nn.Parameter(torch.ones(2)))
    assert type(parameter) is torch.Tensor
    assert not parameter.requires_grad


def test_several_frames_follow_one_another() -> None:
    stream = io.BytesIO()
    for value in (np.arange(3), "two", {"three": np.ones((2, 2))}):
        write_frame(stream, value)
    stream.seek(0)
    assert read_frame(stream).tolist() == [0, 1, 2]
    assert read_frame(stream) == "two"
    assert read_frame(stream)["three"].sum() == 4
    with pytest.raises(EOFError):
        read_frame(stream)


def _frame(text: bytes, body: bytes = b"") -> io.BytesIO:
    sizes = len(text).to_bytes(8, "little") + len(body).to_bytes(8, "little")
    return io.BytesIO(sizes + text + body)


def _array(**changes: Any) -> bytes:
    import json

    body = {"dtype": "<f8", "shape": [2], "layout": [0], "buffer": 0, **changes}
    return json.dumps({"message": {"$array": body}, "sizes": [16]}).encode()


def _dense(*body: Any) -> bytes:
    import json

    return json.dumps({"message": {"$dense": body}, "sizes": [16]}).encode()


GARBAGE = {
    "not JSON": _frame(b"{"),
    "not UTF-8": _frame(b"\xff\xfe"),
    "no message": _frame(b'{"sizes": []}'),
    "not an object": _frame(b"[1]"),
    "sizes that do not add up": _frame(b'{"message": 1, "sizes": [5]}', b"abc"),
    "negative sizes": _frame(b'{"message": 1, "sizes": [-3, 6]}', b"abc"),
    "unknown tag": _frame(b'{"message": {"$pickle": "x"}, "sizes": []}'),
    "two tags": _frame(b'{"message": {"a": 1, "b": 2}, "sizes": []}'),
    "array longer than its bytes": _frame(_array(shape=[3]), bytes(16)),
    "negative shape": _frame(_array(shape=[-2]), bytes(16)),
    "objects": _frame(_array(dtype="|O"), bytes(16)),
    "no such dtype": _frame(_array(dtype="zzz"), bytes(16)),
    "layout that is no order": _frame(_array(layout=[3]), bytes(16)),
    "buffer that is not there": _frame(_array(buffer=4), bytes(16)),
    "shape that is no list": _frame(_array(shape="ab"), bytes(16)),
    "tuple of nothing": _frame(b'{"message": {"$tuple": 3}, "sizes": []}'),
    "float of nothing": _frame(b'{"message": {"$float": "one"}, "sizes": []}'),
    "one buffer for two arrays": _frame(
        b'{"message": [%(a)s, %(a)s], "sizes": [16]}'
        % {b"a": b'{"$array": {"dtype": "<f8", "shape": [2], "layout": [0], "buffer": 0}}'},
        bytes(16),
    ),
    "more keys that can be made to collide than anybody needs": _frame(
        b'{"message": {"$dict": [%s]}, "sizes": []}'
        % b", ".join(b"[%d, 0]" % (n * (2**61 - 1)) for n in range(2_000))
    ),
    "map that is none": _frame(b'{"message": {"$map": [["a", 1]]}, "sizes": []}'),
    "tensor longer than its bytes": _frame(_dense("<f4", 0, 5), bytes(16)),
    "tensor of a negative shape": _frame(_dense("<f4", 0, -2, -2), bytes(16)),
    "tensor of objects": _frame(_dense("|O", 0, 2), bytes(16)),
    "tensor whose bytes are not there": _frame(_dense("<f4", 1, 4), bytes(16)),
    "tensor of what torch does not know": _frame(_dense(">f4", 0, 4), bytes(16)),
    "one buffer for two tensors": _frame(
        b'{"message": [%(a)s, %(a)s], "sizes": [16]}' % {b"a": b'{"$dense": ["<f4", 0, 4]}'},
        bytes(16),
    ),
    "unhashable key": _frame(b'{"message": {"$dict": [[[1], 2]]}, "sizes": []}'),
}


@pytest.mark.parametrize("stream", GARBAGE.values(), ids=GARBAGE)
def test_garbage_is_refused(stream: io.BytesIO) -> None:
    stream.seek(0)
    with pytest.raises(ProtocolError):
        read_frame(stream)


def test_nesting_without_end_is_refused() -> None:
    deep = b'{"message": ' + b"[" * 100_000 + b"]" * 100_000 + b', "sizes": []}'
    with pytest.raises(ProtocolError):
        read_frame(_frame(deep))


def test_a_large_frame_is_refused_before_it_is_read() -> None:
    head = MAX_FRAME_BYTES.to_bytes(8, "little") + (1).to_bytes(8, "little")
    with pytest.raises(ProtocolError, match="over the limit"):
        read_frame(io.BytesIO(head))


def test_json_that_would_become_many_objects_is_refused_before_it_is_read() -> None:
    head = (MAX_ANSWER_TEXT + 1).to_bytes(8, "little") + bytes(8)
    with pytest.raises(ProtocolError, match="over the limit"):
        read_frame(io.BytesIO(head))


def test_a_request_may_hold_a_cell_of_any_length() -> None:
    stream = io.BytesIO()
    write_frame(stream, "x" * (MAX_ANSWER_TEXT + 1))
    stream.seek(0)
    assert len(read_frame(stream, most_text=MAX_FRAME_BYTES)) == MAX_ANSWER_TEXT + 1


@pytest.mark.parametrize("value", ["\ud800 half", ["\udfff"], {"\ud800": 1}])
def test_all_text_can_be_written_to_a_file(value: Any) -> None:
    stream = io.BytesIO()
    write_frame(stream, value)
    stream.seek(0)
    assert "?" in repr(read_frame(stream))


def test_a_truncated_frame_is_the_end() -> None:
    stream = io.BytesIO()
    write_frame(stream, np.arange(10))
    for length in (0, 7, 20, len(stream.getvalue()) - 1):
        with pytest.raises(EOFError):
            read_frame(io.BytesIO(stream.getvalue()[:length]))


def test_encoding_shares_no_memory() -> None:
    array, buffers = np.arange(3.0), []
    result = decode(encode(array, buffers), buffers)
    result[0] = 9
    assert array[0] == 0


@pytest.mark.parametrize(
    "value",
    [
        *PLAIN,
        *LAYOUTS.values(),
        *(np.arange(6).reshape(2, 3).astype(dtype) for dtype in DTYPES),
        [np.float32(1.5), (np.arange(3), {"deep": BASE.T, (1, 2): Opaque("set")})],
        [lambda: 0, np.array([None]), {1, 2}, type("Int", (int,), {})(3), Opaque("function")],
    ],
    ids=lambda value: repr(value)[:20],
)
def test_copied_is_encoded_and_decoded(value: Any) -> None:
    buffers: list[bytes] = []
    long_way, short_way = decode(encode(value, buffers), buffers), copied(value)
    one: list[bytes] = []
    other: list[bytes] = []
    assert encode(short_way, one) == encode(long_way, other)
    assert one == other
    assert type(short_way) is type(long_way)
    if isinstance(value, np.ndarray):
        assert short_way.strides == long_way.strides
        assert short_way.flags.writeable
        assert not np.shares_memory(short_way, value)


def test_a_copied_tensor_is_one_of_its_own() -> None:
    import torch

    parameter = torch.nn.Parameter(torch.arange(6.0).reshape(2, 3))
    (result,) = copied((parameter,))
    assert type(result) is torch.Tensor
    assert torch.equal(result, parameter.detach())
    result[0, 0] = 9
    assert parameter[0, 0] == 0
