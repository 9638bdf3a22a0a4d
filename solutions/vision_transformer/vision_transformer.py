# %% [markdown]
# # Vision Transformers
#
# The Transformer reads a sequence of tokens. A picture has none, so it is cut into patches, and each patch is read as a
# word. Everything else is as before. Here you write the parts that are new, put them together with the encoder's block
# that you know, and train the model on handwritten digits. Six kernels:
#
# 1. `patchify` and `unpatchify`: from a picture to a sequence of patches, and back.
# 2. `class_token` and `learned_position_embedding`: a token that stands for the whole picture, and where each patch is.
# 3. `VisionTransformer`: the model.
# 4. `attention_rollout`: which patches its answer was mixed from.
#
# The chapter "Vision Transformers" of the book derives all of it. Run the cells from top to bottom. Stuck? Add a cell
# and run `hint("patchify")` in it, with the name of your kernel.
#
# The block that you wrote in the chapter "The Transformer" is imported here. Paste your own into a cell below the first
# one, if you like.

# %% tags=["setup"]
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from autograder import begin, check, hint
from autograder.reference.transformer import EncoderBlock

begin("vision_transformer", release="")

# %% [markdown]
# ## A picture as a sequence: `patchify`
#
# A picture of $C$ channels, height $H$ and width $W$ is cut into squares of $P \times P$ pixels that do not overlap.
# That makes
#
# $$
# N = \frac{H}{P} \cdot \frac{W}{P}
# $$
#
# patches, and each is a row of $C P^2$ numbers. The order is part of the contract. Patches come in reading order: along
# a row, then the next row. In a patch the whole of channel 0 comes first, pixel by pixel in reading order, then
# channel 1.

# %% kernel="patchify"

# %% check="patchify"

# %% [markdown]
# **Predict, then run.** The picture below has the numbers from 0 on in reading order. Which four are in the first patch
# of $2 \times 2$ pixels, which in the last one? And which would be in the first row of a mere `reshape` to
# $(1, 6, 4)$?

# %%
picture = torch.arange(24).reshape(1, 1, 4, 6)
print(picture[0, 0])
print("patches:", patchify(picture, 2)[0].tolist())
print("reshape:", picture.reshape(1, 6, 4)[0].tolist())

# %% [markdown]
# <details><summary>Answer</summary>
#
# 0, 1, 6, 7 and 16, 17, 22, 23. A `reshape` takes 0, 1, 2, 3: a piece of one line, no square. Nothing fails when a
# model is trained on that, it only learns worse.
#
# </details>
#
# ## And back: `unpatchify`
#
# To look at patches one needs the way back, and a model that draws pictures needs it too. It is the exact inverse. How
# many rows and columns of patches there are must be told.

# %% kernel="unpatchify"

# %% check="unpatchify"

# %% [markdown]
# **Predict, then run.** A digit of $8 \times 8$ pixels is cut into 16 patches and put together in four ways: as it was,
# on a grid of 2 by 8, from the last patch to the first, and each patch from its last number to its first. In which of
# the pictures can you still read it?

# %%
import matplotlib.pyplot as plt

from lab import vision

torch.set_num_threads(1)
data = vision.load()
digit = data.images_test[data.labels_test == 4][:1]
patches = patchify(digit, 2)
pictures = {
    "as it was": unpatchify(patches, (4, 4), 2),
    "2 by 8": unpatchify(patches, (2, 8), 2),
    "patches backwards": unpatchify(patches.flip(1), (4, 4), 2),
    "numbers backwards": unpatchify(patches.flip(2), (4, 4), 2),
}
figure, panels = plt.subplots(1, 4, figsize=(9, 2.2), layout="constrained")
for axes, (title, shown) in zip(panels, pictures.items(), strict=True):
    vision.show_weights(axes, shown[0], title=title)
plt.show()

# %% [markdown]
# <details><summary>Answer</summary>
#
# In the first, and in the second, where the upper half stands beside the lower one. In the third the patches are right
# and their places are not; in the fourth the places are right and the patches are turned upside down. A model, too,
# must know both: what is in a patch, and where it stands.
#
# </details>
#
# ## One token for the whole: `class_token`
#
# The encoder gives one output for each patch, and one answer is wanted. So one more token is put first. It is a
# parameter, the same for every picture; block by block it looks at the patches and gathers what the answer needs.

# %% kernel="class_token"

# %% check="class_token"

# %% [markdown]
# **Predict, then run.** Eight pictures are read at once, and the loss is the sum of all numbers that come out. What is
# its gradient for each component of the token?

# %%
token = torch.zeros(4, requires_grad=True)
tokens = class_token(torch.randn(8, 5, 4), token)
tokens.sum().backward()
print(tokens.shape, token.grad)

# %% [markdown]
# <details><summary>Answer</summary>
#
# 8: the token is in each picture once, and each of them teaches it.
#
# </details>
#
# ## Where is a patch? `learned_position_embedding`
#
# Attention does not see order, so each token gets a position. Here the vectors are learned: a table with one row for
# the class token and one for each patch. Nobody tells the model that patch 5 lies below patch 1; it must learn this.
#
# A larger picture has more patches than the table has rows. The patches' rows are interpolated then, in two dimensions,
# as one enlarges a picture. You may call `F.interpolate`, which wants $(\text{batch}, \text{channels}, \text{rows},
# \text{columns})$. What it leaves to you is to bring the table into that order, and back; and the class token, which
# stands nowhere in the picture.

# %% kernel="learned_position_embedding"

# %% check="learned_position_embedding"

# %% [markdown]
# **Predict, then run.** The vectors of this table have a single component: 10 times the row of the patch plus its
# column. The class token has 99. What is in the table for twice as many rows and columns?

# %%
table = torch.tensor([99.0, 0, 1, 2, 10, 11, 12]).reshape(7, 1)
new = learned_position_embedding(table, (2, 3), (4, 6))
print("class token:", new[0].item())
print(new[1:].reshape(4, 6))

# %% [markdown]
# <details><summary>Answer</summary>
#
# From patch to patch the column grows by a half and the row by 5, but only by half as much at the border: beyond the
# centres of the outermost patches the value stays as it is. The class token keeps its 99.
#
# </details>
#
# ## The model: `VisionTransformer`
#
# Cut the images into patches, project each to the model's width, put the class token first, add the positions, drop out
# some numbers in training. Then come the blocks. The head reads the class token alone:
#
# $$
# \begin{aligned}
# Z_0 &= [\, c;\; p_1 W + b;\; \dots;\; p_N W + b \,] + E, \\
# Z_\ell &= \text{Block}_\ell(Z_{\ell - 1}), \\
# \text{logits} &= \text{head}(Z_L[0]) .
# \end{aligned}
# $$
#
# $E$ is the table of positions, for the grid of the images at hand.

# %% kernel="VisionTransformer"

# %% check="VisionTransformer"

# %% [markdown]
# **Predict, then run.** "ViT-Base" of the paper reads colour images of $224 \times 224$ pixels in patches of 16, has 12
# blocks of width 768 with 12 heads and networks of width 3,072, and tells 1,000 classes apart. How many tokens does it
# read? How many millions of parameters has it? Will larger images need more of them?

# %%
with torch.device("meta"):  # sizes alone, no numbers
    base = VisionTransformer(
        image_size=(224, 224),
        patch_size=16,
        num_channels=3,
        num_classes=1000,
        d_model=768,
        num_heads=12,
        d_ff=3072,
        num_layers=12,
    )
    print(f"{len(base.positions)} tokens, {sum(p.numel() for p in base.parameters()):,} parameters")
    for side in (224, 384):
        logits = base(torch.zeros(1, 3, side, side))
        print(f"{side} pixels a side: {(side // 16) ** 2} patches, logits {tuple(logits.shape)}")

# %% [markdown]
# <details><summary>Answer</summary>
#
# 197 tokens, and the 86 million of the paper. A larger image is read by the same parameters; the positions are made
# from those of the table. If each pixel were a token, there would be 50,177.
#
# </details>
#
# ## What was it mixed from? `attention_rollout`
#
# Each layer's attention says from which tokens *of the layer before* an output is mixed, and these are mixtures
# themselves. To get back to the patches one multiplies. With $A_\ell$ the mean over the heads of layer $\ell$, and one
# half for the residual path,
#
# $$
# R = \hat A_L \cdots \hat A_2 \hat A_1, \qquad \hat A_\ell = \tfrac{1}{2} (A_\ell + I) .
# $$

# %% kernel="attention_rollout"

# %% check="attention_rollout"

# %% [markdown]
# **Predict, then run.** In each of four layers every token looks at the one before it and at nothing else; the first
# looks at itself. Of how many tokens is the last one mixed, and which has the largest part?

# %%
one_before = torch.eye(6).roll(-1, dims=1)
one_before[0] = torch.eye(6)[0]
weights = one_before.expand(4, 1, 3, 6, 6)
print(attention_rollout(weights)[0, -1])

# %% [markdown]
# <details><summary>Answer</summary>
#
# Of five, with 1, 4, 6, 4 and 1 sixteenths. Each layer either keeps the token or steps back by one, with equal weight,
# so two steps back is the most frequent way.
#
# </details>
#
# ## Your own Vision Transformer
#
# It has two blocks of width 32 and reads digits of $8 \times 8$ pixels in patches of $2 \times 2$. Each time a digit is
# drawn it is moved by up to one pixel, so that the model never sees quite the same picture twice. The training takes
# about half a minute.

# %%
model = vision.new_model(VisionTransformer)
print(f"{sum(p.numel() for p in model.parameters()):,} parameters, {len(data.images):,} digits to learn from")
losses = vision.train(model, data.images, data.labels, progress=True)

# %%
model.eval()
print(f"{vision.accuracy(model, data.images_test, data.labels_test):.3f} of 500 unseen digits are read right")

# %% [markdown]
# **Predict, then run.** The patches of all test digits are now put in another order, the same for all: what share is
# read right? And with the true order, but a table of positions that is all zeros, or that is mixed in the same way as
# the patches?

# %%
torch.manual_seed(0)
order = torch.randperm(16)
mixed_images = unpatchify(patchify(data.images_test, 2)[:, order], (4, 4), 2)
learned = model.positions.data.clone()
mixed_positions = torch.cat([learned[:1], learned[1:][order]])
for name, images, positions in (
    ("patches mixed", mixed_images, learned),
    ("no positions", data.images_test, torch.zeros_like(learned)),
    ("positions mixed", data.images_test, mixed_positions),
    ("both mixed alike", mixed_images, mixed_positions),
):
    model.positions.data = positions
    print(f"{name:17} {vision.accuracy(model, images, data.labels_test):.3f}")
model.positions.data = learned

# %% [markdown]
# <details><summary>Answer</summary>
#
# In the first three cases hardly more than by chance, which is one in ten. With both mixed alike it is as if nothing
# had happened: the model reads a set of patches, and each brings its place along.
#
# </details>
#
# **Where does it look?** For some digits, from above: the digit, what the class token looks at in the last layer, and
# the rollout through both layers. The darker, the more.
#
# **Predict, then run.** Will the two pictures of a digit be alike? Which of them is more even, and why?

# %%
shown = torch.stack([data.images_test[data.labels_test == number][0] for number in (0, 2, 4, 6, 7)])
weights = vision.attention_maps(model, shown)
of_last_layer = weights[-1].mean(dim=1)[:, 0, 1:]
of_rollout = attention_rollout(weights)[:, 0, 1:]
figure, panels = plt.subplots(3, len(shown), figsize=(8, 5), layout="constrained")
for column, image in enumerate(shown):
    vision.show_weights(panels[0, column], image)
    vision.show_weights(panels[1, column], image, of_last_layer[column])
    vision.show_weights(panels[2, column], image, of_rollout[column])
for axes, name in zip(panels[:, 0], ("digit", "last layer", "rollout"), strict=True):
    axes.set_ylabel(name)
plt.show()
for name, parts in {"last layer": of_last_layer, "rollout": of_rollout}.items():
    parts = parts / parts.sum(-1, keepdim=True)
    print(f"{name:10}: the darkest patch has {parts.max(-1).values.mean():.2f} of what falls on patches")

# %% [markdown]
# <details><summary>Answer</summary>
#
# The rollout is more even. What the class token looks at in the last layer is itself mixed from other patches, and so
# its weight is spread over these. White patches get a share too: that there is no ink is news as well. Neither picture
# proves what the answer hangs on: the chapter erases the patches that look important and measures.
#
# </details>
#
# **To try.** Make the unseen digits twice as high and wide with `F.interpolate`, once in the mode "nearest" and once
# smoothly, and let your model read them. The positions fit both times. Why are the digits of one kind read so much
# worse? Train a model with `patch_size=1`: what does a step cost? Train with `reach=0`, so that digits never move, and
# look at the loss and at the unseen digits.
#
# ## Before you hand in
#
# Run everything once from the top, in a fresh process ("Restart Kernel and Run All Cells").
