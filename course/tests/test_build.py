"""The build: same bytes every time, and every refusal names file and line."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import nbformat
import numpy as np
import pytest
from attend import build, chapter, stub
from attend.errors import AttendError
from attend_grader import chapters
from attend_grader.checks.exercise import Chapter, Contract, Exercise, Property
from attend_grader.checks.slips import Slip
from attend_solutions import attention

HEAD = """\
# %% [markdown]
# # A toy chapter

# %%
import numpy as np
from attend_solutions.types import Array
from attend_grader import check, hint, ready

"""


def exercise_text(name: str, prose: str = "why", module: str = "attention") -> str:
    return (
        f"# %% [markdown]\n# <!-- exercise: {name} -->\n#\n# {prose}\n\n"
        f'# %% tags=["exercise"]\nfrom attend_solutions.{module} import {name}\n\n'
    )


def registered(*references, uses=()) -> tuple[Exercise, ...]:
    def holds(subject, probe) -> None:
        subject(np.zeros(2))

    return tuple(
        Exercise(
            chapter="03_toy",
            title="A title",
            goal="Do it.",
            reference=reference,
            properties=(Property("holds", 3, holds),),
            draws=lambda rng: [],
            alternatives={},
            hints=("one", "two", "three"),
            minutes=7,
            difficulty=2,
            importance=5,
            uses=uses,
        )
        for reference in references
    )


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """Write a chapter and register its exercises; returns the chapter as read."""

    def make(text: str, exercises: tuple[Exercise, ...]) -> chapter.Source:
        index = {"03_toy": {e.name: e.points for e in exercises}, "09_late": {"late_one": 1}}
        monkeypatch.setattr(chapters, "INDEX", index)
        monkeypatch.setattr(chapters, "chapter", lambda _: Chapter("03_toy", exercises))
        by_name = {e.name: e for e in exercises}
        monkeypatch.setattr(chapters, "_load", lambda _, name: by_name[name])
        path = tmp_path / "03_toy.py"
        path.write_text(HEAD + text)
        return chapter.read(path)

    return make


def refusal(source: chapter.Source) -> str:
    with pytest.raises(AttendError) as caught:
        build.refuse_leaks(build.release(build.solved(source), source.id), source)
    return str(caught.value)


def line_of(source: chapter.Source, text: str) -> int:
    lines = source.path.read_text().split("\n")
    return next(n for n, line in enumerate(lines, 1) if text in line)


def test_solved_holds_the_answer_and_release_does_not(toy):
    source = toy(exercise_text("softmax"), registered(attention.softmax))
    solved = build.solved(source)
    release = build.release(solved, source.id)
    answer = {cell.id: cell.source for cell in solved.cells}["softmax"]
    blank = {cell.id: cell.source for cell in release.cells}["softmax"]
    assert "### BEGIN SOLUTION" in answer
    assert "np.exp" in answer
    assert "np.exp" not in blank
    assert blank.endswith("raise NotImplementedError()")
    assert "Shapes:" in blank
    build.refuse_leaks(release, source)


def test_solved_answer_runs_as_written(toy):
    source = toy(exercise_text("softmax"), registered(attention.softmax))
    space: dict = {}
    for cell in build.solved(source).cells[:4]:
        if cell.cell_type == "code":
            exec(cell.source, space)
    np.testing.assert_allclose(space["softmax"](np.zeros(4)), 0.25)


def test_check_cell_carries_points_and_is_locked(toy):
    source = toy(exercise_text("softmax"), registered(attention.softmax))
    release = build.release(build.solved(source), source.id)
    nbformat.validate(release)
    cell = next(cell for cell in release.cells if cell.id == "check-softmax")
    assert cell.source == "check(softmax)"
    assert cell.metadata.nbgrader.points == 3
    assert cell.metadata.nbgrader.locked
    assert cell.metadata.nbgrader.schema_version == 3
    assert not cell.metadata.editable


def test_header_is_made_from_the_registry(toy):
    source = toy(exercise_text("softmax"), registered(attention.softmax))
    text = "\n".join(cell.source for cell in build.solved(source).cells)
    assert "\n### Exercise 3.1 · A title" in f"\n{text}"
    assert "●●○○○" in text
    assert "about 7 minutes · 3 points" in text


def test_promises_stand_under_the_exercises_own_table(toy):
    (plain,) = registered(attention.softmax)
    promising = replace(plain, contract=Contract(says=("It is whole.",)))
    table = "| a |\n# |---|\n# | 1 |"
    text = exercise_text("softmax", prose=f"why\n#\n# {table.replace('1', 'own')}\n#\n# more")
    text = text.replace("# <!--", f"# {table}\n#\n# <!--", 1)
    cells = build.solved(toy(text, (promising,))).cells
    shown = next(cell.source for cell in cells if "What is checked" in cell.source)
    order = ["| 1 |", "### Exercise", "| own |", "**What is checked.** It is whole.", "more"]
    assert sorted(order, key=shown.index) == order


def test_two_builds_give_the_same_bytes(toy):
    source = toy(
        exercise_text("softmax") + exercise_text("attention_scores"),
        registered(attention.softmax, attention.attention_scores),
    )
    texts = {build.to_text(build.release(build.solved(source), source.id)) for _ in range(2)}
    assert len(texts) == 1


def test_cell_ids_survive_an_edit_elsewhere(toy):
    exercises = registered(attention.softmax)
    before = build.solved(toy(exercise_text("softmax"), exercises))
    after = build.solved(toy("# %% [markdown]\n# New.\n\n" + exercise_text("softmax"), exercises))
    assert {cell.id for cell in before.cells} < {cell.id for cell in after.cells}


def test_refuses_an_exercise_without_checks(toy):
    source = toy(
        exercise_text("softmax") + exercise_text("attention_scores"), registered(attention.softmax)
    )
    line = line_of(source, "import attention_scores") - 1
    assert re.match(rf"03_toy.py:{line}: attention_scores .* has no checks", refusal(source))


def test_refuses_checks_without_an_exercise(toy):
    source = toy(
        exercise_text("softmax"), registered(attention.softmax, attention.attention_scores)
    )
    message = refusal(source)
    assert message.startswith("03_toy.py:1: checks without an exercise")
    assert "03_toy/attention_scores" in message


def test_refuses_a_duplicate_id(toy):
    source = toy(exercise_text("softmax") * 2, registered(attention.softmax))
    last = max(cell.line for cell in source.cells)
    assert refusal(source) == f"03_toy.py:{last}: duplicate id: 03_toy/softmax is asked twice"


def test_refuses_an_exercise_without_a_header(toy):
    text = '# %% tags=["exercise"]\nfrom attend_solutions.attention import softmax\n'
    source = toy(text, registered(attention.softmax))
    assert "needs a line `<!-- exercise: softmax -->`" in refusal(source)


def test_refuses_a_leak_in_code_and_names_its_line(toy):
    leak = "# %%\nshifted = 1\nexponentials = np.exp( scores - largest )\n\n"
    source = toy(exercise_text("softmax") + leak, registered(attention.softmax))
    line = line_of(source, "np.exp( scores")
    message = refusal(source)
    assert message.startswith(f"03_toy.py:{line}: the answer of softmax leaks")
    assert "np.exp(scores - largest)" in message


def test_refuses_a_leak_in_prose(toy):
    prose = "`exponentials = np.exp(scores - largest)` is all."
    source = toy(exercise_text("softmax", prose), registered(attention.softmax))
    line = line_of(source, "is all.")
    assert refusal(source).startswith(f"03_toy.py:{line}: the answer of softmax leaks")


BROKEN_LISTS = {
    "a paragraph": "The weights have a sum of\n# 1. A larger score",
    "a later line": "One\n# two\n# 10. Three",
    "a quote": "> It has a sum of\n# > 1. So",
    "below code": "```\n# 1. a\n# ```\n# Then comes\n# 2. Two",
}
WHOLE_LISTS = {
    "a list": "Two steps:\n#\n# 1. Shift\n# and divide.\n# 2. Done.\n#\n#    More.\n# 3. Rest.",
    "below a heading": "## Steps\n# 1. Shift.",
    "code": "Text\n# ```\n# 1. code\n# 2. code\n# ```",
    "a number in a line": "They sum to 1. All of\n# 1.5 is more.",
    "a table": "| a |\n# |---|\n# | 1. |",
}


@pytest.mark.parametrize("prose", BROKEN_LISTS.values(), ids=BROKEN_LISTS)
def test_refuses_a_paragraph_that_would_turn_into_a_list(toy, prose):
    source = toy(exercise_text("softmax", prose), registered(attention.softmax))
    last = prose.split("\n# ")[-1]
    number = re.findall(r"\d+\.", last)[0]
    assert refusal(source).startswith(
        f"03_toy.py:{line_of(source, last)}: a paragraph's line begins with '{number}'"
    )


@pytest.mark.parametrize("prose", WHOLE_LISTS.values(), ids=WHOLE_LISTS)
def test_takes_a_list_that_is_one(toy, prose):
    source = toy(exercise_text("softmax", prose), registered(attention.softmax))
    assert len(build.solved(source).cells) == 6


def test_refuses_a_later_chapters_exercise(toy):
    text = exercise_text("softmax") + "# %%\nfrom attend_solutions.late import late_one\n"
    source = toy(text, registered(attention.softmax))
    line = line_of(source, "late_one")
    assert refusal(source) == (
        f"03_toy.py:{line}: late_one is an exercise of the later chapter 09_late"
    )


def test_refuses_its_own_exercise_imported_untagged(toy):
    text = "# %%\nfrom attend_solutions.attention import softmax\n\n" + exercise_text("softmax")
    source = toy(text, registered(attention.softmax))
    assert "softmax is an exercise of this chapter: tag it" in refusal(source)


def test_refuses_an_answer_that_needs_an_undefined_name(toy):
    names = ("scaled_dot_product_attention", "attention_scores", "softmax")
    source = toy(
        "".join(exercise_text(name) for name in names),
        registered(*(getattr(attention, name) for name in names)),
    )
    assert "uses `attention_scores`, which no cell above defines or imports" in refusal(source)


def test_refuses_a_cell_that_is_not_one_import(toy):
    text = '# %% tags=["exercise"]\nfrom attend_solutions.attention import softmax as s\n'
    source = toy(text, registered(attention.softmax))
    assert "exactly one import of one name" in refusal(source)


def test_a_syntax_error_names_file_and_line(toy):
    with pytest.raises(AttendError, match=r"03_toy\.py:10: ") as caught:
        toy("# %%\nx = (1 +\n", registered(attention.softmax))
    assert "never closed" in str(caught.value)


def test_helper_is_brought_along(toy, tmp_path, monkeypatch):
    module = tmp_path / "attend_helped.py"
    module.write_text(
        "import numpy as np\n\n\ndef twice(x):\n    return 2 * x\n\n\n"
        'def doubled(x):\n    """Double.\n\n    Shapes: any."""\n    # a remark\n'
        "    return twice(x)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import attend_helped  # type: ignore[import-not-found]  # made by this test

    text = stub.solution_text(attend_helped.doubled)
    assert text.index("### BEGIN SOLUTION") < text.index("# a remark")
    assert stub.names_needed(text) == {"twice"}
    assert stub.helper_text(attend_helped.doubled, "twice") == "def twice(x):\n    return 2 * x"


def test_a_class_must_mark_its_solution_inside_methods(tmp_path, monkeypatch):
    module = tmp_path / "attend_classes.py"
    module.write_text(
        'class Whole:\n    """Words."""\n\n    def forward(self, x):\n        return x\n\n\n'
        'class Marked:\n    """Words."""\n\n    def forward(self, x):\n'
        "        ### BEGIN SOLUTION\n        return x\n        ### END SOLUTION\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    import attend_classes  # type: ignore[import-not-found]  # made by this test

    with pytest.raises(AttendError, match="the class Whole in attend_classes marks no solution"):
        stub.solution_text(attend_classes.Whole)
    assert stub.solution_statements(attend_classes.Marked) == ["return x"]


@pytest.mark.parametrize("chapter_id", chapter.chapter_ids())
def test_committed_notebook_is_fresh_and_without_outputs(chapter_id):
    path = chapter.source_path(chapter_id).with_suffix(".ipynb")
    text = path.read_text(encoding="utf-8")
    assert text == build.to_text(build.release_notebook(chapter_id))
    for cell in nbformat.reads(text, as_version=4).cells:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None


def test_check_says_what_is_stale_and_writes_nothing(monkeypatch, tmp_path, capsys):
    folder = tmp_path / "03_attention"
    folder.mkdir()
    original = chapter.source_path("03_attention")
    (folder / original.name).write_text(original.read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "03_attention.ipynb").write_text("old")
    monkeypatch.setattr(chapter, "COURSE", tmp_path)
    assert build.main([], check=True) == 1
    assert "03_attention.ipynb is stale: run `attend build 03_attention`" in capsys.readouterr().err
    assert (folder / "03_attention.ipynb").read_text() == "old"
    assert build.main([]) == 0
    assert build.main([], check=True) == 0


def test_solved_editions_go_where_told(tmp_path: Path, capsys):
    assert build.main(["03_attention"], solved_to=tmp_path / "solved") == 0
    assert "BEGIN SOLUTION" in (tmp_path / "solved" / "03_attention.ipynb").read_text()
    assert "wrote" in capsys.readouterr().out


def test_an_unknown_chapter_names_those_there_are():
    with pytest.raises(AttendError, match=r"no chapter '99_x'; written so far: .*03_attention"):
        build.main(["99_x"])


def test_a_slip_that_no_longer_fits_the_answer_is_refused(toy):
    (exercise,) = registered(attention.softmax)
    stale = Slip("no maximum", ("scores - nothing_of_the_kind", "scores"), "It overflows.")
    source = toy(exercise_text("softmax"), (replace(exercise, slips=(stale,)),))
    said = refusal(source)
    assert f"03_toy.py:{line_of(source, 'import softmax') - 1}" in said
    assert "stale slips of 03_toy/softmax" in said
    assert "'scores - nothing_of_the_kind' is not in the answer" in said
