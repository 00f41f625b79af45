"""Into and out of nbgrader: course directories, the gradebook, feedback pages, exports.

:mod:`.directory` reads a course directory and writes its gradebook, :mod:`.grade` grades a class in
order, :mod:`.preprocessors` is what nbgrader itself runs for us.
"""

from attend_grader.inside import lean  # noqa: F401  # first, or reading notebooks takes 0.9 s more
