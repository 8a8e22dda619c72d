"""`python -m tests.bench peers`: backlogs and a trickle, each peer in turn in every round; medians, and ranges in brackets.

Peers run `programs/simple_job.py`. Ours are `simple`, the worker around that job, `full`, okfeb and rls, and `frames`, the
same on frames of 100 samples, with figures of a sample and no trickle. With --beside COMMIT the same jobs also run on the
worker of that commit. CPU is of a peer's processes with all they start, and of the
broker meanwhile. Memory is the largest resident set. Every output is counted, and its numbers are compared by key.
With --write the table goes to the page of benchmarks.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.errors import SetupError
from streamjobs.kafka.devbroker.broker import Broker
from streamjobs.kafka.devbroker.jars import KAFKA_VERSION
from tests.bench.peers.environments import VERSIONS, command
from tests.bench.worker import DIM, FRAME, FULL, SIMPLE, frames, read_ages, singles, steady, surroundings
from tests.brokers.fixtures import cleaning_up_on_sigterm
from tests.brokers.kafka_job import KafkaJob, until
from tests.brokers.workers import CHECKOUT
from tests.running import with_bytecode

PEERS = tuple(VERSIONS)
RUN = ("-m", "streamjobs", "run")
OURS = {"simple": ("-m", "tests.bench.programs", "simple"), "full": RUN, "frames": RUN}
SECTIONS = {"simple": SIMPLE, "frames": FULL | {"source": {"dim": DIM, "format": "raw"}}}
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- peers: the next lines are written by the command -->", "<!-- peers: end -->"


class Figures(NamedTuple):
    """Of one peer in one round."""

    cpu: float  # us a record
    broker: float  # us a record
    rate: float  # records a second
    memory: float  # MB
    counted: int
    answers: dict[str, list[Any]]  # of each key, in order


class Trickle(NamedTuple):
    cpu: float  # us a record
    p50: float  # ms
    p99: float


class Running:
    """A peer's process on a job's topics."""

    def __init__(self, peer: str, job: KafkaJob, checkout: Path | None) -> None:
        self.sink = job.core.sinks["predictions"]
        folder = job.folder / f"{job.name}-state"
        self.log = job.folder / f"{job.name}.log"
        kind = peer.partition("@")[0]
        place, env = checkout or CHECKOUT, dict(os.environ)
        if kind in OURS:
            words = [sys.executable, *OURS[kind], str(job.path)]
            if kind == "simple" and not (place / "tests" / "bench" / "programs.py").exists():
                words[2] = "tests.bench.peers"  # what the module was called before
            env = {**with_bytecode(), "STREAMJOBS_STATE__DIRECTORY": str(folder), "PYTHONPATH": str(place)}
        else:
            words = [*command(kind), job.bootstrap, job.input, self.sink, job.name, str(folder)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(words, cwd=place, env=env, stdout=log, stderr=log, start_new_session=True)

    def check(self) -> None:
        code = self.process.poll()
        assert code is None, f"{self.process.args} ended with code {code}:\n{self.log.read_text(errors='replace')[-2000:]}"

    def cpu(self) -> float:
        return sum(_cpu(pid) for pid in _with_children(self.process.pid))

    def memory(self) -> float:
        """MB of the largest resident set of each process so far."""
        kilobytes = 0
        for pid in _with_children(self.process.pid):
            with contextlib.suppress(OSError, StopIteration):
                lines = Path(f"/proc/{pid}/status").read_text().splitlines()
                kilobytes += int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
        return kilobytes / 1024

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def _cpu(pid: int) -> float:
    """Seconds of a process and of its children that have ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / TICKS
    return 0.0


def _with_children(pid: int) -> list[int]:
    found = [pid]
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += _with_children(int(child))
    return found


class Peers:
    """Beds for every peer on one broker."""

    def __init__(self, broker: Broker, folder: Path, checkouts: dict[str, Path], replay: str | None = None) -> None:
        """replay: [state] replay of our jobs; None: as each has it."""
        self.broker, self.folder, self.checkouts, self.replay, self.made = broker, folder, checkouts, replay, 0

    def _job(self, peer: str) -> KafkaJob:
        self.made += 1
        sections = SECTIONS.get(peer.partition("@")[0], FULL)
        if self.replay is not None:
            sections = sections | {"state": {"replay": self.replay}}
        checkout = self.checkouts.get(peer.partition("@")[2])
        if checkout and not any("replay:" in path.read_text() for path in checkout.glob("streamjobs/settings/*.py")):
            sections = {name: values for name, values in sections.items() if name != "state"}  # it has no such setting
        return KafkaJob(self.broker.bootstrap, self.folder, f"peer-{peer.replace('@', '-')}-{self.made}", **sections)

    def _started(self, peer: str, job: KafkaJob) -> Running:
        return Running(peer, job, self.checkouts.get(peer.partition("@")[2]))

    def backlog(self, peer: str, records: int) -> Figures:
        """All records are there before it starts; timed from the first output that is seen to the last."""
        job = self._job(peer)
        job.produce(frames(records // FRAME) if peer.startswith("frames") else singles(records))
        running = self._started(peer, job)
        try:

            def out() -> int:
                running.check()
                return sum(job.ends(running.sink).values())

            until(out, lambda: f"{peer}: the first output", 240, every=0.01)
            begin, first, cpu, broker = time.perf_counter(), out(), running.cpu(), self._broker_cpu()
            until(lambda: out() >= records, lambda: f"{peer}: {records} outputs, {out()} came", 600, every=0.02)
            timed = max(records - first, 1)
            seconds, used = time.perf_counter() - begin, running.cpu() - cpu
            of_broker, memory = self._broker_cpu() - broker, running.memory()
        finally:
            running.end()
        answers: dict[str, list[Any]] = defaultdict(list)
        for message in job.read(running.sink, committed_only=True):
            value = json.loads(message.value())
            answers[message.key().decode()].append(value.get("y") or value.get("class"))
        counted = sum(map(len, answers.values()))
        return Figures(used / timed * 1e6, of_broker / timed * 1e6, timed / seconds, memory, counted, dict(answers))

    def _broker_cpu(self) -> float:
        assert self.broker.process is not None
        return _cpu(self.broker.process.pid)

    def trickle(self, peer: str, rate: int, seconds: float) -> Trickle:
        """Single samples at a steady rate, after two seconds that do not count."""
        job = self._job(peer)
        running = self._started(peer, job)
        ages: list[float] = []
        enough = threading.Event()
        reader = threading.Thread(target=read_ages, args=(job, running.sink, ages, enough))
        reader.start()
        try:
            warm = steady(job, rate, 2.0, linger=5)
            until(lambda: len(ages) >= warm, lambda: f"{peer}: {warm} outputs, {len(ages)} came", 240)
            running.check()
            cpu = running.cpu()
            sent = steady(job, rate, seconds, linger=5)
            used = running.cpu() - cpu
            until(lambda: len(ages) >= warm + sent, lambda: f"{peer}: {warm + sent} outputs, {len(ages)} came", 60)
        finally:
            enough.set()
            reader.join()
            running.end()
        late = sorted(ages[warm:])
        return Trickle(used / sent * 1e6, 1000 * late[len(late) // 2], 1000 * late[int(0.99 * len(late))])


def different(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> int:
    """Outputs with other numbers, or that are missing on one side."""
    found = 0
    for key in one.keys() | other.keys():
        mine, its = one.get(key, []), other.get(key, [])
        found += abs(len(mine) - len(its)) + sum(a != b for a, b in zip(mine, its, strict=False))
    return found


def shown(values: Sequence[float], digits: int) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def table(backlogs: dict[str, list[Figures]], trickles: dict[str, list[Trickle]], base: str) -> Iterator[str]:
    """Lines of a Markdown table; base: the peer whose processor time is 1."""
    yield "| | CPU us a record | of aiokafka | broker's us | records/s | memory MB | trickle: CPU us | p50 ms | p99 ms |"
    yield "|---|---|---|---|---|---|---|---|---|"
    unit = statistics.median(one.cpu for one in backlogs[base]) if base in backlogs else float("nan")
    for peer, rounds in backlogs.items():
        cpu = [one.cpu for one in rounds]
        cells = [shown(cpu, 2), f"{statistics.median(cpu) / unit:.2f}", shown([one.broker for one in rounds], 2)]
        cells += [shown([one.rate for one in rounds], 0), shown([one.memory for one in rounds], 0)]
        steady_ones = trickles.get(peer, [])
        for values, digits in (
            ([one.cpu for one in steady_ones], 0),
            ([one.p50 for one in steady_ones], 1),
            ([one.p99 for one in steady_ones], 1),
        ):
            cells.append(shown(values, digits) if values else "")
        yield f"| {peer} | {' | '.join(cells)} |"


def _ratios(backlogs: dict[str, list[Figures]], former: str) -> str:
    """Processor of a job over its former one's, of each round."""
    pairs = zip(backlogs[former.partition("@")[0]], backlogs[former], strict=True)
    return shown([ours.cpu / theirs.cpu for ours, theirs in pairs], 2)


def written(page: str, lines: Iterator[str]) -> str:
    """The page with these lines between its two marks."""
    head, _, rest = page.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return "\n".join((head + BEGIN, "", *lines, "", END + tail))


def _conditions(options: argparse.Namespace, before: str) -> Iterator[str]:
    """Where and how the figures came about, as lines of the page."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    yield (
        f"{date.today()}, {os.cpu_count()} cores ({model.partition(': ')[2] or platform.machine()}), {memory} GiB; "
        f"at the start {before}."
    )
    yield f"Python {platform.python_version()}, Apache Kafka {KAFKA_VERSION} (one node on the same machine)."
    yield (
        f"{options.rounds} rounds of {options.records:,} records; trickle: {options.rate:,} records/s for "
        f"{options.seconds:g} s in each round."
    )
    yield ""


def checked_out(commit: str, folder: Path) -> Path:
    """The files of a commit in a folder of their own. Raises SetupError where there is no such commit."""
    packed = subprocess.run(["git", "archive", commit], cwd=CHECKOUT, capture_output=True, check=False)
    if packed.returncode:
        raise SetupError(
            f"--beside {commit}: expected a commit of this repository, git says: {packed.stderr.decode().strip()}"
        )
    place = folder / f"checkout-{commit}"
    with tarfile.open(fileobj=io.BytesIO(packed.stdout)) as files:
        files.extractall(place, filter="data")
    return place


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench peers", description=__doc__.splitlines()[0])
    known = (*PEERS, *OURS)
    parser.add_argument("peers", nargs="*", help=f"absent: all of {', '.join(known)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--records", type=int, default=200_000, help="of a backlog")
    parser.add_argument("--rate", type=int, default=2000, help="records a second of the trickle")
    parser.add_argument("--seconds", type=float, default=10.0, help="of a trickle; 0: none")
    parser.add_argument("--replay", help='[state] replay of our jobs: "0s" leaves out what remembering records costs')
    parser.add_argument("--beside", metavar="COMMIT", help="also our jobs by the worker of this commit")
    parser.add_argument("--write", action="store_true", help="of all peers: write the table into tests/bench/README.md")
    options = parser.parse_args(list(arguments))
    unknown = set(options.peers) - set(known)
    if unknown:
        parser.error(f"unknown peer {sorted(unknown)[0]!r}; there are: {', '.join(known)}")
    if options.write and (options.peers or options.replay or options.beside):
        parser.error("--write: expected all peers as they are, got a choice; leave out the names, --replay and --beside")
    return options


def main(arguments: Sequence[str] = ()) -> int:
    options = _options(arguments)
    try:
        with cleaning_up_on_sigterm(), tempfile.TemporaryDirectory(prefix="streamjobs-peers-") as folder, Broker() as broker:
            return _rounds(options, broker, Path(folder))
    except SetupError as error:
        print(error, file=sys.stderr)
        return error.exit_code


def _rounds(options: argparse.Namespace, broker: Broker, folder: Path) -> int:
    names, before = list(options.peers or (*PEERS, *OURS)), surroundings()
    checkouts = {}
    if options.beside:
        checkouts[options.beside] = checked_out(options.beside, folder)
        names += [f"{name}@{options.beside}" for name in names if name in OURS]
    for name in names:
        if name in PEERS:
            command(name)  # makes its environment before anything is timed
    peers, wrong = Peers(broker, folder, checkouts, options.replay), 0
    backlogs: dict[str, list[Figures]] = {name: [] for name in names}
    trickles: dict[str, list[Trickle]] = {name: [] for name in names}
    for number in range(options.rounds):
        expected: dict[str, dict[str, list[Any]]] = {}
        for name in names:
            made = peers.backlog(name, options.records)
            kind = next((kind for kind in ("full", "frames") if name.startswith(kind)), "simple")
            off = different(expected.setdefault(kind, made.answers), made.answers) + abs(made.counted - options.records)
            wrong += off
            backlogs[name].append(made._replace(answers={}))
            text = f"{made.cpu:.2f} us, {made.rate:,.0f}/s, {made.memory:.0f} MB, {made.counted:,} outputs, {off} differ"
            if options.seconds and kind != "frames":
                trickles[name].append(peers.trickle(name, options.rate, options.seconds))
                text += "; {:.0f} us, p50 {:.1f}, p99 {:.1f} ms".format(*trickles[name][-1])
            print(f"round {number + 1} {name:10} {text}  ({surroundings()})", flush=True)
    print()
    print("\n".join(table(backlogs, trickles, "aiokafka")))
    print()
    for name in names:
        if other := name.partition("@")[2]:
            print(f"{name.partition('@')[0]}: processor {_ratios(backlogs, name)} of {other}'s, a round at a time")
    versions = "; ".join(f"{name}: {VERSIONS[name]}" for name in names if name in VERSIONS)
    print(versions)
    if options.write and not wrong:
        lines = (*_conditions(options, before), *table(backlogs, trickles, "aiokafka"), "", versions)
        PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), iter(lines)), encoding="utf-8")
    return 1 if wrong else 0
