"""The Transformer on the corpus: it computes what it says, and the weights are those that it used."""

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from autograder.reference.transformer import Transformer
from lab import parallel_corpus, transformer_translation, translation
from lab.parallel_corpus import PAD, UnknownWords
from lab.transformer_translation import TransformerTranslator

torch.set_num_threads(1)
SMALL = {"d_model": 16, "num_heads": 2, "d_ff": 24, "num_layers": 2}


@pytest.fixture(scope="module")
def pairs():
    return parallel_corpus.draw_pairs("french", 60, 0, (3, 9))


def small(pairs, **options):
    torch.manual_seed(0)
    return TransformerTranslator(*parallel_corpus.vocabularies(pairs), **(SMALL | options))


def test_what_it_says_is_most_probable_after_what_it_said(pairs):
    model = small(pairs)
    transformer_translation.train(model, pairs, steps=15, size=20, lr=1e-2)
    said = transformer_translation.translate(model, [pair.source for pair in pairs[:20]])
    again = [replace(p, target=t.words) for p, t in zip(pairs, said, strict=False)]
    batch = parallel_corpus.batch(again, model.source_vocabulary, model.target_vocabulary)
    real = (batch.target != PAD) & (batch.target_lengths < translation.MAX_LENGTH)[:, None]
    assert torch.equal(model(batch).argmax(-1)[real], batch.target[real])


def test_a_sentence_is_translated_alike_alone_and_among_others(pairs):
    model = small(pairs)
    transformer_translation.train(model, pairs, steps=15, size=20, lr=1e-2)
    sentences = [pair.source for pair in pairs[:20]]
    together = transformer_translation.translate(model, sentences, size=9)
    for place in (0, 7, 12):
        (alone,) = transformer_translation.translate(model, [sentences[place]])
        assert alone.words == together[place].words


def test_a_few_sentences_are_learned_by_heart_and_typed_ones_read(pairs):
    model = small(pairs[:6], d_model=32)
    losses = transformer_translation.train(model, pairs[:6], steps=120, size=6, lr=1e-2)
    assert losses[-1] < 0.1
    said = transformer_translation.translate(model, [pair.source for pair in pairs[:6]])
    assert set(translation.exact_match_by_length(pairs[:6], said).values()) == {1.0}
    typed = parallel_corpus.join(pairs[3].source)
    assert transformer_translation.say(model, typed) == parallel_corpus.join(pairs[3].target)
    with pytest.raises(UnknownWords, match="'zebra'"):
        transformer_translation.say(model, "the zebra sleeps")


def test_training_repeats_itself_and_smooths_labels(pairs):
    losses = [transformer_translation.train(small(pairs), pairs, steps=3, size=8) for _ in range(2)]
    assert losses[0] == losses[1]
    model, batch = small(pairs), next(translation.batches(small(pairs), pairs, 8, seed=0))
    smooth = F.cross_entropy(
        model(batch).flatten(0, 1), batch.target.flatten(), ignore_index=PAD, label_smoothing=0.1
    ).item()
    first = transformer_translation.train(model, pairs, steps=1, size=8, smoothing=0.1)[0]
    assert first == pytest.approx(smooth)
    assert first != losses[0][0]


def test_weights_are_those_that_the_decoder_used(pairs):
    """With the weights, the layer's output can be computed again from its values."""
    model, pair = small(pairs), pairs[4]
    layer = model.transformer.decoder[1].multihead_attn
    kept = {}

    def keep(_, inputs, output):
        kept.update(value=inputs[2], output=output)

    layer.register_forward_hook(keep)
    weights = transformer_translation.cross_attention(model, pair.source, pair.target)
    assert weights.shape == (2, 2, len(pair.target), len(pair.source))
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]))
    value = F.linear(kept["value"], layer.in_proj_weight[32:], layer.in_proj_bias[32:])[0]
    heads = [head_weights @ part for head_weights, part in zip(weights[1], value.chunk(2, -1), strict=True)]
    torch.testing.assert_close(layer.out_proj(torch.cat(heads, -1)), kept["output"][0])


def test_a_row_of_weights_does_not_depend_on_its_own_word_or_later_ones(pairs):
    model, pair = small(pairs), pairs[4]
    weights = transformer_translation.cross_attention(model, pair.source, pair.target)
    other = transformer_translation.cross_attention(model, pair.source, (*pair.target[:2], *pairs[5].target[:1]))
    torch.testing.assert_close(other, weights[:, :, :3])


def test_translations_get_the_mean_over_the_heads_of_one_block_or_of_all(pairs):
    model, sources = small(pairs), [pair.source for pair in pairs[:3]]
    said = [translation.Translation(pair.target, None) for pair in pairs[:3]]
    seen = transformer_translation.with_weights(model, sources, said, layer=1)
    for pair, result in zip(pairs, seen, strict=False):
        weights = transformer_translation.cross_attention(model, pair.source, pair.target)
        torch.testing.assert_close(result.attn_weights, weights[1].mean(0))
        assert result.words == pair.target
    (everywhere,) = transformer_translation.with_weights(model, sources[:1], said[:1])
    weights = transformer_translation.cross_attention(model, sources[0], pairs[0].target)
    torch.testing.assert_close(everywhere.attn_weights, weights.mean((0, 1)))


def test_another_class_can_be_swapped_in(pairs):
    class Silent(Transformer):
        def decode(self, target_in, memory, key_mask=None):
            return 0 * super().decode(target_in, memory, key_mask)

    model = small(pairs, transformer=Silent)
    assert isinstance(model.transformer, Silent)
    batch = next(translation.batches(model, pairs, 5, seed=0))
    assert not model(batch).any()


@pytest.mark.slow
def test_the_chapters_translators_have_as_many_parameters_and_steps():
    model = transformer_translation._untrained(0, **transformer_translation.SIZES)
    recurrent = translation._untrained("french", True, 0)
    ours, theirs = (sum(p.numel() for p in one.parameters()) for one in (model, recurrent))
    assert ours == pytest.approx(theirs, rel=0.01)
    assert translation.STEPS["french"] == transformer_translation.STEPS
