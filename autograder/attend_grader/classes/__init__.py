"""Grading a whole class: from a course directory to its gradebook, with nothing lost on the way.

:mod:`.directory` reads an nbgrader course directory and writes its gradebook, :mod:`.handed_in`
reads what a student handed in, :mod:`.record` is the one result of one submission and where it is
kept, :mod:`.work` grades submissions in several processes or on several machines, and
:mod:`.grade` does it all in order.
"""

import sys

if "rfc3987_syntax" not in sys.modules:
    # jsonschema, which reads notebooks, builds a grammar of IRIs from it as it is imported: 0.9 s
    # in each process, for a format that no notebook's schema has.
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]  # "not installed"
    import jsonschema  # noqa: F401

    del sys.modules["rfc3987_syntax"]
