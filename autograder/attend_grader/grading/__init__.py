"""Grading submissions, from a notebook's bytes to its record.

:mod:`.handed_in` reads what a student handed in, :mod:`.rebuild` puts the answers into the released
notebook, :mod:`.submission` judges it, :mod:`.record` is the one result of one submission and where
it is kept, :mod:`.work` grades one submission in any process, on this machine (:mod:`.processes`)
or on several (:mod:`.cluster`).
"""

from attend_grader.inside import lean  # noqa: F401  # first, or reading notebooks takes 0.9 s more
