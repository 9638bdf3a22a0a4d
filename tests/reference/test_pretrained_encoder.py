"""The kernels of "A pretrained encoder" against PyTorch's own operators, plain loops and exhaustive search."""

import itertools

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from autograder.reference import pretrained_encoder as reference

torch.set_num_threads(1)

D_MODEL, NUM_HEADS, D_FF = 12, 3, 10
SIZES = {"vocab_size": 11, "max_length": 9, "d_model": D_MODEL, "num_heads": NUM_HEADS, "d_ff": D_FF, "num_layers": 2}
KEY_MASK = torch.arange(6) < torch.tensor([6, 1, 4, 3])[:, None]


def normal(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng((seed, *shape)).normal(size=shape))


def gradients(output, inputs):
    return torch.autograd.grad((output * normal(*output.shape, seed=1)).sum(), inputs)


# word_pieces


def all_cuts(word):
    """Every way to cut a word into parts that are not empty."""
    for cuts in itertools.product([False, True], repeat=max(len(word) - 1, 0)):
        ends = [end for end, cut in enumerate(cuts, 1) if cut]
        yield [word[start:end] for start, end in itertools.pairwise([0, *ends, len(word)])]


@pytest.mark.parametrize("seed", range(5))
def test_pieces_are_the_greedy_cut_among_all_cuts(seed):
    """Of all cuts into parts of which all but the last unknown rest are known, greedy has the longest parts first."""
    rng = np.random.default_rng(seed)
    words = ["".join(letters) for length in range(1, 7) for letters in itertools.product("ab", repeat=length)]
    vocabulary = {"[UNK]": 0}
    for word in rng.permutation([word for word in words if len(word) < 4])[:9]:
        vocabulary[str(word) if rng.random() < 0.5 else f"##{word}"] = len(vocabulary)
    unknown = 0
    for word in words:
        known = [
            [part if number == 0 else f"##{part}" for number, part in enumerate(parts)]
            for parts in all_cuts(word)
            if all((part if number == 0 else f"##{part}") in vocabulary for number, part in enumerate(parts))
        ]
        best = max(known, key=lambda pieces: [len(piece) for piece in pieces], default=None)
        given = reference.word_pieces(word, vocabulary)
        if given == ["[UNK]"]:
            unknown += 1
            # A cut there may be, but not one that begins with the longest piece each time.
            assert best is None or not_greedy(best, word, vocabulary)
        else:
            assert given == best
    assert 0 < unknown < len(words)


def not_greedy(pieces, word, vocabulary):
    """Whether somewhere in a cut a longer piece would have fitted."""
    start = 0
    for piece in pieces:
        mark = "##" if start > 0 else ""
        end = start + len(piece) - len(mark)
        if any(mark + word[start:longer] in vocabulary for longer in range(end + 1, len(word) + 1)):
            return True
        start = end
    return False


def test_pieces_of_nothing_and_another_name_for_unknown():
    assert reference.word_pieces("", {"a": 0}) == []
    assert reference.word_pieces("b", {"a": 0}, unknown="?") == ["?"]


# gelu


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gelu_equals_pytorchs_in_value_and_gradient(dtype):
    x = (3 * normal(7, 50)).to(dtype).requires_grad_()
    given, wanted = reference.gelu(x), F.gelu(x)
    torch.testing.assert_close(given, wanted)
    torch.testing.assert_close(gradients(given.double(), x), gradients(wanted.double(), x))
    assert given.dtype == dtype


def test_gelu_is_x_times_the_share_of_normal_numbers_below_it():
    drawn = normal(400_000)
    for x in (-2.0, -0.5, 0.0, 1.0, 3.0):
        share = (drawn < x).double().mean().item()
        assert reference.gelu(torch.tensor(x)).item() == pytest.approx(x * share, abs=0.01)


def test_the_form_with_tanh_is_as_far_off_as_the_notes_say():
    x = torch.linspace(-6, 6, 10_001, dtype=torch.float64)
    gap = (reference.gelu(x) - F.gelu(x, approximate="tanh")).abs().max()
    assert 0.0004 < gap < 0.0005


# BertBlock


def blocks(eps=1e-12):
    """PyTorch's layer, and ours with the same parameters."""
    options = {"activation": "gelu", "layer_norm_eps": eps, "batch_first": True, "dropout": 0.0}
    torch.manual_seed(0)
    theirs = nn.TransformerEncoderLayer(D_MODEL, NUM_HEADS, D_FF, **options).double()
    for parameter in theirs.parameters():
        nn.init.normal_(parameter, std=0.5)
    ours = reference.BertBlock(D_MODEL, NUM_HEADS, D_FF, eps).double()
    ours.load_state_dict(theirs.state_dict())
    return theirs, ours


@pytest.mark.parametrize("eps", [1e-12, 0.3])
def test_block_equals_pytorchs_layer_in_value_and_gradient(eps):
    theirs, ours = blocks(eps)
    x = normal(4, 6, D_MODEL).requires_grad_()
    given, wanted = ours(x, KEY_MASK)[KEY_MASK], theirs(x, src_key_padding_mask=~KEY_MASK)[KEY_MASK]
    torch.testing.assert_close(given, wanted, rtol=1e-10, atol=1e-12)
    names = sorted(dict(ours.named_parameters()))
    mine, its = (
        gradients(output, [x, *(dict(module.named_parameters())[name] for name in names)])
        for output, module in ((given, ours), (wanted, theirs))
    )
    for one, other in zip(mine, its, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)


def test_padding_has_no_effect_on_real_tokens():
    _, block = blocks()
    x = normal(4, 6, D_MODEL)
    spoiled = torch.where(KEY_MASK[..., None], x, 1e3 * normal(4, 6, D_MODEL, seed=2))
    torch.testing.assert_close(block(x, KEY_MASK)[KEY_MASK], block(spoiled, KEY_MASK)[KEY_MASK])
    assert not torch.allclose(block(x)[KEY_MASK], block(spoiled)[KEY_MASK])


# mean_pool


def test_mean_pool_equals_loops_in_value_and_gradient():
    states = normal(4, 6, 5).requires_grad_()
    given = reference.mean_pool(states, KEY_MASK)
    wanted = torch.stack([states[i, : int(KEY_MASK[i].sum())].mean(0) for i in range(4)])
    torch.testing.assert_close(given, wanted)
    torch.testing.assert_close(gradients(given, states), gradients(wanted, states))
    torch.testing.assert_close(reference.mean_pool(states), states.mean(1))


def test_mean_pool_of_nothing_is_zero_with_finite_gradients():
    states = normal(4, 6, 5).requires_grad_()
    given = reference.mean_pool(states, torch.zeros(4, 6, dtype=torch.bool))
    assert not given.any()
    assert not gradients(given, states)[0].any()


# SentenceEncoder


def encoder(**sizes):
    torch.manual_seed(0)
    built = reference.SentenceEncoder(**(SIZES | sizes)).double()
    for parameter in built.parameters():
        nn.init.normal_(parameter, std=0.5)
    return built


@pytest.mark.parametrize("eps", [1e-12, 0.3])
def test_encoder_equals_pytorchs_layers_in_value_and_gradient(eps):
    built = encoder(eps=eps)
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 11, (4, 6)))
    x = built.words(tokens) + built.positions(torch.arange(6)) + built.segments(torch.zeros_like(tokens))
    x = built.norm(x)
    torch.testing.assert_close(built.embed(tokens), x)
    for block in built.blocks:
        theirs, _ = blocks(eps)
        x = torch.func.functional_call(
            theirs, dict(block.named_parameters()), (x,), {"src_key_padding_mask": ~KEY_MASK}
        )
    means = torch.stack([x[i, : int(KEY_MASK[i].sum())].mean(0) for i in range(4)])
    wanted, given = means / means.norm(dim=1, keepdim=True), built(tokens, KEY_MASK)
    torch.testing.assert_close(given, wanted, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(given.norm(dim=1), torch.ones(4, dtype=torch.float64))
    parameters = [built.words.weight, built.positions.weight, built.segments.weight, built.norm.weight]
    for one, other in zip(gradients(given, parameters), gradients(wanted, parameters), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-7, atol=1e-9)


def test_a_text_has_one_vector_whatever_it_is_batched_with():
    built = encoder()
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 11, (4, 6)))
    together = built(tokens, KEY_MASK)
    for row in range(4):
        alone = built(tokens[row, : int(KEY_MASK[row].sum())])
        torch.testing.assert_close(alone, together[row])


# rename_weights


def file_of(built):
    """What a file of BERT holds of an encoder: its parts, named and cut by hand."""
    stored = {
        "embeddings.word_embeddings.weight": built.words.weight,
        "embeddings.position_embeddings.weight": built.positions.weight,
        "embeddings.token_type_embeddings.weight": built.segments.weight,
        "embeddings.LayerNorm.weight": built.norm.weight,
        "embeddings.LayerNorm.bias": built.norm.bias,
    }
    for number, block in enumerate(built.blocks):
        parts = {
            "attention.output.dense": block.self_attn.out_proj,
            "attention.output.LayerNorm": block.norm1,
            "intermediate.dense": block.linear1,
            "output.dense": block.linear2,
            "output.LayerNorm": block.norm2,
        }
        for name, part in parts.items():
            stored[f"encoder.layer.{number}.{name}.weight"] = part.weight
            stored[f"encoder.layer.{number}.{name}.bias"] = part.bias
        for place, name in enumerate(("query", "key", "value")):
            rows = slice(place * D_MODEL, (place + 1) * D_MODEL)
            stored[f"encoder.layer.{number}.attention.self.{name}.weight"] = block.self_attn.in_proj_weight[rows]
            stored[f"encoder.layer.{number}.attention.self.{name}.bias"] = block.self_attn.in_proj_bias[rows]
    return stored


@pytest.mark.parametrize("num_layers", [0, 1, 2, 11])
def test_renamed_weights_are_the_state_dict(num_layers):
    built = encoder(num_layers=num_layers)
    stored = file_of(built) | {"pooler.dense.weight": torch.zeros(1), "embeddings.position_ids": torch.arange(9)}
    names = set(stored)
    renamed = reference.rename_weights(stored, num_layers)
    assert set(stored) == names
    assert renamed.keys() == built.state_dict().keys()
    for name, weight in built.state_dict().items():
        assert torch.equal(renamed[name], weight), name


def test_every_missing_weight_is_an_error_that_names_it():
    stored = file_of(encoder())
    for name in stored:
        with pytest.raises(KeyError, match=name):
            reference.rename_weights({other: weight for other, weight in stored.items() if other != name}, 2)


# most_similar


def test_most_similar_equals_loops():
    queries, vectors = normal(3, 5), 3 * normal(20, 5, seed=1)
    indices, similarities = reference.most_similar(queries, vectors, k=4)
    for query, found, values in zip(queries, indices.tolist(), similarities, strict=True):
        cosines = [F.cosine_similarity(query, vector, dim=0).item() for vector in vectors]
        assert found == sorted(range(20), key=lambda number: -cosines[number])[:4]
        torch.testing.assert_close(values, torch.tensor([cosines[number] for number in found], dtype=torch.float64))


def test_ties_stay_in_their_order_and_zeros_are_similar_to_nothing():
    vectors = torch.eye(3, dtype=torch.float64).repeat(30, 1)
    indices, _ = reference.most_similar(torch.tensor([3.0, 2.0, 1.0], dtype=torch.float64), vectors, k=60)
    assert indices.tolist() == [*range(0, 90, 3), *range(1, 90, 3)]
    vectors = torch.tensor([[1.0, 0.0], [0.0, 0.0], [-1.0, 0.0]])
    indices, similarities = reference.most_similar(torch.tensor([1.0, 0.0]), vectors, k=9)
    assert (indices.tolist(), similarities.tolist()) == ([0, 1, 2], [1.0, 0.0, -1.0])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: reference.mean_pool(torch.zeros(2, 3, 4), torch.zeros(2, 4, dtype=torch.bool)), r"must be \(2, 3\)"),
        (lambda: encoder()(torch.zeros(2, 10, dtype=torch.long)), "10 tokens; there are positions for 9"),
        (lambda: reference.rename_weights(file_of(encoder()) | {"cls.bias": torch.zeros(1)}, 2), "not used: cls.bias"),
        (lambda: reference.rename_weights(file_of(encoder()), 1), "not used: encoder.layer.1"),
        (lambda: reference.most_similar(torch.zeros(2), torch.zeros(3, 2), 0), "k is 0; at least one"),
    ],
)
def test_bad_input_is_told_in_words(call, words):
    with pytest.raises(ValueError, match=words):
        call()
