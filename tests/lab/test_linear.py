"""The experiments of linear attention: models with any attention, the spread of weights, random features."""

import pytest
import torch

from autograder.reference.attention_layer import scaled_dot_product_attention
from lab import linear, recall

torch.set_num_threads(1)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_elu_attention_is_the_mean_by_the_products_of_its_features():
    query, key, value = linear.inputs(9, std=1.0, d_k=5)
    features = torch.nn.functional.elu(query) + 1, torch.nn.functional.elu(key) + 1
    weights = features[0] @ features[1].T
    expected = weights / weights.sum(-1, keepdim=True) @ value
    torch.testing.assert_close(linear.elu_attention(query, key, value), expected)


@pytest.mark.parametrize("name", linear.ATTENTIONS)
def test_look_up_gives_the_weights_with_which_the_model_answers(name):
    model = linear.build(name, d_k=5)
    weights, place = linear.look_up(model, name, pairs=7, questions=20, seed=3)
    torch.testing.assert_close(weights.sum(-1), torch.ones(20))
    question = recall.ask(20, 7, generator(3))
    assert torch.equal(question.keys.gather(1, place[:, None])[:, 0], question.asked)
    X_kv = torch.cat([model.key_embedding(question.keys), model.value_embedding(question.values)], -1)
    mean = (weights[:, None] @ (X_kv @ model.W_V))[:, 0]
    torch.testing.assert_close(model.output(mean), model(question))


def test_the_number_of_features_changes_the_projections_of_queries_and_keys_alone():
    narrow, wide = (dict(linear.build("linear", d_k).named_parameters()) for d_k in (4, 6))
    assert {name for name in wide if wide[name].shape != narrow[name].shape} == {"W_Q", "W_K"}


def test_an_unknown_attention_is_an_error_in_words():
    with pytest.raises(ValueError, match="no attention 'local'; choose one of softmax, linear"):
        linear.build("local", 8)


def test_the_effective_number_counts_equal_weights():
    weights = torch.tensor([[0.25, 0.25, 0.25, 0.25], [0.5, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]])
    torch.testing.assert_close(linear.effective_number(weights), torch.tensor([4.0, 2.0, 1.0]))


def test_orthogonal_directions_are_orthogonal_in_blocks_and_as_long_as_normal_vectors():
    directions = linear.projections(4000, 8, generator()).view(-1, 8, 8)
    products = directions @ directions.mT
    lengths = products.diagonal(dim1=1, dim2=2)
    assert (products - torch.diag_embed(lengths)).abs().max() < 1e-12
    assert lengths.mean().item() == pytest.approx(8, rel=0.05)
    independent = linear.projections(4000, 8, generator(), orthogonal=False).view(-1, 8, 8)
    assert (independent @ independent.mT).triu(1).abs().max() > 1


@pytest.mark.parametrize("features", [linear.performer_features, linear.trigonometric_features])
def test_both_feature_maps_are_right_on_average(features):
    query, key, _ = linear.inputs(5, std=0.5, d_k=8)
    directions = linear.projections(4 * 4000, 8, generator(1), orthogonal=False)
    estimates = linear.kernel_estimates(query, key, directions, 4000, features)
    assert estimates.shape == (4000, 5, 5)
    error = (estimates.mean(0) - torch.exp(query @ key.T / 8**0.5)) / (estimates.std(0) / 4000**0.5)
    assert error.square().mean().sqrt() < 2


def test_the_error_is_that_of_the_whole_output_and_falls_with_the_directions():
    few, many = (linear.output_error(m, std=0.3, length=16, draws=3) for m in (64, 1024))
    assert 0 < many < 0.6 * few
    query, key, value = linear.inputs(16, std=0.3)
    right = scaled_dot_product_attention(query, key, value)
    plain_mean = value.mean(0).expand_as(right)
    assert many < (plain_mean - right).norm() / right.norm()
