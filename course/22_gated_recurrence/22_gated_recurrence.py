# %% [markdown]
# # 22 · Gated recurrence
#
# **The question.** What does linear attention gain from forgetting?

# %%
import numpy as np
from attend_grader import check, hint, ready, solution
from attend_solutions.types import Array  # a NumPy array of floats, in the signatures

np.set_printoptions(precision=3, suppress=True)

# %% [markdown]
# ## 1 · How large is a vector?
#
# The numbers of a vector can be of either sign, so their mean says little about their size. Square
# them first, take the mean, and undo the square with a root:
#
# $$r(x) = \sqrt{\frac{1}{D} \sum_{d=1}^{D} x_d^2} .$$
#
# For $x = (3, -4, 0, 5)$ the squares are 9, 16, 0 and 25. Their mean is 12.5, so $r = 3.54$.

# %% [markdown]
# <!-- exercise: gated_recurrence_example -->

# %% tags=["exercise"]
from attend_solutions.gated_recurrence import gated_recurrence_example

# %% [markdown]
# **What you should see.** The size of the example above, and then the size of one vector a row.

# %%
if ready(gated_recurrence_example):
    print(gated_recurrence_example(np.array([3.0, -4.0, 0.0, 5.0])))
    print(gated_recurrence_example(np.array([[1.0, -1.0], [2.0, 2.0]])))

# %% [markdown]
# > **Takeaway.** One number says how large a vector is, whatever the signs of its parts.
