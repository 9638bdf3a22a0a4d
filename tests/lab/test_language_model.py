"""The language model: its pieces, training and writing, with kernels of one's own and with a cache."""

import math

import pytest
import torch
from torch.nn import functional as F

from autograder.reference import language_model as kernels
from autograder.reference.self_attention import sinusoidal_positions
from lab import language_model, python_text
from lab.language_model import LanguageModel, chooser, generate

torch.set_num_threads(1)


def small(**options):
    torch.manual_seed(0)
    return LanguageModel(20, d_model=12, num_heads=3, **options)


def texts(length, batch=3):
    return torch.randint(20, (batch, length), generator=torch.Generator().manual_seed(1))


def test_scaled_embedding_positions_blocks_and_a_tied_output_layer():
    model = small()
    assert model.blocks[0].linear1.out_features == 48
    tokens = texts(7)
    x = model.embedding.weight[tokens] * math.sqrt(12) + sinusoidal_positions(7, 12)
    for block in model.blocks:
        x = block(x)
    torch.testing.assert_close(model(tokens), torch.einsum("bnd,vd->bnv", x, model.embedding.weight))
    assert len(list(model.parameters())) == 1 + len(model.blocks) * len(list(model.blocks[0].parameters()))


@torch.no_grad()
def test_no_place_sees_a_later_token():
    model, tokens = small(), texts(9)
    other = tokens.clone()
    other[:, 5] = (other[:, 5] + 1) % 20
    moved = (model(tokens) - model(other)).abs().amax((0, 2))
    assert not moved[:5].any()
    assert (moved[5:] > 0).all()


@torch.no_grad()
@pytest.mark.parametrize("parts", [[9], [1] * 9, [4, 1, 3, 1]])
def test_in_parts_with_caches_the_logits_are_those_of_the_whole(parts):
    model, tokens = small(), texts(9)
    caches = [kernels.KVCache(9) for _ in model.blocks]
    logits = torch.cat([model(part, caches) for part in tokens.split(parts, 1)], 1)
    torch.testing.assert_close(logits, model(tokens), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_generating_is_the_same_with_and_without_caches(temperature):
    model, beginning = small(), texts(3)
    anew, cached = (generate(model, beginning, 10, chooser(temperature), cache) for cache in (None, kernels.KVCache))
    assert torch.equal(anew, cached)
    assert anew.shape == (3, 13)
    assert torch.equal(anew[:, :3], beginning)


def test_greedy_takes_the_most_probable_token_each_time():
    model = small()
    written = generate(model, texts(3), 5, chooser(0.0))
    for length in range(3, 8):
        assert torch.equal(written[:, length], model(written[:, :length])[:, -1].argmax(-1))


def test_a_seed_gives_the_same_text_and_another_seed_another_one():
    model = small()
    one, same, other = (generate(model, texts(3), 20, chooser(seed=seed)) for seed in (0, 0, 1))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_filters_come_before_the_temperature():
    logits = torch.tensor([[0.5, 0.3, 0.2]]).log().repeat(400, 1)
    assert set(chooser(5.0, p=0.6)(logits).tolist()) == {0, 1}
    assert set(chooser(5.0, k=1)(logits).tolist()) == {0}
    assert set(chooser(5.0)(logits).tolist()) == {0, 1, 2}


def test_kernels_of_ones_own_are_used():
    calls = []

    def spy(name):
        def kernel(*arguments):
            calls.append(name)
            return getattr(kernels, name)(*arguments)

        return kernel

    names = ("sample_temperature", "top_k_filter", "top_p_filter")
    choose = chooser(k=5, p=0.9, **{name: spy(name) for name in names})
    generate(small(block=spy("CausalBlock")), texts(2), 1, choose, spy("KVCache"))
    assert sorted(set(calls)) == sorted([*names, "CausalBlock", "KVCache"])
    calls.clear()
    language_model.train(small(), texts(50, 1)[0], 2, spy("next_token_loss"), context=8)
    assert calls == ["next_token_loss"] * 2


def test_windows_are_pieces_of_the_text():
    text = torch.arange(30)
    drawn = language_model.windows(text, 500, 9, torch.Generator().manual_seed(0))
    assert torch.equal(drawn, drawn[:, :1] + torch.arange(9))
    assert drawn.min() == 0
    assert drawn.max() == 29


def test_training_lowers_the_loss_and_repeats_itself():
    text = torch.tensor([1, 2, 3, 4] * 50)
    runs = []
    for _ in range(2):
        model = small()
        runs.append(language_model.train(model, text, 60, context=12, lr=1e-2))
    assert runs[0] == runs[1]
    assert runs[0][-1] < 0.5 < runs[0][0]


def test_nats_are_the_mean_over_windows():
    model, text = small(), texts(100, 1)[0]
    pieces = text[:99].view(11, 9)
    expected = F.cross_entropy(model(pieces)[:, :-1].flatten(0, 1), pieces[:, 1:].flatten())
    assert language_model.nats(model, text, context=8) == pytest.approx(expected.item(), abs=1e-5)


def test_writing_goes_from_text_to_text():
    torch.manual_seed(0)
    model = LanguageModel(python_text.VOCAB_SIZE, d_model=12, num_heads=3)
    assert language_model.write(model, "def ", 10)[:4] == "def "
    assert len(language_model.write(model, "def ", 10)) == 14
    assert len(language_model.write(model, "", 10)) == 11
