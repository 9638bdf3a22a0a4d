# %% [markdown]
# # Getting started
#
# This notebook has one *kernel*: a function that you write and the course checks. It is `softmax`, which turns scores
# into weights. The chapter "Getting started" of the book derives it; read that first, or keep it open beside you.
#
# Run the cells from top to bottom: click into a cell and press Shift+Enter.

# %% tags=["setup"]
import numpy as np
from jaxtyping import Float

from autograder import begin, check, hint

begin("getting_started", release="")

# %% [markdown]
# ## The kernel: softmax
#
# For a row of $n$ scores $x_1, \dots, x_n$, softmax gives the weights
#
# $$w_i = \frac{e^{x_i}}{\sum_{j=1}^{n} e^{x_j}}.$$
#
# They are positive and they sum to one. Two things make the task more than this line of code:
#
# - Scores may be as large as 10,000, where $e^{x_i}$ overflows. Subtract a number that leaves the weights the same.
# - A score may be minus infinity: it gets weight zero. A row of nothing but minus infinity gets zeros.
#
# The text in the quotes is the contract: what goes in, what comes out. Write your code in place of the last two lines,
# `# YOUR CODE HERE` and `raise NotImplementedError()`. Then run the cell: it prints nothing.

# %% kernel="softmax"

# %% [markdown]
# Now the check. It runs your function on cases of its own and tells you what it finds, in less than a second. Change
# your code and run both cells again, as often as you like.
#
# Stuck? Add a cell (the button +) and run `hint("softmax")` in it. Each call gives one hint more.

# %% check="softmax"

# %% [markdown]
# ## Experiments
#
# These cells use the softmax that you wrote. They earn no points and cost none: change them as you like.
#
# **Predict, then run.** The first row of scores is 1, 2, 3. The second is 101, 102, 103. How do their weights differ?

# %%
print(softmax(np.array([1.0, 2.0, 3.0])))
print(softmax(np.array([101.0, 102.0, 103.0])))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Not at all. A number added to every score of a row multiplies every exponential by one factor, and the factor
# cancels. Only differences between scores count.
#
# </details>

# %% [markdown]
# **Predict, then run.** Below, the scores are divided by a *temperature* $T$ before softmax. Which weight comes near
# one when $T$ is small? What do all three weights come near when $T$ is large?

# %%
import matplotlib.pyplot as plt

scores = np.array([1.0, 2.0, 3.0])
temperatures = np.geomspace(0.05, 50, 100)
weights = softmax(scores / temperatures[:, None], axis=-1)

figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
for score, line in zip(scores, weights.T, strict=True):
    axes.semilogx(temperatures, line, label=f"score {score:g}")
axes.set(xlabel="temperature", ylabel="weight", ylim=(-0.02, 1.02))
axes.legend()
plt.show()

# %% [markdown]
# <details><summary>Answer</summary>
#
# At a small temperature the largest score takes all the weight. At a large one the three weights come near one third.
#
# </details>

# %% [markdown]
# **Predict, then run.** The weights of a row should sum to one at any size of scores. Up to which size does the plain
# formula do that, without a number subtracted? In double precision the largest number is about $1.8 \cdot 10^{308}$.


# %%
def plain_softmax(x):
    powers = np.exp(x)
    return powers / powers.sum()


with np.errstate(over="ignore", invalid="ignore"):
    for size in (1.0, 100.0, 709.0, 710.0, 10_000.0):
        scores = np.array([size - 1, size])
        print(f"scores near {size:8,.0f}: plain {plain_softmax(scores).sum():.3f}, yours {softmax(scores).sum():.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Up to 709: the natural logarithm of the largest number is about 709.8. At 710 the exponential is infinite, infinity
# over infinity is NaN ("not a number"), and so is the sum. Yours goes on, if it passes its check.
#
# </details>

# %% [markdown]
# **Predict, then run.** Here softmax is applied twice. Does the second time change the weights?

# %%
once = softmax(np.array([0.0, 20.0]))
print(once, softmax(once))

# %% [markdown]
# <details><summary>Answer</summary>
#
# Yes, and badly. The weights of the first time lie between 0 and 1, so the second time sees differences of 1 at most.
# Its largest weight of two can never be more than $e / (1 + e)$, which is about 0.73. Softmax belongs on scores, once.
#
# </details>

# %% [markdown]
# ## Hand in
#
# Save the notebook and keep its file name. In a terminal, `autograder check getting_started.ipynb` runs all its checks
# once more in a fresh process. That is the last look before you hand in the way your instructor told you.
