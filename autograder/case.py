"""A case: what one run of a kernel is given. Cases are drawn by the trusted side only."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

VISIBLE_SEED = 0


@dataclass(frozen=True)
class Case:
    """The inputs of one run of a kernel, and how to hand them over.

    Parameters
    ----------
    title
        What is asked, in words that a student may read ("a query that may attend to nothing").
    inputs
        Positional arguments by name, in the order of the kernel's signature. Arrays, numbers, booleans,
        strings, None, and lists or dicts of these.
    options
        Keyword arguments by name, handed over as the inputs are.
    dtype
        The dtype that floating arrays are given to the kernel in: "float64", "float32" or "float16".
    strided
        Hand over arrays that are not contiguous in memory (same values).
    gradient
        Names of the inputs whose gradient is asked for too.
    repeated
        Call the kernel on other numbers of the same shapes before and after, so that what it keeps between calls shows.
    refused
        The contract says that these arguments raise an error. Any error is right, as PyTorch's own is where the student
        took out the kernel's input check; to return something is wrong.
    count_work
        Whether the largest tensor that the kernel makes and its multiply-adds are compared too (a PyTorch kernel only).
    memory_mb
        What the kernel may take beyond what its process has, for a case that is too large for the wrong kernel: to ask
        for more raises an error. None sets no limit but the process's own.
    probe
        Free settings for probes that do more than call the kernel once.
    watch
        Dotted names of functions that the kernel must not call (filled in from the check).
    """

    title: str
    inputs: Mapping[str, Any]
    options: Mapping[str, Any] = field(default_factory=dict)
    dtype: str = "float64"
    strided: bool = False
    gradient: tuple[str, ...] = ()
    repeated: bool = False
    refused: bool = False
    count_work: bool = False
    memory_mb: int | None = None
    probe: Mapping[str, Any] = field(default_factory=dict)
    watch: tuple[str, ...] = ()


class Draw:
    """Random inputs for cases, all from one seed.

    Parameters
    ----------
    *seed
        Integers that together seed the generator.
    hidden
        True when the grader draws: a check may then add cases that a notebook does not show.
    """

    def __init__(self, *seed: int, hidden: bool = False):
        self.rng = np.random.default_rng(seed)
        self.hidden = hidden

    def sizes(self, count: int, low: int = 2, high: int = 9) -> list[int]:
        """``count`` different sizes from ``low`` to ``high``, so that no two axes can be confused."""
        return [int(size) for size in self.rng.choice(np.arange(low, high + 1), count, replace=False)]

    def normal(self, *shape: int, scale: float = 1.0) -> np.ndarray:
        """Independent normal numbers with standard deviation ``scale``."""
        return self.rng.normal(0.0, scale, shape)

    def mask(self, *shape: int, keep: float = 0.6) -> np.ndarray:
        """A boolean mask that mixes True and False in each row of two or more and leaves no row all False."""
        mask = self.rng.random(shape) < keep
        columns = self.rng.integers(0, shape[-1], shape[:-1])[..., None]
        np.put_along_axis(mask, columns, True, -1)
        if shape[-1] > 1:
            np.put_along_axis(mask, (columns + 1) % shape[-1], False, -1)
        return mask

    def block_parameters(self, d_model: int, d_ff: int) -> dict[str, np.ndarray]:
        """Parameters of a block by the names of ``torch.nn.TransformerEncoderLayer``, none of them zero."""
        return {
            "self_attn.in_proj_weight": self.normal(3 * d_model, d_model, scale=1.5 / math.sqrt(d_model)),
            "self_attn.in_proj_bias": self.normal(3 * d_model),
            "self_attn.out_proj.weight": self.normal(d_model, d_model, scale=1 / math.sqrt(d_model)),
            "self_attn.out_proj.bias": self.normal(d_model),
            "linear1.weight": self.normal(d_ff, d_model, scale=1 / math.sqrt(d_model)),
            "linear1.bias": self.normal(d_ff),
            "linear2.weight": self.normal(d_model, d_ff, scale=1 / math.sqrt(d_ff)),
            "linear2.bias": self.normal(d_model),
            "norm1.weight": 1 + self.normal(d_model) / 2,
            "norm1.bias": self.normal(d_model),
            "norm2.weight": 1 + self.normal(d_model) / 2,
            "norm2.bias": self.normal(d_model),
        }
