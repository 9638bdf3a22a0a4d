"""What the page "The Transformer" says in words, where no cell of it asserts it."""

import math

import pytest
import torch
from torch import nn

from autograder.reference.rnn_attention import alignment_error_rate
from autograder.reference.self_attention import sinusoidal_positions
from autograder.reference.transformer import (
    EncoderBlock,
    Transformer,
    feed_forward,
    label_smoothing_loss,
    layer_norm,
    noam_learning_rate,
)
from lab import ablations, small_talk, transformer_translation, translation
from lab.parallel_corpus import BOS

torch.set_num_threads(1)
NOTHING_LEFT = 1e-12


def normal(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def tiny(**sizes):
    torch.manual_seed(0)
    return Transformer(20, 30, **({"d_model": 16, "num_heads": 2, "d_ff": 24, "num_layers": 2} | sizes)).double()


@pytest.mark.parametrize("seed", [0, 1])
def test_attention_alone_makes_all_tokens_alike_and_loses_the_gradient(seed):
    alone = ablations.through_depth(layer=ablations.AttentionAlone, seed=seed)
    assert alone.variety[4] < NOTHING_LEFT
    assert alone.gradient[0] < 1e-7


@pytest.mark.parametrize("seed", [0, 1])
def test_residual_connections_keep_tokens_and_gradient_and_a_norm_alone_only_the_gradient(seed):
    both, add, norm, neither = (
        ablations.through_depth(join, seed=seed)
        for join in (None, ablations.add_only, ablations.norm_only, ablations.output_only)
    )
    assert neither.gradient[0] < 1e-15
    assert min(numbers.gradient[0] for numbers in (both, add, norm)) > 0.1
    assert max(norm.variety[-1], neither.variety[-1]) < NOTHING_LEFT
    assert min(both.variety[-1], add.variety[-1]) > 0.1
    assert add.size[-1] > 3
    assert both.size[-1] == pytest.approx(1, rel=0.01)


def test_a_network_has_twice_the_weights_of_the_attention_beside_it():
    block = EncoderBlock(d_model=12, num_heads=3, d_ff=48)
    network = block.linear1.weight.numel() + block.linear2.weight.numel()
    attention = block.self_attn.in_proj_weight.numel() + block.self_attn.out_proj.weight.numel()
    assert network == 2 * attention == 8 * 12**2


def test_the_norm_does_not_see_the_size_of_its_input():
    x, one, zero = normal(5, 12), torch.ones(12).double(), torch.zeros(12).double()
    torch.testing.assert_close(layer_norm(2 * x, one, zero, eps=0.0), layer_norm(x, one, zero, eps=0.0))


def test_words_that_change_places_with_their_positions_change_nothing():
    model = tiny()
    x, order = model.embed(torch.tensor([[3, 7, 1, 9]]), model.source_embedding), [0, 3, 2, 1]
    memory, turned = x, x[:, order]
    for block in model.encoder:
        memory, turned = block(memory), block(turned)
    torch.testing.assert_close(turned, memory[:, order])
    target_in = torch.tensor([[1, 5, 6]])
    torch.testing.assert_close(model.decode(target_in, turned), model.decode(target_in, memory))


def test_all_steps_are_one_pass():
    model = small_talk.trained().transformer
    source, target_in = torch.tensor([[4, 9, 6]]), torch.tensor([[BOS, 7, 12, 5]])
    together = model(source, target_in)
    for t in range(4):
        torch.testing.assert_close(model(source, target_in[:, : t + 1])[:, -1], together[:, t], atol=1e-5, rtol=1e-5)


def test_the_first_logits_and_embeddings_have_size_one_and_the_positions_root_a_half():
    model = Transformer(400, 400, d_model=64, num_heads=4, d_ff=240, num_layers=2)
    words = torch.arange(20)[None]
    sizes = model(words, words), math.sqrt(64) * model.target_embedding.weight, sinusoidal_positions(20, 64)
    assert [x.square().mean().sqrt().item() for x in sizes] == pytest.approx([1, 1, 0.5**0.5], rel=0.15)


def test_the_rate_is_highest_where_both_branches_meet():
    rates = [noam_learning_rate(step, 64, 100) for step in range(1, 400)]
    assert max(rates) == rates[99] == pytest.approx((64 * 100) ** -0.5)


def test_the_lowest_smoothed_loss_is_the_entropy_of_the_target():
    target = torch.full((30,), 0.1 / 30, dtype=torch.float64)
    target[4] += 0.9
    loss = label_smoothing_loss(target.log()[None], torch.tensor([4]))
    assert loss.item() == pytest.approx(torch.special.entr(target).sum().item())
    for surer in (0.99, 0.8):
        other = torch.full((30,), (1 - surer) / 29, dtype=torch.float64)
        other[4] = surer
        assert label_smoothing_loss(other.log()[None], torch.tensor([4])) > loss


def test_without_positions_the_encoder_reads_a_bag_of_words():
    model = tiny()
    with ablations.replaced(**ablations.WITHOUT["positions"]):
        memory, turned = model.encode(torch.tensor([[3, 7, 1]])), model.encode(torch.tensor([[1, 7, 3]]))
    torch.testing.assert_close(memory, turned[:, [2, 1, 0]])


def test_a_network_without_its_ramp_is_linear():
    x, weights = normal(2, 5), (normal(9, 5), torch.zeros(9).double(), normal(5, 9), torch.zeros(5).double())
    assert not torch.allclose(feed_forward(x.sum(0), *weights), feed_forward(x, *weights).sum(0))


@pytest.mark.filterwarnings("ignore")
def test_pytorchs_encoder_gives_zeros_at_padded_places_and_its_stacks_end_in_a_norm():
    layer = nn.TransformerEncoderLayer(16, 2, 24, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False, False, True]])
    with torch.no_grad():
        output = encoder(normal(1, 3, 16).float(), src_key_padding_mask=padding)
    assert not output[0, 2].any()
    assert output[0, :2].all()
    whole = nn.Transformer(16, 2, 1, 1, 24)
    assert isinstance(whole.encoder.norm, nn.LayerNorm)
    assert isinstance(whole.decoder.norm, nn.LayerNorm)
    assert not whole.batch_first
    dropouts = [name for name, part in layer.named_children() if isinstance(part, nn.Dropout)]
    assert dropouts == ["dropout", "dropout1", "dropout2"]  # the first one lies inside the network
    assert nn.TransformerEncoderLayer(16, 2, dropout=0.3).self_attn.dropout == 0.3


@pytest.mark.slow
def test_the_transformer_is_as_good_on_lengths_of_training_and_worse_beyond():
    """The translators that the page plots, from the store where they were trained once."""
    parts = translation.corpus("french")
    models = {
        "recurrent": (translation.trained_translator("french", attention=True), translation.translate),
        "equal": (transformer_translation.trained_translator(), transformer_translation.translate),
        "longer": (transformer_translation.trained_translator(longer=True), transformer_translation.translate),
    }
    near, far = parts.test[:300], [pair for pair in parts.longer if len(pair.source) <= 25][:50]
    near_share, far_share, size, steps = {}, {}, {}, {}
    for name, ((model, losses), translate) in models.items():
        for pairs, shares in ((near, near_share), (far, far_share)):
            said = translate(model, [pair.source for pair in pairs])
            shares[name] = sum(p.target == t.words for p, t in zip(pairs, said, strict=True)) / len(pairs)
        size[name], steps[name] = sum(p.numel() for p in model.parameters()), len(losses)
    assert size["longer"] == size["equal"] == pytest.approx(size["recurrent"], rel=0.01)
    assert steps["equal"] == steps["recurrent"] < steps["longer"]
    assert min(near_share.values()) > 0.88
    assert near_share["longer"] > max(near_share["equal"], near_share["recurrent"] - 0.01)
    assert far_share["recurrent"] > far_share["longer"] + 0.2


@pytest.mark.slow
def test_what_all_heads_have_in_common_aligns_better_than_most_of_them():
    pairs = translation.corpus("french").test[:150]
    model, _ = transformer_translation.trained_translator(longer=True)
    gold = [set(pair.alignment) for pair in pairs]
    maps = [transformer_translation.cross_attention(model, pair.source, pair.target) for pair in pairs]

    def error_rate(weights):
        return alignment_error_rate([set(enumerate(w.argmax(-1).tolist())) for w in weights], gold, gold)

    blocks, heads = maps[0].shape[:2]
    rates = sorted(error_rate([m[b, h] for m in maps]) for b in range(blocks) for h in range(heads))
    assert error_rate([m.mean((0, 1)) for m in maps]) < 0.1 < rates[len(rates) // 2]
    assert rates[-1] > 0.5
    by_block = [error_rate([m[b].mean(0) for m in maps]) for b in range(blocks)]
    assert by_block[-1] < by_block[0] - 0.1
