"""A new stage is one file, a line in the order of stages and a line in `advance`: the steps of streamjobs/README.md."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.layers.imports import CHECKOUT

pytestmark = pytest.mark.slow  # compiles a copy of the code

BLOCK = re.compile(r"^ *```python (file|in)=(\S+)(?: after=([^\n]*))?\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def _follow(page: str, folder: Path) -> list[str]:
    """Do what the page's blocks say; gives the files that were changed or made."""
    touched = []
    for kind, name, after, block in BLOCK.findall(page):
        text, path = textwrap.dedent(block), folder / name
        if kind == "file":
            path.write_text(text)
        else:
            lines = path.read_text().splitlines(keepends=True)
            (at,) = (n for n, line in enumerate(lines) if after in line)
            indent = re.match(r" *", lines[at])[0]  # type: ignore[index]
            path.write_text("".join([*lines[: at + 1], textwrap.indent(text, indent), *lines[at + 1 :]]))
        touched.append(name)
    return touched


def test_the_steps_of_the_page_add_a_stage(tmp_path: Path) -> None:
    for package in ("algorithms", "streamjobs"):
        shutil.copytree(CHECKOUT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "*.npz"))
    page = (CHECKOUT / "streamjobs" / "README.md").read_text(encoding="utf-8")
    touched = _follow(page, tmp_path)
    assert touched.count("streamjobs/stages/tare.py") == 1
    assert set(touched) == {"streamjobs/stages/tare.py", "streamjobs/core/job_stages.py", "streamjobs/core/advance.py"}
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}"}
    program = CHECKOUT / "tests" / "core" / "added_stage.py"
    done = subprocess.run(
        [sys.executable, str(program)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
