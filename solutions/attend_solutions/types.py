"""Names for the types that signatures share.

``Array`` is a NumPy array of floats (float16, float32 or float64) of any shape; the ``Shapes:``
block of each docstring says which shape.
"""

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.floating]
