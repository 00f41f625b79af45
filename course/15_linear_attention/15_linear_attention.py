# %% [markdown]
# # 15 · Linear attention
#
# **The question.** What if softmax went away?

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
# <!-- exercise: linear_attention_example -->

# %% tags=["exercise"]
from attend_solutions.linear_attention import linear_attention_example

# %% [markdown]
# **What you should see.** The size of the example above, and then the size of one vector a row.

# %%
if ready(linear_attention_example):
    print(linear_attention_example(np.array([3.0, -4.0, 0.0, 5.0])))
    print(linear_attention_example(np.array([[1.0, -1.0], [2.0, 2.0]])))

# %% [markdown]
# > **Takeaway.** One number says how large a vector is, whatever the signs of its parts.
