"""Run in each kernel that ``attend lab`` starts, before any cell (by IPython, as PYTHONSTARTUP).

After a restart ``check`` is unknown until the notebook's first cell has run: a card says so.
"""


def _explain_check() -> None:
    from typing import Any

    from IPython.core.getipython import get_ipython

    def handler(shell: Any, kind: type, error: NameError, trace: Any, tb_offset: Any = None):
        if error.name in ("check", "hint", "solution"):
            from attend_grader.judging.report import Report
            from IPython.display import display

            note = (
                f"{error.name} is defined in this notebook's first cell, which has not run since "
                "the kernel started. Click into this cell, choose Run › Run All Above Selected "
                "Cell, then run this cell again."
            )
            display(Report(None, (), "invalid", note))
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)

    shell = get_ipython()
    if shell is not None:  # plain Python reads PYTHONSTARTUP too
        shell.set_custom_exc((NameError,), handler)


_explain_check()
del _explain_check
