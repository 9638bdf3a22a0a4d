"""The tiny corpus: its verb depends on two words, and a tiny Transformer knows it by heart."""

import torch
from torch import nn

from lab import small_talk, transformer_translation
from lab.parallel_corpus import BOS

torch.set_num_threads(1)


def test_the_verb_depends_on_the_subject_and_on_what_follows():
    verbs = {(pair.source[0], pair.source[2]): pair.target[1] for pair in small_talk.PAIRS}
    assert verbs["I", "good"] == "vais"
    assert verbs["I", "here"] == "suis"
    assert verbs["we", "good"] == "allons"
    assert len(small_talk.PAIRS) == len({pair.source for pair in small_talk.PAIRS}) == 36


def test_the_translator_knows_all_sentences():
    said = transformer_translation.translate(small_talk.trained(), [pair.source for pair in small_talk.PAIRS])
    assert [result.words for result in said] == [pair.target for pair in small_talk.PAIRS]
    assert transformer_translation.say(small_talk.trained(), "I am good") == "je vais bien"


def test_scores_are_those_of_the_layer():
    model = small_talk.trained()
    transformer, layer = model.transformer, model.transformer.decoder[0].self_attn
    target_in = torch.tensor([[BOS, *model.target_vocabulary.encode(["je", "vais", "bien"])]])
    scores, weights = small_talk.masked_scores(model, target_in)
    future = torch.ones(4, 4, dtype=torch.bool).triu(1)
    assert bool((scores[..., future] == -torch.inf).all())
    assert bool(scores[..., ~future].isfinite().all())
    theirs = nn.MultiheadAttention(16, 2, batch_first=True)
    theirs.load_state_dict(layer.state_dict())
    x = transformer.embed(target_in, transformer.target_embedding)
    _, expected = theirs(x, x, x, attn_mask=future, average_attn_weights=False)
    torch.testing.assert_close(weights, expected.detach())
