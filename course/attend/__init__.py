"""The course at run time: pictures, data, progress, the build and the ``attend`` command.

Importing it in a notebook sets up the charts, and makes a NameError about an exercise say what
to do.
"""

import sys


def _in_notebook() -> None:
    """Set up IPython, where that is what runs us."""
    if "IPython" not in sys.modules:
        return
    from attend_grader.session import explain_missing_names
    from IPython.core.getipython import get_ipython

    from attend import charts

    shell = get_ipython()
    if shell is not None:
        charts.use()
        explain_missing_names(shell)
    if charts.COLAB in sys.modules:  # shows no widget from outside ipywidgets unless told to
        sys.modules[f"{charts.COLAB}.output"].enable_custom_widget_manager()


_in_notebook()
