"""Prometheus and promtool for tests: those on PATH, or of Debian's package, unpacked in the cache folder."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from streamjobs.kafka.devbroker.jars import cache_folder

TOOLS = ("prometheus", "promtool")


def tool(name: str) -> str:
    """The path of `prometheus` or `promtool`. Where it cannot be had, the test is skipped; in CI it fails."""
    folder = cache_folder() / "prometheus"
    found = shutil.which(name) or shutil.which(name, path=str(folder / "usr" / "bin"))
    if found is None and (problem := _unpack(folder)):
        sentence = (
            f"there is no '{name}' on PATH, and Debian's package cannot be unpacked ({problem}); install Prometheus "
            "(Debian: prometheus), or put its two programs on PATH."
        )
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    return found or str(folder / "usr" / "bin" / name)


def _unpack(folder: Path) -> str:
    """Download and unpack the package, all or nothing; gives the last line of what failed."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return "there is no apt-get"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="prometheus-") as part:
        Path(part).chmod(0o755)  # apt downloads as a user of its own
        if problem := _run(["apt-get", "download", "-q", "prometheus"], part):
            if os.geteuid() != 0:
                return problem
            if problem := _run(["apt-get", "update", "-q"], part) or _run(["apt-get", "download", "-q", "prometheus"], part):
                return problem
        (package,) = Path(part).glob("prometheus_*.deb")
        if problem := _run(["dpkg", "-x", str(package), f"{part}/x"], part):
            return problem
        if not folder.exists():  # another process may have been faster
            Path(part, "x").rename(folder)
    return ""


def _run(command: list[str], folder: str) -> str:
    """The last line of an error; "" where the command succeeded."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    lines = (done.stderr + done.stdout).strip().splitlines()
    return (lines[-1] if lines else f"exit code {done.returncode}") if done.returncode else ""
