"""Builds deploy/Dockerfile with buildah and runs the demo's job through the image, on a real Apache Kafka.

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
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from streamjobs.core.job import Job
from streamjobs.demo.board import Board
from streamjobs.demo.controls import controls
from streamjobs.demo.job import FILE, demo_job
from streamjobs.demo.player import PARTITIONS, Player
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
    uid = random.randrange(100_000, 1_000_000)
    container = buildah("from", "--pull-never", IMAGE)
    try:
        root = Path(buildah("mount", container))
        parts = {"packages": "opt/streamjobs/lib", "compiled loops": "opt/streamjobs/cache", "everything": "."}
        print("on disk: " + ", ".join(f"{name} {_megabytes(root / where)} MB" for name, where in parts.items()), flush=True)
        with tempfile.TemporaryDirectory(prefix="streamjobs-image-") as folder, Broker() as broker:
            return _run(root, uid, Path(folder), broker, seconds)
    finally:
        buildah("rm", container)


def _megabytes(folder: Path) -> int:
    return int(subprocess.run(["du", "-sxm", folder], capture_output=True, text=True, check=True).stdout.split()[0])


def _run(root: Path, uid: int, folder: Path, broker: Broker, seconds: int) -> int:
    port = free_port()
    env = {"STREAMJOBS_BROKER__URL": broker.url, "STREAMJOBS_METRICS__PORT": str(port)}
    job = demo_job(env)
    topics.create(job.settings, partitions=PARTITIONS, job_sinks=job.sinks, state_bytes=job.state_bytes)
    player = Player(broker.bootstrap, job.settings.source.topic, seconds)
    expected = Board(controls(job, player.records)).expected
    state, log = folder / "state", folder / "worker.log"
    state.mkdir()
    os.chown(state, uid, 0)
    began = time.monotonic()
    with log.open("wb") as output:
        words = _words(root, uid, state, FILE.parent, env)
        worker = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    code: int | None = None
    try:
        _until_ready(worker, port, log)
        ready = time.monotonic() - began
        facts = _facts(worker.pid)
        player.start()
        sent = time.monotonic()
        outputs, first = _outputs(broker, job, expected, sent)
        worker.terminate()
        code = worker.wait(60)
    finally:
        player.stopping.set()
        if worker.poll() is None:
            worker.kill()
            worker.wait()
        if code != 0:
            print(log.read_text(errors="replace")[-3000:], file=sys.stderr)
    print(f"the worker ran as {facts}")
    print(f"ready {ready:.1f} s after its start; first output {first:.1f} s after the first record")
    print(f"{outputs} of {expected} windows came out; stopped with exit code {code}", flush=True)
    return 0 if outputs == expected and code == 0 else 1


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


def _outputs(broker: Broker, job: Job, expected: int, sent: float) -> tuple[int, float]:
    """Predictions that came out until all are there or none came for a while; seconds until the first."""
    reader: Any = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "reader", "log_level": 0})
    reader.assign([TopicPartition(job.sinks["predictions"], number, 0) for number in range(PARTITIONS)])
    count, first, last = 0, float("nan"), time.monotonic()
    while count < expected and time.monotonic() - last < QUIET:
        record = reader.poll(0.1)
        if record is None or record.error():
            continue
        last = time.monotonic()
        first = first if count else last - sent
        count += 1
    reader.close()
    return count, first


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
