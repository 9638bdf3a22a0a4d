"""Three dozen sentences on how and where somebody is, for a Transformer small enough to look at every number of it.

English says "to be" each time. French says "aller" of how one is, and "être" of where: the verb of the translation
depends on the subject and on the word after the verb.

- ``PAIRS``: all sentences, so that "I am good" and "je vais bien" are among them.
- ``trained()``: a translator that knows them by heart.
- ``masked_scores(model, target_in)``: the scores of the decoder's self-attention, and the weights they become.
"""

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional as F

from autograder.reference.multi_head_attention import split_heads
from autograder.reference.self_attention import causal_mask
from lab.parallel_corpus import Pair, vocabularies
from lab.transformer_translation import TransformerTranslator, train

SUBJECTS = {  # with the forms of "to be", "aller" and "être"
    "I": ("am", "je", "vais", "suis"),
    "you": ("are", "vous", "allez", "êtes"),
    "he": ("is", "il", "va", "est"),
    "she": ("is", "elle", "va", "est"),
    "we": ("are", "nous", "allons", "sommes"),
    "they": ("are", "ils", "vont", "sont"),
}
HOW = {"good": "bien", "better": "mieux", "bad": "mal"}
WHERE = {"here": "ici", "there": "là", "outside": "dehors"}


def _pairs() -> list[Pair]:
    pairs = []
    for subject, (be, pronoun, go, stay) in SUBJECTS.items():
        for states, verb in ((HOW, go), (WHERE, stay)):
            for english, french in states.items():
                links = frozenset({(0, 0), (1, 1), (2, 2)})
                pairs.append(Pair((subject, be, english), (pronoun, verb, french), links))
    return pairs


PAIRS = _pairs()


@functools.cache
def trained(steps: int = 200) -> TransformerTranslator:
    """A translator with one block in its encoder and one in its decoder, two heads each, and width 16."""
    torch.manual_seed(0)
    model = TransformerTranslator(*vocabularies(PAIRS), d_model=16, num_heads=2, d_ff=32, num_layers=1)
    train(model, PAIRS, steps, size=len(PAIRS), lr=1e-2)
    return model.eval()


@torch.no_grad()
def masked_scores(model: TransformerTranslator, target_in: Tensor) -> tuple[Tensor, Tensor]:
    """The scores of the first block's masked self-attention for words ``(B, N)``, and its weights.

    Both have the shape ``(B, H, N, N)``. A score that the mask takes out is minus infinity.
    """
    transformer = model.transformer
    layer = transformer.decoder[0].self_attn
    x = transformer.embed(target_in, transformer.target_embedding)
    query, key, _ = F.linear(x, layer.in_proj_weight, layer.in_proj_bias).chunk(3, dim=-1)
    Q, K = split_heads(query, layer.num_heads), split_heads(key, layer.num_heads)
    scores = Q @ K.mT / math.sqrt(Q.shape[-1])
    length = target_in.shape[-1]
    scores = scores.masked_fill(~causal_mask(length, length), -torch.inf)
    return scores, torch.softmax(scores, dim=-1)
