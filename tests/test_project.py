"""The project's own files: dependencies, deployment, style, and words that agree with each other."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jupytext
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from autograder import __version__

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PAGES = sorted((ROOT / "book").glob("*.md"))


def tool(*command):
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)


def lock():
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(pin.name): pin for pin in pins}


def test_the_lock_pins_each_package_to_one_public_version():
    for line in (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[0-9][0-9A-Za-z.]*(; sys_platform == 'linux')?", line), line


def test_the_lock_satisfies_every_requirement_of_the_project():
    wanted = [*PROJECT["dependencies"], *(w for group in PROJECT["optional-dependencies"].values() for w in group)]
    for requirement in map(Requirement, wanted):
        if requirement.name == PROJECT["name"]:
            continue
        pin = lock().get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement.name} is not in requirements.lock: run `make lock`"
        assert requirement.specifier.contains(next(iter(pin.specifier)).version), f"{requirement} but {pin}"


def test_every_extra_that_the_course_names_exists():
    assert {"student", "book", "grade", "dev"} <= PROJECT["optional-dependencies"].keys()


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("vendor.github-workflows", sorted((ROOT / ".github/workflows").glob("*.yml"))),
        ("vendor.citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_deployment_files_fit_their_schema(schema, files):
    assert files
    result = tool("check_jsonschema", "--builtin-schema", schema, *map(str, files))
    assert result.returncode == 0, result.stdout


def test_every_environment_is_made_from_the_lock():
    devcontainer = json.loads((ROOT / ".devcontainer/devcontainer.json").read_text(encoding="utf-8"))
    assert "requirements.lock" in devcontainer["postCreateCommand"]
    assert "-r ../requirements.lock" in (ROOT / "binder/requirements.txt").read_text(encoding="utf-8")
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        steps = [step for job in yaml.safe_load(workflow.read_text())["jobs"].values() for step in job["steps"]]
        assert any(step.get("run") in ("bash .ci/run", "make book") for step in steps)


def test_the_version_is_the_same_everywhere():
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"] == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", ".ci/run", ".github/workflows/pages.yml"])
def test_every_make_command_that_is_named_exists(name):
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    named = set(re.findall(r"(?:^|`|run: )make ([a-z-]+)", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE))
    assert named
    assert named <= set(targets)


def test_ruff_finds_nothing_in_sources_and_notebooks():
    for command in (("check",), ("format", "--check")):
        result = tool("ruff", *command, ".")
        assert result.returncode == 0, result.stdout[-3000:]


def test_codespell_finds_nothing():
    result = tool("codespell_lib")
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_ruff_finds_nothing_in_the_code_cells_of_a_page(page):
    cells = [cell.source for cell in jupytext.read(page).cells if cell.cell_type == "code"]
    code = "\n\n".join(re.sub(r"^%.*$", "pass", cell, flags=re.MULTILINE) for cell in cells)
    rules = ["--ignore", "E402,I001,B018,E703", "--config", 'builtins = ["display"]']
    command = [sys.executable, "-m", "ruff", "check", *rules, "--stdin-filename", f"{page.stem}.py", "-"]
    result = subprocess.run(command, cwd=ROOT, input=code + "\n", capture_output=True, text=True)
    assert result.returncode == 0, result.stdout


def test_no_solution_or_made_file_is_tracked_where_it_should_not_be():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split(
        "\n"
    )
    assert not [name for name in tracked if name.startswith(("_build/", ".venv/")) or "__pycache__" in name]
    assert not [name for name in tracked if name.startswith("exercises/") and not name.endswith(".ipynb")]
