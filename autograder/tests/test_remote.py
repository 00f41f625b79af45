"""Every check against a subject in another process, which speaks only JSON and raw buffers."""

import importlib.util
import inspect
import linecache
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from attend_grader import chapters
from attend_grader.checks import flow
from attend_grader.checks.compare import Miss
from attend_grader.checks.exercise import Call, Exercise, Probe
from attend_grader.checks.outcomes import CallError
from attend_grader.checks.subject import Subject, SubjectError, local
from attend_grader.checks.torch_properties import module_call
from attend_grader.inside import codec
from attend_grader.judging.judge import judge, references_for
from attend_grader.judging.report import Report
from attend_grader.sandbox.references import References
from attend_grader.sandbox.remote import ProcessChannel, SubjectDied, remote

CANDIDATES = [
    pytest.param(e, f, id=f"{e.id}-{name}", marks=pytest.mark.deep if place or kind % 2 else ())
    for chapter_id in chapters.INDEX
    for place, e in enumerate(chapters.chapter(chapter_id).exercises)
    for kind, (name, f) in enumerate(
        {
            "reference": e.reference,
            **dict(list(e.right_answers.items())[:1]),
            **dict(list(e.misconceptions.items())[::5]),
        }.items()
    )
]
"""The answer, another right one and some slips; of each chapter's first exercise, the answer and a
slip in `make test`."""


@pytest.fixture(scope="module")
def worker() -> Iterator[ProcessChannel]:
    with ProcessChannel("def nothing(): pass", "nothing") as channel:
        yield channel


def _known(exercise: Exercise) -> dict[str, Callable[..., Any]]:
    return references_for(exercise, chapters.references(exercise))


def _load(worker: ProcessChannel, source: str, name: str, exercise: Exercise) -> Subject:
    worker.references = _known(exercise)
    assert worker.request({"op": "load", "source": source, "name": name}) == {"error": None}
    return Subject(worker)


def _source(candidate: Callable[..., Any]) -> str:
    """Its module's text; for a slip, which is an edit of the answer there, with the slip below."""
    module = inspect.getmodule(candidate)
    assert module is not None
    own = vars(candidate).values() if isinstance(candidate, type) else (candidate,)
    files = {f.__code__.co_filename for f in own if inspect.isfunction(f)} - {module.__file__}
    return "\n".join([inspect.getsource(module), *map("".join, map(linecache.getlines, files))])


def _told(report: Report) -> list[Any]:
    """All that is said; bytes and steps of a measured cost differ a little between processes.

    An error in a helper is told where the answer calls it: the helper is the submission's own over
    there, and a library's here.
    """
    told: list[Any] = []
    for f in report.findings:
        message, evidence = f.message, dict(f.evidence)
        call = re.fullmatch(r"(.*) \(line (\d+) of (\w+)\)", evidence.pop("called in", ""))
        if call:
            evidence["your line"] = call[1]
            message = re.sub(r"in line \d+ of \w+", f"in line {call[2]} of {call[3]}", message)
        if "your line" in evidence and "raised" in message:
            evidence.pop("shapes there", None)  # those of the helper, or of its call
        kept = "cost" if "too large" in message else (message, evidence)
        told.append((f.property, f.earned, kept))
    return told


@pytest.mark.parametrize(("exercise", "candidate"), CANDIDATES)
def test_a_remote_subject_gets_the_same_verdict(
    exercise: Exercise, candidate: Callable[..., Any], worker: ProcessChannel
) -> None:
    far = _load(worker, _source(candidate), candidate.__name__, exercise)
    near = local(candidate, _known(exercise))
    theirs, ours = (judge(s, exercise, 3, extra=False) for s in (far, near))
    assert _told(theirs) == _told(ours)
    assert theirs.diagnosis == ours.diagnosis
    assert (theirs.status, theirs.note) == (ours.status, ours.note)
    assert theirs.fix_first == ours.fix_first


SLIPPED = """
import numpy as np

def softmax(scores, axis=-1):
    return np.exp(scores)

def attention_scores(q, k, scaled=True):
    scores = q @ np.swapaxes(k, -1, -2)
    return scores / np.sqrt(q.shape[-1]) if scaled else scores

def scaled_dot_product_attention(q, k, v):
    weights = softmax(attention_scores(q, k))
    return weights @ v, weights
"""


def test_follow_through_reaches_references_over_the_channel(worker: ProcessChannel) -> None:
    exercise = chapters.exercise("03_attention/scaled_dot_product_attention")
    subject = _load(worker, SLIPPED, exercise.name, exercise)
    report = judge(subject, exercise, 0, extra=True)
    assert report.status == "passed"
    assert report.fix_first == ("softmax",)


def _asked(
    known: References, reference: Any, *args: Any, seconds: float = 60.0, **kwargs: Any
) -> Any:
    """What a submission gets that calls a reference."""
    question = codec.sealed({"args": args, "kwargs": kwargs, "gradients": None})
    forms = question.form["$map"]
    answer = codec.opened(known.answer(reference, question._replace(form=forms), seconds))
    return answer.get("value", answer.get("error"))


def test_a_question_that_is_nonsense_costs_an_answer_and_not_the_process() -> None:
    softmax, known = chapters.exercise("03_attention/softmax").reference, References()
    forms = {"args": {"$tuple": [{"$array": {}}]}, "kwargs": {"$map": {}}, "gradients": None}
    try:
        answer = codec.opened(known.answer(softmax, codec.Sealed(forms, [], b""), 60.0))
        assert answer["error"].startswith("ProtocolError: not a value")
        only = known._channel
        assert "TypeError" in _asked(known, softmax)
        deep: Any = None
        for _ in range(100_000):
            deep = [deep]
        with pytest.raises(codec.ProtocolError, match="nested too deeply"):
            known.answer(softmax, codec.Sealed(forms | {"args": deep}, [], b""), 60.0)
        np.testing.assert_array_equal(_asked(known, softmax, np.zeros(2)), [0.5, 0.5])
        assert known._channel is only
    finally:
        known.close()


def test_a_reference_is_asked_the_same_once(monkeypatch: pytest.MonkeyPatch) -> None:
    softmax = chapters.exercise("03_attention/softmax").reference
    known, asked = References(), []
    ask = known._ask
    monkeypatch.setattr(known, "_ask", lambda *args: asked.append(args) or ask(*args))
    try:
        for seed in (0, 1, 0):
            scores = np.random.default_rng(seed).standard_normal((2, 3))
            np.testing.assert_array_equal(_asked(known, softmax, scores), softmax(scores))
        assert len(asked) == 2
        _asked(known, softmax, scores, axis=0)
        _asked(known, softmax, scores.astype(np.float32))
        assert len(asked) == 4
    finally:
        known.close()


def test_references_share_a_process_and_one_that_runs_late_costs_no_other() -> None:
    softmax = chapters.exercise("03_attention/softmax").reference
    scores = chapters.exercise("03_attention/attention_scores").reference
    known, ones, used = References(), np.ones((2, 2)), set()
    try:
        alternating = ((softmax, (ones,)), (scores, (ones, ones)), (softmax, (2 * ones,)))
        for reference, args in (*alternating, (scores, (3 * ones, ones))):
            np.testing.assert_array_equal(_asked(known, reference, *args), reference(*args))
            used.add(known._channel)
        (only,) = used
        assert only is not None
        with pytest.raises(TimeoutError):
            _asked(known, scores, np.ones((2000, 500)), np.ones((2000, 500)), seconds=0.0)
        assert only.process.poll() is not None
        np.testing.assert_array_equal(_asked(known, scores, ones, ones), scores(ones, ones))
    finally:
        known.close()


_AHEAD = """
import os
import numpy as np
from attend_grader import chapters
from attend_grader.inside import codec
from attend_grader.sandbox import references

softmax = chapters.exercise("03_attention/softmax").reference
question = codec.sealed({"args": (np.zeros(4),), "kwargs": {}, "gradients": None})
question = question._replace(form=question.form["$map"])
descriptor = os.dup2(os.open(os.devnull, os.O_RDONLY), 99)
references.start_ahead()
references.start_ahead()
(first, _), (second, _) = references._AHEAD
os.kill(second.pid, 9)
second.wait()
for ahead in (True, False):
    known = references.References()
    print(codec.opened(known.answer(softmax, question, 60.0))["value"])
    print((known._channel.process is first) is ahead)
    if ahead:  # nothing of the grader's is open there
        print(os.path.exists(f"/proc/{first.pid}/fd/{descriptor}"))
    known.close()
    print(known._channel is None)
print(first.poll(), second.poll(), references._AHEAD)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="references are forked on Linux only")
def test_references_take_the_process_that_was_forked_ahead_while_it_runs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _AHEAD], capture_output=True, text=True, timeout=120, check=False
    )
    right = ["[0.25 0.25 0.25 0.25]", "True"]
    told = [*right, "False", "True", *right, "True", "-9 -9 []"]
    assert done.stdout.splitlines() == told, done.stderr


def test_what_a_submission_makes_references_answer_is_not_kept_at_any_size() -> None:
    softmax = chapters.exercise("03_attention/softmax").reference
    known = References()
    try:
        _asked(known, softmax, np.ones((100, 100)))
        assert not known._answers
    finally:
        known.close()


def test_a_reference_that_is_misused_says_so_on_both_sides(worker: ProcessChannel) -> None:
    exercise = chapters.exercise("03_attention/scaled_dot_product_attention")
    source = "def f(q, k, v):\n    return attention_scores(q, k.T)\n"
    far = _load(worker, source, "f", exercise).with_references(("attention_scores",))
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    near = local(namespace["f"], _known(exercise)).with_references(("attention_scores",))
    q, k, v = np.ones((2, 3)), np.ones((4, 3)), np.ones((4, 1))
    errors = []
    for subject in (far, near):
        with pytest.raises(SubjectError) as failure:
            subject(q, k, v)
        errors.append((failure.value.error.type, failure.value.error.message))
    assert errors[0] == errors[1]
    assert errors[0][0] == "ValueError"


def test_what_a_submission_prints_does_not_reach_the_channel(worker: ProcessChannel) -> None:
    exercise = chapters.exercise("03_attention/softmax")
    source = """
import os, sys
def softmax(scores, axis=-1):
    print("hello"); os.write(1, b"raw"); sys.__stdout__.write("more"); sys.stdin.read()
    return scores
"""
    outcome = _load(worker, source, "softmax", exercise).run((np.ones(2),))
    assert outcome.printed == "hello\n"
    assert outcome.error is None


def test_a_submission_that_cannot_be_loaded_says_why() -> None:
    with pytest.raises(SubjectDied, match="could not be loaded: SyntaxError"):
        remote("def softmax(:", "softmax")
    with pytest.raises(SubjectDied, match="could not be loaded: KeyError"):
        remote("x = 1", "softmax")


def test_a_hanging_submission_is_killed() -> None:
    channel = ProcessChannel("def f():\n    while True: pass\n", "f")
    channel.timeout = 0.5
    with pytest.raises(SubjectDied, match=r"no answer within 0\.5 s"):
        channel.request({"op": "call"})
    assert channel.process.poll() is not None


def test_a_submission_that_ends_its_process_is_told() -> None:
    channel = ProcessChannel("import os\ndef f(): os._exit(0)\n", "f")
    with pytest.raises(SubjectDied, match="channel closed"):
        channel.request({"op": "call"})


@pytest.mark.parametrize(
    "garbage",
    ["print('x' * 100)", "import sys; sys.stdout.buffer.write(bytes([255] * 16))", "pass"],
    ids=["text", "huge frame", "nothing"],
)
def test_garbage_on_the_channel_ends_it(garbage: str) -> None:
    command = (sys.executable, "-c", garbage)
    with pytest.raises(SubjectDied):
        ProcessChannel("", "f", command=command)


GOOD = {"value": None, "error": None, "mutated": [], "printed": "", "warnings": []}
RAISED = {
    "type": "ValueError",
    "message": "",
    "lines": [],
    "shapes": {},
    "own": True,
    "bases": ["Exception"],
}
MALFORMED = {
    "no dict": [1],
    "empty": {},
    "a key too few": {key: GOOD[key] for key in list(GOOD)[1:]},
    "a key too many": GOOD | {"score": 10},
    "error": GOOD | {"error": {"type": "ValueError"}},
    "error with more": GOOD | {"error": RAISED | {"points": 10}},
    "lines": GOOD | {"error": RAISED | {"lines": [["f", "2", "x"]]}},
    "a message as long as a book": GOOD | {"error": RAISED | {"message": "(" * 100_000}},
    "a line as long as a book": GOOD | {"error": RAISED | {"lines": [["f", 2, "a " * 50_000]]}},
    "more names than anybody reads": GOOD
    | {"error": RAISED | {"shapes": {f"x{n}": [3] for n in range(1_000)}}},
    "shapes": GOOD | {"error": RAISED | {"shapes": {"x": 3}}},
    "bases": GOOD | {"error": RAISED | {"bases": "Exception"}},
    "mutated": GOOD | {"mutated": None},
    "an argument there was not": GOOD | {"mutated": [7]},
    "printed": GOOD | {"printed": 3},
    "warnings": GOOD | {"warnings": "text"},
    "cost": GOOD | {"cost": {"steps": -1, "peak_bytes": 0}},
    "gradients": GOOD | {"gradients": [1.0]},
    "results without a graph": GOOD | {"loose": [-1]},
}
LIAR = """
import sys
from attend_grader.inside import codec
codec.read_frame(sys.stdin.buffer)
codec.write_frame(sys.stdout.buffer, {{"error": None}})
codec.read_frame(sys.stdin.buffer)
codec.write_frame(sys.stdout.buffer, {answer!r})
sys.stdin.read()
"""


def _liar(answer: Any) -> ProcessChannel:
    command = (sys.executable, "-c", LIAR.format(answer=answer))
    return ProcessChannel("", "f", command=command)


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
def test_answers_of_another_form_end_the_channel(answer: Any) -> None:
    channel = _liar(answer)
    with pytest.raises(SubjectDied, match=r"^an answer"):
        Subject(channel).run((1.0,))
    assert channel.process.poll() is not None


def test_a_description_of_another_form_ends_the_channel() -> None:
    with pytest.raises(SubjectDied, match="keys that do not fit"):
        _ = Subject(_liar({"name": "f"})).description


def test_an_answer_of_the_right_form_is_taken() -> None:
    with _liar(GOOD | {"error": RAISED}) as channel:
        error = Subject(channel).run((1.0,)).error
    assert error is not None
    assert error.type == "ValueError"


TOYS = Path(__file__).with_name("toy_torch.py")


@pytest.fixture(scope="module")
def toys() -> ModuleType:
    spec = importlib.util.spec_from_file_location("toy_torch", TOYS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["toy_torch"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def torch_worker(toys: ModuleType) -> Iterator[ProcessChannel]:
    with ProcessChannel(TOYS.read_text(encoding="utf-8"), "product") as channel:
        yield channel


@pytest.fixture(params=["local", "remote"])
def toy(
    request: pytest.FixtureRequest, toys: ModuleType, torch_worker: ProcessChannel
) -> Callable[[str], Subject]:
    """``toy(name)``: a subject for a toy, near or far."""

    def near(name: str) -> Subject:
        return local(getattr(toys, name))

    def far(name: str) -> Subject:
        source = TOYS.read_text(encoding="utf-8")
        torch_worker.request({"op": "load", "source": source, "name": name})
        return Subject(torch_worker)

    return near if request.param == "local" else far


def _probe(toys: ModuleType) -> Probe:
    return Probe(np.random.default_rng(0), toys.product, False, ("a", "b"))


def _check_gradients(subject: Subject, probe: Probe, call: Call, *named: str) -> None:
    flow.gradients(lambda rng: [call], named=named)(subject, probe)


def test_gradients_of_a_function(toy: Callable[[str], Subject], toys: ModuleType) -> None:
    import torch

    a, b, g = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]), torch.tensor([1.0, 10.0])
    outcome = toy("product").gradients((a, b), wrt=(0, 1), cotangents=(g,))
    assert outcome.gradients is not None
    assert outcome.gradients[0].tolist() == [3.0, 40.0]
    assert outcome.gradients[1].tolist() == [1.0, 20.0]
    assert not outcome.value.requires_grad
    _check_gradients(toy("product"), _probe(toys), Call((a, b)), "a", "b")


def test_a_missing_gradient_is_named(toy: Callable[[str], Subject], toys: ModuleType) -> None:
    import torch

    call = Call((torch.ones(2), torch.ones(2)))
    with pytest.raises(Miss) as cut:
        _check_gradients(toy("product_detached"), _probe(toys), call, "a", "b")
    assert cut.value.message.startswith("no gradient reaches b. Is it left out, or does")
    call = Call((torch.ones(2, 3), torch.ones(2, 3)))
    _check_gradients(toy("product_detached_views"), _probe(toys), call, "a", "b")
    with pytest.raises(Miss, match="no gradient reaches b") as view:
        flow.gradients(lambda rng: [call], named=("a", "b"), layouts=True)(
            toy("product_detached_views"), _probe(toys)
        )
    assert view.value.message.startswith("a and b stored transposed, as a view is: no gradient")
    with pytest.raises(Miss, match=r"wrong value: gradient of a\[") as doubled:
        _check_gradients(toy("product_doubled"), _probe(toys), call, "a", "b")
    assert "everywhere 2 times" in doubled.value.message


def test_modules_are_built_with_named_parameters(toy: Callable[[str], Subject]) -> None:
    import torch

    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    module = toy("Linear").build(2, 3, scale=2.0, parameters={"weight": weight})
    x = torch.tensor([[1.0, 1.0]])
    assert module(x).tolist() == [[6.0, 14.0, 22.0]]
    asked: dict[str, Any] = {"parameters": ("weight",), "cotangents": (torch.ones(1, 3),)}
    outcome = module.gradients((x,), **asked)
    assert outcome.gradients is not None
    assert outcome.gradients["weight"].tolist() == [[2.0, 2.0]] * 3
    assert module.reload({"weight": 10 * weight})(x).tolist() == [[60.0, 140.0, 220.0]]
    with pytest.raises(SubjectError, match=r"weight \(3, 2\) instead of \(1, 2\)"):
        module.reload({"weight": weight[:1]})
    with pytest.raises(SubjectError, match="not expected: weight"):
        toy("Linear").build(2, 3, parameters={})


def test_a_parameter_without_gradient_is_named(
    toy: Callable[[str], Subject], toys: ModuleType
) -> None:
    import torch

    probe = Probe(np.random.default_rng(0), toys.Linear, False, ("inputs", "outputs"))
    call = module_call(toys.Linear, probe.rng, Call((2, 3)), torch.ones(1, 2))
    with pytest.raises(Miss, match="no gradient reaches weight"):
        _check_gradients(toy("DetachedLinear"), probe, call, "weight")


def test_a_class_keeps_its_state_from_call_to_call(toy: Callable[[str], Subject]) -> None:
    import torch

    kind = toy("Sum")
    first, second = kind.build(1.0), kind.build(100.0)
    assert first.run((torch.ones(3),), method="add").value == 4.0
    assert second.run((torch.ones(2),), method="add").value == 102.0
    assert first.run((torch.ones(5),), method="add").value == 9.0


def test_calls_of_several_instances_are_carried_together(toy: Callable[[str], Subject]) -> None:
    import torch

    kind, x = toy("Linear"), torch.tensor([[1.0, 1.0]])
    weights = [torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]]), torch.ones(2, 2)]
    calls = [Call((x,), {}, Call((2, 1)), {"weight": weight}) for weight in weights]
    first, second, misfit = kind.built(calls)
    assert isinstance(misfit, CallError)
    assert "weight (1, 2) instead of (2, 2)" in misfit.message
    assert isinstance(first, Subject)
    assert isinstance(second, Subject)
    plain = [Call((x,))] * 3
    came = kind.many(plain, [first, second, first])
    assert [outcome.value.item() for outcome in came] == [3.0, 7.0, 3.0]
    assert [logged.made for logged in kind.log] == [first.made, second.made, first.made]
    wanted = {"parameters": ["weight"], "cotangents": [torch.ones(1, 1)]}
    pulled = kind.many(plain[:2], [first, second], gradients=[wanted, wanted])
    found = [dict(outcome.gradients or {})["weight"] for outcome in pulled]
    assert [gradient.tolist() for gradient in found] == [[[1.0, 1.0]]] * 2
    assert len(kind.log) == 3


def test_calls_carried_together_may_go_without_a_graph(toy: Callable[[str], Subject]) -> None:
    import torch

    x = torch.ones(2, requires_grad=True)
    kind = toy("has_graph")
    assert [outcome.value for outcome in kind.many([Call((x,))] * 2)] == [True, True]
    assert [outcome.value for outcome in kind.many([Call((x,))] * 2, graph=False)] == [False, False]


def test_the_first_values_of_a_generator_are_taken(toy: Callable[[str], Subject]) -> None:
    import torch

    x = torch.tensor([2.0, 3.0])
    outcome = toy("powers").run((x,), take=3)
    assert [power.tolist() for power in outcome.value] == [[1.0, 1.0], [2.0, 3.0], [4.0, 9.0]]
    assert outcome.mutated == []
    other = toy("product").run((x, x), take=3)
    assert other.error is not None
    assert other.error.message == "expected a generator (a function with `yield`), got Tensor"
