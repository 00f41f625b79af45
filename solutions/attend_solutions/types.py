"""Names for the types that signatures share.

``Array`` is a NumPy array of floats (float16, float32 or float64) of any shape; the ``Shapes:``
block of each docstring says which shape. ``Complex`` is one of complex numbers, which may
all be real. ``Mask`` is an array of booleans, True where a query may look at a key. ``Integers`` is
a list or an array of whole numbers.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
Mask = npt.NDArray[np.bool_]
Integers = Sequence[int] | npt.NDArray[np.integer]
Complex = npt.NDArray[np.inexact]
