"""PyTorch, loaded when first used, so that NumPy kernels are checked without it."""

from importlib import import_module


class _Torch:
    def __getattr__(self, name):
        return getattr(import_module("torch"), name)


torch = _Torch()
