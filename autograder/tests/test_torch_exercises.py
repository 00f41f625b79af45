"""Exercises of tensors and modules: an exercise of each kind, checked as the course's are."""

import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from attend_grader.checks.compare import FLOAT32, Miss
from attend_grader.checks.contract import EVERY_PARAMETER, FLOAT64
from attend_grader.checks.exercise import Call, Contract, Exercise, Probe, Property, Slip
from attend_grader.checks.flow import gradients
from attend_grader.checks.mutation import mutants
from attend_grader.checks.subject import Subject, local
from attend_grader.checks.torch_properties import module_call, normal
from attend_grader.judging.judge import judge, smoke
from attend_grader.judging.report import Report
from torch import Tensor, nn


def soft_mean(scores: Tensor, values: Tensor) -> Tensor:
    """Weighted mean of values (S, D) by the softmax of scores (T, S)."""
    return torch.softmax(scores, dim=-1) @ values


class Projection(nn.Module):
    """x Wᵀ / √C."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out, width))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T / math.sqrt(self.weight.shape[1])


for toy in (soft_mean, Projection):  # answers are the course's own, wherever they are written
    toy.__module__ = "attend_solutions.toy"
sys.modules["attend_solutions.toy"] = sys.modules[__name__]


def _values(subject: Subject, probe: Probe) -> None:
    probe.agree(
        subject,
        normal(probe.rng, 2, 3),
        normal(probe.rng, 3, 4),
        tolerance=FLOAT32,
        clue=lambda got: "" if isinstance(got, np.ndarray) else "no array",
    )


def _numpy(scores: Tensor, values: Tensor) -> Any:
    return (torch.softmax(scores, dim=-1) @ values).detach().numpy()


def _in_place(scores: Tensor, values: Tensor) -> Tensor:
    scores -= scores.amax(dim=-1, keepdim=True)
    return torch.softmax(scores, dim=-1) @ values


def _single(scores: Tensor, values: Tensor) -> Tensor:
    return torch.softmax(scores.float(), dim=-1) @ values.float()


def _view(scores: Tensor, values: Tensor) -> Tensor:
    return torch.softmax(scores.view(-1).view(scores.shape), dim=-1) @ values


def _make_function() -> Exercise:
    def draws(rng: np.random.Generator) -> list[Call]:
        return [Call((normal(rng, 2, 3), normal(rng, 3, 4))) for _ in range(2)]

    return Exercise(
        chapter="00_toy",
        title="Soft mean",
        goal="Weigh values.",
        reference=soft_mean,
        contract=Contract(
            accepts=(FLOAT64,),
            views=True,
            same_dtype=True,
            arguments_unchanged=True,
            gradients=("scores", "values"),
        ),
        properties=(Property("values", 3, _values),),
        draws=draws,
        slips=(
            Slip("wrong axis", ("dim=-1", "dim=0"), "The weights must sum to one over the keys."),
            Slip("detached", ("(scores,", "(scores.detach(),"), "Nothing behind scores can learn."),
        ),
        alternatives={},
        hints=("",),
        minutes=1,
        difficulty=1,
        importance=1,
    )


FUNCTION = _make_function()


def _judge(candidate: Any, exercise: Exercise = FUNCTION) -> Report:
    return judge(local(candidate), exercise, 3, extra=True)


def test_the_reference_of_tensors_gets_full_marks() -> None:
    report = _judge(soft_mean)
    assert report.score == report.max_score == 6, str(report)


SLIPS: dict[str, tuple[Callable[..., Any], int, str | None, str]] = {
    "wrong axis": (FUNCTION.misconceptions["wrong axis"], 0, "wrong axis", "wrong value: result["),
    "detached": (FUNCTION.misconceptions["detached"], 5, "detached", "no gradient reaches scores."),
    "NumPy": (_numpy, 0, None, "result is a NumPy array, expected a torch tensor"),
    "in place": (_in_place, 4, None, "changes its argument scores in place"),
    "float32": (_single, 5, None, "has the type torch.float32, expected torch.float64"),
    "view": (_view, 5, None, "view size is not compatible"),
}


@pytest.mark.parametrize(("wrong", "score", "named", "told"), SLIPS.values(), ids=SLIPS)
def test_slips_of_tensors_are_told(
    wrong: Callable[..., Any], score: int, named: str | None, told: str
) -> None:
    report = _judge(wrong)
    assert report.diagnosis == named
    assert report.score == score, str(report)
    assert any(told in f.message for f in report.findings), str(report)


def _summed(scores: Tensor, values: Tensor) -> Tensor:
    return (torch.softmax(scores, dim=-1) @ values).sum(dim=-1)


def _both(scores: Tensor, values: Tensor) -> Any:
    return torch.softmax(scores, dim=-1) @ values, scores


@pytest.mark.parametrize("wrong", [_summed, _both, _numpy])
def test_gradients_of_an_answer_of_another_form_are_no_error_of_the_learner(
    wrong: Callable[..., Any],
) -> None:
    assert "your function raised" not in str(_judge(wrong))


def _projects(subject: Subject, probe: Probe) -> None:
    built, probe = probe.build(subject, 4, 3)
    probe.agree(built, normal(probe.rng, 2, 4), tolerance=FLOAT32)


class Unscaled(Projection):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T


class Frozen(Projection):
    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.detach().T / math.sqrt(self.weight.shape[1])


class Renamed(nn.Module):
    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.zeros(width, out))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.w


def _make_class() -> Exercise:
    def draws(rng: np.random.Generator) -> list[Call]:
        return [module_call(Projection, rng, Call((4, 3)), normal(rng, 2, 4)) for _ in range(2)]

    return Exercise(
        chapter="00_toy",
        title="Projection",
        goal="Project.",
        reference=Projection,
        contract=Contract(gradients=("x", EVERY_PARAMETER)),
        properties=(Property("values", 3, _projects),),
        draws=draws,
        slips=(
            Slip("unscaled", Unscaled, "The division by the root of the width is missing."),
            Slip("frozen", Frozen, "The weight is detached, and never learns."),
        ),
        alternatives={},
        hints=("",),
        minutes=1,
        difficulty=1,
        importance=1,
    )


CLASS = _make_class()


def test_the_reference_of_a_module_gets_full_marks() -> None:
    assert _judge(Projection, CLASS).score == 4
    assert smoke(local(Projection), CLASS) == ""


def test_slips_of_modules_are_named() -> None:
    assert _judge(Unscaled, CLASS).diagnosis == "unscaled"
    frozen = _judge(Frozen, CLASS)
    assert (frozen.score, frozen.diagnosis) == (3, "frozen")
    assert "no gradient reaches weight." in frozen.findings[1].message


class Kept(Projection):
    def forward(self, x: Tensor) -> Tensor:
        if not hasattr(self, "kept"):
            self.kept = self.weight.T / math.sqrt(self.weight.shape[1])
        return x @ self.kept


def test_what_is_kept_of_parameters_shows_after_a_step_of_training() -> None:
    for candidate, right in ((Projection, True), (Kept, False)):
        probe = Probe(np.random.default_rng(1), Projection, False, ("x",))
        built, probe = probe.build(local(candidate), 4, 3)
        x = normal(probe.rng, 2, 4)
        first = probe.agree(built, x, tolerance=FLOAT32).value
        built, before = probe.train(built)
        scaled = before["weight"].T / math.sqrt(4)
        assert torch.allclose(first, x @ scaled)
        if right:
            assert not torch.allclose(probe.agree(built, x, tolerance=FLOAT32).value, first)
            continue
        with pytest.raises(Miss, match="wrong value"):
            probe.agree(built, x, tolerance=FLOAT32)


class KeptInDecoding(Kept):
    def forward(self, x: Tensor) -> Tensor:
        right = self.weight.T / math.sqrt(self.weight.shape[1])
        return x @ right if torch.is_grad_enabled() else super().forward(x)


class KeptInEvaluation(Kept):
    def forward(self, x: Tensor) -> Tensor:
        right = self.weight.T / math.sqrt(self.weight.shape[1])
        return x @ right if self.training else super().forward(x)


@pytest.mark.parametrize(
    ("candidate", "when"),
    [(Kept, ""), (KeptInDecoding, "no_grad"), (KeptInEvaluation, ".eval()")],
)
def test_what_is_kept_of_parameters_breaks_the_promise_of_gradients(
    candidate: type, when: str
) -> None:
    report = _judge(candidate, CLASS)
    assert (report.score, report.diagnosis) == (3, None)
    message = report.findings[1].message
    assert "for a new module with the same parameters." in message
    assert "kept from one call for the next?" in message
    assert when in message


class WithoutGraph(Projection):
    """Its values are right, and in some calls nothing is learned."""

    def __init__(self, width: int, out: int, when: str = "") -> None:
        super().__init__(width, out)
        self.when = when

    def forward(self, x: Tensor) -> Tensor:
        cut = {"evaluating": not self.training, "one": len(x) == 1}
        return super().forward(x.detach() if cut[self.when] else x)


@pytest.mark.parametrize("when", ["evaluating", "one"])
def test_gradients_are_looked_at_in_unusual_calls_too(when: str) -> None:
    class Cut(WithoutGraph):
        def __init__(self, width: int, out: int) -> None:
            super().__init__(width, out, when)

    report = _judge(Cut, CLASS)
    assert report.score < 4, str(report)


def test_parameters_of_other_names_are_told() -> None:
    report = _judge(Renamed, CLASS)
    assert report.score == 0
    told = report.findings[0].message
    assert "missing: weight (3, 4); not expected: w (4, 3)" in told
    assert ("called with", "width = 4\nout = 3\nProjection(width, out)") in (
        report.findings[0].evidence
    )
    assert smoke(local(Renamed), CLASS).startswith("raises ValueError")


STUB = """
class Projection(nn.Module):
    '''Words.'''

    def __init__(self, width, out):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(out, width))

    def forward(self, x):
        # YOUR CODE HERE
        raise NotImplementedError()
"""


def test_a_module_whose_forward_is_not_written_is_not_started(define: Any) -> None:
    stub = define(STUB, "Projection", nn=nn, torch=torch)
    report = _judge(stub, CLASS)
    assert report.status == "not started"
    assert smoke(local(stub), CLASS) == "is not started"


def test_a_class_from_a_notebook_has_a_source(define: Any) -> None:
    stub = define(STUB, "Projection", nn=nn, torch=torch)
    source = local(stub).description.source
    assert source is not None
    assert source.strip() == STUB.strip()
    of_reference = local(Projection).description.source
    assert of_reference == inspect.getsource(Projection)


def test_mutants_of_a_class_lose_points() -> None:
    found = {str(m).split(": ", 1)[1]: m.function for m in mutants(Projection)}
    changed = next(f for text, f in found.items() if "→ x * self.weight.T" in text)
    assert _judge(changed, CLASS).score == 0


def _half_cut(second: Callable[[Tensor, Tensor], Tensor]) -> str:
    """What is told where y reaches the first of two results without its gradient."""

    def draws(rng: np.random.Generator) -> list[Call]:
        return [Call((normal(rng, 2, 3), normal(rng, 2, 3)))]

    probe = Probe(np.random.default_rng(1), lambda x, y: (x * y, second(x, y)), False, ("x", "y"))
    mine = local(lambda x, y: (x * y.detach(), second(x, y)))
    with pytest.raises(Miss) as told:
        gradients(draws, named=("x", "y"))(mine, probe)
    return told.value.cause


def test_a_result_through_which_no_gradient_comes_is_not_said_to_be_right() -> None:
    assert "wrong through result 1 only, and right through result 2" in _half_cut(torch.add)
    assert "right through" not in _half_cut(lambda x, y: x.sum(-1))
