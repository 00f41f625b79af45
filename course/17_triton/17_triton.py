# %% [markdown]
# # 17 · Triton
#
# **The question.** How does one write a kernel?

# %%
import attend.kernels
import torch
import triton
import triton.language as tl
from attend_grader import check, hint, ready, solution

SEED = 17  # every random number below follows from it

# %% [markdown]
# <!-- exercise: vector_add -->
#
# | symbol | argument | shape |
# |---|---|---|
# | $x$, $y$ | `x`, `y` | $(n)$ |

# %% tags=["exercise"]
from attend_solutions.triton import vector_add
