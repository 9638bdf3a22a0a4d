"""In a release without solutions, what a later chapter imports of an earlier one: the kernel that the student wrote.

There ``autograder/reference/STEM.py`` of a withheld chapter holds no code but hands out these.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from autograder import catalog, notebooks


class OwnKernel:
    """A kernel of the student's notebook of another chapter, read when it is first called or derived from."""

    def __init__(self, stem: str, name: str):
        self.__name__, self._stem, self._kernel = name, stem, None

    def __call__(self, *args, **kwargs) -> Any:
        kernel = self._read()
        try:
            return kernel(*args, **kwargs)
        except NotImplementedError as error:
            # The kernel that calls this one is written; it is this one that is not.
            raise RuntimeError(f"Your own {self.__name__} of {self._stem} is needed here: write it first.") from error

    def __mro_entries__(self, bases: tuple) -> tuple[type]:
        """The student's own class, where another class is to be derived from the kernel."""
        return (self._read(),)

    def _read(self) -> Callable:
        self._kernel = self._kernel or _read(self._stem, self.__name__)
        return self._kernel


def own_kernel(stem: str, name: str) -> OwnKernel:
    """What ``from autograder.reference.STEM import NAME`` gives where the course's own code is withheld.

    Raises
    ------
    AttributeError
        If the chapter has no kernel of that name.
    """
    if catalog.kernels().get(name) != stem:
        raise AttributeError(f"chapter {stem!r} has no kernel {name!r}")
    return OwnKernel(stem, name)


def _read(stem: str, name: str) -> Callable:
    from autograder.commands.check import run_cells
    from autograder.grading.submission import cells_to_run

    file = Path(f"{stem}.ipynb")
    places = [file, Path("..", stem, file), Path("exercises", stem, file)]
    path = next((place for place in places if place.exists()), notebooks.released_path(stem))
    module, problems = run_cells(path, cells_to_run(notebooks.read_notebook(path), notebooks.read_released(stem)))
    if callable(kernel := getattr(module, name, None)):
        return kernel
    reason = next(iter(problems.values()), f"{path} does not define it.")
    raise RuntimeError(f"This chapter calls your own {name} of {stem}, which cannot be read. {reason}")
