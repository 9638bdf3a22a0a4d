"""CONTRIBUTING's five steps, carried out as they stand in a copy of the repository."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```(?:python file=(?P<file>\S+)|sh (?P<run>run))\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The files that git knows, in a folder of their own."""
    target = tmp_path_factory.mktemp("course")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target / name)
    return target


@pytest.mark.slow
def test_the_five_steps_work_as_written(copy):
    scripts = Path(sys.executable).parent
    environment = os.environ | {"PYTHONPATH": str(copy), "PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}"}
    files, commands = [], []
    for block in BLOCK.finditer((copy / "CONTRIBUTING.md").read_text(encoding="utf-8")):
        if block["file"]:
            path = copy / block["file"]
            assert not path.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["body"], encoding="utf-8")
            files.append(block["file"])
            continue
        for command in block["body"].splitlines():
            result = subprocess.run(command, shell=True, cwd=copy, env=environment, capture_output=True, text=True)
            assert result.returncode == 0, f"{command}\n{result.stdout[-2000:]}\n{result.stderr[-2000:]}"
            commands.append(command)
    for arguments in ("check",), ("format", "--check"):
        ruff = [scripts / "ruff", *arguments, *files]
        result = subprocess.run(ruff, cwd=copy, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout
    assert len(files) == 5
    assert len(commands) == 4
    assert (copy / "exercises/unit_rows/unit_rows.ipynb").exists()
    assert "np.sqrt" not in (copy / "exercises/unit_rows/unit_rows.ipynb").read_text(encoding="utf-8")
