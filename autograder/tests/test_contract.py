"""Contracts: what they say, and that breaking a promise, in any argument, costs that promise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from attend_grader.checks.compare import FLOAT32 as SINGLE
from attend_grader.checks.contract import (
    EVERY_PARAMETER,
    FLOAT32,
    FLOAT64,
    INTEGERS,
    Contract,
)
from attend_grader.checks.exercise import Call, Exercise, Property
from attend_grader.checks.helpers import ANEW
from attend_grader.checks.promises import changes
from attend_grader.checks.subject import local
from attend_grader.checks.torch_numbers import normal as tensor
from attend_grader.checks.torch_properties import module_call
from attend_grader.judging.judge import judge
from attend_grader.judging.report import Report
from attend_grader.judging.run import NOT_YET
from torch import Tensor, nn

NUMPY = Contract(
    numpy_only=True,
    leading_axes=True,
    accepts=(FLOAT64, FLOAT32, INTEGERS),
    views=True,
    arguments_unchanged=True,
    forbids=("numpy.linalg.inv", "sorted"),
    says=("Weights may be 0.",),
)


def mix(x: np.ndarray, w: np.ndarray, half: bool = False) -> np.ndarray:
    """Rows of x (..., T, D) times w (..., D, E), or half of that."""
    mixed = x @ w
    return mixed * 0.5 if half else mixed


def mixed(x: Any, w: Any, half: bool = False) -> Any:
    """The same, for candidates: an answer may not be called."""
    return (x @ w) * (0.5 if half else 1)


def _draws(rng: np.random.Generator) -> list[Call]:
    def pair(t: int, d: int, e: int) -> tuple[np.ndarray, np.ndarray]:
        return rng.standard_normal((t, d)).round(2), rng.standard_normal((d, e)).round(2)

    return [Call(pair(3, 4, 2)), Call(pair(3, 3, 3)), Call(pair(2, 3, 5), {"half": True})]


def _agrees(subject: Any, probe: Any) -> None:
    for call in _draws(probe.rng):
        probe.agree(subject, *call.args, **call.kwargs)


def _exercise(reference: Callable[..., Any], contract: Contract, draws: Any, test: Any) -> Exercise:
    reference.__module__ = "attend_solutions.toy"  # answers are the course's own
    return Exercise(
        chapter="00_toy",
        title="Toy",
        goal="Try contracts.",
        reference=reference,
        properties=(Property("values", 2, test),),
        draws=draws,
        contract=contract,
        alternatives={},
        hints=("",),
        minutes=1,
        difficulty=1,
        importance=1,
    )


MIX = _exercise(mix, NUMPY, _draws, _agrees)


def _judge(candidate: Any, exercise: Exercise = MIX) -> Report:
    return judge(local(candidate), exercise, 1, extra=True)


def _lost(report: Report) -> dict[str, str]:
    return {f.property: f.message for f in report.findings if not f.passed}


def test_every_promise_and_every_ban_is_said() -> None:
    assert NUMPY.sentence() == (
        "NumPy and Python only. "
        "Any number of leading axes. Any argument may be int64, float32 or a view such as `a.T`. "
        "Arguments and earlier results stay unchanged. Weights may be 0. "
        "Not allowed: `np.linalg.inv` and `sorted`."
    )
    torch_one = Contract(
        accepts=(FLOAT32, FLOAT64),
        leading_axes=("x",),
        same_dtype=True,
        gradients=("x", EVERY_PARAMETER),
        masks=("mask",),
        hidden_rows=True,
        forbids=(
            "torch.nn.functional.scaled_dot_product_attention",
            "torch._C._nn.scaled_dot_product_attention",
            "torch.nn.modules.activation.MultiheadAttention",
            "torch.nn.MultiheadAttention",
        ),
    )
    assert torch_one.sentence() == (
        "Any number of leading axes in `x`. All arguments may be float64. "
        "Results have the arguments' type. `mask` may have any shape that broadcasts; all "
        "True is the same as None. A row of the mask may be all False. Gradients reach `x` and "
        "every parameter; no call changes later ones. Not allowed: "
        "`F.scaled_dot_product_attention` and `nn.MultiheadAttention`."
    )
    assert Contract().sentence() == ""


def test_the_contracts_bans_are_the_exercises() -> None:
    assert MIX.forbidden == NUMPY.bans
    assert {"scipy", "torch", "numpy.linalg.inv"} <= set(NUMPY.bans)


def test_promises_come_last_and_are_worth_a_point_each_unless_told_otherwise() -> None:
    names = [p.name for p in MIX.properties]
    assert names == [
        "values",
        "any number of leading axes",
        "any argument may be int64, float32 or a view such as a.T",
        "arguments stay as they were",
    ]
    assert MIX.points == 5
    more = _exercise(mix, Contract(views=True, points={"kinds": 3}), _draws, _agrees)
    assert more.points == 5
    with pytest.raises(ValueError, match="leading"):
        _exercise(mix, Contract(views=True, points={"leading": 3}), _draws, _agrees)


def test_right_answers_keep_every_promise() -> None:
    for right in (
        mix,
        mixed,
        lambda x, w, half=False: np.einsum("...td,...de->...te", x, w) / (2 if half else 1),
        lambda x, w, half=False: np.matmul(np.float64(x), np.float64(w)) * (0.5 if half else 1),
    ):
        assert _lost(_judge(right)) == {}


def _in_place(x: Any, w: Any, half: bool = False) -> Any:
    if half and x.dtype.kind == "f":
        x *= 0.5
        return x @ w
    return mixed(x, w, half)


def _alias(x: Any, w: Any, half: bool = False) -> Any:
    w = np.asarray(w, dtype=np.float64)
    if half:
        w *= 0.5
    return x @ w


def _buffer_like_w(x: Any, w: Any, half: bool = False) -> Any:
    out = np.zeros(mixed(x, w).shape, w.dtype)
    out[...] = mixed(x, w, half)
    return out


def _buffer_like_x(x: Any, w: Any, half: bool = False) -> Any:
    return mixed(x, w, half).astype(x.dtype)


def _squeezed(x: Any, w: Any, half: bool = False) -> Any:
    return mixed(x, w, half).squeeze(0) if x.shape[0] == 1 else mixed(x, w, half)


def _transposed(x: Any, w: Any, half: bool = False) -> Any:
    return mixed(w.T, x.T, half).T if x.ndim == 2 else mixed(x, w, half)[::-1]


def _rejects_float32(x: Any, w: Any, half: bool = False) -> Any:
    if w.dtype == np.float32:
        raise TypeError("float64 only")
    return mixed(x, w, half)


def _reads_memory(x: Any, w: Any, half: bool = False) -> Any:
    return mixed(x, np.ravel(w, order="K").reshape(w.shape), half)


BROKEN = {
    "in place in one branch": (_in_place, "arguments stay", "changes its argument x"),
    "in place through an alias": (_alias, "arguments stay", "changes its argument w"),
    "integers in the second argument": (_buffer_like_w, "any argument", "integers in w"),
    "integers in the first argument": (_buffer_like_x, "any argument", "integers in x"),
    "a leading axis of length 1 squeezed": (_squeezed, "any number", "has the shape"),
    "leading axes turned round": (_transposed, "any number", "for leading index"),
    "float32 refused in one argument": (_rejects_float32, "any argument", "TypeError"),
    "views read as they lie in memory": (_reads_memory, "any argument", "w stored"),
}


@pytest.mark.parametrize(("wrong", "promise", "told"), BROKEN.values(), ids=BROKEN)
def test_what_breaks_a_promise_loses_that_promise_only(wrong: Any, promise: str, told: str) -> None:
    for seed in range(3):
        lost = _lost(judge(local(wrong), MIX, seed, extra=True))
        assert len(lost) == 1
        ((name, message),) = lost.items()
        assert name.startswith(promise)
        assert told in message


def test_the_result_that_holds_integers_is_named() -> None:
    def both(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Rows of x (T, D) times w (D, E), and half of w."""
        return x @ w * 0.5, w * 0.5

    def draws(rng: np.random.Generator) -> list[Call]:
        return [Call(call.args) for call in _draws(rng)]

    def values(subject: Any, probe: Any) -> None:
        for call in draws(probe.rng):
            probe.agree(subject, *call.args)

    def second_cut(x: Any, w: Any) -> Any:
        half = (w * 0.5).astype(w.dtype)
        return x @ half, half

    contract = Contract(accepts=(FLOAT64, INTEGERS))
    exercise = replace(_exercise(both, contract, draws, values), results=("product", "half"))
    (told,) = _lost(judge(local(second_cut), exercise, 1, extra=True)).values()
    assert told.startswith("integers in w: product[")  # which holds floats
    assert "half holds integers there, so fractions are lost." in told

    (told,) = _lost(judge(local(_buffer_like_x), MIX, 1, extra=True)).values()
    assert "Your result holds integers there, so fractions are lost." in told


def test_a_right_result_that_holds_integers_is_not_blamed() -> None:
    def both(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Half of rows of x (T, D) times w (D, E), and the last row."""
        return x @ (w * 0.5), x[-1]

    def draws(rng: np.random.Generator) -> list[Call]:
        return [Call(call.args) for call in _draws(rng)]

    def values(subject: Any, probe: Any) -> None:
        for call in draws(probe.rng):
            probe.agree(subject, *call.args)

    def cut_by_x(x: Any, w: Any) -> Any:
        return x @ (w * 0.5).astype(x.dtype) * 1.0, x[-1]

    contract = Contract(accepts=(FLOAT64, INTEGERS))
    exercise = replace(_exercise(both, contract, draws, values), results=("product", "kept"))
    (told,) = _lost(judge(local(cut_by_x), exercise, 1, extra=True)).values()
    assert told.startswith("integers in x: product[")
    assert "kept holds integers" not in told
    assert "Is something else given x's type there?" in told


def test_where_integers_in_one_argument_change_a_float_result_its_type_is_asked_about() -> None:
    wrong = lambda x, w, half=False: mixed(x, w.astype(x.dtype), half) * 1.0  # noqa: E731
    (told,) = _lost(judge(local(wrong), MIX, 1, extra=True)).values()
    assert "Is something else given x's type there? Integers hold no fractions." in told


def test_another_slip_costs_nothing_in_a_promise() -> None:
    """Wrong values: what is promised is still kept, and counts once enough else is right."""
    wrong_when_half = lambda x, w, half=False: x @ w * 0.3 if half else x @ w  # noqa: E731

    def first_right(subject: Any, probe: Any) -> None:
        probe.agree(subject, *_draws(probe.rng)[0].args)

    exercise = _exercise(mix, NUMPY, _draws, first_right)
    assert list(_lost(_judge(wrong_when_half, exercise))) == ["values"]  # by the last look
    lost = _lost(_judge(lambda x, w, half=False: np.zeros((len(x), 2)), exercise))
    assert list(lost.values())[1:] == [NOT_YET] * 3


def test_where_one_entry_has_the_wrong_shape_the_stack_is_not_blamed() -> None:
    def scaled(x: np.ndarray) -> np.ndarray:
        """Each row of x (..., D) divided by its length."""
        return x / np.linalg.norm(x, axis=-1, keepdims=True)

    def draws(rng: np.random.Generator) -> list[Call]:
        return [Call((rng.standard_normal(shape),)) for shape in ((5,), (2, 3))]

    def first_right(subject: Any, probe: Any) -> None:
        probe.agree(subject, *draws(probe.rng)[1].args)

    exercise = _exercise(scaled, Contract(leading_axes=True), draws, first_right)
    wrong = lambda x: np.atleast_2d(x) / np.linalg.norm(x, axis=-1, keepdims=True)  # noqa: E731
    told = _lost(_judge(wrong, exercise))["any number of leading axes"]
    expected = "already without one more leading axis result has the shape (1, 5), expected (5,)."
    assert told == expected


def test_a_promise_that_cannot_be_tried_is_not_kept() -> None:
    def raises(x: Any, w: Any, half: bool = False) -> Any:
        raise RuntimeError

    passes = _exercise(mix, NUMPY, _draws, lambda subject, probe: None)
    lost = _lost(_judge(raises, passes))
    assert len(lost) == 3
    assert "could not be tried" in next(iter(lost.values()))


def lower(x: np.ndarray) -> np.ndarray:
    """x (..., T, T), and −inf above the diagonal."""
    return np.where(np.tril(np.ones(x.shape[-2:], bool)), x, -np.inf)


@pytest.mark.parametrize("wrong_on", ["views", "leading axes"])
def test_promises_are_tried_where_right_answers_hold_infinities(wrong_on: str) -> None:
    def wrong(x: Any) -> Any:
        other = not x.flags.c_contiguous if wrong_on == "views" else x.ndim > 2
        return np.where(np.tril(np.ones(x.shape[-2:], bool)), x + other, -np.inf)

    def draws(rng: np.random.Generator) -> list[Call]:
        return [Call((rng.standard_normal((t, t)),)) for t in (3, 4)]

    contract = Contract(leading_axes=True, views=True)
    exercise = _exercise(lower, contract, draws, lambda subject, probe: None)
    assert len(_lost(_judge(wrong, exercise))) == 1


def test_what_is_changed_is_told_in_the_plural_where_it_is_several() -> None:
    assert "changes its argument b in place: whoever called it would find it" in str(changes(["b"]))
    told = "changes its arguments b and c in place: whoever called it would find them changed"
    assert told in str(changes(["b", "c"]))


# Tensors


def gate(x: Tensor, state: Tensor) -> Tensor:
    """A gated step."""
    return torch.sigmoid(x) * state + x


def _gate_draws(rng: np.random.Generator) -> list[Call]:
    return [Call((tensor(rng, 2, 3), tensor(rng, 2, 3))) for _ in range(3)]


def _gate_values(subject: Any, probe: Any) -> None:
    for call in _gate_draws(probe.rng):
        probe.agree(subject, *call.args, tolerance=SINGLE)


GATE = _exercise(
    gate,
    Contract(
        leading_axes=True,
        accepts=(FLOAT32, FLOAT64),
        views=True,
        arguments_unchanged=True,
        same_dtype=True,
        gradients=("x", "state"),
    ),
    _gate_draws,
    _gate_values,
)


def _alias_of_float64(x: Tensor, state: Tensor) -> Tensor:
    wide = state.double()  # no copy, where it is float64 already
    wide *= torch.sigmoid(x)
    return wide.to(x.dtype) + x


TENSORS = {
    "detached in one of two places": (
        lambda x, state: torch.sigmoid(x.detach()) * state + x,
        "gradients reach x and state",
        "gradient of x",
    ),
    "state detached": (
        lambda x, state: torch.sigmoid(x) * state.detach() + x,
        "gradients reach x and state",
        "no gradient reaches state",
    ),
    "changes float64 in place": (
        _alias_of_float64,
        "arguments stay",
        "changes its argument state",
    ),
    "always float32": (
        lambda x, state: torch.sigmoid(x.float()) * state.float() + x.float(),
        "all arguments may be float64",
        "type",
    ),
}


@pytest.mark.parametrize(("wrong", "promise", "told"), TENSORS.values(), ids=TENSORS)
def test_promises_of_tensors(wrong: Any, promise: str | None, told: str) -> None:
    lost = _lost(judge(local(wrong), GATE, 2, extra=True))
    if promise is None:
        assert lost == {}
        return
    assert [name for name in lost if name.startswith(promise)] == list(lost)
    assert told in next(iter(lost.values()))


def test_gradients_of_wrong_values_are_those_of_what_was_computed() -> None:
    exercise = _exercise(gate, GATE.contract or Contract(), _gate_draws, lambda s, p: None)
    wrong = _lost(_judge(lambda x, state: torch.tanh(x) * state, exercise))
    assert list(wrong) == ["values"]  # by the last look; its gradients are right
    lost = _lost(_judge(lambda x, state: torch.tanh(x) * state.detach(), exercise))
    assert list(lost.values()) == [
        "no gradient reaches state. Is it left out, or does something cut the graph: .detach(), "
        ".data, .numpy(), .item(), nn.Parameter(…) or torch.tensor(…) of a tensor, "
        "torch.no_grad()? Stay with tensor operations from input to output."
    ]


def test_values_that_are_right_only_for_zeros_tell_of_no_cut_graph() -> None:
    def draws(rng: np.random.Generator) -> list[Call]:
        return [Call((tensor(rng, 2, 3), torch.zeros(2, 3)))]

    exercise = _exercise(gate, GATE.contract or Contract(), draws, lambda s, p: None)
    lost = _lost(_judge(lambda x, state: torch.tanh(x) * state + x, exercise))
    told = lost["gradients reach x and state"]
    assert told.endswith("state is 0 here, so right values do not show how it is used.")
    assert "cut" not in told


@functools.lru_cache
def _remembered(x: Tensor, state: Tensor) -> Tensor:
    return torch.sigmoid(x) * state + x


def _short_cut(x: Tensor, state: Tensor) -> Tensor:
    return torch.sigmoid(x) * state + x if state.any() else x.clone()


UNUSUAL = {
    "kept by the identity of the arguments": (
        _remembered,
        "arguments stay as they were",
        "called again with the same arrays, which hold other numbers now: result",
    ),
    "zeros need no product": (
        _short_cut,
        "gradients reach x and state",
        "state all zeros: no gradient reaches state.",
    ),
}


@pytest.mark.parametrize(("wrong", "lost", "told"), UNUSUAL.values(), ids=UNUSUAL)
def test_what_is_right_on_new_arrays_that_hold_no_zeros(wrong: Any, lost: str, told: str) -> None:
    found = _lost(_judge(wrong, GATE))
    assert list(found) == [lost]
    assert told in found[lost]


def test_a_kink_at_zero_is_no_call_to_compare_gradients_on() -> None:
    def ramp(x: Tensor, state: Tensor) -> Tensor:
        return torch.relu(x) * state

    def other(x: Tensor, state: Tensor) -> Tensor:
        return x.clamp(min=0) * state  # its slope at 0 is 1

    def grown(x: Tensor, state: Tensor) -> Tensor:
        return torch.where(x > 0, x, 0 * x) * state

    exercise = _exercise(ramp, GATE.contract or Contract(), _gate_draws, lambda s, p: None)
    assert [_lost(_judge(right, exercise)) for right in (ramp, other, grown)] == [{}, {}, {}]


def test_a_result_without_a_graph_is_told_where_no_gradient_is_lost() -> None:
    def softmax(x: Tensor) -> Tensor:
        return torch.softmax(x, dim=-1)

    def constant(x: Tensor) -> Tensor:
        return torch.softmax(x, dim=-1) if x.shape[-1] > 1 else torch.ones_like(x)

    def draws(rng: np.random.Generator) -> list[Call]:
        return [Call((tensor(rng, 2, 3),)), Call((tensor(rng, 2, 1),))]

    contract = Contract(gradients=("x",))
    exercise = _exercise(softmax, contract, draws, lambda s, p: None)
    assert _lost(_judge(softmax, exercise)) == {}
    (told,) = _lost(_judge(constant, exercise)).values()
    assert told.startswith("no graph leads back from result, so that a backward pass from there")


def near(x: Tensor, centre: Tensor, bell: bool = True) -> Tensor:
    """Places of x (T, S) at most 1 away from each centre (T,), under a bell."""
    away = torch.arange(x.shape[-1]) - centre[..., None]
    inside = torch.where(away.abs() <= 1, x, 0 * x)
    return inside * torch.exp(-(away**2)) if bell else inside


def _near_draws(rng: np.random.Generator) -> list[Call]:
    centre = torch.from_numpy(rng.integers(0, 6, 4)).float()
    return [
        Call((tensor(rng, 4, 6), centre)),
        Call((tensor(rng, 4, 6), centre), {"bell": False}),
        Call((tensor(rng, 4, 6), centre + 0.25)),
    ]


def _near_values(subject: Any, probe: Any) -> None:
    call = _near_draws(probe.rng)[-1]  # half the points: off the edges
    probe.agree(subject, *call.args, tolerance=SINGLE)


def test_values_wrong_at_a_jump_cost_neither_types_nor_gradients() -> None:
    """Rounding may decide who is inside, but it did not; a jump has no gradient to reach it."""

    def edges_out(x: Tensor, centre: Tensor, bell: bool = True) -> Tensor:
        away = torch.arange(x.shape[-1]) - centre[..., None]
        inside = torch.where(away.abs() < 1, x, 0 * x)
        return inside * torch.exp(-(away**2)) if bell else inside

    def detached(x: Tensor, centre: Tensor, bell: bool = True) -> Tensor:
        return edges_out(x, centre.detach(), bell)

    def coarse(x: Tensor, centre: Tensor, bell: bool = True) -> Tensor:
        away = torch.arange(x.shape[-1]) - centre[..., None]
        inside = torch.where(away.abs() <= 1, x, 0 * x)
        return inside * torch.exp(-(away.float() ** 2)).to(x.dtype) if bell else inside

    contract = Contract(
        accepts=(FLOAT32, FLOAT64), same_dtype=True, gradients=("x", "centre"), views=True
    )
    exercise = _exercise(near, contract, _near_draws, _near_values)
    assert list(_lost(_judge(edges_out, exercise))) == ["values"]
    lost = _lost(_judge(detached, exercise))
    assert list(lost) == ["gradients reach x and centre"]
    assert "no gradient reaches centre" in lost["gradients reach x and centre"]
    (told,) = _lost(_judge(coarse, exercise)).values()
    assert "Yours is right to some 7 digits only" in told


def test_an_argument_that_changes_only_where_gradients_are_asked_for() -> None:
    def changing(x: Tensor, state: Tensor) -> Tensor:
        value = torch.sigmoid(x) * state + x
        if x.requires_grad:
            x.detach().add_(1.0)
        return value

    exercise = _exercise(gate, GATE.contract or Contract(), _gate_draws, lambda s, p: None)
    lost = _lost(_judge(changing, exercise))
    assert any("x" in text and "in place" in text for text in lost.values()), lost
    assert not any("cut" in text for text in lost.values())


def test_an_argument_that_changes_only_without_a_graph() -> None:
    def changing(x: Tensor, state: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            return torch.sigmoid(x) * state + x
        gated = torch.sigmoid(x) * state
        return x.add_(gated)

    exercise = _exercise(gate, GATE.contract or Contract(), _gate_draws, lambda s, p: None)
    lost = _lost(_judge(changing, exercise))
    assert list(lost) == ["arguments stay as they were"]
    assert "argument x in place" in lost["arguments stay as they were"]


def test_one_array_as_two_arguments() -> None:
    """Copies hide what is written into the memory of both."""

    def scaling(x: Any, w: Any, half: bool = False) -> Any:
        product = np.matmul(x, w) * (0.5 if half else 1.0)
        return product * 2 if w is x else product

    exercise = _exercise(mix, replace(NUMPY, one_array=True), _draws, _agrees)
    assert "Several arguments may be one array." in exercise.statement
    assert _lost(_judge(mixed, exercise)) == {}
    (text,) = _lost(_judge(scaling)).values()  # where it is not said, a last look finds it
    assert text.startswith("a last look, at other inputs: one array as x and w: ")
    (text,) = _lost(_judge(scaling, exercise)).values()
    assert text.startswith("one array as w and x: ")
    assert "for copies of it." in text


def test_a_change_that_only_other_properties_see_is_not_made_good_by_references() -> None:
    """They hold, so none of their calls was made again, and the points came back."""

    def turning(x: Any, w: Any, half: bool = False) -> Any:
        rows = np.array(x)
        if isinstance(x, list):
            x.reverse()
        return mixed(rows, w, half)

    def listed(subject: Any, probe: Any) -> None:
        probe.agree(subject, [[1.0, 2.0], [3.0, 4.0]], np.eye(2))

    exercise = replace(_exercise(mix, NUMPY, _draws, listed), uses=("earlier",))
    assert list(_lost(_judge(turning, exercise))) == ["arguments stay as they were"]


def test_a_result_that_the_next_call_overwrites() -> None:
    kept: dict[Any, Tensor] = {}

    def reusing(x: Tensor, state: Tensor) -> Tensor:
        result = kept.setdefault((x.shape, x.dtype), torch.empty_like(x))
        with torch.no_grad():
            result.copy_(torch.sigmoid(x) * state + x)
        return result

    def remembering(x: Tensor, state: Tensor) -> Tensor:
        result = torch.sigmoid(x) * state + x
        kept[x.shape, x.dtype] = result  # and never writes to it again
        return result

    contract = replace(GATE.contract or Contract(), gradients=())
    exercise = _exercise(gate, contract, _gate_draws, lambda s, p: None)
    lost = _lost(_judge(reusing, exercise))
    assert "a later call of your function changed" in lost["arguments stay as they were"]
    assert not _lost(_judge(remembering, exercise))


class Layer(nn.Module):
    """x Wᵀ + b."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias


class FrozenBias(Layer):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T + self.bias.detach()


def _layer_draws(rng: np.random.Generator) -> list[Call]:
    return [module_call(Layer, rng, Call((3, n)), tensor(rng, 2, 3)) for n in (2, 4)]


class KeptInEval(Layer):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(inputs, outputs)
        self.kept: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.training or self.kept is None:
            self.kept = self.weight.T.clone()
        return x @ self.kept + self.bias


def test_what_a_module_keeps_in_eval_mode_is_found() -> None:
    contract = Contract(gradients=("x", EVERY_PARAMETER))
    exercise = _exercise(Layer, contract, _layer_draws, lambda subject, probe: None)
    assert _lost(_judge(Layer, exercise)) == {}
    (told,) = _lost(_judge(KeptInEval, exercise)).values()
    assert "after .eval(): called, then all parameters were changed" in told
    assert "kept from one call for the next?" in told


def table(size: int) -> tuple[Tensor, float]:
    """Numbers up to a size, and the size."""
    return torch.arange(float(size)), float(size)


def test_a_result_that_is_kept_and_handed_out_again() -> None:
    contract = Contract(says=(ANEW,))
    exercise = _exercise(table, contract, lambda rng: [Call((5,))], lambda subject, probe: None)
    views = functools.cache(lambda size: torch.arange(2.0 * size))

    def lost(candidate: Any) -> dict[str, str]:
        def own(size: int) -> tuple[Tensor, float]:
            return candidate(size)

        return _lost(_judge(own, exercise))

    assert not lost(table)
    assert not lost(lambda size: (views(size)[:size].clone(), float(size)))
    told = lost(functools.cache(table))["values"]
    assert "called again, after what it returned at first was written over" in told
    spoilt = lost(lambda size: (views(size)[:size], float(size)))
    assert spoilt


def test_gradients_of_every_parameter_of_a_module() -> None:
    contract = Contract(
        leading_axes=True,
        accepts=(FLOAT32,),
        views=True,
        arguments_unchanged=True,
        gradients=("x", EVERY_PARAMETER),
    )
    exercise = _exercise(Layer, contract, _layer_draws, lambda subject, probe: None)
    assert _lost(_judge(Layer, exercise)) == {}
    (told,) = _lost(_judge(FrozenBias, exercise)).values()
    assert told.startswith("no gradient reaches bias.")


def test_a_gradient_that_no_draw_can_give_is_an_error_of_the_contract() -> None:
    contract = Contract(accepts=(FLOAT32,), gradients=("weights",))
    exercise = _exercise(Layer, contract, _layer_draws, lambda subject, probe: None)
    (told,) = _lost(_judge(Layer, exercise)).values()
    assert "no draw has a tensor or parameter called ['weights']" in told


# Masks


def picked(scores: Any, mask: Any = None) -> Any:
    return scores if mask is None else np.where(mask, scores, 0.0)


def pick(scores: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """Scores where the mask allows, else 0."""
    return scores if mask is None else np.where(mask, scores, 0.0)


def _pick_draws(rng: np.random.Generator) -> list[Call]:
    return [
        Call((rng.standard_normal((3, 4)).round(2), rng.random((3, 4)) < 0.5)),
        Call((rng.standard_normal((2, 3)).round(2),)),
    ]


def _pick_values(subject: Any, probe: Any) -> None:
    for call in _pick_draws(probe.rng):
        probe.agree(subject, *call.args)


PICK = _exercise(
    pick,
    Contract(numpy_only=True, masks=("mask",), hidden_rows=True, arguments_unchanged=True),
    _pick_draws,
    _pick_values,
)


def _no_mask_if_all_false(scores: Any, mask: Any = None) -> Any:
    return picked(scores, mask) if mask is not None and mask.any() else scores


def _row_of_none(scores: Any, mask: Any = None) -> Any:
    if mask is None:
        return scores
    return np.where(mask | ~mask.any(-1, keepdims=True), scores, 0.0)


def _changes_mask(scores: Any, mask: Any = None) -> Any:
    if mask is None:
        return scores
    kept = picked(scores, mask.copy())
    mask &= False
    return kept


def _square_only(scores: Any, mask: Any = None) -> Any:
    square = mask is None or mask.shape[-2:] == scores.shape
    return picked(scores, mask if square else None)


MASKS = {
    "a row for all left out": (_square_only, "any mask", "mask of the shape (1, 4)"),
    "all False taken for no mask": (_no_mask_if_all_false, "any mask", "all of mask False"),
    "a row of nothing": (_row_of_none, "any mask", "mask"),
    "the mask changed": (_changes_mask, "arguments stay", "changes its argument mask"),
}


@pytest.mark.parametrize(("wrong", "promise", "told"), MASKS.values(), ids=MASKS)
def test_promises_of_masks(wrong: Any, promise: str, told: str) -> None:
    assert _lost(_judge(picked, PICK)) == {}
    ((name, message),) = _lost(_judge(wrong, PICK)).items()
    assert name.startswith(promise)
    assert told in message


def test_a_last_look_finds_what_no_property_asks_for() -> None:
    """A draw with another option, and one cut to a length of 1: wrong, though all else passes."""
    exercise = _exercise(mix, NUMPY, _draws, lambda subject, probe: None)
    assert _lost(_judge(mixed, exercise)) == {}

    def narrow(x: Any, w: Any, half: bool = False) -> Any:
        return mixed(x, w, half)[..., 0] if w.shape[-1] == 1 else mixed(x, w, half)

    lost = _lost(_judge(narrow, exercise))
    assert list(lost) == ["values"]
    assert "the shape of result is" in lost["values"]


def test_a_last_look_tries_wide_calls_twice() -> None:
    def wide(rng: np.random.Generator) -> list[Call]:
        return [Call((rng.normal(size=(2, 70)), rng.normal(size=(70, 2))))]

    exercise = replace(_exercise(mix, NUMPY, _draws, lambda subject, probe: None), wide=wide)
    assert _lost(_judge(mixed, exercise)) == {}
    kept = np.empty((2, 2))

    def narrow(x: Any, w: Any, half: bool = False) -> Any:
        return mixed(x[..., :64], w[..., :64, :], half)

    def keeps(x: Any, w: Any, half: bool = False) -> Any:
        if x.shape != (2, 70):
            return mixed(x, w, half)
        kept[...] = mixed(x, w, half)
        return kept

    assert "with an axis of 70: result[" in _lost(_judge(narrow, exercise))["values"]
    lost = _lost(_judge(keeps, exercise))
    assert list(lost) == ["arguments stay as they were"]
    assert "changed what this one had returned" in lost["arguments stay as they were"]


def test_a_last_look_finds_what_is_kept_for_an_array_whose_numbers_change() -> None:
    exercise = _exercise(mix, NUMPY, _draws, lambda subject, probe: None)
    kept: dict[int, Any] = {}

    def keeps(x: Any, w: Any, half: bool = False) -> Any:
        _, powers = kept.setdefault(id(w), (w, w.copy()))  # by the array, not by its numbers
        return mixed(x, powers, half)

    lost = _lost(_judge(keeps, exercise))
    assert list(lost) == ["arguments stay as they were"]
    (told,) = lost.values()
    assert "called again with the same arrays, which hold other numbers now" in told
    assert "kept from one call for the next" in told


def test_where_calls_leave_something_behind_no_view_is_blamed() -> None:
    calls = []

    def counts(x: Any, w: Any, half: bool = False) -> Any:
        calls.append(x)
        return mixed(x, w, half) + len(calls)

    only_views = Contract(views=True, points={"kinds": 2})
    exercise = _exercise(mix, only_views, _draws, lambda subject, probe: None)
    assert _lost(_judge(mixed, exercise)) == {}
    told = _lost(_judge(counts, exercise))["any argument may be a view such as a.T"]
    assert told.startswith("called again with the same arguments: ")
    assert "kept from one call for the next" in told


def test_an_argument_changed_in_any_call_counts() -> None:
    """Not only in the calls of that promise: here where it has three axes, as one property asks."""

    def with_three(subject: Any, probe: Any) -> None:
        probe.call(subject, np.ones((1, 1, 2, 3)), np.ones((3, 2)))

    def sly(x: Any, w: Any, half: bool = False) -> Any:
        found = mixed(x, w, half)
        if x.shape == (1, 1, 2, 3):
            x[...] = 0
        return found

    exercise = _exercise(mix, NUMPY, _draws, with_three)
    assert _lost(_judge(mixed, exercise)) == {}
    lost = _lost(_judge(sly, exercise))
    assert list(lost) == ["arguments stay as they were"]
    assert "changes its argument x in place" in next(iter(lost.values()))


def test_several_changed_arguments_are_told_in_the_plural() -> None:
    assert "its argument x in place: whoever called it would find it changed" in changes(["x"]).text
    several = changes(["q", "k"]).text
    assert "its arguments q and k in place: whoever called it would find them changed" in several
