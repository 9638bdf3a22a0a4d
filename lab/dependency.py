"""Which input moves which output of a function from sequences to sequences."""

from collections.abc import Callable

import torch
from torch import Tensor


def dependency_matrix(f: Callable[[Tensor], Tensor], X: Tensor) -> Tensor:
    """How strongly each token of the output depends on each token of the input, by the Jacobian.

    Parameters
    ----------
    f
        A function from a sequence ``(N_in, D_in)`` to a sequence ``(N_out, D_out)``.
    X
        Where the derivatives are taken.

    Returns
    -------
    A matrix ``(N_out, N_in)``. Entry ``(i, j)`` is the root of the sum of the squared derivatives of the entries of
    output token ``i`` by those of input token ``j``. It is zero where, near ``X``, the input token has no influence.
    """
    jacobian = torch.autograd.functional.jacobian(f, X)  # (N_out, D_out, N_in, D_in)
    return jacobian.square().sum((1, 3)).sqrt()
