# %% [markdown]
# # Getting started
#
# Run the cells from top to bottom. Where a cell says `YOUR CODE HERE`, write your own code in place of the two lines
# of the placeholder, run the cell, and run the check below it.

# %% tags=["setup"]
import numpy as np
from jaxtyping import Float

from autograder import begin, check, hint

begin("getting_started", release="")

# %% [markdown]
# ## Softmax
#
# Softmax turns scores into weights that are positive and sum to one. It should also survive scores of ten thousand,
# and a row whose scores are all minus infinity.

# %% kernel="softmax"

# %% check="softmax"

# %% [markdown]
# ## An experiment
#
# The larger the scores, the nearer the largest weight comes to one.

# %%
for scale in (0.5, 1.0, 2.0, 8.0):
    print(scale, softmax(scale * np.array([1.0, 2.0, 3.0])).round(3))
