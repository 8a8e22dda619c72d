"""What a job's records cost on this machine: a few seconds of its own core, on random records."""

import json
import random
import resource
import statistics
import time
import tomllib
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

from streamjobs.core.advance import advance
from streamjobs.core.decoding.records import decoder
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.log import Packed
from streamjobs.core.live.slots import FIRST_SLOTS
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import TIME_UNITS
from streamjobs.sizing.slopes import Cost, Slopes
from streamjobs.worker.pace import ZSTD

DATA = Path(__file__).parent / "measured.toml"
START = 1_700_000_000.0
SECONDS = 1.0  # of processor for each of the two measurements; of a learner that waits, on the clock
MOST = 4  # times SECONDS on the clock, for each measurement and for the records before it
ROUNDS = 60  # records of each key before the measurement, in which budgets fill
BATCH = 256  # records
MOST_KEYS, MOST_BYTES = 1024, 128 << 20  # that the measurement holds in memory
HOT = 4  # one key in so many is used where all are live, as many as fit where they are not
KEEP_EVERY = 8  # batches between two checkpoints


def slopes() -> Slopes:
    return Slopes(tomllib.loads(DATA.read_text(encoding="utf-8")))


def fixed_loop() -> float:
    """Seconds of processor for a loop that is the same everywhere: how fast this machine is."""
    begin, total = time.process_time(), 0
    for number in range(3_000_000):
        total += number
    return time.process_time() - begin


def samples_of(job: Job, rate: float) -> int:
    """Samples of a record, for so many records a second of a key: with windows, what the sensor gives in between."""
    windows, most = job.settings.window, job.settings.source.max_samples
    count = 1 if windows is None else max(1, round(windows.rate / rate))
    if windows is not None and count > most:
        raise ConfigError(
            f"--rate: at {rate:g} records a second each has {count:,} samples of a sensor of {windows.rate:g} Hz, and "
            f"[source] max_samples allows {most:,}; raise one of them."
        )
    return count


def cost(job: Job, rate: float) -> Cost:
    """Measured with records such as the job's, in JSON; `job.compile` comes before.

    Raises ConfigError where no records can be made for the job.
    """
    source, mirror, late = job.settings.source, job.composition.mirror, job.settings.labels.wait > 0
    in_headers = {"time": "ts", "label": "label"} if source.format == "raw" else {}
    source = source.unwrapped.model_copy(update={"format": "json", **in_headers})
    job = job._replace(decode=decoder(source, job.dim, mirror, late))
    stored: dict[bytes, bytes] = {}
    plenty = Live(job, stored.get, most_bytes=1 << 40)
    keys = max(HOT * FIRST_SLOTS, min(MOST_KEYS, MOST_BYTES // plenty.slot_bytes))
    made = _Records(job, source, samples_of(job, rate), 1 / rate)
    if errors := job.decode(made.take(BATCH, keys)).errors:
        raise ConfigError(f"size: no records can be made for this job ({errors[0][1]}).")
    batch = _fill(job, plenty, made, keys)
    live = _timed(job, plenty, made, keys // HOT, stored, batch, kept=False)
    stored.update(plenty.snapshots())
    little = Live(job, stored.get, most_bytes=keys // HOT * plenty.slot_bytes)
    missed = _timed(job, little, made, keys, stored, batch, kept=True)
    sizes = (plenty.slot_bytes, job.state_bytes, plenty.untaught_bytes, *remembered_bytes(made.take(BATCH, keys)))
    return Cost(live, max(0.0, missed - live), fixed_loop(), *sizes, known_bytes(job))


def remembered_bytes(records: Sequence[Stored]) -> tuple[int, int]:
    """Bytes of a record that a worker remembers, plain and compressed."""
    packed = [Packed.of(records, codec) for codec in (None, ZSTD)]
    plain, compressed = [len(one.rows) // len(records) for one in packed if one is not None]
    return plain, compressed


def known_bytes(job: Job, keys: int = 10_000) -> int:
    """Of a key in memory, whether its state is live or not: when it was heard of, and its newest alarm."""
    if job.steps.silent is None:
        return 0
    from streamjobs.core.live.silence import Silence

    tracemalloc.start()
    silence = Silence(job.steps.silent, job.steps.group)
    for number in range(keys):
        key = b"key-%d" % number
        silence.hear(key, START)
        if silence.group is not None:
            silence.group.alarm(key, silence.clock, START, keys)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return taken // keys


def _fill(job: Job, live: Live, made: "_Records", keys: int) -> int:
    """Records before the measurement; gives the size of its batches, BATCH or as many as take little time."""
    clock, batch, passed = _Clock(), 1, 0
    while passed < ROUNDS * keys and clock.wall < MOST * SECONDS:
        if passed >= 2 * keys and clock.used > 2 * SECONDS:
            break
        one = _Clock()
        advance(job, live, made.take(batch, keys))
        passed += batch
        if batch < BATCH and one.wall < SECONDS / 16:
            batch = min(2 * batch, BATCH)
    return batch


def _timed(
    job: Job, live: Live, made: "_Records", keys: int, stored: dict[bytes, bytes], batch: int, *, kept: bool
) -> float:
    """us a record, of so many keys in turn, in batches of so many. kept: with the cost of keeping states."""
    costs: list[float] = []  # of the rounds between two checkpoints: their median is not disturbed by what else runs
    whole, total = _Clock(), 0.0
    while not costs or (total < SECONDS and whole.wall < MOST * SECONDS):
        used, passed = 0.0, 0
        while passed < KEEP_EVERY * batch and total + used < SECONDS:
            records = made.take(batch, keys)
            clock = _Clock()
            advance(job, live, records)
            used, passed = used + clock.used, passed + batch
        clock = _Clock()
        stored.update(live.snapshots())
        used += clock.used if kept else 0.0
        costs.append(1e6 * used / passed)
        total += used
    return statistics.median(costs)


class _Clock:
    """Seconds since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor, self._waits = time.perf_counter(), time.process_time(), _waits()

    @property
    def wall(self) -> float:
        return time.perf_counter() - self._wall

    @property
    def used(self) -> float:
        """Of processor, or on the clock where a learner waited most of the time: a worker waits as well."""
        processor, wall = time.process_time() - self._processor, self.wall
        return wall if wall > 2 * processor and _waits() > self._waits else processor


def _waits() -> int:
    """How often this process gave up its core by itself: not where others took it."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw


class _Records:
    """Random records of a job, each with so many samples and `seconds` after its key's last one or later."""

    def __init__(self, job: Job, source: SourceSection, samples: int, seconds: float) -> None:
        self.job, self.source, self.samples, self.seconds = job, source, samples, seconds
        self.offset, self.turn, self.key = 0, 0, 0
        rnd = random.Random(1)
        self.pool = [[[round(rnd.gauss(0, 1), 4) for _ in range(job.dim)] for _ in range(samples)] for _ in range(256)]
        self.labels = _labels(job)

    def take(self, count: int, keys: int) -> list[Stored]:
        """The next ones, of so many keys in turn."""
        taken = []
        for _ in range(count):
            if self.key >= keys:
                self.turn, self.key = self.turn + 1, 0
            at = START + self.turn * self.seconds
            stamp = round(1000 * (at + self.seconds))
            value = json.dumps(self._body(at)).encode()
            taken.append(Stored(self.source.topic, 0, self.offset, stamp, b"key-%d" % self.key, value))
            self.offset, self.key = self.offset + 1, self.key + 1
        return taken

    def _body(self, at: float) -> dict[str, object]:
        settings, chosen = self.job.settings, self.turn + 7 * self.key
        source, X = self.source, self.pool[chosen % len(self.pool)]
        one = self.samples == 1
        if source.fields is None:
            body: dict[str, object] = {source.x: X[0] if one else X}
        else:
            columns = [list(column) for column in zip(*X, strict=True)]
            body = {name: column[0] if one else column for name, column in zip(source.fields, columns, strict=False)}
        if source.time is not None:
            unit, step = TIME_UNITS.get(source.time_unit, 1.0), self.seconds / self.samples
            times = [(at + n * step) * unit for n in range(self.samples)]
            body[source.time] = times[0] if one else times
        if settings.window is not None and settings.window.mirror is not None:
            body[settings.window.mirror.field] = settings.window.mirror.when
        if source.key is not None:
            body[source.key] = f"key-{self.key}"
        if self.labels and source.label is not None and settings.labels.wait == 0:
            body[source.label] = self.labels[chosen // 3 % len(self.labels)]
        return body


def _labels(job: Job) -> list[object]:
    if job.task == "regression":
        return [0.5, -0.5] if job.targets == 1 else [[0.5] * job.targets, [-0.5] * job.targets]
    return list(job.given_names) or ["a", "b"]
