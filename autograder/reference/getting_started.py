"""Reference kernels of the chapter "Getting started"."""

import numpy as np
from jaxtyping import Float


def softmax(x: Float[np.ndarray, "*shape"], axis: int = -1) -> Float[np.ndarray, "*shape"]:
    """Turn scores into weights that are positive and sum to one along an axis.

    Parameters
    ----------
    x
        Scores. Entries of minus infinity get weight zero.
    axis
        The axis along which the weights sum to one.

    Returns
    -------
    Weights of the shape and dtype of ``x``. Where all scores along ``axis`` are minus infinity, all weights are zero.

    Raises
    ------
    ValueError
        If ``x`` has no axis ``axis``.

    Notes
    -----
    ``exp(x_i - m) / sum_j exp(x_j - m)`` with ``m`` the largest score, so that no exponential overflows.
    Linear in the number of entries, in time and in memory.

    References
    ----------
    Goodfellow, Bengio and Courville, "Deep Learning" (2016), equation 4.1 and section 4.1.

    Examples
    --------
    >>> softmax(np.array([0.0, np.log(3.0)])).round(2).tolist()
    [0.25, 0.75]
    >>> softmax(np.array([1e4, 1e4])).tolist()
    [0.5, 0.5]
    """
    if not -x.ndim <= axis < x.ndim:
        raise ValueError(f"x has {x.ndim} axes; there is no axis {axis}. Give an axis from {-x.ndim} to {x.ndim - 1}.")
    largest = x.max(axis=axis, keepdims=True)
    largest = np.where(np.isneginf(largest), 0.0, largest).astype(x.dtype)
    exponentials = np.exp(x - largest)
    total = exponentials.sum(axis=axis, keepdims=True)
    return exponentials / np.where(total == 0.0, 1.0, total).astype(x.dtype)
