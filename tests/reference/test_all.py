"""What holds for the reference module of every chapter: examples run, shapes are enforced, contracts are complete."""

import doctest
import importlib
import inspect
import subprocess
import sys

import pytest

from autograder import catalog

STEMS = sorted(set(catalog.kernels().values()))
SECTIONS = ("Parameters", "Returns", "Notes", "References")


@pytest.mark.parametrize("stem", STEMS)
def test_examples_in_docstrings_run(stem):
    module = importlib.import_module(f"autograder.reference.{stem}")
    result = doctest.testmod(module, extraglobs={"torch": importlib.import_module("torch")})
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", catalog.kernels())
def test_contract_is_complete(name):
    kernel = catalog.check_of(name).reference
    doc = inspect.getdoc(kernel)
    assert doc.splitlines()[0].endswith(".")
    missing = [section for section in SECTIONS if f"{section}\n{'-' * len(section)}" not in doc]
    if inspect.isclass(kernel):
        missing = [section for section in missing if section != "Returns"]
    assert not missing
    raises = "raise " in inspect.getsource(kernel)
    assert raises == ("Raises\n------" in doc)


@pytest.mark.parametrize("stem", STEMS)
def test_annotated_shapes_hold_on_every_visible_case(stem):
    code = f"""
import jaxtyping
with jaxtyping.install_import_hook("autograder.reference.{stem}", "beartype.beartype"):
    import autograder.reference.{stem}
from autograder import catalog, judging, probing
for name, check in catalog.checks("{stem}").items():
    for _, case in judging.draw_cases(name):
        outcome = probing.run_probe("{stem}", name, check.reference, case)
        assert outcome.fault is None, (name, case.title, outcome.fault.text)
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]


def test_annotated_shapes_are_enforced():
    code = """
import jaxtyping
with jaxtyping.install_import_hook("autograder.reference.getting_started", "beartype.beartype"):
    from autograder.reference.getting_started import softmax
softmax([1.0, 2.0])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "TypeCheckError" in result.stderr
