# %% [markdown]
# # The multilayer perceptron
#
# Here you build a network that reads handwritten digits, and teach it to, in NumPy alone. It takes seven kernels:
#
# 1. `linear_forward` and `linear_backward`: a linear layer, and the gradient back through it.
# 2. `relu_forward` and `relu_backward`: what stands between two layers.
# 3. `softmax_cross_entropy`: how wrong the network is, and where to improve.
# 4. `sgd_step`: one step of learning.
# 5. `train_epoch`: once through the data.
#
# The chapter "The multilayer perceptron" of the book derives all of it. Everywhere an example is a row, and a batch is
# a matrix of rows.
#
# Run the cells from top to bottom. Stuck? Add a cell and run `hint("linear_backward")` in it, with the name of your
# kernel.

# %% tags=["setup"]
import numpy as np
from jaxtyping import Float, Int

from autograder import begin, check, hint

begin("multilayer_perceptron", release="")

# %% [markdown]
# ## A linear layer: `linear_forward`
#
# Output $o$ of example $n$ is
#
# $$S_{no} = \sum_i X_{ni} W_{io} + b_o.$$
#
# One product of matrices does it for all examples and outputs at once.

# %% kernel="linear_forward"

# %% check="linear_forward"

# %% [markdown]
# **Predict, then run.** Two linear layers, one after the other, have 100 times 64 and 64 times 10 weights. Below, their
# weights and biases are merged into a single layer. How far do the two outputs lie apart?

# %%
rng = np.random.default_rng(0)
X = rng.normal(size=(5, 100))
W_1, b_1 = rng.normal(size=(100, 64)), rng.normal(size=64)
W_2, b_2 = rng.normal(size=(64, 10)), rng.normal(size=10)

both = linear_forward(linear_forward(X, W_1, b_1), W_2, b_2)
merged = linear_forward(X, W_1 @ W_2, b_1 @ W_2 + b_2)
print(f"largest difference {np.abs(both - merged).max():.1e}, outputs as large as {np.abs(both).max():.0f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Not at all, but for rounding. Two linear layers are one linear layer, however many weights they have. Something must
# stand between them.
#
# </details>

# %% [markdown]
# ## Something between them: `relu_forward`
#
# The rectifier keeps what is positive and sets the rest to zero.

# %% kernel="relu_forward"

# %% check="relu_forward"

# %% [markdown]
# ## How wrong? `softmax_cross_entropy`
#
# The network gives each example a row of *logits* $s_1, s_2, \dots$, one for each class. Softmax makes probabilities of
# them, and the loss of an example with the right class $y$ is
#
# $$-\ln p_y = -\ln \frac{e^{s_y}}{\sum_c e^{s_c}}.$$
#
# The loss of a batch is the mean over its $B$ examples. The gradient of that mean, for all logits at once, is
#
# $$\frac{\partial L}{\partial S} = \frac{1}{B} (P - Y),$$
#
# where $P$ holds the probabilities, and $Y$ a one at the right class of each row and zeros elsewhere.
#
# Both must be right for logits as large as 10,000, where $e^{s_c}$ overflows and a probability becomes zero. Take the
# logarithm on paper before you compute. The check gives points for the loss and for the gradient: return zeros of the
# right shape for the gradient if you do not have it yet.

# %% kernel="softmax_cross_entropy"

# %% check="softmax_cross_entropy"

# %% [markdown]
# **Predict, then run.** There are ten classes. What is the loss if all logits are zero? If the right one leads by 5? If
# it is behind by 5, or by 1,000?

# %%
for lead in (0.0, 5.0, -5.0, -1000.0):
    logits = np.zeros((1, 10))
    logits[0, 3] = lead
    loss, gradient = softmax_cross_entropy(logits, np.array([3]))
    print(f"right class leads by {lead:6.0f}: loss {loss:8.3f}, gradient for its logit {gradient[0, 3]:6.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# $\ln 10 \approx 2.303$ for a guess, hardly anything for a lead of 5, and behind the others the distance plus $\ln 9$,
# since there are nine of them. The gradient is never below $-1$: the more wrong, the nearer to it. So a hopeless case
# pulls as hard as a bad one, and no harder.
#
# </details>

# %% [markdown]
# ## Back through a linear layer: `linear_backward`
#
# Let $G$ be the gradient of the loss for the layer's output. The chapter derives the three gradients from
#
# $$
# \frac{\partial L}{\partial W_{io}} = \sum_n X_{ni} G_{no}, \qquad
# \frac{\partial L}{\partial b_o} = \sum_n G_{no}, \qquad
# \frac{\partial L}{\partial X_{ni}} = \sum_o G_{no} W_{io}.
# $$
#
# Write them as products of matrices. Look at the shapes when you are not sure what to transpose. Each gradient earns
# its own point.

# %% kernel="linear_backward"

# %% check="linear_backward"

# %% [markdown]
# ### Trust no derivation
#
# The check compares your gradients with ours. But how do *we* know? A gradient can be tested by anybody: move one
# number a little, and see how the loss changes.
#
# **Predict, then run.** The loss below is the cross-entropy of a linear model. How many digits of the two numbers agree
# at each step $h$? Is a smaller step always better?

# %%
rng = np.random.default_rng(0)
X, labels = rng.normal(size=(6, 4)), rng.integers(0, 3, 6)
W, b = rng.normal(size=(4, 3)), np.zeros(3)


def loss_of(weights):
    return softmax_cross_entropy(linear_forward(X, weights, b), labels)[0]


_, grad_logits = softmax_cross_entropy(linear_forward(X, W, b), labels)
_, grad_W, _ = linear_backward(grad_logits, X, W)
nudge = np.zeros_like(W)
nudge[2, 1] = 1.0
for h in (1e-1, 1e-3, 1e-5, 1e-8, 1e-12):
    difference = (loss_of(W + h * nudge) - loss_of(W - h * nudge)) / (2 * h)
    print(f"h = {h:.0e}: by differences {difference:.12f}, by hand {grad_W[2, 1]:.12f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Best near $10^{-5}$, where about ten digits agree. A larger step bends away from the tangent. A smaller one compares
# two losses that are nearly the same number, of which the computer keeps only 16 digits.
#
# </details>

# %% [markdown]
# ## Back through the rectifier: `relu_backward`
#
# Where the rectifier let a number through, its slope is one; elsewhere zero. At exactly zero we take zero.

# %% kernel="relu_backward"

# %% check="relu_backward"

# %% [markdown]
# ## One step: `sgd_step`
#
# Go against the gradient, as far as the learning rate says, and give back a new array.

# %% kernel="sgd_step"

# %% check="sgd_step"

# %% [markdown]
# **Predict, then run.** The loss is $\frac{1}{2} x^2$, whose gradient is $x$ itself. From $x = 1$, where do ten steps
# lead at learning rates of 0.1, 1, 1.9, 2 and 2.1?

# %%
for rate in (0.1, 1.0, 1.9, 2.0, 2.1):
    x = np.array([1.0])
    for _ in range(10):
        x = sgd_step(x, x, rate)
    print(f"learning rate {rate}: x = {x[0]:8.4f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Each step multiplies $x$ by one minus the learning rate. At 1 it lands on the minimum at once. Between 1 and 2 it
# jumps over it, back and forth, and still comes nearer. At 2 it stays as far away as it was, and beyond 2 it flies off.
# Where a loss is bent more, the limit is lower.
#
# </details>

# %% [markdown]
# ## Once through the data: `train_epoch`
#
# Now put the six together. For each mini-batch, forward
#
# $$Z = X W_1 + b_1, \qquad H = \operatorname{relu}(Z), \qquad S = H W_2 + b_2,$$
#
# then the loss and its gradient for $S$, then backward through the same in reverse, and last one step of all four
# parameters. The next mini-batch begins with the new ones.
#
# The order of the examples is given to you. The last mini-batch may be shorter, and counts all the same. The mean loss
# is that of all *examples*, so a mini-batch counts by its size.

# %% kernel="train_epoch"

# %% check="train_epoch"

# %% [markdown]
# ## A network that reads
#
# The data are 1,797 digits, pictures of 8 by 8 pixels. Of them 500 are kept aside to test on.

# %%
import matplotlib.pyplot as plt

from lab import digits

data = digits.load()
figure, panels = plt.subplots(1, 10, figsize=(8, 1), layout="constrained")
for axes, picture, label in zip(panels, data.X, data.labels, strict=False):
    axes.imshow(picture.reshape(8, 8), cmap="gray_r")
    axes.set(title=label, xticks=[], yticks=[])
plt.show()

# %% [markdown]
# **Predict, then run.** The network below has 32 hidden units. What is its loss before it learns? What share of the 500
# digits will it read after one epoch, and what after 30? (It takes a second or two.)


# %%
def read(parameters, X):
    """What digit a network sees in each row."""
    hidden = relu_forward(linear_forward(X, *parameters[:2]))
    return linear_forward(hidden, *parameters[2:]).argmax(axis=1)


def learn(data, hidden_units=32, epochs=30, batch_size=32, learning_rate=0.2, scale=1.0):
    """Parameters after learning, the loss of each epoch, and the share of right answers after it."""
    orders = np.random.default_rng(0)
    parameters = digits.first_parameters(data.X.shape[1], hidden_units, 10, scale=scale)
    losses, shares = [], []
    for _ in range(epochs):
        order = orders.permutation(len(data.X))
        parameters, loss = train_epoch(parameters, data.X, data.labels, order, batch_size, learning_rate)
        losses.append(loss)
        shares.append((read(parameters, data.X_test) == data.labels_test).mean())
    return parameters, losses, shares


parameters, losses, shares = learn(data)
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
left.plot(range(1, 31), losses)
left.set(xlabel="epoch", ylabel="loss", ylim=(0, None))
right.plot(range(1, 31), shares)
right.set(xlabel="epoch", ylabel="share of right answers", ylim=(0.5, 1))
plt.show()
print(f"after 1 epoch {shares[0]:.3f}, after {len(shares)} epochs {shares[-1]:.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# Before it learns the loss is at least $\ln 10 \approx 2.3$, the loss of knowing nothing. One epoch is only 41 steps,
# and yet most digits are read then. After 30 epochs it is more than 19 of 20.
#
# </details>
#
# Which ones does it get wrong? Would you have known?

# %%
said = read(parameters, data.X_test)
wrong = np.flatnonzero(said != data.labels_test)[:8]
figure, panels = plt.subplots(1, 8, figsize=(8, 1.3), layout="constrained")
for axes in panels:
    axes.axis("off")
for axes, number in zip(panels, wrong, strict=False):
    axes.imshow(data.X_test[number].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"{said[number]}, not {data.labels_test[number]}", fontsize=9)
plt.show()

# %% [markdown]
# **Predict, then run.** Next, the digits may stand one pixel up, down, left or right of the middle. Of two models that
# learn from such digits, one has no hidden layer. Which loses more by that, and how much?

# %%
moved = digits.load(reach=1)
no_hidden_layer = digits.first_parameters(100, 10, scale=0)
linear, history = digits.train(digits.linear_epoch, no_hidden_layer, moved, epochs=8)
parameters, losses, shares = learn(moved, hidden_units=64, epochs=8)
print(f"no hidden layer: {history.test_accuracy[-1]:.3f}")
print(f"64 hidden units: {shares[-1]:.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The linear model falls from 0.96 to below 0.7. It has one template for a digit, which cannot fit nine places. The
# perceptron reads more than nine in ten.
#
# </details>
#
# **Predict, then run.** What do these change, each alone: a learning rate of 3; first weights of zero; a single hidden
# unit; all examples in one mini-batch?

# %%
settings = {
    "as before": {},
    "learning rate 3": {"learning_rate": 3.0},
    "first weights zero": {"scale": 0.0},
    "one hidden unit": {"hidden_units": 1},
    "one mini-batch": {"batch_size": len(data.X)},
}
for name, changed in settings.items():
    _, losses, shares = learn(data, epochs=10, **changed)
    print(f"{name:20} loss {losses[-1]:.3f}, right answers {shares[-1]:.3f}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# At a rate of 3 the steps are too large: the loss stays at that of knowing nothing. From zeros only the last bias
# learns. One hidden unit must put ten digits on a line. And one mini-batch makes ten steps in ten epochs, where 32
# examples at a time make 410.
#
# </details>
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
