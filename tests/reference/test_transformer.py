"""The kernels of "The Transformer" against PyTorch's own operators, in value and gradient."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.judging import evaluate
from autograder.reference import transformer as reference
from autograder.reference.self_attention import sinusoidal_positions

torch.set_num_threads(1)


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape)).requires_grad_()


def assert_same(given, wanted, leaves):
    """Equal in value and in the gradients of a sum with weights that differ."""
    torch.testing.assert_close(given, wanted, rtol=1e-10, atol=1e-12)
    weights = torch.cos(torch.arange(given.numel(), dtype=given.dtype)).reshape(given.shape)
    gradients = (torch.autograd.grad((output * weights).sum(), leaves) for output in (given, wanted))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("eps", [1e-5, 0.3])
@pytest.mark.parametrize("leading", [(), (4,), (2, 3)], ids=str)
def test_layer_norm_equals_pytorchs(leading, eps):
    x, weight, bias = normal(*leading, 6), normal(6, seed=1), normal(6, seed=2)
    wanted = F.layer_norm(x, (6,), weight, bias, eps)
    assert_same(reference.layer_norm(x, weight, bias, eps), wanted, [x, weight, bias])


def test_no_token_has_a_part_in_the_norm_of_another():
    x, weight, bias = normal(2, 5, 6), normal(6, seed=1), normal(6, seed=2)
    (gradient,) = torch.autograd.grad(reference.layer_norm(x, weight, bias)[1, 3].square().sum(), x)
    assert gradient[1, 3].all()
    assert gradient.count_nonzero() == 6


def test_feed_forward_equals_pytorchs_layers_and_keeps_tokens_apart():
    layers = torch.nn.Sequential(torch.nn.Linear(6, 9), torch.nn.ReLU(), torch.nn.Linear(9, 6)).double()
    x, parameters = normal(2, 5, 6), list(layers.parameters())
    given = reference.feed_forward(x, *parameters)
    assert_same(given, layers(x), [x, *parameters])
    torch.testing.assert_close(given[1, 3], reference.feed_forward(x[1, 3], *parameters))


def test_residual_add_norm_equals_pytorchs_norm_of_the_sum():
    x, output, weight, bias = normal(2, 5, 6), normal(2, 5, 6, seed=1), normal(6, seed=2), normal(6, seed=3)
    given = reference.residual_add_norm(x, output, weight, bias)
    assert_same(given, F.layer_norm(x + output, (6,), weight, bias), [x, output, weight, bias])


def test_dropout_acts_on_the_sublayer_alone():
    x, output, weight, bias = normal(2, 5, 6), normal(2, 5, 6, seed=1), normal(6, seed=2), normal(6, seed=3)
    dropped = reference.residual_add_norm(x, output, weight, bias, dropout=1.0)
    torch.testing.assert_close(dropped, F.layer_norm(x, (6,), weight, bias))
    torch.manual_seed(0)
    given = reference.residual_add_norm(x, output, weight, bias, dropout=0.5)
    torch.manual_seed(0)
    torch.testing.assert_close(given, F.layer_norm(x + F.dropout(output, 0.5), (6,), weight, bias))


D_MODEL, NUM_HEADS, D_FF = 12, 2, 10
KEY_MASK = torch.arange(7) < torch.tensor([7, 4, 1])[:, None]  # three sources, the second and third padded
FUTURE = torch.ones(5, 5, dtype=torch.bool).triu(1)  # what PyTorch's modules want: True is blocked


def with_normal_parameters(module):
    torch.manual_seed(0)
    for parameter in module.double().parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def encoders(**options):
    """PyTorch's layer, and ours with the same parameters."""
    theirs = with_normal_parameters(
        nn.TransformerEncoderLayer(D_MODEL, NUM_HEADS, D_FF, **({"dropout": 0.0} | options), batch_first=True)
    )
    ours = reference.EncoderBlock(D_MODEL, NUM_HEADS, D_FF, **options).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def decoders():
    theirs = with_normal_parameters(nn.TransformerDecoderLayer(D_MODEL, NUM_HEADS, D_FF, 0.0, batch_first=True))
    ours = reference.DecoderBlock(D_MODEL, NUM_HEADS, D_FF).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


def a_model(**options):
    torch.manual_seed(0)
    model = reference.Transformer(11, 13, D_MODEL, NUM_HEADS, D_FF, num_layers=2, **options)
    return with_normal_parameters(model)


def sentences():
    generator = np.random.default_rng(0)
    return (torch.from_numpy(generator.integers(0, size, (3, n))) for size, n in ((11, 7), (13, 5)))


@pytest.mark.parametrize("key_mask", [None, KEY_MASK], ids=["all real", "padding"])
def test_the_encoder_block_equals_pytorchs_layer(key_mask):
    theirs, ours = encoders()
    x = normal(3, 7, D_MODEL)
    wanted = theirs(x, src_key_padding_mask=None if key_mask is None else ~key_mask)
    assert_same_modules(ours(x, key_mask), wanted, ours, theirs, [x])


@pytest.mark.parametrize("key_mask", [None, KEY_MASK], ids=["all real", "padding"])
def test_the_decoder_block_equals_pytorchs_layer_with_a_causal_mask(key_mask):
    theirs, ours = decoders()
    x, memory = normal(3, 5, D_MODEL), normal(3, 7, D_MODEL)
    wanted = theirs(x, memory, FUTURE, memory_key_padding_mask=None if key_mask is None else ~key_mask)
    assert_same_modules(ours(x, memory, key_mask), wanted, ours, theirs, [x, memory])


def assert_same_modules(given, wanted, ours, theirs, inputs):
    """Equal in value, and in the gradients for the inputs and for all parameters, by their names."""
    torch.testing.assert_close(given, wanted, rtol=1e-10, atol=1e-12)
    weights = torch.cos(torch.arange(given.numel(), dtype=given.dtype)).reshape(given.shape)
    given, wanted = (
        torch.autograd.grad((output * weights).sum(), [*inputs, *dict(sorted(module.named_parameters())).values()])
        for output, module in ((given, ours), (wanted, theirs))
    )
    assert len(given) == len(wanted)
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


def test_state_dicts_of_the_blocks_load_both_ways():
    for theirs, ours in (encoders(), decoders()):
        assert theirs.state_dict().keys() == ours.state_dict().keys()
        theirs.load_state_dict(ours.state_dict())


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_where_pytorchs_encoder_differs_in_inference():
    """A stack gives zeros for padded tokens, and a layer NaN for a sequence of nothing but padding."""
    layer, ours = encoders()
    x, nothing = normal(3, 7, D_MODEL).detach(), KEY_MASK.clone()
    nothing[1] = False
    torch.testing.assert_close(layer(x, src_key_padding_mask=~nothing), ours(x, nothing))
    stack = nn.TransformerEncoder(layer, num_layers=1)
    stack.layers[0].load_state_dict(layer.state_dict())
    with torch.no_grad():
        given, wanted = ours(x, KEY_MASK), stack.eval()(x, src_key_padding_mask=~KEY_MASK)
        torch.testing.assert_close(given[KEY_MASK], wanted[KEY_MASK])
        assert not wanted[~KEY_MASK].any()
        assert given[~KEY_MASK].all()
        torch.testing.assert_close(given, layer.eval()(x, src_key_padding_mask=~KEY_MASK))
        assert layer(x, src_key_padding_mask=~nothing)[1].isnan().all()
        assert ours(x, nothing).isfinite().all()


def test_pytorchs_layer_drops_attention_weights_and_hidden_units_too():
    theirs, ours = encoders(dropout=0.5)
    x = normal(3, 7, D_MODEL)
    for name in ("dropout1", "dropout2"):  # those on the sub-layers' outputs, which ours has too
        getattr(theirs, name).p = 0.0
    without = ours.eval()(x)
    assert not torch.allclose(theirs(x), without)
    theirs.self_attn.dropout = theirs.dropout.p = 0.0
    torch.testing.assert_close(theirs(x), without)


def test_where_dropout_acts():
    """With everything dropped the residual path is left; where the model is not trained, nothing is dropped."""
    _, block = encoders(dropout=1.0)
    x = normal(3, 7, D_MODEL)
    torch.testing.assert_close(block(x), block.norm2(block.norm1(x)))
    block.eval()
    kept = block(x)
    _, without = encoders()
    torch.testing.assert_close(kept, without(x))
    torch.testing.assert_close(block.train()(x), block.norm2(block.norm1(x)))


def test_each_sublayer_of_the_decoder_is_dropped_before_the_addition():
    block = with_normal_parameters(reference.DecoderBlock(D_MODEL, NUM_HEADS, D_FF, dropout=0.5))
    x, memory = normal(3, 5, D_MODEL), normal(3, 7, D_MODEL)
    torch.manual_seed(0)
    given = block(x, memory)
    torch.manual_seed(0)
    wanted = block.norm1(x + F.dropout(block.self_attn(x, x, x, ~FUTURE), 0.5))
    wanted = block.norm2(wanted + F.dropout(block.multihead_attn(wanted, memory, memory), 0.5))
    wanted = block.norm3(wanted + F.dropout(block.linear2(block.linear1(wanted).relu()), 0.5))
    torch.testing.assert_close(given, wanted)


def test_the_sum_of_embedding_and_position_is_dropped():
    model, (source, _) = a_model(dropout=0.5), sentences()
    wanted = 12**0.5 * model.source_embedding.weight[source] + sinusoidal_positions(7, 12)
    torch.testing.assert_close(model.eval().embed(source, model.source_embedding), wanted)
    given = model.train().embed(source, model.source_embedding)
    dropped = given == 0
    assert 0.3 < dropped.double().mean() < 0.7
    torch.testing.assert_close(given[~dropped], 2 * wanted[~dropped])


@pytest.mark.parametrize("key_mask", [None, KEY_MASK], ids=["all real", "padding"])
def test_the_model_equals_pytorchs_between_its_embeddings(key_mask):
    """PyTorch's has no embeddings and no output layer, and one more norm at the end of each stack: taken out here."""
    ours, (source, target_in) = a_model(), sentences()
    theirs = nn.Transformer(D_MODEL, NUM_HEADS, 2, 2, D_FF, 0.0, batch_first=True, dtype=torch.float64)
    theirs.encoder.norm = theirs.decoder.norm = None
    theirs.encoder.layers.load_state_dict(ours.encoder.state_dict())
    theirs.decoder.layers.load_state_dict(ours.decoder.state_dict())
    W_source, W_target = (embedding.weight for embedding in (ours.source_embedding, ours.target_embedding))
    blocked = None if key_mask is None else ~key_mask
    decoded = theirs(
        12**0.5 * W_source[source] + sinusoidal_positions(7, 12),
        12**0.5 * W_target[target_in] + sinusoidal_positions(5, 12),
        tgt_mask=FUTURE,
        src_key_padding_mask=blocked,
        memory_key_padding_mask=blocked,
    )
    given, wanted = ours(source, target_in, key_mask), decoded @ W_target.T
    torch.testing.assert_close(given, wanted, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.decode(target_in, ours.encode(source, key_mask), key_mask), given)
    weights = torch.cos(torch.arange(given.numel(), dtype=given.dtype)).reshape(given.shape)
    of_ours = [*ours.encoder.parameters(), *ours.decoder.parameters(), W_source, W_target]
    of_theirs = [*theirs.encoder.parameters(), *theirs.decoder.parameters(), W_source, W_target]
    given = torch.autograd.grad((given * weights).sum(), of_ours)
    wanted = torch.autograd.grad((wanted * weights).sum(), of_theirs)
    for one, other in zip(given, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-10)


def test_pytorchs_stack_ends_in_one_more_norm():
    ours, x = a_model(), normal(3, 7, D_MODEL)
    theirs = nn.Transformer(D_MODEL, NUM_HEADS, 2, 2, D_FF, 0.0, batch_first=True, dtype=torch.float64)
    theirs.encoder.layers.load_state_dict(ours.encoder.state_dict())
    output = x
    for block in ours.encoder:
        output = block(output)
    torch.testing.assert_close(theirs.encoder(x), F.layer_norm(output, (D_MODEL,)))


@torch.no_grad()
def test_scores_of_the_whole_target_equal_those_word_by_word():
    """Teacher forcing computes in one pass what decoding computes step by step, each sentence by itself."""
    model, (source, target_in) = a_model(), sentences()
    logits = model(source, target_in, KEY_MASK)
    for row, length in enumerate(KEY_MASK.sum(1).tolist()):
        memory = model.encode(source[row, :length])
        for t in range(5):
            step = model.decode(target_in[row, : t + 1], memory)[-1]
            torch.testing.assert_close(step, logits[row, t], rtol=1e-10, atol=1e-12)


def test_no_target_word_sees_its_future():
    """By changing a word, and by the gradient for each word's embedding."""
    model, (source, target_in) = a_model(), sentences()
    looked_up = []
    model.target_embedding.register_forward_hook(lambda module, words, rows: looked_up.append(rows))
    logits = model(source, target_in, KEY_MASK)
    for t in range(5):
        changed = target_in.clone()
        changed[:, t] = (changed[:, t] + 1) % 13
        moved = (model(source, changed, KEY_MASK) - logits).abs().amax((0, 2))
        assert not moved[:t].any()
        assert (moved[t:] > 1e-6).all()
        (gradient,) = torch.autograd.grad(logits[:, t].square().sum(), looked_up[0], retain_graph=True)
        assert not gradient[:, t + 1 :].any()
        assert gradient[:, : t + 1].abs().sum(-1).all()


def test_padding_of_the_source_has_no_influence():
    model, (source, target_in) = a_model(), sentences()
    looked_up = []
    model.source_embedding.register_forward_hook(lambda module, words, rows: looked_up.append(rows))
    logits = model(source, target_in, KEY_MASK)
    (gradient,) = torch.autograd.grad(logits.square().sum(), looked_up[0])
    assert torch.equal(gradient.abs().sum(-1) > 0, KEY_MASK)
    other_padding = source.where(KEY_MASK, 0)
    assert torch.equal(model(other_padding, target_in, KEY_MASK), logits)


def test_the_output_layer_is_the_targets_embedding():
    torch.manual_seed(0)
    model, (source, target_in) = reference.Transformer(11, 13, 64, 2, D_FF, num_layers=1), sentences()
    assert sum(parameter.shape == (13, 64) for parameter in model.parameters()) == 1
    logits = model(source, target_in)
    just_read = F.one_hot(target_in, 13).bool()
    assert 0.8 < logits[~just_read].std() < 1.2
    assert logits[just_read].mean() > 4  # the word's own embedding is still in the sum
    (gradient,) = torch.autograd.grad(logits.square().sum(), model.target_embedding.weight)
    assert gradient.any(1).all()  # also of words that the target does not hold


def test_what_the_attention_refuses_the_blocks_refuse():
    with pytest.raises(ValueError, match="d_model is 12, which 5 heads do not divide"):
        reference.Transformer(11, 13, d_model=12, num_heads=5, d_ff=10, num_layers=1)
    model, (source, target_in) = a_model(), sentences()
    with pytest.raises(TypeError, match="key_mask has dtype torch.int64; it must be torch.bool"):
        model(source, target_in, KEY_MASK.long())


class _Fused(reference.EncoderBlock):
    def forward(self, x, key_mask=None):
        layer = nn.TransformerEncoderLayer(
            x.shape[-1], self.self_attn.num_heads, self.linear1.out_features, self.dropout, batch_first=True
        )
        layer.dropout.p = layer.self_attn.dropout = 0.0  # only each sub-layer's output is dropped
        parameters = dict(self.named_parameters())
        options = {"src_key_padding_mask": None if key_mask is None else ~key_mask}
        return torch.func.functional_call(layer.train(self.training), parameters, (x,), options)


def test_pytorchs_own_layer_is_no_answer():
    report = evaluate("EncoderBlock", _Fused)
    assert all(finding.passed for finding in report.findings)
    assert (report.passed, report.score) == (False, 0)
    assert report.ready_made == ("torch.nn.TransformerEncoderLayer",)


class _DroppedByHand(reference.EncoderBlock):
    """Drops each sub-layer's output without ready-made dropout."""

    def scale(self):
        return 1 / max(1 - self.dropout, 1e-9)

    def drop(self, x):
        return x * (torch.rand_like(x) >= self.dropout) * self.scale() if self.training else x

    def forward(self, x, key_mask=None):
        x = self.norm1(x + self.drop(self.self_attn(x, x, x, key_mask=key_mask)))
        return self.norm2(x + self.drop(self.linear2(torch.relu(self.linear1(x)))))


class _NotScaled(_DroppedByHand):
    def scale(self):
        return 1.0


def test_the_check_sees_by_how_much_dropout_scales_what_it_keeps():
    for seed in (None, 0, 1):
        assert evaluate("EncoderBlock", _DroppedByHand, seed).passed
        (wrong,) = (finding for finding in evaluate("EncoderBlock", _NotScaled, seed).findings if not finding.passed)
        assert wrong.title == "equal tokens, half of the numbers dropped"


def test_the_learning_rate_is_highest_at_the_end_of_the_warm_up():
    rates = [reference.noam_learning_rate(step, d_model=64, warmup_steps=40) for step in range(1, 200)]
    assert int(np.argmax(rates)) + 1 == 40
    np.testing.assert_allclose(rates[39], (64 * 40) ** -0.5)
    np.testing.assert_allclose(np.diff(rates[:40]), rates[0])
    np.testing.assert_allclose(rates[159], rates[39] / 2)


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("ignore_index", [-100, 0])
def test_the_loss_equals_pytorchs(smoothing, ignore_index):
    logits, targets = normal(4, 5, 7), torch.from_numpy(np.random.default_rng(0).integers(1, 7, (4, 5)))
    targets[1, 3:] = ignore_index
    targets[3] = ignore_index
    wanted = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), label_smoothing=smoothing, ignore_index=ignore_index
    )
    assert_same(reference.label_smoothing_loss(logits, targets, smoothing, ignore_index), wanted, [logits])


def test_the_loss_without_a_token_is_nan_as_pytorchs():
    logits, targets = normal(3, 7), torch.full((3,), -100)
    assert reference.label_smoothing_loss(logits, targets).isnan()
    assert F.cross_entropy(logits, targets, label_smoothing=0.1).isnan()


def test_what_does_not_fit_is_told_in_words():
    x, wide = torch.zeros(2, 3), torch.zeros(4)
    with pytest.raises(ValueError, match=r"x has width 3; weight and bias have shapes \(4,\) and \(4,\)"):
        reference.layer_norm(x, wide, wide)
    with pytest.raises(ValueError, match=r"x has width 3, W_1 has shape \(5, 4\)"):
        reference.feed_forward(x, torch.zeros(5, 4), torch.zeros(5), torch.zeros(4, 5), wide)
    with pytest.raises(ValueError, match="the two must be equal"):
        reference.residual_add_norm(x, x[:1], torch.ones(3), torch.zeros(3))
    with pytest.raises(ValueError, match="each must be at least 1"):
        reference.noam_learning_rate(0, 512)
    with pytest.raises(ValueError, match="the same shape without the last axis"):
        reference.label_smoothing_loss(x, torch.zeros(3, dtype=torch.long))
