"""PyTorch, loaded when first used, so that NumPy kernels are checked without it."""

from importlib import import_module


class _Torch:
    def __getattr__(self, name):
        value = getattr(import_module("torch"), name)
        if not name.startswith("_"):
            setattr(self, name, value)  # asked for thousands of times in a check
        return value


torch = _Torch()
