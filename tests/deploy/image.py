"""Builds deploy/Dockerfile with buildah and runs the demo's job in two workers of the image, one of which is killed.

python -m tests.deploy image [--base IMAGE] [--seconds N] [--keep]

The image's root is mounted read-only, its user is a random number without a name or a home, and it has no capabilities. It
writes to a volume for states and to a tmpfs of 256 MB. Needs root and buildah (Debian: apt-get install
--no-install-recommends buildah debootstrap). --base debootstrap, the default, needs no registry of images: it makes a base
image of Debian bookworm with its Python 3.11, once. buildah builds with chroot isolation, and the worker runs in a mount
namespace and a chroot: there are no namespace of the network and no limits of cgroups.
"""

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, TopicPartition

from streamjobs.core.job import Job
from streamjobs.demo.background import PARTITIONS
from streamjobs.demo.board import Board, controls
from streamjobs.demo.job import FILE, demo_job
from streamjobs.demo.player import Player
from streamjobs.errors import SetupError
from streamjobs.kafka import topics
from streamjobs.kafka.devbroker.broker import Broker, free_port
from tests.parts import CHECKOUT

IMAGE, BASE = "localhost/streamjobs-test", "localhost/streamjobs-base"
ENV = {**os.environ, "STORAGE_DRIVER": "vfs", "BUILDAH_ISOLATION": "chroot"}
MACHINE = ("/etc/ssl/certs", "/etc/pip.conf")  # how this machine reaches its package index; only while building
READY_WITHIN = 120.0  # seconds
QUIET = 60.0  # seconds without an output


def main(arguments: Sequence[str] = ()) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.deploy image", description=__doc__.splitlines()[0])
    parser.add_argument("--base", default="debootstrap", help="base image; debootstrap: one is made, once")
    parser.add_argument("--root", type=Path, help="folder of a Debian made by debootstrap before, to make the base from")
    parser.add_argument("--seconds", type=int, default=10, help="that the recordings take")
    parser.add_argument("--keep", action="store_true", help="keep the image")
    options = parser.parse_args(list(arguments))
    if os.geteuid() != 0 or shutil.which("buildah") is None:
        print(
            "image: needs root and buildah (apt-get install --no-install-recommends buildah debootstrap).", file=sys.stderr
        )
        return 3
    try:
        build(options.base, options.root)
        return run(options.seconds)
    except (SetupError, subprocess.CalledProcessError) as error:
        print(error, file=sys.stderr)
        return 3
    finally:
        if not options.keep:
            buildah("rmi", "--force", IMAGE, check=False)


def buildah(*words: str | Path, check: bool = True, show: bool = False) -> str:
    output = None if show else subprocess.PIPE
    done = subprocess.run(["buildah", *words], env=ENV, stdout=output, stderr=output, text=True, check=False)
    if check and done.returncode:
        raise SetupError(
            f"buildah {' '.join(map(str, words[:3]))}: exit code {done.returncode}: {(done.stderr or '')[-1500:]}"
        )
    return (done.stdout or "").strip()


def build(base: str, root: Path | None) -> None:
    """The image, from a base that is made first where none is given."""
    if base == "debootstrap":
        base = BASE
        if not buildah("images", "-q", BASE, check=False):
            _make_base(root)
    began = time.monotonic()
    volumes = [f"--volume={path}:{path}:ro" for path in MACHINE if Path(path).exists()]
    words = ["build", "--isolation", "chroot", "--pull-never", "--build-arg", f"BASE={base}", *volumes, "-t", IMAGE]
    buildah(*words, "-f", CHECKOUT / "deploy/Dockerfile", CHECKOUT, show=True)
    told = json.loads(buildah("inspect", "--type", "image", IMAGE))
    labels = told["OCIv1"]["config"]["Labels"]
    print(f"built in {time.monotonic() - began:.0f} s; labels {labels}", flush=True)


def _make_base(root: Path | None) -> None:
    with tempfile.TemporaryDirectory(prefix="streamjobs-base-") as folder:
        if root is None:
            root = Path(folder)
            packages = "python3,python3-venv,ca-certificates"
            words = ["debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", str(root)]
            subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        container = buildah("from", "scratch")
        buildah("copy", container, root, "/")
        buildah("commit", "--rm", container, BASE)


def run(seconds: int) -> int:
    """The demo's job in the container; 0 if every window came out and the worker stopped as it should."""
    container = buildah("from", "--pull-never", IMAGE)
    try:
        root = Path(buildah("mount", container))
        parts = {"packages": "opt/streamjobs/lib", "compiled loops": "opt/streamjobs/cache", "everything": "."}
        print("on disk: " + ", ".join(f"{name} {_megabytes(root / where)} MB" for name, where in parts.items()), flush=True)
        for name in ("sbom", "hashes"):
            bill = json.loads((root / f"opt/streamjobs/{name}.cdx.json").read_text(encoding="utf-8"))
            if lacking := _not_in_the_bill(bill):
                print(f"the bill of materials {name}.cdx.json lacks {lacking}")
                return 1
        with tempfile.TemporaryDirectory(prefix="streamjobs-image-") as folder, Broker() as broker:
            return _run(root, Path(folder), broker, seconds)
    finally:
        buildah("rm", container)


def _not_in_the_bill(bill: dict[str, Any]) -> list[str]:
    """Pinned packages that the image's bill of materials does not list with their version."""
    listed = {component.get("purl") for component in bill["components"]}
    lock = (CHECKOUT / "requirements-deploy.lock").read_text(encoding="utf-8")
    pinned = re.findall(r"^([a-z0-9][\w.-]*)==(\S+)", lock, re.MULTILINE)
    return [f"{name} {version}" for name, version in pinned if f"pkg:pypi/{name}@{version}" not in listed]


def _megabytes(folder: Path) -> int:
    return int(subprocess.run(["du", "-sxm", folder], capture_output=True, text=True, check=True).stdout.split()[0])


class Container:
    """A worker of the demo's job in the image, with a user, a volume and a port of its own."""

    def __init__(self, root: Path, folder: Path, broker: Broker, name: str) -> None:
        self.name, self.port, self.uid = name, free_port(), random.randrange(100_000, 1_000_000)
        state, self.log = folder / f"{name}-state", folder / f"{name}.log"
        state.mkdir()
        os.chown(state, self.uid, 0)
        env = {"STREAMJOBS_BROKER__URL": broker.url, "STREAMJOBS_METRICS__PORT": str(self.port)}
        self.began = time.monotonic()
        with self.log.open("wb") as output:
            words = _words(root, self.uid, state, FILE.parent, env)
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def ready(self) -> float:
        """Waits until it is; gives the seconds since its start."""
        _until_ready(self.process, self.port, self.log)
        return time.monotonic() - self.began

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(60)

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def _run(root: Path, folder: Path, broker: Broker, seconds: int) -> int:
    """One worker, a second one beside it, the first one killed halfway: every window comes out."""
    job = demo_job({"STREAMJOBS_BROKER__URL": broker.url})
    topics.create(job.settings, partitions=PARTITIONS, job_sinks=job.sinks, state_bytes=job.state_bytes)
    player = Player(broker.bootstrap, job.settings.source.topic, seconds)
    expected = Board(controls(job, player.records)).expected
    workers = [Container(root, folder, broker, "a")]
    code: int | None = None
    try:
        ready = workers[0].ready()
        facts = _facts(workers[0].process.pid)
        workers.append(Container(root, folder, broker, "b"))
        workers[1].ready()
        player.start()

        def kill() -> None:
            workers[0].process.kill()

        outputs = _outputs(broker, job, expected, expected // 2, kill)
        killed = workers[0].process.wait(10) == -9 and outputs.at_kill < expected
        code = workers[1].stop()
    finally:
        player.stopping.set()
        for worker in workers:
            worker.end()
            if code != 0:
                print(worker.name, worker.log.read_text(errors="replace")[-3000:], file=sys.stderr)
    print(f"the worker ran as {facts}")
    print(f"ready {ready:.1f} s after its start; first output {outputs.first:.1f} s after the first record")
    print(
        f"two workers, one killed after {outputs.at_kill} windows: {outputs.distinct} of {expected} windows came out, "
        f"{outputs.repeated} of them twice with the same bytes, {outputs.different} with others; exit code {code}",
        flush=True,
    )
    right = killed and outputs.distinct == expected and not outputs.different and code == 0
    return 0 if right else 1


def _words(root: Path, uid: int, state: Path, job: Path, env: dict[str, str]) -> list[str]:
    """What a container engine does with the image's configuration: mounts, environment, user, entrypoint."""
    told: dict[str, Any] = json.loads(buildah("inspect", "--type", "image", IMAGE))["OCIv1"]["config"]
    script = """
        set -eu; root="$1"; shift
        mount --bind "$root" "$root"
        mount -o remount,ro,bind "$root"
        mount --bind "$1" "$root/var/lib/streamjobs"; shift
        mount --bind "$1" "$root/etc/streamjobs"; mount -o remount,ro,bind "$root/etc/streamjobs"; shift
        mount -t tmpfs -o size=256m,mode=1777,noexec,nosuid,nodev tmpfs "$root/tmp"
        mount -t proc proc "$root/proc"
        mount --rbind /dev "$root/dev"
        exec chroot "$root" env -i "$@"
    """
    variables = {**dict(one.split("=", 1) for one in told["Env"]), **env}
    words = ["-C", told["WorkingDir"], *(f"{name}={text}" for name, text in variables.items()), "setpriv"]
    words += ["--reuid", str(uid), "--regid", "0", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    words += ["--no-new-privs", *told["Entrypoint"], *told["Cmd"]]
    return ["unshare", "--mount", "sh", "-c", script, "sh", str(root), str(state), str(job), *words]


def _until_ready(worker: subprocess.Popen[bytes], port: int, log: Path) -> None:
    began = time.monotonic()
    while True:
        if worker.poll() is not None or time.monotonic() - began > READY_WITHIN:
            raise SetupError(
                f"the worker was not ready within {READY_WITHIN:.0f} s: {log.read_text(errors='replace')[-3000:]}"
            )
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.1)


def _facts(pid: int) -> str:
    """Who the process is and what it may do, as the kernel says."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = {name: text.strip() for name, _, text in (line.partition(":") for line in lines)}
    mounts = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    (root,) = [line.split()[5] for line in mounts if line.split()[4] == "/"]
    uid, capabilities = status["Uid"].split()[0], int(status["CapEff"], 16)
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode().strip()
    if int(uid) == 0 or capabilities or "ro" not in root.split(","):
        raise SetupError(f"the worker should have no rights; it is user {uid}, capabilities {capabilities:x}, root {root}")
    return f"user {uid}, capabilities {capabilities:x}, root mounted {root}: {command}"


class Outputs(NamedTuple):
    distinct: int  # windows
    repeated: int
    different: int  # repeated with other bytes
    first: float  # seconds until the first one
    at_kill: int


def _outputs(broker: Broker, job: Job, expected: int, kill_after: int, kill: Callable[[], None]) -> Outputs:
    """Predictions until all are there or none came for a while, told apart by their ids."""
    reader: Any = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "log_level": 0})
    reader.assign([TopicPartition(job.sinks["predictions"], number, 0) for number in range(PARTITIONS)])
    began = last = time.monotonic()
    seen: dict[bytes, bytes] = {}
    repeated = different = at_kill = 0
    first = float("nan")
    while len(seen) < expected and time.monotonic() - last < QUIET:
        record = reader.poll(0.1)
        if record is None or record.error():
            continue
        last = time.monotonic()
        first = first if seen else last - began
        identity = dict(record.headers())["streamjobs-id"]
        if identity in seen:
            repeated += 1
            different += seen[identity] != record.value()
        seen[identity] = record.value()
        if not at_kill and len(seen) >= kill_after:
            at_kill = len(seen)
            kill()
    reader.close()
    return Outputs(len(seen), repeated, different, first, at_kill)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
