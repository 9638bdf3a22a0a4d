"""The dependency matrix against derivatives that are known."""

import torch

from autograder.reference.attention_layer import attention_weights
from lab.dependency import dependency_matrix

torch.set_num_threads(1)


def test_a_linear_mix_of_tokens_depends_by_its_coefficients():
    mix = torch.tensor([[1.0, 0.0, -2.0], [0.5, 3.0, 0.0]])
    X = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(dependency_matrix(lambda x: mix @ x, X), 2 * mix.abs())


def test_attention_with_fixed_weights_depends_by_its_weights():
    X = torch.randn(5, 9, generator=torch.Generator().manual_seed(0))
    weights = attention_weights(X, X)
    torch.testing.assert_close(dependency_matrix(lambda x: weights @ x, X), 3 * weights)


def test_a_function_of_each_token_alone_depends_on_the_diagonal():
    X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    matrix = dependency_matrix(torch.tanh, X)
    assert torch.equal(matrix != 0, torch.eye(4, dtype=torch.bool))
