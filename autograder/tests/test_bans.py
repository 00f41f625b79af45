"""What an exercise forbids raises when it is called, by whatever road; what is allowed does not."""

from __future__ import annotations

import importlib
import shutil
import sys
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from attend_grader.checks.outcomes import CallError
from attend_grader.checks.subject import local
from attend_grader.grading.names import origins
from attend_grader.inside.bans import Bans
from attend_grader.inside.telling import NotAllowed
from attend_grader.sandbox import tree

from .chapter_notebooks import Notebooks

INVERSE = ("numpy.linalg.inv",)
ROADS = {
    "plain": "def f(a):\n    return np.linalg.inv(a)",
    "a default argument": "def f(a, turn=np.linalg.inv):\n    return turn(a)",
    "a closure": """
        def through(turn):
            return lambda a: turn(a)
        inner = through(np.linalg.inv)
        def f(a):
            return inner(a)
    """,
    "a joined name": "def f(a):\n    return getattr(np.linalg, 'i' + 'nv')(a)",
    "a table": "table = {'turn': np.linalg.inv}\ndef f(a):\n    return table['turn'](a)",
    "a static method": """
        class Box:
            turn = staticmethod(np.linalg.inv)
        def f(a):
            return Box.turn(a)
    """,
    "another function's globals": """
        def f(a):
            return vars(np.linalg)['inv'](a)
    """,
    "a library that passes it on": """
        def f(a):
            return np.apply_along_axis(lambda row: np.linalg.inv(row.reshape(2, 2)).ravel(), 0,
                                       a.ravel()).reshape(2, 2)
    """,
    "a library that is handed it": """
        turn = np.vectorize(np.linalg.inv, signature='(n,n)->(n,n)')
        def f(a):
            return turn(a)
    """,
    "a helper": "def h(a):\n    return np.linalg.inv(a)\ndef f(a):\n    return h(a)",
}
ALLOWED = {
    "a function that calls it by name": "def f(a):\n    return np.linalg.matrix_power(a, -1)",
    "another function": "def f(a):\n    return np.linalg.solve(a, np.eye(2))",
    "its name alone": "def f(a):\n    inv = np.linalg.solve\n    return inv(a, np.eye(2))",
}
A = np.array([[2.0, 1.0], [0.0, 4.0]])


def _error(define: Any, source: str, bans: tuple[str, ...], *args: Any) -> CallError | None:
    subject = local(define(textwrap.dedent(source), "f"))
    subject.forbid(bans)
    try:
        return subject.run(args).error
    finally:
        subject.forbid(())


@pytest.mark.parametrize("source", ROADS.values(), ids=ROADS)
def test_every_road_to_a_python_function_is_closed(define: Any, source: str) -> None:
    error = _error(define, source, INVERSE, A)
    assert error is not None
    assert error.message.startswith("numpy.linalg.inv is not allowed in this exercise")
    assert np.allclose(np.linalg.inv(A) @ A, np.eye(2)), "afterwards it is as it was"


@pytest.mark.parametrize("source", ALLOWED.values(), ids=ALLOWED)
def test_what_is_allowed_may_use_what_is_not(define: Any, source: str) -> None:
    assert _error(define, source, INVERSE, A) is None


def test_a_function_of_the_learners_own_may_be_forbidden(define: Any) -> None:
    source = "def forward(x):\n    return x\nalso = forward\ndef f(x):\n    return also(x)"
    error = _error(define, source, ("forward",), 1.0)
    assert error is not None
    assert error.type == "NotAllowed"
    assert _error(define, source, (), 1.0) is None


def test_code_that_was_taken_from_a_forbidden_function_is_refused(define: Any) -> None:
    source = """
        import statistics
        def f(data, weights=None):
            return 0.0
        f.__code__ = statistics.fmean.__code__
    """
    error = _error(define, source, ("statistics.fmean",), [1.0, 2.0])
    assert error is not None
    assert error.message.startswith("statistics.fmean is not allowed")
    helper = """
        import statistics
        def h(data, weights=None):
            return 0.0
        h.__code__ = statistics.fmean.__code__
        def f(data):
            return h(data)
    """
    error = _error(define, helper, ("statistics.fmean",), [1.0, 2.0])
    assert error is not None
    assert error.message.startswith("statistics.fmean is not allowed")
    late = helper.replace("        h.__code__", "        #").replace(
        "return h(data)", "h.__code__ = statistics.fmean.__code__; return h(data)"
    )
    error = _error(define, late, ("statistics.fmean",), [1.0, 2.0])
    assert error is not None, "taken while it is forbidden"
    assert error.type == "NotAllowed"
    error = _error(define, helper, (), [1.0, 2.0])
    assert error is not None
    assert error.type == "NameError", "where nothing is forbidden, that code runs again"


def test_a_forbidden_module_is_not_imported_while_it_runs(define: Any) -> None:
    source = "def f(x):\n    return __import__('json.' + 'tool')"
    sys.modules.pop("json.tool", None)
    error = _error(define, source, ("json.tool",), 1.0)
    assert error is not None
    assert error.type == "ModuleNotFoundError"
    with Bans(("json.tool",), {}), pytest.raises(ModuleNotFoundError):
        importlib.import_module("json.tool")
    assert importlib.import_module("json.tool")


def test_references_may_call_anything(define: Any) -> None:
    f = define("def f(a):\n    return earlier(a)", "f")
    subject = local(f, {"earlier": lambda a: np.linalg.inv(a)}).with_references(("earlier",))
    subject.forbid(INVERSE)
    assert subject.run((A,)).error is None
    subject.forbid(())


def test_bans_can_be_nested_and_lifted() -> None:
    bans = Bans(INVERSE, {})
    with bans, bans:
        with pytest.raises(NotAllowed):
            np.linalg.inv(A)
        with bans.lifted():
            np.linalg.inv(A)
        with pytest.raises(NotAllowed):
            np.linalg.inv(A)
    np.linalg.inv(A)
    bans.lift()


TORCH = (
    "torch.softmax",
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.MultiheadAttention",
    "torch.cumsum",
)
TORCH_ROADS = {
    "a function": "F.softmax(x, -1)",
    "a method": "x.softmax(-1)",
    "a bound method": "getattr(x, 'soft' + 'max')(-1)",
    "in place of it": "torch.special.softmax(x, -1)",
    "an operator": "torch.ops.aten.softmax.int(x, -1)",
    "an operator's part": "torch.ops.aten._softmax(x, -1, False)",
    "a module": "torch.nn.Softmax(-1)(x)",
    "attention": "F.scaled_dot_product_attention(x, x, x)",
    "attention's C function": "torch._C._nn.scaled_dot_product_attention(x, x, x)",
    "attention inside a layer": "layer.self_attn(x, x, x)[0]",
    "a layer with attention": "layer(x)",
    "a layer's fast path": "fast(x)",
    "TorchScript": "scripted(x)",
    "without torch's overrides": "outside(x)",
    "in inference mode": "inference(x)",
}
TORCH_ALLOWED = {
    "a loss": "F.cross_entropy(x[0], torch.tensor([1, 2, 0]))",
    "its gradient": "torch.autograd.grad(F.cross_entropy(x[0], torch.tensor([1, 2, 0])), x)[0]",
    "a logarithm": "x.log_softmax(-1)",
    "a sum inside a kernel": "torch.repeat_interleave(x, torch.tensor([1, 2]), dim=0)",
    "a sum inside a function": "torch.cumulative_trapezoid(x)",
    "another network": "torch.nn.LSTM(4, 4)(x)[0]",
}
TORCH_SOURCE = """
import torch
import torch.nn.functional as F

layer = torch.nn.TransformerEncoderLayer(4, 1, batch_first=True)
fast = torch.nn.TransformerEncoderLayer(4, 1, batch_first=True).eval()
for parameter in fast.parameters():
    parameter.requires_grad_(False)

def outside(x):
    with torch._C.DisableTorchFunctionSubclass():
        return F.softmax(x, -1)

def inference(x):
    with torch.inference_mode():
        return (x * 1).softmax(-1)

def f(x):
    x = x.clone().requires_grad_(True)
    return RESULT
"""


class _Dispatcher:
    """Bans as in the jail, where the dispatcher refuses too."""

    def __init__(self) -> None:
        self.bans = Bans(TORCH, {})
        self.bans.close_dispatcher()

    def __enter__(self) -> None:
        self.bans.__enter__()

    def __exit__(self, *exception: object) -> None:
        self.bans.__exit__()
        self.bans.lift()


def _torch(define: Any, result: str) -> Any:
    torch = pytest.importorskip("torch")
    f = define(TORCH_SOURCE.replace("RESULT", result), "f")
    if result == "scripted(x)":
        f.__globals__["scripted"] = _scripted(torch)
    return f, torch.linspace(-1, 1, 24).reshape(2, 3, 4)


def _scripted(torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TorchScript is deprecated, in some versions
        unit = torch.jit.CompilationUnit("def g(x):\n    return torch.softmax(x, -1)\n")
    return unit.g


@pytest.mark.parametrize("result", TORCH_ROADS.values(), ids=TORCH_ROADS)
def test_every_road_to_a_function_of_torchs_is_closed(define: Any, result: str) -> None:
    f, x = _torch(define, result)
    with _Dispatcher(), pytest.raises(RuntimeError, match="is not allowed in this exercise"):
        f(x)
    f(x)


@pytest.mark.parametrize("result", TORCH_ALLOWED.values(), ids=TORCH_ALLOWED)
def test_what_torch_itself_does_inside_is_allowed(define: Any, result: str) -> None:
    f, x = _torch(define, result)
    with _Dispatcher():
        f(x)


HEAD = "def softmax(scores, axis=-1):\n    return {}(scores)\n"
READ = {
    "an import's other name": ("import scipy.special as sp\n" + HEAD.format("sp.softmax"),),
    "a name for a name": ("from scipy import special as s\nsm = s.softmax", HEAD.format("sm")),
    "a default argument": (
        "import scipy.special as sp\ndef softmax(x, axis=-1, *, g=sp.softmax):\n    return g(x)\n",
    ),
    "a decorator": (
        "import scipy.special as sp\ndef mine(g):\n    return lambda *a: sp.softmax(*a)\n",
        "@mine\n" + HEAD.format("abs"),
    ),
    "functools.partial": (
        "import functools\nfrom scipy.special import softmax as sm\n"
        "softmax = functools.partial(sm, axis=-1)\n",
    ),
    "under a magic": (
        "%matplotlib inline\nfrom scipy.special import softmax as sm",
        HEAD.format("sm"),
    ),
}


@pytest.mark.parametrize("cells", READ.values(), ids=READ)
def test_where_names_come_from_is_read_outside_the_jail(cells: tuple[str, ...]) -> None:
    assert "scipy.special.softmax" in {
        found[0] for found in (origins(cells, "softmax") or {}).values()
    }


def test_what_a_part_uses_is_its_own_affair() -> None:
    cells = (
        "import torch\ndef softmax(x):\n    return torch.exp(x)",
        "def f(x):\n    return softmax(x)",
    )
    assert origins(cells, "f", ["softmax"]) == {}
    assert origins(cells, "softmax", ["softmax"])
    assert origins(cells, "nothing") is None


def test_a_local_name_is_nobodys_alias() -> None:
    cells = ("from scipy.special import softmax as sm", "def softmax(sm):\n    return sm + 1\n")
    assert origins(cells, "softmax") == {}


def test_a_numpy_chapters_jail_has_none_of_the_libraries_it_forbids() -> None:
    assert {"scipy", "torch", "sklearn"} <= set(tree.banned("03_attention"))
    assert "torch" not in tree.banned("05_multi_head")
    assert tree.banned("no_such_chapter") == ()


def test_a_chapter_finds_no_later_chapters_code() -> None:
    early = tree.visible_answers("03_attention", ["attend_solutions.types.Array"])
    assert {"multi_head", "positions", "attention", "self_attention"} & early.keys() == set()
    assert "masked_attention" not in "".join(early.values())
    late = tree.visible_answers("06_positions", ["attend_solutions.positions.angular_frequencies"])
    assert "def angular_frequencies" in late["positions"]
    assert "class LearnedPositions" not in late["positions"]
    assert "class MultiHeadAttention" in late["multi_head"]


needs_jail = pytest.mark.skipif(not shutil.which("bwrap"), reason="bubblewrap is not installed")
ATTENTION = """
import torch
from torch import nn
import torch.nn.functional as F
{above}

class MultiHeadAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.output = nn.Linear(width, width, bias=False)
{within}

    def forward(self, x, mask=None):
        q, k, v = (split_heads(part(x), self.heads) for part in (self.query, self.key, self.value))
        {found}
        return self.output(merge_heads(found)), weights
"""
WEIGHTS = "weights = masked_attention(q, k, v, mask)[1]; "
HIDDEN = {
    "a default argument": (
        "def look(q, k, v, mask, g=F.scaled_dot_product_attention):\n    return g(q, k, v, mask)",
        "",
        f"{WEIGHTS}found = look(q, k, v, mask)",
    ),
    "a joined name in builtins' own table": (
        "import builtins\n"
        "part = vars(builtins)['__imp' + 'ort__']('torch.nn.functional', fromlist=['x'])\n"
        "look = vars(builtins)['get' + 'attr'](part, 'scaled_dot' + '_product_attention')",
        "",
        f"{WEIGHTS}found = look(q, k, v, mask)",
    ),
    "a decorator's closure": (
        "def handed(g):\n    return lambda f: lambda *a: g(*a)\n"
        "@handed(F.scaled_dot_product_attention)\ndef look(*a):\n    ...",
        "",
        f"{WEIGHTS}found = look(q, k, v, mask)",
    ),
    "a name that is bound in globals()": (
        "def look(*a):\n    ...\nglobals()['lo' + 'ok'] = F.scaled_dot_product_attention",
        "",
        f"{WEIGHTS}found = look(q, k, v, mask)",
    ),
    "another's code": (
        "def look(query, key, value, *args, **kwargs):\n    ...\n"
        "look.__code__ = nn.MultiheadAttention.forward.__code__\n"
        "nn.MultiheadAttention.look = look",
        "",
        f"{WEIGHTS}found = weights @ v; nn.MultiheadAttention(8, 2).look(x, x, x)",
    ),
    "a layer's own attention": (
        "",
        "        self.layer = [nn.TransformerEncoderLayer(width, heads, batch_first=True)]",
        f"{WEIGHTS}found = weights @ v; self.layer[0].self_attn(x, x, x)",
    ),
    "a static method": (
        "",
        "    look = staticmethod(F.scaled_dot_product_attention)",
        f"{WEIGHTS}found = self.look(q, k, v, mask)",
    ),
    "a module written by a cell": (
        "import sys; sys.path.insert(0, '/tmp')\n"
        "open('/tmp/mine.py', 'w').write('import torch.nn.functional as F\\n'\n"
        '    \'look = getattr(F, "scaled_dot" + "_product_attention")\')\nimport mine',
        "",
        f"{WEIGHTS}found = mine.look(q, k, v, mask)",
    ),
    "an executor that tells nothing": (
        "import attend_grader.inside.executor as side\nside.origins = lambda *a: {}\n"
        "look = F.scaled_dot_product_attention",
        "",
        f"{WEIGHTS}found = look(q, k, v, mask)",
    ),
}


@pytest.fixture(scope="module")
def chapter_five() -> Iterator[Notebooks]:
    opened = Notebooks("05_multi_head")
    yield opened
    opened.parent.close()


@needs_jail
@pytest.mark.parametrize(("above", "within", "found"), HIDDEN.values(), ids=HIDDEN)
def test_finished_attention_earns_nothing_however_hidden(
    chapter_five: Notebooks, above: str, within: str, found: str
) -> None:
    source = ATTENTION.format(above=above, within=within, found=found)
    verdicts = chapter_five.grade(chapter_five.with_answers({"MultiHeadAttention": source}))
    assert verdicts["MultiHeadAttention"].score <= 1, "building it may earn a point"
    assert "not allowed" in str(verdicts["MultiHeadAttention"].report).lower()
    others = {n: str(v.report) for n, v in verdicts.items() if v.score != v.points}
    assert others.keys() == {"MultiHeadAttention"}, others


@needs_jail
def test_the_same_answer_by_its_own_means_has_full_marks(chapter_five: Notebooks) -> None:
    found = "found, weights = masked_attention(q, k, v, mask)"
    source = ATTENTION.format(above="", within="", found=found)
    verdict = chapter_five.grade(chapter_five.with_answers({"MultiHeadAttention": source}))
    assert verdict["MultiHeadAttention"].reason == "PASSED"


def test_where_all_of_torch_is_forbidden_none_of_it_can_be_called(define: Any) -> None:
    """A NumPy chapter whose experiments import torch: it is there, and no answer may use it."""
    torch = pytest.importorskip("torch")
    f = define(
        "def f(a, g=torch.tanh, make=torch.tensor):\n    return g(make(a))", "f", torch=torch
    )
    subject = local(f)
    subject.forbid(("torch",))
    error = subject.run((1.0,)).error
    subject.forbid(())
    assert error is not None
    assert error.type == "NotAllowed"
    assert subject.run((1.0,)).error is None
