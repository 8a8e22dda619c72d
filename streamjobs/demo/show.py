"""Runs the demo from the broker to the summary, and stops everything that it started."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from streamjobs.core.job import Job
from streamjobs.demo.background import PARTITIONS, Background
from streamjobs.demo.board import Board, Screen, controls, summary
from streamjobs.demo.job import FILE, demo_job, warm
from streamjobs.demo.mock import MockBroker
from streamjobs.demo.player import Player, Watcher
from streamjobs.errors import StreamjobsError
from streamjobs.kafka import topics
from streamjobs.settings.environment import PREFIX
from streamjobs.settings.types import readable

READY_WITHIN = 180.0  # seconds, the first compilation included
QUIET = 45.0  # seconds without an output after the last sample, until it gives up
STOP_WITHIN = 30.0
PLAIN_WIDTH = 116  # columns, if the output is not a terminal
FRAME = 0.125  # seconds between two looks at the worker


class Stage(NamedTuple):
    """The demo's job with its topics made and its loops compiled."""

    job: Job
    servers: str
    env: Mapping[str, str]  # settings of its worker
    log: Path  # of its worker
    screen: Screen


def run(*, kafka: bool, seconds: float, browser: bool = False) -> None:
    """Play, show and sum up. Raises StreamjobsError if a part of it fails, SetupError if Kafka cannot start."""
    about = "wrist sensors of five people it has never seen -> Kafka topic -> what each does -> topics"
    with _stage(about, kafka=kafka) as stage:
        board, facts = _played(stage, seconds, browser=browser)
    job = stage.job
    assert job.population is not None
    place = "Apache Kafka, one node on this machine" if kafka else "librdkafka's mock broker on this machine"
    facts |= {"place": place, "job": str(FILE), "state": readable(job.state_bytes)}
    facts["shared"] = readable(job.population.nbytes)
    stage.screen.console.print(summary(board, facts))
    if board.windows != board.expected:
        raise StreamjobsError(f"demo: expected {board.expected} windows, got {board.windows}.")


@contextmanager
def _stage(about: str, *, kafka: bool) -> Iterator[Stage]:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what the demo started must not outlive it
    console = Console() if sys.stdout.isatty() else Console(width=PLAIN_WIDTH)
    console.print(f"[bold]streamjobs demo[/]: {about}")
    with ExitStack() as started:
        folder, screen = Path(started.enter_context(tempfile.TemporaryDirectory(prefix="streamjobs-demo-"))), Screen(console)
        screen.step("starting a real Apache Kafka ..." if kafka else "starting a broker (librdkafka's mock) ...")
        if kafka:
            from streamjobs.kafka.devbroker.broker import Broker, prepare

            prepare(screen.step)
            url = started.enter_context(Broker()).url
        else:
            mock = started.enter_context(MockBroker())
            url = mock.url
        env = {
            "STREAMJOBS_BROKER__URL": url,
            "STREAMJOBS_STATE__DIRECTORY": str(folder / "state"),
            "STREAMJOBS_METRICS__PORT": "0",
        }
        screen.step("reading the job and its population ...")
        job = demo_job(env)
        if kafka:
            topics.create(job.settings, partitions=PARTITIONS, job_sinks=job.sinks, state_bytes=job.state_bytes)
        else:
            mock.create([job.settings.source.topic, *job.sinks.values(), topics.changelog(job.settings)])
        warm(job, lambda: screen.step("compiling the learner's loops, once per machine ..."))
        yield Stage(job, url.removeprefix("kafka://"), env, folder / "worker.log", screen)


@contextmanager
def _running(stage: Stage, *threads: Background, browser: bool) -> Iterator[subprocess.Popen[bytes]]:
    """The worker, ready; the threads and the worker are stopped in the end."""
    with stage.log.open("wb") as output:
        worker = subprocess.Popen(
            [sys.executable, "-m", "streamjobs", "run", str(FILE)],
            # Without the user's own settings of jobs.
            env={name: text for name, text in os.environ.items() if not (name.startswith(PREFIX) and "__" in name)}
            | {**stage.env},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # so that Ctrl-C reaches the demo only
        )
    try:
        _until_ready(worker, stage.log, stage.screen)
        _open_page(stage.log, stage.screen, browser=browser)
        yield worker
    finally:
        for thread in threads:
            thread.stopping.set()
        for thread in threads:
            thread.stop()
        if worker.poll() is None:
            worker.kill()
            worker.wait()


def _played(stage: Stage, seconds: float, *, browser: bool) -> tuple[Board, dict[str, Any]]:
    job, screen = stage.job, stage.screen
    player = Player(stage.servers, job.settings.source.topic, seconds)
    board = Board(controls(job, player.records))
    watcher = Watcher(stage.servers, job.sinks, board, player)
    with _running(stage, player, watcher, browser=browser) as worker:
        started = time.monotonic()
        watcher.start()
        player.start()
        while board.windows < board.expected:
            _check(worker, stage.log, player, watcher)
            with watcher.lock:
                board.played = player.sent
                screen.draw(board)
            if not player.is_alive() and time.monotonic() - watcher.last > QUIET:
                break
            time.sleep(FRAME)
        took = time.monotonic() - started
        _stop(worker, stage.log)
        time.sleep(0.5)  # for the outputs of the last checkpoint
    board.played = player.sent
    return board, {"seconds": took, "speed": player.speed}


def _until_ready(worker: subprocess.Popen[bytes], log: Path, screen: Screen) -> None:
    started = time.monotonic()
    while b'"event": "ready"' not in log.read_bytes():
        _check(worker, log)
        if time.monotonic() - started > READY_WITHIN:
            raise StreamjobsError(
                f"demo: the worker was not ready within {READY_WITHIN:.0f} s; its log ends: {_end_of(log)}"
            )
        joins = b"loops compiled" in log.read_bytes()
        screen.step("the worker joins its consumer group ..." if joins else "the worker starts ...")
        time.sleep(FRAME)


def _open_page(log: Path, screen: Screen, *, browser: bool) -> None:
    """Tell where the worker's page is, and open it where there is a window to open it in."""
    lines = [json.loads(line) for line in log.read_text(errors="replace").splitlines() if line.startswith("{")]
    port = next(line["port"] for line in lines if line.get("event") == "serving /metrics and /health")
    address = f"http://127.0.0.1:{port}/"
    screen.console.print(f"The worker's live page: {address}", soft_wrap=True)
    windows = sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
    if browser and windows and sys.stdout.isatty():
        webbrowser.open(address)


def _check(worker: subprocess.Popen[bytes], log: Path, *threads: Background) -> None:
    if worker.poll() is not None:
        raise StreamjobsError(f"demo: the worker ended with code {worker.returncode}: {_end_of(log)}")
    for thread in threads:
        if thread.failed is not None:
            raise StreamjobsError(f"demo: the {thread.name} failed: {thread.failed}") from thread.failed


def _stop(worker: subprocess.Popen[bytes], log: Path) -> None:
    """Stop the worker with SIGTERM, as a service manager does: a last checkpoint, then code 0."""
    worker.send_signal(signal.SIGTERM)
    try:
        code = worker.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired:
        raise StreamjobsError(f"demo: the worker did not stop within {STOP_WITHIN:.0f} s: {_end_of(log)}") from None
    if code:
        raise StreamjobsError(f"demo: the worker stopped with code {code}: {_end_of(log)}")


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][-400:] if lines else "it wrote nothing"
