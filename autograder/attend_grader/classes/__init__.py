"""Grading a whole class: from a course directory to its gradebook, with nothing lost on the way.

:mod:`.directory` reads an nbgrader course directory and writes its gradebook, :mod:`.handed_in`
reads what a student handed in, :mod:`.record` is the one result of one submission and where it is
kept, :mod:`.work` grades submissions in several processes or on several machines, and
:mod:`.grade` does it all in order.
"""

from attend_grader import lean  # noqa: F401  # first, or reading notebooks takes 0.9 s more
