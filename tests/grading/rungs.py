"""Which rungs of the sandbox's ladder a test can stand on here."""

import os

import pytest

from autograder.grading import sandbox


def need(rung: str) -> None:
    """Skip where a rung does not work on this machine; in CI fail where none does, for then nothing would be tested."""
    if reason := sandbox.why_not(rung):
        none_works = all(map(sandbox.why_not, sandbox.BEST_FIRST))
        pytest.fail(reason) if none_works and os.environ.get("CI") else pytest.skip(reason)
