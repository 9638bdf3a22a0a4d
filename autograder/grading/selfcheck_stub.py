"""What ``begin``, ``check``, ``evaluate`` and ``hint`` are where a notebook is graded: nothing.

Staged as ``autograder/selfcheck.py`` for student code, which runs without checks and references.
"""


def _nothing(*args, **kwargs) -> None:
    """Do nothing."""


begin = check = evaluate = hint = _nothing
