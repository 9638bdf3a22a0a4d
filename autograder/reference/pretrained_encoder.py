"""Reference kernels of the chapter "A pretrained encoder"."""

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.multi_head_attention import MultiHeadAttention
from autograder.reference.transformer import layer_norm


def word_pieces(word: str, vocabulary: dict[str, int], unknown: str = "[UNK]") -> list[str]:
    """Cut a word into pieces of a vocabulary, from left to right, each time the longest piece that fits.

    Parameters
    ----------
    word
        One word, as it is to be looked up. Nothing is made lower case here.
    vocabulary
        The pieces that there are, and a number for each. A piece that goes on with a word begins with ``##``; one
        without that mark begins a word.
    unknown
        The piece that stands for a word that cannot be cut.

    Returns
    -------
    The pieces as they stand in the vocabulary, with their marks; none for an empty word. If some part of the word fits
    no piece, the whole word is the one piece ``unknown``.

    Notes
    -----
    Greedy: a long piece is taken also where a shorter one would leave a rest that can be cut. Up to
    ``len(word) ** 2 / 2`` look-ups. BERT's own program calls words of more than 100 characters unknown; this one does
    not.

    References
    ----------
    Wu et al., "Google's Neural Machine Translation System" (2016), section 4.1; Devlin et al., "BERT" (2019),
    section 3.

    Examples
    --------
    >>> vocabulary = {"[UNK]": 0, "un": 1, "unlike": 2, "##like": 3, "##ly": 4, "##l": 5}
    >>> word_pieces("unlikely", vocabulary)
    ['unlike', '##ly']
    >>> word_pieces("unlikeable", vocabulary)
    ['[UNK]']
    """
    pieces, start = [], 0
    while start < len(word):
        mark = "##" if start > 0 else ""
        fitting = [end for end in range(start + 1, len(word) + 1) if mark + word[start:end] in vocabulary]
        if not fitting:
            return [unknown]
        pieces.append(mark + word[start : fitting[-1]])
        start = fitting[-1]
    return pieces


def gelu(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Multiply each number by the probability that a standard normal number lies below it.

    Parameters
    ----------
    x
        Numbers, of any shape.

    Returns
    -------
    ``x * P(Z <= x)``, exactly, not by one of the formulas that come near it. Dtype as that of ``x``.

    Notes
    -----
    The ramp ``max(0, x)`` multiplies by 0 or 1 with a jump between them; here the factor rises smoothly. The
    probability is ``(1 + erf(x / sqrt(2))) / 2``. The form with ``tanh``, which some models were trained with, differs
    by up to 0.0005. ``torch.nn.functional.gelu`` is this function.

    References
    ----------
    Hendrycks and Gimpel, "Gaussian Error Linear Units (GELUs)" (2016), section 2.

    Examples
    --------
    >>> gelu(torch.tensor([-100.0, -1.0, 0.0, 1.0, 100.0])).numpy().round(3).tolist()
    [-0.0, -0.1589999943971634, 0.0, 0.8410000205039978, 100.0]
    """
    below = (1 + torch.erf(x / math.sqrt(2))) / 2
    return x * below


class BertBlock(nn.Module):
    """One layer of BERT's encoder: self-attention and a network with GELU, each with residual and norm.

    Parameters
    ----------
    d_model
        Width of the tokens that come in and go out.
    num_heads
        Number of heads of the attention; it divides ``d_model``.
    d_ff
        Width of the feed-forward network's hidden layer.
    eps
        What both norms add to the variance, under the root.

    Notes
    -----
    Two things differ from the encoder's block of 2017: GELU stands where the ramp was, and ``eps`` is far smaller. No
    dropout: the block is used and not trained. The parameters have the names and shapes of
    ``torch.nn.TransformerEncoderLayer``, which with ``activation="gelu"`` and ``layer_norm_eps=eps`` computes the same.
    ``norm1`` and ``norm2`` hold the gains and shifts, and ``eps``.

    References
    ----------
    Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers" (2019), section 3 and appendix A.2.

    Examples
    --------
    >>> block = BertBlock(d_model=12, num_heads=3, d_ff=20)
    >>> block(torch.zeros(7, 5, 12)).shape
    torch.Size([7, 5, 12])
    """

    def __init__(self, d_model: int, num_heads: int, d_ff: int, eps: float = 1e-12):
        super().__init__()
        self.self_attn = MultiHeadAttention(d_model, num_heads)
        self.linear1 = nn.Linear(d_model, d_ff)
        self.linear2 = nn.Linear(d_ff, d_model)
        self.norm1 = nn.LayerNorm(d_model, eps)
        self.norm2 = nn.LayerNorm(d_model, eps)

    def forward(
        self,
        x: Float[Tensor, "*batch token d_model"],
        key_mask: Bool[Tensor, "*batch token"] | None = None,
    ) -> Float[Tensor, "*batch token d_model"]:
        """Let the tokens look at each other, then change each by itself.

        Parameters
        ----------
        x
            One token in each row.
        key_mask
            True where a token is real, False where it is padding and nobody may look at it; None where all are real.

        Returns
        -------
        One output for each token. Dtype as that of ``x``.
        """
        attn_output = self.self_attn(x, x, x, key_mask=key_mask)
        x = layer_norm(x + attn_output, self.norm1.weight, self.norm1.bias, self.norm1.eps)
        hidden = self.linear2(gelu(self.linear1(x)))
        return layer_norm(x + hidden, self.norm2.weight, self.norm2.bias, self.norm2.eps)


def mean_pool(
    states: Float[Tensor, "*batch token d_model"], key_mask: Bool[Tensor, "*batch token"] | None = None
) -> Float[Tensor, "*batch d_model"]:
    """Make one vector of a whole text: the mean of its real tokens' vectors.

    Parameters
    ----------
    states
        One token in each row, with any leading dimensions.
    key_mask
        True where a token is real, False where it is padding; None where all are real.

    Returns
    -------
    One vector for each text. Zeros for a text without a real token. Dtype as that of ``states``.

    Raises
    ------
    ValueError
        If the mask does not say one thing for each token.

    Notes
    -----
    What stands on padding has no effect, not even if it is infinite or NaN.

    References
    ----------
    Reimers and Gurevych, "Sentence-BERT" (2019), section 3.

    Examples
    --------
    >>> states = torch.tensor([[[1.0, 2.0], [3.0, 6.0], [90.0, 90.0]]])
    >>> mean_pool(states, torch.tensor([[True, True, False]])).tolist()
    [[2.0, 4.0]]
    """
    if key_mask is not None and key_mask.shape != states.shape[:-1]:
        raise ValueError(
            f"states have shape {tuple(states.shape)} and key_mask {tuple(key_mask.shape)}; "
            f"the mask must be {tuple(states.shape[:-1])}."
        )
    if key_mask is None:
        return states.mean(dim=-2)
    real = key_mask.unsqueeze(-1)  # (*batch, token, 1)
    summed = torch.where(real, states, 0).sum(dim=-2)
    return summed / real.sum(dim=-2).clamp(min=1)


class SentenceEncoder(nn.Module):
    """From the tokens of texts to one vector for each text: BERT's encoder, a mean, and length one.

    Parameters
    ----------
    vocab_size
        How many different tokens there are.
    max_length
        How many tokens the longest text may have: there is a learned vector for each position.
    d_model, num_heads, d_ff
        Sizes of each block.
    num_layers
        How many blocks there are.
    eps
        What every norm adds to the variance, under the root.

    Raises
    ------
    ValueError
        If a text is longer than there are positions.

    Notes
    -----
    A token comes in as the sum of three vectors, those of its word piece (``words``), of its position (``positions``,
    from 0 on) and of its segment (``segments``), and the sum is normalised (``norm``). BERT reads pairs of texts in two
    segments; here all is segment 0. Embeddings are not scaled.

    References
    ----------
    Devlin et al., "BERT" (2019), section 3 and figure 2; Reimers and Gurevych, "Sentence-BERT" (2019), section 3.

    Examples
    --------
    >>> encoder = SentenceEncoder(vocab_size=30, max_length=9, d_model=12, num_heads=3, d_ff=20, num_layers=2)
    >>> vectors = encoder(torch.tensor([[4, 7, 1], [4, 2, 0]]), torch.tensor([[True, True, True], [True, True, False]]))
    >>> vectors.shape, bool(torch.allclose(vectors.norm(dim=-1), torch.ones(2)))
    (torch.Size([2, 12]), True)
    """

    def __init__(
        self,
        vocab_size: int,
        max_length: int,
        d_model: int,
        num_heads: int,
        d_ff: int,
        num_layers: int,
        eps: float = 1e-12,
    ):
        super().__init__()
        self.words = nn.Embedding(vocab_size, d_model)
        self.positions = nn.Embedding(max_length, d_model)
        self.segments = nn.Embedding(2, d_model)
        self.norm = nn.LayerNorm(d_model, eps)
        self.blocks = nn.ModuleList(BertBlock(d_model, num_heads, d_ff, eps) for _ in range(num_layers))

    def embed(self, tokens: Int[Tensor, "*batch token"]) -> Float[Tensor, "*batch token d_model"]:
        """Look up what the first block reads.

        Parameters
        ----------
        tokens
            Numbers of word pieces.

        Returns
        -------
        The normalised sum of the vectors of piece, position and segment, one token in each row.

        Raises
        ------
        ValueError
            If a text is longer than there are positions.
        """
        if tokens.shape[-1] > self.positions.num_embeddings:
            raise ValueError(
                f"The texts have {tokens.shape[-1]} tokens; there are positions for {self.positions.num_embeddings}."
            )
        x = self.words(tokens) + self.positions.weight[: tokens.shape[-1]] + self.segments.weight[0]
        return layer_norm(x, self.norm.weight, self.norm.bias, self.norm.eps)

    def states(
        self, tokens: Int[Tensor, "*batch token"], key_mask: Bool[Tensor, "*batch token"] | None = None
    ) -> Float[Tensor, "*batch token d_model"]:
        """Read texts: one vector for each of their tokens, behind the last block.

        Parameters
        ----------
        tokens
            Numbers of word pieces.
        key_mask
            True where a token is real, False where it is padding; None where all are real.

        Returns
        -------
        One token in each row.
        """
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, key_mask)
        return x

    def forward(
        self, tokens: Int[Tensor, "*batch token"], key_mask: Bool[Tensor, "*batch token"] | None = None
    ) -> Float[Tensor, "*batch d_model"]:
        """Read texts: one vector for each.

        Parameters
        ----------
        tokens
            Numbers of word pieces.
        key_mask
            True where a token is real, False where it is padding; None where all are real.

        Returns
        -------
        The mean of each text's token vectors, divided by its own length, so that it has length 1.
        """
        mean = mean_pool(self.states(tokens, key_mask), key_mask)
        return F.normalize(mean, dim=-1)


def rename_weights(stored: dict[str, Tensor], num_layers: int) -> dict[str, Tensor]:
    """Give the weights of a BERT file the names that `SentenceEncoder` has for them.

    Parameters
    ----------
    stored
        Name to weight, as in the file.
    num_layers
        How many layers the encoder has.

    Returns
    -------
    A state dict for `SentenceEncoder`: every weight that it has, and no other.

    Raises
    ------
    KeyError
        If the file lacks a weight.
    ValueError
        If the file holds a weight that is not used. Two are known and left out in silence: ``embeddings.position_ids``,
        which counts from 0 on, and all that begins with ``pooler.``, a layer for another task.

    Notes
    -----
    The names, all of them followed by ``.weight``, and all but the first three by ``.bias`` too:

    - ``embeddings.word_embeddings`` is ``words``, ``embeddings.position_embeddings`` is ``positions``,
      ``embeddings.token_type_embeddings`` is ``segments``, ``embeddings.LayerNorm`` is ``norm``.
    - ``encoder.layer.7.attention.self.query``, ``….key`` and ``….value`` stand below each other, in this order, in
      ``blocks.7.self_attn.in_proj_weight`` and ``blocks.7.self_attn.in_proj_bias``.
    - ``encoder.layer.7.attention.output.dense`` is ``blocks.7.self_attn.out_proj``, and
      ``encoder.layer.7.attention.output.LayerNorm`` is ``blocks.7.norm1``.
    - ``encoder.layer.7.intermediate.dense`` is ``blocks.7.linear1``, ``encoder.layer.7.output.dense`` is
      ``blocks.7.linear2``, and ``encoder.layer.7.output.LayerNorm`` is ``blocks.7.norm2``.

    No matrix is turned: both sides have the layout (out, in).

    References
    ----------
    Devlin et al., "BERT" (2019), section 3; the names in the file are those of the library ``transformers``.

    Examples
    --------
    >>> rename_weights({"embeddings.word_embeddings.weight": torch.zeros(30, 12)}, num_layers=0)
    Traceback (most recent call last):
    KeyError: 'embeddings.position_embeddings.weight'
    """
    rest = dict(stored)
    names = {"norm": "embeddings.LayerNorm"}
    renamed = {}
    for ours, theirs in (("words", "word"), ("positions", "position"), ("segments", "token_type")):
        renamed[f"{ours}.weight"] = rest.pop(f"embeddings.{theirs}_embeddings.weight")
    for number in range(num_layers):
        block, layer = f"blocks.{number}", f"encoder.layer.{number}"
        names[f"{block}.self_attn.out_proj"] = f"{layer}.attention.output.dense"
        names[f"{block}.norm1"] = f"{layer}.attention.output.LayerNorm"
        names[f"{block}.linear1"] = f"{layer}.intermediate.dense"
        names[f"{block}.linear2"] = f"{layer}.output.dense"
        names[f"{block}.norm2"] = f"{layer}.output.LayerNorm"
        for kind in ("weight", "bias"):
            parts = [rest.pop(f"{layer}.attention.self.{part}.{kind}") for part in ("query", "key", "value")]
            renamed[f"{block}.self_attn.in_proj_{kind}"] = torch.cat(parts)
    for ours, theirs in names.items():
        for kind in ("weight", "bias"):
            renamed[f"{ours}.{kind}"] = rest.pop(f"{theirs}.{kind}")
    left = [name for name in rest if name != "embeddings.position_ids" and not name.startswith("pooler.")]
    if left:
        raise ValueError(f"The file holds weights that are not used: {', '.join(left)}.")
    return renamed


def most_similar(
    queries: Float[Tensor, "*batch d_model"], vectors: Float[Tensor, "text d_model"], k: int
) -> tuple[Int[Tensor, "*batch k"], Float[Tensor, "*batch k"]]:
    """Find for each query the ``k`` texts whose vectors make the smallest angle with its own.

    Parameters
    ----------
    queries
        The queries' vectors, of any length other than zero, with any leading dimensions.
    vectors
        One text in each row, of any length. A text whose vector is zero is similar to nothing: its cosine counts as 0.
    k
        How many texts are wanted of each query. More than there are gives all.

    Returns
    -------
    indices
        Rows of ``vectors``, the most similar first; of those that are equally similar, the one that comes first.
    similarities
        Their cosines, in the same order. Dtype as that of ``queries``.

    Raises
    ------
    ValueError
        If ``k`` is less than 1.

    Notes
    -----
    Every text is compared: ``d_model`` multiply-adds for each query and text. `torch.topk` does not say in what order
    it gives equal numbers.

    References
    ----------
    Manning, Raghavan and Schütze, "Introduction to Information Retrieval" (2008), section 6.3.

    Examples
    --------
    >>> vectors = torch.tensor([[0.0, 5.0], [3.0, 4.0], [1.0, 0.0]])
    >>> indices, similarities = most_similar(torch.tensor([2.0, 0.0]), vectors, k=2)
    >>> indices.tolist(), similarities.numpy().round(2).tolist()
    ([2, 1], [1.0, 0.6000000238418579])
    """
    if k < 1:
        raise ValueError(f"k is {k}; at least one text must be asked for.")
    cosines = F.normalize(queries, dim=-1) @ F.normalize(vectors, dim=-1).T  # (*batch, text)
    similarities, indices = cosines.sort(dim=-1, descending=True, stable=True)
    return indices[..., :k], similarities[..., :k]
