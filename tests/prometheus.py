"""Prometheus and promtool for tests: those on PATH, or of Debian's package, unpacked in the cache folder."""

import json
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from streamjobs.kafka.devbroker.broker import free_port
from streamjobs.kafka.devbroker.jars import cache_folder
from tests.parts import CHECKOUT

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


class Prometheus:
    """A server on loopback that scrapes one worker and evaluates the project's rules, both every second.

    instance: host:port of the worker.  folder: for its configuration, data and log.
    """

    def __init__(self, folder: Path, instance: str) -> None:
        self.folder, self.address = folder, f"127.0.0.1:{free_port()}"
        rules = "".join(f"\n  - {CHECKOUT / 'deploy' / 'prometheus' / name}" for name in ("recording.yml", "alerts.yml"))
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: 1s, evaluation_interval: 1s}}\nrule_files:{rules}\n"
            f'scrape_configs: [{{job_name: streamjobs, static_configs: [{{targets: ["{instance}"]}}]}}]\n'
        )
        options = (
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address={self.address}",
            "--enable-feature=exemplar-storage",
        )
        with (folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen([tool("prometheus"), *options], stdout=log, stderr=log, cwd=folder)

    def ask(self, path: str, **parameters: Any) -> Any:
        """`data` of an answer of its HTTP API. Raises ValueError with Prometheus' own words where the query is wrong."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            if error.code == HTTPStatus.BAD_REQUEST:
                raise ValueError(json.load(error)["error"]) from None
            raise

    def up(self) -> bool:
        """Whether it has scraped the worker; False while it starts."""
        assert self.process.poll() is None, (self.folder / "prometheus.log").read_text()[-2000:]
        with suppress(OSError):
            return self.value("up") > 0
        return False

    def value(self, expr: str) -> float:
        """The newest value of the first series of an expression, 0 without one."""
        found = self.ask("query", query=expr)["result"]
        return float(found[0]["value"][1]) if found else 0.0

    def __enter__(self) -> "Prometheus":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
