"""A rebuilt submission: the release's tests, the learner's answers, whatever was handed in."""

from __future__ import annotations

import copy
import json
from typing import Any

import nbformat
import pytest
from attend.build import release_notebook
from attend_grader.grading import handed_in as reading
from attend_grader.grading.rebuild import harmless, rebuild
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from .pages import active, shown
from .submissions import honest
from .submissions.case import CHAPTER, solved

STUB = "def softmax(x):\n    raise NotImplementedError"
ANSWER = "def softmax(x):\n    return x"


def marks(grade_id: str, **changes: Any) -> dict[str, Any]:
    test = grade_id.startswith("check-")
    roles = {"grade": test, "locked": test, "solution": not test, "task": False}
    points = {"points": 4} if test else {}
    return {"nbgrader": {"grade_id": grade_id, "schema_version": 3, **roles, **points, **changes}}


@pytest.fixture
def release() -> NotebookNode:
    cells = [
        new_markdown_cell("# Title", id="title"),
        new_code_cell("import numpy as np", id="setup"),
        new_code_cell(STUB, id="softmax", metadata=marks("softmax")),
        new_code_cell("check(softmax)", id="check-softmax", metadata=marks("check-softmax")),
        new_code_cell("def other():\n    ...", id="other", metadata=marks("other")),
        new_code_cell("check(other)", id="check-other", metadata=marks("check-other")),
    ]
    kernel = {"name": "python3", "display_name": "Python 3"}
    return new_notebook(cells=cells, metadata={"kernelspec": kernel, "attend": {"chapter": "x"}})


@pytest.fixture
def handed_in(release: NotebookNode) -> NotebookNode:
    submission = copy.deepcopy(release)
    at(submission, "softmax").source = ANSWER
    return submission


def at(notebook: NotebookNode, cell_id: str) -> NotebookNode:
    return next(cell for cell in notebook.cells if cell.id == cell_id)


def without(notebook: NotebookNode, *cell_ids: str) -> None:
    notebook.cells = [cell for cell in notebook.cells if cell.id not in cell_ids]


def sources(notebook: NotebookNode) -> list[str]:
    return [cell.source for cell in notebook.cells]


def graded(notebook: NotebookNode, release: NotebookNode) -> None:
    """Nothing but the answers may differ from the release, in any graded cell."""
    kept = [cell for cell in notebook.cells if "nbgrader" in cell.metadata]
    given = [cell for cell in release.cells if "nbgrader" in cell.metadata]
    assert [(c.id, c.cell_type, c.metadata) for c in kept] == [
        (c.id, c.cell_type, c.metadata) for c in given
    ]
    tests = [c.source for c in kept if c.metadata.nbgrader.grade]
    assert tests == [c.source for c in given if c.metadata.nbgrader.grade]
    nbformat.validate(notebook)


def test_an_honest_submission_keeps_its_answer_and_has_no_flags(
    handed_in: NotebookNode, release: NotebookNode
) -> None:
    before = copy.deepcopy((handed_in, release))
    rebuilt, flags = rebuild(handed_in, release)
    assert (handed_in, release) == before, "inputs are not modified"
    assert flags == [] == rebuilt.metadata.attend.flags
    assert at(rebuilt, "softmax").source == ANSWER
    graded(rebuilt, release)


@pytest.mark.parametrize("program", honest.PROGRAMS)
def test_whatever_program_saved_it_an_honest_notebook_is_the_same(program: str) -> None:
    """Without ids every cell that was given ran twice, and stood twice in feedback."""
    release = reading.parse(json.dumps(release_notebook(CHAPTER)).encode())
    right = solved(release)
    submission = reading.submitted(honest.saved(right, program).encode())
    rebuilt, flags = rebuild(submission, release)
    assert flags == []
    own = [cell for cell in rebuilt.cells if cell.id.startswith("own-")]
    assert all(cell.source in ("", "x") for cell in own), "what the program added itself"
    assert sources(rebuilt)[: len(right.cells)] == sources(right)
    assert rebuilt.metadata.attend.given == rebuild(right, release)[0].metadata.attend.given


def test_a_copy_of_a_given_cell_stays_where_it_was_put(
    handed_in: NotebookNode, release: NotebookNode
) -> None:
    handed_in.cells.append(new_code_cell("import numpy as np"))
    assert sources(rebuild(handed_in, release)[0]) == sources(handed_in)


def _delete_test(nb: NotebookNode) -> None:
    without(nb, "check-softmax", "check-other")


def _edit_test(nb: NotebookNode) -> None:
    at(nb, "check-softmax").source = "4"


def _skip_test(nb: NotebookNode) -> None:
    at(nb, "check-softmax").metadata["tags"] = ["skip-execution"]


def _skip_answer(nb: NotebookNode) -> None:
    at(nb, "softmax").metadata["tags"] = ["skip-execution"]


def _raise_points(nb: NotebookNode) -> None:
    at(nb, "check-softmax").metadata.nbgrader.points = 100


def _drop_points(nb: NotebookNode) -> None:
    del at(nb, "check-softmax").metadata.nbgrader["points"]


def _ungrade(nb: NotebookNode) -> None:
    at(nb, "check-softmax").metadata.nbgrader.grade = False


def _solution_test(nb: NotebookNode) -> None:
    at(nb, "check-softmax").metadata.nbgrader.solution = True


def _schema(nb: NotebookNode) -> None:
    at(nb, "softmax").metadata.nbgrader.schema_version = 99


def _strip_metadata(nb: NotebookNode) -> None:
    for cell in nb.cells:
        cell.metadata = NotebookNode()


def _garbage_metadata(nb: NotebookNode) -> None:
    for cell in nb.cells:
        cell.metadata["nbgrader"] = ["nothing", {"grade_id": 1}]


def _odd_grade_id(nb: NotebookNode) -> None:
    at(nb, "softmax").metadata.nbgrader.grade_id = {"a": 1}


def _rename(nb: NotebookNode) -> None:
    at(nb, "check-softmax").metadata.nbgrader.grade_id = "check-mine"


def _test_as_markdown(nb: NotebookNode) -> None:
    cell = at(nb, "check-softmax")
    cell.cell_type = "markdown"
    del cell["outputs"], cell["execution_count"]


def _duplicate_test(nb: NotebookNode) -> None:
    nb.cells.append(copy.deepcopy(at(nb, "check-softmax")))


def _reorder(nb: NotebookNode) -> None:
    nb.cells.reverse()


def _kernel(nb: NotebookNode) -> None:
    nb.metadata.kernelspec = {"name": "bash", "display_name": "Bash", "language": "bash"}


TAMPERED = {
    _delete_test: "`check-softmax` was deleted; it was put back.",
    _edit_test: "`check-softmax` was edited; the original was put back.",
    _skip_test: "`check-softmax` was tagged to be skipped; it was run.",
    _skip_answer: "`softmax` was tagged to be skipped; it was run.",
    _raise_points: "The grading metadata of `check-softmax` was changed; it was restored.",
    _drop_points: "The grading metadata of `check-softmax` was changed; it was restored.",
    _ungrade: "The grading metadata of `check-softmax` was changed; it was restored.",
    _solution_test: "The grading metadata of `check-softmax` was changed; it was restored.",
    _schema: "The grading metadata of `softmax` was changed; it was restored.",
    _strip_metadata: "The grading metadata of `softmax` was changed; it was restored.",
    _garbage_metadata: "The grading metadata of `softmax` was changed; it was restored.",
    _odd_grade_id: "The grading metadata of `softmax` was changed; it was restored.",
    _rename: "The grading metadata of `check-softmax` was changed; it was restored.",
    _test_as_markdown: "`check-softmax` was turned into another type of cell; it was turned back.",
    _duplicate_test: "`check-softmax` was there more than once; it was graded once.",
    _reorder: "Graded cells had been moved; they were put back in order.",
    _kernel: "The notebook is one for another language; the course's own kernel was used.",
}


@pytest.mark.parametrize("tamper", TAMPERED, ids=lambda f: f.__name__.strip("_"))
def test_tampering_is_undone_and_flagged(
    tamper: Any, handed_in: NotebookNode, release: NotebookNode
) -> None:
    tamper(handed_in)
    rebuilt, flags = rebuild(handed_in, release)
    assert TAMPERED[tamper] in flags
    assert rebuilt.metadata.attend.flags == flags
    assert rebuilt.metadata.kernelspec == release.metadata.kernelspec
    assert at(rebuilt, "softmax").source == ANSWER
    graded(rebuilt, release)
    assert len([s for s in sources(rebuilt) if s.startswith("check(")]) == 2


def test_a_notebook_that_names_no_kernel_asked_for_no_other(
    handed_in: NotebookNode, release: NotebookNode
) -> None:
    handed_in.metadata.pop("kernelspec", None)
    assert rebuild(handed_in, release)[1] == []


def test_own_cells_stay_in_place_ungraded_and_run(
    handed_in: NotebookNode, release: NotebookNode
) -> None:
    own = new_code_cell("helper = 1", metadata={"tags": ["skip-execution"], **marks("mine")})
    handed_in.cells.insert(2, own)
    handed_in.cells.insert(4, new_markdown_cell("my notes"))
    rebuilt, flags = rebuild(handed_in, release)
    assert sources(rebuilt)[2:6] == ["helper = 1", ANSWER, "my notes", "check(softmax)"]
    assert rebuilt.cells[2].metadata == {}
    assert flags == ["A cell was marked as graded that the course does not know."]
    graded(rebuilt, release)


def test_an_edited_given_cell_runs_after_the_original(
    handed_in: NotebookNode, release: NotebookNode
) -> None:
    at(handed_in, "setup").source = "import math"
    at(handed_in, "title").source = "# Title\n\nmy prediction: 0.4"
    rebuilt, flags = rebuild(handed_in, release)
    assert sources(rebuilt)[:3] == [
        "# Title\n\nmy prediction: 0.4",
        "import numpy as np",
        "import math",
    ]
    assert flags == [], "editing what is given is no tampering"


def test_a_deleted_given_cell_comes_back(handed_in: NotebookNode, release: NotebookNode) -> None:
    without(handed_in, "setup", "title")
    assert sources(rebuild(handed_in, release)[0])[:2] == ["# Title", "import numpy as np"]


def test_a_deleted_answer_is_the_stub(handed_in: NotebookNode, release: NotebookNode) -> None:
    without(handed_in, "softmax")
    rebuilt, flags = rebuild(handed_in, release)
    assert at(rebuilt, "softmax").source == STUB
    assert flags == ["`softmax` was deleted; it counts as not started."]


def test_an_answer_in_a_new_cell_is_found_when_its_own_is_gone(
    handed_in: NotebookNode, release: NotebookNode
) -> None:
    without(handed_in, "softmax")
    handed_in.cells.insert(2, new_code_cell("def softmax(x):\n    return 0  # draft"))
    handed_in.cells.insert(3, new_code_cell(ANSWER))
    rebuilt, flags = rebuild(handed_in, release)
    assert at(rebuilt, "softmax").source == ANSWER
    assert flags == ["The cell of `softmax` was gone; the one that defines it was taken."]
    graded(rebuilt, release)


@pytest.mark.parametrize("place", [2, 3], ids=["before", "after"])
def test_a_pasted_copy_of_an_answer_runs_where_it_stood_but_is_not_graded(
    place: int, handed_in: NotebookNode, release: NotebookNode
) -> None:
    pasted = copy.deepcopy(at(handed_in, "softmax"))
    pasted.id, pasted.source = "pasted", "def softmax(x):\n    return 0"
    handed_in.cells.insert(place, pasted)
    rebuilt, flags = rebuild(handed_in, release)
    assert at(rebuilt, "softmax").source == ANSWER
    assert sources(rebuilt)[place] == pasted.source
    assert flags == ["`softmax` was there more than once; it was graded once."]
    graded(rebuilt, release)


def test_a_written_answer_and_a_task_are_kept(release: NotebookNode) -> None:
    written = {**marks("why", grade=True, locked=False), "points": 2}
    release.cells.append(new_markdown_cell("YOUR ANSWER", id="why", metadata=written))
    submission = copy.deepcopy(release)
    at(submission, "why").source = "Because the variance grows."
    rebuilt, flags = rebuild(submission, release)
    assert at(rebuilt, "why").source == "Because the variance grows."
    assert flags == []
    at(submission, "why").source = "<script>alert(1)</script>"
    assert "<script" not in at(rebuild(submission, release)[0], "why").source
    at(release, "why").source = at(submission, "why").source = "Write <here>."
    assert at(rebuild(submission, release)[0], "why").source == "Write <here>.", "not answered"


def test_outputs_handed_in_do_not_survive(handed_in: NotebookNode, release: NotebookNode) -> None:
    for cell in handed_in.cells[1:]:
        cell.outputs = [nbformat.v4.new_output("execute_result", {"text/plain": "4"})]
    handed_in.cells.append(copy.deepcopy(at(handed_in, "softmax")))
    rebuilt, _ = rebuild(handed_in, release)
    assert all(not cell.outputs for cell in rebuilt.cells if cell.cell_type == "code")


def test_the_same_submission_gives_the_same_notebook(
    handed_in: NotebookNode, release: NotebookNode
) -> None:
    handed_in.cells.insert(1, new_code_cell("1"))
    again = copy.deepcopy(handed_in)
    again.cells[1].id = "another"
    assert rebuild(handed_in, release) == rebuild(again, release)


ACTIVE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](javascript\\:alert(1))",
    "[x](java&#115;cript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x]: javascript:alert(1)\n\n[x]",
    "<javascript:alert(1)>",
    "![x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](data:text/html,<script>alert(1)</script>)",
    "<a href='vbscript:x'>y</a>",
    "[x](java\tscript:alert(1))",
    "$\\href{java\tscript:alert(1)}{x}$",
    "```mermaid\n</pre><script>alert(1)</script>\n```",
    "![x](y 'z\" onerror=\"alert(1)')",
]


@pytest.mark.parametrize("text", ACTIVE)
def test_a_learners_text_cannot_act_in_a_browser(text: str) -> None:
    assert active(shown(new_markdown_cell(harmless(text)))) == []


@pytest.mark.parametrize("text", [*ACTIVE[:3], ACTIVE[-3]])
def test_as_written_it_could(text: str) -> None:
    assert active(shown(new_markdown_cell(text))) != []


def test_a_learners_text_reads_as_it_was_written() -> None:
    text = "If 1 < 2 and $a<3$, **then** my data: [here](https://example.org/?a=1&b=2)"
    page = str(shown(new_markdown_cell(harmless(text))))
    assert "<strong>then</strong>" in page
    assert 'href="https://example.org/?a=1&amp;b=2"' in page
    assert "1 &lt; 2" in page
    code = shown(new_markdown_cell(harmless("`List<int>` and `&lt;`")))
    assert code.get_text().strip().replace("\u200b", "") == "List<int> and &lt;"


PIXEL = {"image/png": "iVBORw0KGgo="}


@pytest.mark.parametrize("cell_id", ["title", "mine"])
def test_a_pasted_picture_is_shown(
    cell_id: str, handed_in: NotebookNode, release: NotebookNode
) -> None:
    handed_in.cells.append(new_markdown_cell("", id="mine"))
    cell = at(handed_in, cell_id)
    cell.source, cell.attachments = "![plot](attachment:a.png)", {"a.png": PIXEL}
    rebuilt, _ = rebuild(handed_in, release)
    page = shown(next(c for c in rebuilt.cells if "plot" in c.source))
    assert [img["src"] for img in page.find_all("img")] == ["data:image/png;base64,iVBORw0KGgo="]
    assert active(page) == []


@pytest.mark.parametrize(
    ("text", "attachments"),
    [
        ("![x](attachment:a.png)", None),
        ("![x](attachment\\:a.png)", None),
        ("![x][y]\n\n[y]: attachment:a.png", None),
        ('![x](attachment:a.png"y)', {"a.png": PIXEL}),
        ("![x](attachment:a.png)", {"a.png": {}}),
        ("![x](attachment:a.png)", {"a.png": "text"}),
        ("![x](attachment:a.png)", ["a.png"]),
        ("![x](attachment:a.png)", {"a.png": {"text/html": "PHNjcmlwdD4="}}),
        ("![x](attachment:a.png)", {"a.png": {"image/png": '" onerror="alert(1)'}}),
        ("![x](attachment:a.png)", {"a.png": {'x" onerror="alert(1)': "q"}}),
    ],
)
def test_an_attachment_that_is_none_stops_no_page(
    text: str, attachments: Any, handed_in: NotebookNode, release: NotebookNode
) -> None:
    handed_in.cells.append(new_markdown_cell(text))
    if attachments is not None:
        handed_in.cells[-1]["attachments"] = attachments
    page = shown(rebuild(handed_in, release)[0].cells[-1])
    assert "data:" not in str(page)
    assert active(page) == []
