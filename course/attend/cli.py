"""The ``attend`` command: one thin function a command; the work is done in the modules they import.

A user's mistake ends in one clear sentence (``AttendError``), never in a traceback.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from attend.errors import AttendError

_typer = typer.Typer(
    help="Attention from scratch through Mamba: an interactive course.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
_HOME = "work/ in a clone, else attend-work/"
_LEARN, _TEACH = "For learners", "For instructors and authors"
_class = typer.Typer(help="Set up a class: the course as nbgrader assignments.")
_typer.add_typer(_class, name="class", no_args_is_help=True, rich_help_panel=_TEACH)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        print(f"attend {version('attend-course')}")
        raise typer.Exit


@_typer.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    del version  # said by its callback


def app() -> None:
    """Run the command line; the entry point of ``attend``."""
    try:
        _typer()
    except AttendError as error:
        from rich.console import Console

        Console(stderr=True, soft_wrap=True).print(str(error), markup=False, highlight=False)
        sys.exit(error.exit_code)


@_typer.command(rich_help_panel=_LEARN)
def lab(
    port: Annotated[
        int | None, typer.Option(help="Use this port.", show_default="the first free from 8888")
    ] = None,
    browser: Annotated[bool, typer.Option(help="Open the start page in a browser.")] = True,
) -> None:
    """Copy the chapters to your folder and open JupyterLab there."""
    from attend import lab as module

    module.main(port, browser)


@_typer.command(rich_help_panel=_LEARN)
def copy(
    directory: Annotated[
        Path | None,
        typer.Argument(help="Where to.", show_default=_HOME),
    ] = None,
) -> None:
    """Copy the chapters without opening JupyterLab: for another editor, or for Binder."""
    from attend import workspace

    place = (directory or workspace.home()).resolve()
    for sentence in workspace.prepare(place) or [f"Nothing new: {place} has all chapters."]:
        print(sentence)


_Work = Annotated[
    Path | None,
    typer.Option("--work", help="Your notebooks.", show_default=_HOME),
]


@_typer.command(rich_help_panel=_LEARN)
def progress(work: _Work = None) -> None:
    """Show which exercises you have done, and your points."""
    from attend import progress as module
    from attend import workspace

    print(module.show(work or workspace.home()))


@_typer.command(rich_help_panel=_LEARN)
def reset(
    chapter: Annotated[str, typer.Argument(help="Such as 03, or 03_attention.")],
    work: _Work = None,
) -> None:
    """Start a chapter again; your notebook is kept, under a name with today's date."""
    from attend import workspace

    for sentence in workspace.reset(work or workspace.home(), chapter):
        print(sentence)


@_typer.command(rich_help_panel=_LEARN)
def update(
    chapter: Annotated[str, typer.Argument(help="Such as 03, or 03_attention.")],
    work: _Work = None,
) -> None:
    """Get a chapter's newest version with your answers in it; your old notebook is kept."""
    from attend import update as module
    from attend import workspace

    for sentence in module.update(work or workspace.home(), chapter):
        print(sentence)


@_typer.command(rich_help_panel=_LEARN)
def doctor(work: _Work = None) -> None:
    """Check that all the course needs is installed and works; say what to do where it is not."""
    from attend import doctor as module
    from attend import workspace

    raise typer.Exit(module.main(work or workspace.home()))


@_typer.command(rich_help_panel=_TEACH)
def build(
    chapters: Annotated[
        list[str] | None,
        typer.Argument(help="Chapter ids, like 03_attention.", show_default="all"),
    ] = None,
    check: Annotated[bool, typer.Option("--check", help="Only say what is stale.")] = False,
    solved: Annotated[
        Path | None, typer.Option(help="Write the solved editions into this folder instead.")
    ] = None,
) -> None:
    """Make the learners' notebooks from the chapters' sources."""
    from attend.build import main

    raise typer.Exit(main(chapters or [], check, solved))


@_typer.command("new-chapter", rich_help_panel=_TEACH)
def new_chapter(
    chapter: Annotated[str, typer.Argument(help="Its id in the plan, like 07_block.")],
) -> None:
    """Write the skeleton of a planned chapter: text, answer, checks and tests that pass."""
    from attend.skeleton import main

    raise typer.Exit(main(chapter))


@_typer.command(rich_help_panel=_TEACH)
def readme(
    check: Annotated[bool, typer.Option("--check", help="Only say whether it is stale.")] = False,
) -> None:
    """Rewrite the generated parts of README.md: the chapter table and the tree."""
    from attend.readme import main

    raise typer.Exit(main(check))


@_typer.command(rich_help_panel=_TEACH)
def pictures(
    check: Annotated[bool, typer.Option("--check", help="Only say what is stale.")] = False,
) -> None:
    """Draw each chapter's first widget into an SVG file, which its notebook shows to readers."""
    from attend.book.signature import main

    raise typer.Exit(main(check))


@_typer.command(rich_help_panel=_TEACH)
def book(
    chapters: Annotated[
        list[str] | None,
        typer.Argument(help="Which, such as 03_attention.", show_default="all"),
    ] = None,
    out: Annotated[Path, typer.Option(help="The site's folder.")] = Path("dist/book"),
) -> None:
    """Run the chapters and make a site of them to read, without the answers."""
    from attend.book import site

    raise typer.Exit(site.main(out, chapters or ()))


@_typer.command(rich_help_panel=_TEACH)
def grade(
    assignment: Annotated[str, typer.Argument(help="Such as 03_attention.")],
    course: Annotated[Path, typer.Option(help="The course directory.")] = Path(),
    students: Annotated[
        str | None, typer.Option(help="Only these, separated by commas.", show_default="all")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes.", show_default="one for each processor")
    ] = None,
    scheduler: Annotated[
        str, typer.Option(help="Grade on a Dask scheduler's workers, like tcp://host:8786.")
    ] = "",
    force: Annotated[
        bool, typer.Option("--force", help="Grade also what has not changed since.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(help="Draw the same inputs for all.", show_default="fresh ones for each"),
    ] = None,
    replay: Annotated[
        tuple[str, str] | None,
        typer.Option(metavar="STUDENT EXERCISE", help="Show one verdict again, with its inputs."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Say only what is wrong.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe-no-sandbox", help="Run submissions with your rights. Dangerous."),
    ] = False,
) -> None:
    """Grade all submissions of an assignment that changed, in a sandbox, into the gradebook."""
    if replay is not None:
        from attend.grade import show_replay

        raise typer.Exit(show_replay(assignment, *replay, course=course, unsafe=unsafe))
    from attend_grader.grading.processes import Expected, ahead

    with ahead(workers, not scheduler, Expected(course, assignment, unsafe)) as count:
        from attend import grade as module

        code = module.main(
            assignment,
            course=course,
            students=students,
            workers=count,
            scheduler=scheduler,
            force=force,
            seed=seed,
            unsafe=unsafe,
            mode="json" if as_json else "quiet" if quiet else "rich",
        )
    raise typer.Exit(code)


@_typer.command(rich_help_panel=_TEACH)
def collect(
    assignment: Annotated[str, typer.Argument(help="Such as 03_attention.")],
    archive: Annotated[
        Path, typer.Option("--zip", help="All submissions, as Moodle or Canvas packs them.")
    ],
    course: Annotated[Path, typer.Option(help="The course directory.")] = Path(),
    dated: Annotated[
        bool, typer.Option("--dated", help="Files' dates in it are when they were handed in.")
    ] = False,
) -> None:
    """Unpack the submissions of a Moodle or Canvas archive to where they are graded."""
    from attend import intake

    raise typer.Exit(intake.collect(assignment, archive, course, dated=dated))


@_typer.command(rich_help_panel=_TEACH)
def roster(
    file: Annotated[Path, typer.Argument(help="CSV, as Canvas, Moodle or nbgrader write it.")],
    course: Annotated[Path, typer.Option(help="The course directory.")] = Path(),
) -> None:
    """Enter a class's list into the gradebook: ids, names, addresses."""
    from attend import intake

    raise typer.Exit(intake.roster(file, course))


@_typer.command(rich_help_panel=_TEACH)
def regrade(
    student: Annotated[str, typer.Argument(help="Whose.")],
    exercise: Annotated[str, typer.Argument(help="Such as softmax, or 03_attention/softmax.")],
    note: Annotated[str, typer.Option(help="Why; feedback shows it.")],
    score: Annotated[
        float | None,
        typer.Option(help="Give this score by hand.", show_default="the check decides anew"),
    ] = None,
    withdraw: Annotated[
        bool, typer.Option("--withdraw", help="Let the check's score count again.")
    ] = False,
    by: Annotated[str, typer.Option(help="Who does it.", show_default="the user at work")] = "",
    assignment: Annotated[
        str, typer.Option(help="Its name.", show_default="the one with this exercise")
    ] = "",
    course: Annotated[Path, typer.Option(help="The course directory.")] = Path(),
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe-no-sandbox", help="Run submissions with your rights. Dangerous."),
    ] = False,
) -> None:
    """Grade one exercise again, or set its score by hand; the note says why, and is kept."""
    from attend import regrade as module

    raise typer.Exit(
        module.main(
            student,
            exercise,
            note=note,
            score=score,
            withdraw=withdraw,
            by=by,
            assignment=assignment,
            course=course,
            unsafe=unsafe,
        )
    )


@_typer.command(rich_help_panel=_TEACH)
def report(
    assignment: Annotated[str, typer.Argument(help="Such as 03_attention.")],
    course: Annotated[Path, typer.Option(help="The course directory.")] = Path(),
    out: Annotated[
        Path | None, typer.Option(help="The page.", show_default="reports/ASSIGNMENT.html")
    ] = None,
) -> None:
    """Write one page on a graded assignment: scores, misconceptions, exercises, flags."""
    from attend import report as module

    raise typer.Exit(module.main(assignment, course, out))


@_typer.command(rich_help_panel=_TEACH)
def feedback(
    assignment: Annotated[str, typer.Argument(help="Such as 03_attention.")],
    course: Annotated[Path, typer.Option(help="The course directory.")] = Path(),
    force: Annotated[
        bool, typer.Option("--force", help="Write also pages that are there already.")
    ] = False,
) -> None:
    """Write the feedback pages of all graded submissions."""
    from attend import run as module

    raise typer.Exit(module.feedback(assignment, course, force))


@_typer.command(rich_help_panel=_TEACH)
def run(
    assignment: Annotated[str, typer.Argument(help="Such as 03_attention.")],
    course: Annotated[Path, typer.Option(help="The course directory.")] = Path(),
    form: Annotated[
        str, typer.Option("--format", help="Of the export: nbgrader, canvas, moodle or lti.")
    ] = "nbgrader",
    workers: Annotated[
        int | None, typer.Option(help="Processes.", show_default="one for each processor")
    ] = None,
    unsafe: Annotated[
        bool,
        typer.Option("--unsafe-no-sandbox", help="Run submissions with your rights. Dangerous."),
    ] = False,
) -> None:
    """Grade, then write report, feedback and export: all that follows a deadline."""
    from attend_grader.grading.processes import Expected, ahead

    with ahead(workers, True, Expected(course, assignment, unsafe)) as count:
        from attend import run as module

        raise typer.Exit(module.everything(assignment, course, form, count, unsafe))


@_typer.command(rich_help_panel=_TEACH)
def export(
    assignment: Annotated[str, typer.Argument(help="Such as 03_attention.")],
    form: Annotated[
        str, typer.Option("--format", help="nbgrader, canvas, moodle or lti.")
    ] = "nbgrader",
    course: Annotated[Path, typer.Option(help="The course directory.")] = Path(),
    out: Annotated[
        Path | None,
        typer.Option(help="The file.", show_default="exports/ASSIGNMENT-FORMAT.csv, .json for lti"),
    ] = None,
) -> None:
    """Write an assignment's scores as another system imports them."""
    from attend import export as module

    raise typer.Exit(module.main(assignment, form, course, out))


@_class.command("init")
def class_init(
    directory: Annotated[Path, typer.Argument(help="A new or empty directory.")],
    chapters: Annotated[
        str | None, typer.Option(help="Chapter ids, separated by commas.", show_default="all")
    ] = None,
    db: Annotated[
        str | None, typer.Option(help="The gradebook's URL.", show_default="SQLite in DIRECTORY")
    ] = None,
) -> None:
    """Make an nbgrader course directory: its config, solved notebooks in source/, gradebook."""
    from attend.classroom import init

    init(directory, chapters.split(",") if chapters else [], db)
