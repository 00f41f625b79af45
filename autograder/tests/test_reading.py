"""What is told without running a candidate: blank, signature, forbidden calls and their lines."""

from typing import Any

import attend_solutions.attention
import pytest
import scipy.special
from attend.build import release_notebook
from attend_grader import chapters
from attend_grader.checks.subject import local
from attend_grader.judging.reading import blank, bound, forbidden_calls, signature_problem
from attend_solutions.flash import flash_forward

BLANK = {
    "raise": "def f(x):\n    raise NotImplementedError()\n",
    "raise with text": "def f(x):\n    raise NotImplementedError('write me')\n",
    "docstring and pass": 'def f(x):\n    """Words."""\n    pass\n',
    "ellipsis": "def f(x): ...\n",
    "class": "class C:\n    def a(self):\n        pass\n    def b(self):\n        ...\n",
}
WRITTEN = {
    "return": "def f(x):\n    return x\n",
    "raise later": "def f(x):\n    y = x\n    raise NotImplementedError\n",
    "another error": "def f(x):\n    raise ValueError('no')\n",
    "half a class": "class C:\n    def a(self):\n        return 1\n    def b(self):\n        ...\n",
    "no source": None,
    "zero bytes": "def f(x):\n    return '\0'\n",
    "too deep": "def f(x):\n    return " + "(" * 5000 + ")" * 5000,
    "lambda": "softmax = lambda x: x,\n)",
}


@pytest.mark.parametrize("source", BLANK.values(), ids=BLANK)
def test_a_stub_is_blank(source: str) -> None:
    assert blank(source)


@pytest.mark.parametrize("source", WRITTEN.values(), ids=WRITTEN)
def test_what_has_been_begun_is_not_blank(source: str | None) -> None:
    assert not blank(source)


def wanted(q: float, k: float, scaled: bool = True) -> float:
    """What the exercise asks for."""
    return q * k if scaled else 0.0


SIGNATURES = {
    "right": ("q, k, scaled=True", ""),
    "renamed": ("a, b, scaled=False", ""),
    "extra with default": ("q, k, scaled=True, more=1", ""),
    "catch-all": ("*args, **kwargs", ""),
    "too few": ("q", "too few parameters"),
    "missing": ("q, k", "the parameter scaled is missing"),
    "renamed option": ("q, k, scale=True", "the parameter scaled is missing"),
    "default lost": ("q, k, scaled", "scaled has lost its default"),
    "extra": ("q, k, more, scaled=True", "the extra parameter more needs a default"),
}


@pytest.mark.parametrize(("parameters", "problem"), SIGNATURES.values(), ids=SIGNATURES)
def test_signatures_are_compared(parameters: str, problem: str, define: Any) -> None:
    candidate = define(f"def f({parameters}):\n    return 1\n", "f")
    told = signature_problem(local(candidate).description, wanted)
    if not problem:
        assert told == ""
    else:
        assert told.startswith(f"wrong signature: {problem}")
        assert f"Expected f(q, k, scaled=True); yours has ({parameters.split('=')[0]}"[:40] in told


DIRECT = """
def softmax(scores, axis=-1):
    x = 1
    return {call}
"""
HELPER = """
def helper(scores, axis):
    return {call}

class Wrapper:
    def run(self, scores, axis):
        return helper(scores, axis)

def softmax(scores, axis=-1):
    return Wrapper().run(scores, axis)
"""
IMPORTS = """
def softmax(scores, axis=-1):
    {line}
    return f(scores)
"""
FORBIDDEN = {
    "module": (
        DIRECT.format(call="scipy.special.softmax(scores)"),
        "scipy.special.softmax (line 3",
    ),
    "alias": (DIRECT.format(call="sm(scores)"), "sm (line 3: it is scipy.special."),
    "module alias": (DIRECT.format(call="sp.softmax(scores)"), "sp.softmax (line 3: it is scipy."),
    "not called": (DIRECT.format(call="list(map(sm, scores))"), "sm (line 3"),
    "in a lambda": (DIRECT.format(call="(lambda s: sm(s))(scores)"), "sm (line 3"),
    "helper": (HELPER.format(call="sm(scores)"), "sm (line 2 of helper: it is scipy.special."),
    "module in helper": (
        HELPER.format(call="sp.softmax(scores)"),
        "sp.softmax (line 2 of helper: it is scipy.special.",
    ),
    "import": (
        IMPORTS.format(line="import torch.nn.functional as f"),
        "torch.nn.functional (line 2)",
    ),
    "from import": (
        IMPORTS.format(line="from scipy.special import softmax as f"),
        "scipy.special.softmax (line 2)",
    ),
    "the course's answer": (DIRECT.format(call="answer(scores)"), "answer (line 3: it is attend_"),
    "the course's answer by module": (
        DIRECT.format(call="answers.softmax(scores)"),
        "answers.softmax (line 3: it is attend_solutions.attention.softmax)",
    ),
}
GLOBALS = {
    "scipy": scipy,
    "sp": scipy.special,
    "sm": scipy.special.softmax,
    "answer": attend_solutions.attention.softmax,
    "answers": attend_solutions.attention,
}


@pytest.mark.parametrize(("source", "told"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_forbidden_calls_are_named_with_their_lines(source: str, told: str, define: Any) -> None:
    candidate = define(source.lstrip(), "softmax", **GLOBALS)
    found = forbidden_calls(local(candidate).description, chapters.exercise("03_attention/softmax"))
    assert len(found) >= 1
    assert found[0].startswith(told)


ALLOWED = {
    "numpy": DIRECT.format(call="np.exp(scores)"),
    "named like it": DIRECT.format(call="scores.softmax_of_scipy()"),
    "a name that begins like it": DIRECT.format(call="[scipyish for scipyish in scores]"),
    "itself": DIRECT.format(call="softmax(scores[0])"),
    "words in a docstring": 'def softmax(scores, axis=-1):\n    """Not scipy."""\n    return 1\n',
    "an unused global": DIRECT.format(call="scores"),
}


@pytest.mark.parametrize("source", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_is_not_reported(source: str, define: Any) -> None:
    candidate = define(source.lstrip(), "softmax", **GLOBALS)
    exercise = chapters.exercise("03_attention/softmax")
    assert forbidden_calls(local(candidate).description, exercise) == []


def test_a_forbidden_exercise_of_the_same_chapter_is_found(define: Any) -> None:
    source = """
    def softmax_jacobian(p):
        return p

    def attention_backward(q, k, v, grad_output):
        return softmax_jacobian(q)
    """
    exercise = chapters.exercise("03_attention/attention_backward")
    found = forbidden_calls(local(define(source, exercise.name)).description, exercise)
    assert found == ["softmax_jacobian (line 2)"]


@pytest.mark.parametrize(
    "line",
    [
        "from torch.nn import GRU",
        "from torch.nn import GRU as Loop; GRU = Loop",
        "from torch.nn.modules.rnn import GRU",
        "import torch; GRU = torch.nn.RNNBase",
    ],
)
def test_a_class_that_is_written_elsewhere_is_found(line: str, define: Any) -> None:
    source = f"{line}\n\ndef encode(x, forward, backward):\n    return GRU(3, 4)(x)\n"
    exercise = chapters.exercise("02_alignment/encode")
    (found,) = forbidden_calls(local(define(source, "encode")).description, exercise)
    assert found.startswith("GRU (line 2")


DEFINED = "def f(x):\n    return x\n"
BOUND = {
    "a function": (DEFINED, (DEFINED, 1)),
    "the last of two": (f"def f():\n    pass\n{DEFINED}", (DEFINED, 3)),
    "a decorated one": (f"@cache\n{DEFINED}", (DEFINED, 2)),
    "under a magic": (f"%%time\n{DEFINED}", (DEFINED, 2)),
    "between magics": (f"%matplotlib inline\n!ls\n{DEFINED}%time f(1)\nf?\n", (DEFINED, 3)),
    "Windows' ends of lines": (DEFINED.replace("\n", "\r\n"), (DEFINED, 1)),
    "a stub, then a lambda": (f"{DEFINED}\nf = lambda x: x\n", None),
    "a stub, then another's name": (f"{DEFINED}\ndef g(x):\n    return x\n\nf = g\n", None),
    "a stub, then an import": (f"{DEFINED}\nfrom g import h as f\n", None),
    "in an if": ("if True:\n    def f(x):\n        return x\n", None),
}


@pytest.mark.parametrize(("source", "found"), BOUND.values(), ids=BOUND)
def test_what_a_cell_binds_to_a_name(source: str, found: tuple[str, int] | None) -> None:
    names = bound(source)
    assert names is not None
    assert names["f"] == found


@pytest.mark.parametrize("source", ["def f(:", f"%%bash\n{DEFINED}", "-" * 300_000])
def test_a_cell_that_cannot_be_read_binds_nobody_knows_what(source: str) -> None:
    assert bound(source) is None


def test_what_the_stub_gives_counts_as_nothing_written() -> None:
    given = '"""Doc."""\n    expect_shapes(q, k, v)\n    raise NotImplementedError()\n'
    stub = f"def flash_forward(q, k, v, tile_q=64, tile_k=64):\n    {given}"
    assert not blank(stub)
    assert blank(stub, flash_forward)
    begun = stub.replace("    raise", "    x = q\n    raise")
    assert not blank(begun, flash_forward)


@pytest.mark.parametrize("chapter_id", ["05_multi_head", "19_triton_flash_backward"])
def test_what_is_released_counts_as_nothing_written(chapter_id: str) -> None:
    """Also where the stub stands within a loop or a class that is given."""
    cells = {cell.id: cell.source for cell in release_notebook(chapter_id).cells}
    begun = [
        exercise.name
        for exercise in chapters.chapter(chapter_id).exercises
        if not blank(cells[exercise.name], exercise.reference)
    ]
    assert begun == []
