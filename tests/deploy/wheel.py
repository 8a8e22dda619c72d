"""Builds the wheel of this checkout, and runs the demo from it in an environment that has nothing else.

python -m tests.deploy wheel [--seconds N]
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

from tests.parts import CHECKOUT

_BUILD = "import sys; from setuptools import build_meta; print(build_meta.build_wheel(sys.argv[1]))"
SOURCES = ("algorithms", "streamjobs", "pyproject.toml", "README.md", "LICENSE")


def build(folder: Path) -> Path:
    """The wheel, built in this folder from a copy of the sources with the setuptools of this environment."""
    copy = folder / "sources"
    copy.mkdir()
    for name in SOURCES:
        source = CHECKOUT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        else:
            shutil.copy2(source, copy / name)
    done = subprocess.run(
        [sys.executable, "-c", _BUILD, str(folder)], cwd=copy, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return folder / done.stdout.strip().splitlines()[-1]


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy wheel", description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10, help="that the demo plays")
    options = parser.parse_args(list(arguments))
    with tempfile.TemporaryDirectory(prefix="streamjobs-wheel-") as name:
        folder = Path(name)
        wheel = build(folder)
        print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
        began = time.monotonic()
        venv.create(folder / "empty", with_pip=True)
        # Nothing of the checkout or of its environment reaches the commands below.
        env = {"PATH": os.defpath, "HOME": str(folder), "LANG": "C.UTF-8"}
        env |= {
            variable: text for variable, text in os.environ.items() if variable.startswith(("PIP_", "JAVA", "STREAMJOBS_C"))
        }
        pip = [folder / "empty/bin/pip", "install", "-q", "-c", CHECKOUT / "requirements.lock", wheel]
        subprocess.run(pip, cwd=folder, env=env, check=True)
        print(f"installed in {time.monotonic() - began:.0f} s", flush=True)
        elsewhere = folder / "elsewhere"
        elsewhere.mkdir()
        codes = []
        for words in (["demo"], ["demo", "--kafka"]):
            began = time.monotonic()
            command = [folder / "empty/bin/streamjobs", *words, "--seconds", str(options.seconds)]
            done = subprocess.run(command, cwd=elsewhere, env=env, capture_output=True, text=True, check=False)
            print((done.stdout + done.stderr)[-2500:])
            print(
                f"streamjobs {' '.join(words)}: exit code {done.returncode} after {time.monotonic() - began:.0f} s",
                flush=True,
            )
            codes.append(done.returncode)
        left = sorted(path.name for path in elsewhere.iterdir())
        if left:
            print(f"left in the current folder: {left}")
        return 1 if any(codes) or left else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
