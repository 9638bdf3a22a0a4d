"""The Transformer on the parallel corpus: train it, let it translate, and see where it looks.

- ``TransformerTranslator(source_vocabulary, target_vocabulary)``: a Transformer and the words that it reads and writes.
  ``transformer=`` swaps in a class of your own.
- ``train(model, pairs, steps)``: teacher forcing, as for the recurrent translators; the loss of each step.
- ``trained_translator()``: the one that the chapters plot, trained once; ``longer=True`` for more steps.
- ``translate(model, sentences)`` and ``say(model, text)``: as in `lab.translation`, whose helpers for figures fit.
- ``cross_attention(model, source, target)``: the weights of each head of each block of the decoder;
  ``with_weights(model, sentences, translations)``: one matrix of weights for each translation.
"""

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from autograder.reference.attention_layer import attention_weights
from autograder.reference.multi_head_attention import split_heads
from autograder.reference.rnn_encoder_decoder import greedy_decode, shift_right
from lab.parallel_corpus import BOS, EOS, PAD, Batch, Pair, Vocabulary, join, pad, vocabularies
from lab.trained import trained_once
from lab.training import fit
from lab.translation import MAX_LENGTH, SIZE, Translation, batches, corpus, in_order_of_length
from lab.translation import STEPS as RECURRENT_STEPS

# As many parameters as the recurrent translator with attention has, within one in a hundred.
SIZES = {"d_model": 64, "num_heads": 4, "d_ff": 240, "num_layers": 3}
STEPS, PEAK = RECURRENT_STEPS["french"], 2e-3
MORE = 600


class TransformerTranslator(nn.Module):
    """A Transformer with the words that it reads and writes.

    Parameters
    ----------
    source_vocabulary, target_vocabulary
        The words.
    transformer
        The class, called as ``transformer(source_size, target_size, **sizes)``; the course's own unless one is given.
    sizes
        Its other arguments, such as ``d_model``; those of the chapter's translator where they are not given.
    """

    def __init__(
        self,
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        transformer: Callable[..., nn.Module] | None = None,
        **sizes,
    ):
        super().__init__()
        if transformer is None:
            from autograder.reference.transformer import Transformer as transformer
        self.source_vocabulary, self.target_vocabulary = source_vocabulary, target_vocabulary
        self.transformer = transformer(len(source_vocabulary), len(target_vocabulary), **(SIZES | sizes))

    def forward(self, batch: Batch) -> Tensor:
        """Scores ``(B, N_target, V)`` for each target word, when the right words before it are given."""
        return self.transformer(batch.source, shift_right(batch.target, BOS), batch.source != PAD)


def train(
    model: TransformerTranslator,
    pairs: Sequence[Pair],
    steps: int,
    size: int = 32,
    lr: float = 2e-3,
    smoothing: float = 0.0,
    warm_up: int | None = None,
    max_norm: float | None = 1.0,
    seed: int = 0,
    progress: bool = False,
) -> list[float]:
    """Train with teacher forcing on batches of ``size`` sentences of like lengths; the loss of each step.

    The learning rate rises to ``lr`` over ``warm_up`` steps, a tenth of all unless said, and then falls to zero.
    A gradient longer than ``max_norm`` is shortened. The loss is cross-entropy with ``smoothing`` of the labels.
    """
    stream = batches(model, pairs, size, seed)

    def next_loss() -> Tensor:
        drawn = next(stream)
        logits, targets = model(drawn).flatten(0, 1), drawn.target.flatten()
        return F.cross_entropy(logits, targets, ignore_index=PAD, label_smoothing=smoothing)

    model.train()
    warm_up = steps // 10 if warm_up is None else warm_up
    return fit(model, next_loss, steps, lr, warm_up=warm_up, max_norm=max_norm, progress=progress)


def trained_translator(longer: bool = False) -> tuple[TransformerTranslator, list[float]]:
    """The French translator of the chapters, and the loss of each step of its training.

    It takes as many steps as the recurrent one, which on one core are about as many seconds. ``longer``: it then goes
    on from there. In the repository it is trained once and kept; elsewhere it is trained now, in one or two minutes.
    """
    if not longer:
        return trained_once(_untrained, _train, steps=STEPS, **SIZES)
    model, losses = trained_once(_trained, _go_on, steps=STEPS, more=MORE, **SIZES)
    return model, trained_translator()[1] + losses


def _untrained(steps: int, **sizes) -> TransformerTranslator:
    torch.manual_seed(0)
    return TransformerTranslator(*vocabularies(corpus("french").train), **sizes)


def _train(model: TransformerTranslator, steps: int, **sizes) -> list[float]:
    return train(model, corpus("french").train, steps, size=SIZE, lr=PEAK)


def _trained(**arguments) -> TransformerTranslator:
    return trained_translator()[0]


def _go_on(model: TransformerTranslator, more: int, **arguments) -> list[float]:
    return train(model, corpus("french").train, more, size=SIZE, lr=PEAK / 2, seed=1)


@torch.no_grad()
def translate(model: TransformerTranslator, sentences: Sequence[Sequence[str]], size: int = 200) -> list[Translation]:
    """Translate sentences, given as words, ``size`` of them at a time; always the most probable next word.

    Each step reads all words said so far anew.
    """
    model.eval()
    return in_order_of_length(functools.partial(_translate, model), sentences, size)


def _translate(model: TransformerTranslator, sentences: Sequence[Sequence[str]]) -> list[Translation]:
    source, _ = pad([model.source_vocabulary.encode(sentence) for sentence in sentences])
    key_mask = source != PAD
    memory = model.transformer.encode(source, key_mask)

    def speak(tokens: Tensor, said: Tensor) -> tuple[Tensor, Tensor]:
        said = torch.cat([said, tokens[:, None]], 1)
        return model.transformer.decode(said, memory, key_mask)[:, -1], said

    start = torch.full((len(source),), BOS)
    said = greedy_decode(speak, source.new_empty(len(source), 0), start, EOS, PAD, MAX_LENGTH)
    return [Translation(tuple(model.target_vocabulary.decode(tokens)), None) for tokens in said]


def say(model: TransformerTranslator, text: str) -> str:
    """Translate a typed sentence.

    Raises
    ------
    UnknownWords
        If the translator does not know a word of it; the message names the words.
    """
    (translation,) = translate(model, [model.source_vocabulary.read(text)])
    return join(translation.words)


@torch.no_grad()
def cross_attention(model: TransformerTranslator, source: Sequence[str], target: Sequence[str]) -> Tensor:
    """Where the decoder looks in a source sentence for each word of a target sentence.

    Parameters
    ----------
    model
        Its Transformer has a list ``decoder`` of blocks whose ``multihead_attn`` is the cross-attention.
    source, target
        The words. The row of a target word holds the weights with which it is chosen, before it is read.

    Returns
    -------
    The weights ``(num_layers, H, N_target, N_source)``, computed again from what went into each layer.
    """
    model.eval()
    source_tokens = torch.tensor([model.source_vocabulary.encode(source)])
    target_tokens = torch.tensor([model.target_vocabulary.encode(target)])
    layers = [block.multihead_attn for block in model.transformer.decoder]
    with _inputs(layers) as inputs:
        model.transformer(source_tokens, shift_right(target_tokens, BOS))
    return torch.cat([_weights(layer, *given) for layer, given in zip(layers, inputs, strict=True)])


@contextlib.contextmanager
def _inputs(layers: Sequence[nn.Module]) -> Iterator[list[tuple[Tensor, Tensor]]]:
    """A list that gets query and key of each call of the layers, in the order of the calls."""
    inputs = []

    def keep(_, arguments, named):
        given = dict(zip(("query", "key"), arguments, strict=False)) | named
        inputs.append((given["query"], given["key"]))

    hooks = [layer.register_forward_pre_hook(keep, with_kwargs=True) for layer in layers]
    try:
        yield inputs
    finally:
        for hook in hooks:
            hook.remove()


def _weights(layer: nn.Module, query: Tensor, key: Tensor) -> Tensor:
    """The weights ``(B, H, N_q, N_k)`` of a layer without a mask."""
    weights, biases = layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3)
    Q, K = (F.linear(x, W, b) for x, W, b in zip((query, key), weights, biases, strict=False))
    return attention_weights(split_heads(Q, layer.num_heads), split_heads(K, layer.num_heads))


def with_weights(
    model: TransformerTranslator,
    sentences: Sequence[Sequence[str]],
    translations: Sequence[Translation],
    layer: int | None = None,
) -> list[Translation]:
    """The same translations with where the decoder looked: the mean over the heads of one block, or of all."""
    blocks = slice(None) if layer is None else layer
    return [
        Translation(said.words, cross_attention(model, sentence, said.words)[blocks].flatten(0, -3).mean(0))
        for sentence, said in zip(sentences, translations, strict=True)
    ]
