"""A real schema registry with Confluent's API: Apicurio, in memory, from Maven; cached beside Kafka's jars."""

import fcntl
import os
import shutil
import socket
import subprocess
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from streamjobs.kafka.devbroker.jars import cache_folder, missing_tool

VERSION = "2.5.11.Final"
ARTIFACT = f"io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
API = "/apis/ccompat/v7"
READY_WITHIN = 600.0  # seconds


def folder() -> Path:
    """The unpacked registry, fetched once (140 MB)."""
    home = cache_folder() / f"apicurio-{VERSION}"
    home.mkdir(parents=True, exist_ok=True)
    with (home / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        app = home / "app"
        if not app.is_dir():
            with tempfile.TemporaryDirectory(dir=home) as part:
                subprocess.run(["mvn", "-q", "-B", COPY, f"-Dartifact={ARTIFACT}", f"-DoutputDirectory={part}"], check=True)
                (archive,) = Path(part).glob("*.tar.gz")
                with tarfile.open(archive) as packed:
                    packed.extractall(Path(part, "app"), filter="data")
                shutil.move(Path(part, "app"), app)
        return app


@contextmanager
def running(logs: Path) -> Iterator[str]:
    """The url of a registry that is empty."""
    if problem := missing_tool():
        raise RuntimeError(problem)
    app, port = folder(), _free_port()
    (jar,) = app.glob("*-runner.jar")
    environment = {**os.environ, "QUARKUS_HTTP_HOST": "127.0.0.1", "QUARKUS_HTTP_PORT": str(port)}
    command = ["java", "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar", str(jar)]
    with (logs / "apicurio.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=app, env=environment, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}{API}"
            _wait(f"{url}/subjects", process)
            yield url
        finally:
            process.terminate()
            process.wait(30)


def _wait(url: str, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + READY_WITHIN
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.3)
    raise RuntimeError("the registry did not start; see apicurio.log")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
