"""The course as pip installs it, without a checkout: what travels with the package is found."""

import json
import os
import shutil
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from autograder.grading import staging

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ("autograder", "lab", "exercises", "book/_toc.yml", "pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT")


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> Path:
    """A Python with the course installed from a copy that is then gone, and with the packages of this one."""
    root = tmp_path_factory.mktemp("installed")
    for name in SHIPPED:
        source, target = ROOT / name, root / "copy" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    venv.create(root / "venv", with_pip=True)
    python = root / "venv" / ("Scripts" if os.name == "nt" else "bin") / "python"
    done = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "--no-deps", root / "copy"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    shutil.rmtree(root / "copy")
    asked = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
    packages = Path(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def run(python, cwd, *arguments):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run([python, *arguments], cwd=cwd, env=environment, capture_output=True, text=True)


def test_a_notebook_is_checked(python, tmp_path):
    shutil.copy(ROOT / "solutions" / "getting_started" / "getting_started.ipynb", tmp_path)
    done = run(python, tmp_path, "-m", "autograder.cli", "check", "getting_started.ipynb")
    assert done.returncode == 0, done.stderr
    assert "softmax: all visible cases pass." in done.stdout


def test_an_old_notebook_is_updated(python, tmp_path):
    notebook = json.loads((ROOT / "exercises" / "getting_started" / "getting_started.ipynb").read_text())
    del notebook["cells"][-1]
    path = tmp_path / "getting_started.ipynb"
    path.write_text(json.dumps(notebook))
    done = run(python, tmp_path, "-m", "autograder.cli", "update", path.name)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(path.read_text())["cells"]) == len(notebook["cells"]) + 1


def test_the_grader_knows_the_order_of_the_chapters(python, tmp_path):
    code = "from autograder.grading.staging import chapters_before; print(*chapters_before('attention_layer'))"
    done = run(python, tmp_path, "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == staging.chapters_before("attention_layer")
    assert "getting_started" in done.stdout
