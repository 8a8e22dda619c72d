"""What came out of a case beside what must: outputs, dead letters, states, local stores, counters and logs.

The truth is the input as the broker holds it, through the core in one process without interruption. An audit may be
held again after more records: it goes on from where the last one ended.
"""

import gc
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import eq
from pathlib import Path

import rocksdict

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import last_event
from streamjobs.core.messages import Output, Report, Stored
from streamjobs.kafka.topic_id import topic_ids
from streamjobs.worker.store import KEY_PREFIX, MARKS
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent
from tests.brokers.verification import AT_ONCE, Answer, Comparison, compared, identity
from tests.brokers.workers import Worker
from tests.faults.gaps import Gap, expected
from tests.faults.load import NOTE, PERSON

Key = tuple[int, bytes]  # partition, key


@dataclass
class Verdict:
    """`problems` is empty when nothing was lost, doubled where it may not be, disordered, wrong or told."""

    records: int = 0
    missing: int = 0  # outputs and dead letters
    doubled: int = 0  # outputs that came again
    undone: int = 0  # outputs of transactions that do not count: read_uncommitted shows them, read_committed does not
    resent: int = 0  # inputs that the producer sent again
    disordered: int = 0
    states: int = 0  # final states other than the replay's
    problems: list[str] = field(default_factory=list)


@contextmanager
def uncollected() -> Iterator[None]:
    """An audit holds a million tuples, and none of them in a cycle: looking for one took a third of its time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


class Audit:
    """exactly_once: outputs are read as a reader has to who wants each once, and none may come again, whatever happened."""

    same = staticmethod(eq)  # whether an output is the one that was due
    same_state: Callable[[bytes | None, bytes | None], bool] = staticmethod(eq)  # the same of a final state

    def __init__(self, job: KafkaJob, *, exactly_once: bool = False) -> None:
        self.job, self.exactly_once = job, exactly_once
        self.report = Report()  # the truth about the counters
        self.truth: dict[Key, bytes] = {}
        self._lives = {
            number: Live(job.core, lambda key, number=number: self.truth.get((number, key))) for number in range(PARTITIONS)
        }
        self._read: dict[str, dict[int, int]] = {}  # topic -> how far it was read
        self.stored: dict[Key, bytes | None] = {}
        self.gaps: dict[Key, Gap] = {}  # keys that were set aside; an audit with them is held once

    def _new(self, topic: str, *, committed_only: bool = False) -> list:
        start = self._read.setdefault(topic, {})
        found = list(self.job.read(topic, committed_only=committed_only, start=start))
        for message in found:
            start[message.partition()] = message.offset() + 1
        return found

    @uncollected()
    def check(
        self,
        *,
        repeats: bool,
        sent: Sequence[Sent] = (),
        unread: Iterable[tuple[int, int]] = (),
        records: Sequence[Stored] = (),
        states: bool = True,
    ) -> Verdict:
        """Compare everything. sent: records the input must hold; repeats: outputs may come again with the same bytes.

        states: False while workers run: the changelog has the newest states only when they have stopped.

        records: the input where it cannot be read any more; unread: partition and offset of those nobody can have read.
        """
        job = self.job
        lost = set(unread)
        inputs = list(records) or [
            Stored(m.topic(), m.partition(), m.offset(), m.timestamp()[1], m.key(), m.value(), tuple(m.headers() or ()))
            for m in self._new(job.input)
        ]
        verdict = Verdict(len(inputs))
        if sent:
            self._sent(verdict, inputs, sent)
        claimed: Counter[tuple[int, int]] = Counter()
        if self.exactly_once:
            job.wait_for_all_markers()
            verdict.undone = sum(self._undone(topic) for topic in job.core.sinks.values())
        sinks = {sink: self._new(topic, committed_only=self.exactly_once) for sink, topic in job.core.sinks.items()}
        seen = {identity(message.headers()) for message in sinks["predictions"]} if self.gaps else set()
        wanted = self._replay([record for record in inputs if (record.partition, record.offset) not in lost], seen)
        for sink, messages in sinks.items():
            found = compared(messages, wanted[sink], self.same)
            self._add(verdict, sink, found, repeats and not self.exactly_once)
            if sink in ("predictions", "dlq"):
                claimed.update({input_position(identity(m.headers())) for m in messages})
        self._places(verdict, inputs, lost, claimed)
        if states:
            self._states(verdict)
        if job.committed() != (ends := job.ends()):
            verdict.problems.append(f"committed {job.committed()}, but the input ends at {ends}")
        return verdict

    def _undone(self, topic: str) -> int:
        start = dict(self._read.get(topic, {}))
        every, counting = (sum(1 for _ in self.job.read(topic, committed_only=only, start=start)) for only in (False, True))
        return every - counting

    def _replay(self, records: Sequence[Stored], seen: set[bytes]) -> dict[str, dict[bytes, Answer]]:
        wanted: dict[str, dict[bytes, Answer]] = defaultdict(dict)
        self.accounted: set[tuple[str, tuple[int, int]]] = set()  # sink and input of each output and dead letter
        for partition, live in self._lives.items():
            mine = [one for one in records if one.partition == partition and (partition, one.key) not in self.gaps]
            for at in range(0, len(mine), AT_ONCE):
                made, report = advance(self.job.core, live, mine[at : at + AT_ONCE])
                add(self.report, report)
                self._want(wanted, partition, made)
            self.truth.update({(partition, key): snapshot for key, snapshot in live.snapshots()})
        for (partition, key), gap in self.gaps.items():
            of_key = [one for one in records if (one.partition, one.key) == (partition, key)]
            due = expected(self.job.core, key, of_key, gap, seen)
            add(self.report, due.report)
            self._want(wanted, partition, due.outputs)
            if due.state is not None:
                self.truth[partition, key] = due.state
        return wanted

    def _want(self, wanted: dict[str, dict[bytes, Answer]], partition: int, outputs: Sequence[Output]) -> None:
        for output in outputs:
            name = identity(output.headers)
            assert name not in wanted[output.sink], f"two outputs of {output.sink} have the id {name!r}"
            wanted[output.sink][name] = partition, output.key, output.value, output.timestamp, tuple(output.headers)
            if output.sink in ("predictions", "dlq"):
                self.accounted.add((output.sink, input_position(name)))

    def _add(self, verdict: Verdict, sink: str, found: Comparison, repeats: bool) -> None:
        verdict.missing += found.missing
        verdict.doubled += found.repeated
        verdict.disordered += found.disordered
        if not found.faithful or (found.repeated and not repeats):
            verdict.problems.append(f"{sink}: {found}")

    def _sent(self, verdict: Verdict, inputs: Sequence[Stored], sent: Sequence[Sent]) -> None:
        """The input holds every record sent, and nothing else.

        One may be there twice: a producer that is cut off from a dying leader sends again what it got no answer for.
        """
        there = Counter((one.partition, one.key, one.value, one.timestamp) for one in inputs)
        due = Counter((one.partition, one.key, one.value, one.timestamp) for one in sent)
        if lacking := due - there:
            verdict.problems.append(f"{lacking.total()} of {len(sent)} records sent are not in the input")
        if strange := there.keys() - due.keys():
            verdict.problems.append(f"the input holds {len(strange)} records nobody sent")
        verdict.resent = (there - due).total()

    def _places(self, verdict: Verdict, inputs: Sequence[Stored], lost: set[tuple[int, int]], claimed: Counter) -> None:
        """Every input is in exactly one place: an output, a dead letter, or (by the job's own policy) neither."""
        for record in inputs:
            at = record.partition, record.offset
            due = sum((sink, at) in self.accounted for sink in ("predictions", "dlq"))
            if claimed[at] != (0 if at in lost else due):
                verdict.problems.append(f"input {at} is in {claimed[at]} of output and dead letter")
                return

    def _idle(self) -> set[Key]:
        """Keys that have been idle for longer than [state] ttl: a worker may have removed their states, or not yet."""
        ttl = self.job.settings.state.ttl
        if ttl is None:
            return set()
        newest = {key: last_event(self.job.core, data)[0] for key, data in self.truth.items()}
        now = {number: max(at for (other, _), at in newest.items() if other == number) for number, _ in newest}
        return {key for key, at in newest.items() if now[key[0]] - at > ttl}

    def _states(self, verdict: Verdict) -> None:
        self.job.wait_for_all_markers()
        self.stored.update({(m.partition(), m.key()): m.value() for m in self._new(self.job.changelog, committed_only=True)})
        stored = {key: data for key, data in self.stored.items() if data is not None}
        gone = self._idle() - stored.keys()
        keys = self.truth.keys() | stored.keys()
        differing = [key for key in keys if not self.same_state(stored.get(key), self.truth.get(key))]
        differing = [key for key in differing if key not in gone]
        verdict.states = len(differing)
        if differing:
            verdict.problems.append(f"{len(differing)} of {len(self.truth)} final states differ from the replay's")

    def stores(self, folders: Iterable[Path]) -> list[str]:
        """The local stores of stopped workers beside the changelog: of each partition the one that is furthest."""
        furthest: dict[int, tuple[int, dict[bytes, bytes]]] = {}
        present = topic_ids(self.job.admin, [self.job.changelog])[self.job.changelog]
        for folder in folders:
            for number, (offset, held, changelog) in opened(folder).items():
                if offset < 0:
                    continue  # nothing was ever written: no key of the partition has a state
                if changelog not in (None, present):
                    continue  # left where it is when the partition went elsewhere, before the changelog was recreated
                if number not in furthest or offset > furthest[number][0]:
                    furthest[number] = offset, held
        if not furthest:
            return ["no local store was found"]
        problems = []
        for number, (_, held) in sorted(furthest.items()):
            rebuilt = {
                key: data for (partition, key), data in self.stored.items() if partition == number and data is not None
            }
            if held != rebuilt:
                problems.append(f"partition {number}: the local store differs from what the changelog gives")
        if set(furthest) != {number for number, _ in self.stored}:
            problems.append(f"local stores of partitions {sorted(furthest)}, the changelog has others")
        return problems


def input_position(name: bytes) -> tuple[int, int]:
    """Partition and offset of a `streamjobs-id`: topic-partition-offset[-i]; topics of cases have no dash in them."""
    _, partition, offset, *_ = name.decode().split("-")
    return int(partition), int(offset)


def add(total: Report, one: Report) -> None:
    for name in ("records", "samples", "rows", "labels", "wrong", "drift_events", "keys_created"):
        setattr(total, name, getattr(total, name) + getattr(one, name))
    for counts, more in ((total.dead_lettered, one.dead_lettered), (total.skipped, one.skipped)):
        for reason, count in more.items():
            counts[reason] = counts.get(reason, 0) + count


def opened(folder: Path) -> dict[int, tuple[int, dict[bytes, bytes], str | None]]:
    """partition -> (changelog offset it reaches, snapshots by key, the changelog's id) of a stopped worker's directory."""
    found = {}
    for path in folder.rglob("*.db"):
        number = int(path.stem.rpartition("-")[2])
        store = rocksdict.Rdict(str(path), rocksdict.Options(raw_mode=True), access_type=rocksdict.AccessType.read_only())
        try:
            held, offset, changelog = {}, -1, None
            for key, value in store.items():
                if key.startswith(KEY_PREFIX):
                    held[key[len(KEY_PREFIX) :]] = value
                elif key == b"changelog":
                    changelog = value.decode()
                elif key.decode() not in MARKS:
                    offset = int(value)
            found[number] = offset, held, changelog
        finally:
            store.close()
    return found


def leaks(workers: Iterable[Worker], further: Sequence[str] = ()) -> list[str]:
    """Logs that name a person or hold a secret."""
    problems = []
    for log in {worker.log for worker in workers}:
        text = log.read_text(errors="replace")
        problems += [f"{log.name} holds {word!r}" for word in (PERSON, NOTE, *further) if word in text]
    return problems
