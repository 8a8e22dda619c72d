"""What must come out: the input as the broker holds it, through the core in one process without interruption."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from operator import eq
from typing import Any

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Output, Stored
from tests.brokers.kafka_job import KafkaJob

Answer = tuple[int, bytes | None, bytes | None, int, tuple[tuple[str, bytes], ...]]  # partition, key, value, time, headers
AT_ONCE = 700  # records of a call: any other number must give the same


@dataclass
class Truth:
    """Outputs per sink by their `streamjobs-id`, and every key's final snapshot."""

    answers: dict[str, dict[bytes, Answer]] = field(default_factory=lambda: defaultdict(dict))
    snapshots: dict[tuple[int, bytes], bytes] = field(default_factory=dict)


def replayed(job: Job, records: Sequence[Stored]) -> Truth:
    """The records of all partitions in order through `advance`, one partition after the other."""
    truth = Truth()
    by_partition: dict[int, list[Stored]] = defaultdict(list)
    for record in records:
        by_partition[record.partition].append(record)
    for partition, mine in by_partition.items():
        live = Live(job, lambda key: None)
        for at in range(0, len(mine), AT_ONCE):
            for output in advance(job, live, mine[at : at + AT_ONCE]).outputs:
                answers = truth.answers[output.sink]
                name = identity(output.headers)
                assert name not in answers, f"two outputs of {output.sink} have the id {name!r}"
                answers[name] = _answer(partition, output)
        truth.snapshots.update({(partition, key): snapshot for key, snapshot in live.snapshots()})
    return truth


def _answer(partition: int, output: Output) -> Answer:
    return partition, output.key, output.value, output.timestamp, tuple(output.headers)


def identity(headers: Iterable[tuple[str, bytes]]) -> bytes:
    return dict(reversed(list(headers)))["streamjobs-id"]  # the first of that name


@dataclass
class Comparison:
    """A sink's messages beside the truth. All but `repeated` must be 0."""

    answers: int = 0  # different ids seen
    missing: int = 0
    unknown: int = 0  # ids nobody should have sent
    wrong: int = 0  # other partition, key, value, timestamp or headers
    disordered: int = 0  # first appearances that are earlier in the input than one before them, per key
    repeated: int = 0  # allowed after a fault, identical (else `wrong`)

    @property
    def faithful(self) -> bool:
        return not (self.missing or self.unknown or self.wrong or self.disordered)


def compared(
    messages: Iterable[Any], wanted: dict[bytes, Answer], same: Callable[[Answer, Answer], bool] = eq
) -> Comparison:
    """Consumed messages of a sink beside its answers; an output belongs after those of earlier rows of its key."""
    rank = {name: at for at, name in enumerate(wanted)}
    newest: dict[tuple[int, bytes | None], int] = {}
    seen: set[bytes] = set()
    found = Comparison()
    for message in messages:
        headers = tuple(message.headers() or ())
        name = identity(headers)
        got = message.partition(), message.key(), message.value(), message.timestamp()[1], headers
        if name not in wanted:
            found.unknown += 1
            continue
        found.wrong += not same(got, wanted[name])
        if name in seen:
            found.repeated += 1
            continue
        seen.add(name)
        key = message.partition(), message.key()
        found.disordered += rank[name] < newest.get(key, -1)
        newest[key] = max(rank[name], newest.get(key, -1))
    found.answers, found.missing = len(seen), len(wanted) - len(seen)
    return found


def verify(
    job: KafkaJob, *, repeats: bool, expect: int | None = None, committed_only: bool = False
) -> dict[str, Comparison]:
    """Every sink and every final state equals the replay of the input, or this fails.

    repeats: whether outputs may be repeated.  expect: records the input must hold.
    committed_only: the sinks as a reader with isolation.level=read_committed sees them.
    """
    records = job.inputs()
    assert expect is None or len(records) == expect, f"the input holds {len(records)} records, {expect} were sent"
    truth = replayed(job.core, records)
    results = {}
    for sink in job.core.sinks:
        results[sink] = found = compared(job.sink(sink, committed_only=committed_only), truth.answers[sink])
        assert found.faithful, f"{sink}: {found}"
        assert repeats or not found.repeated, f"{sink}: {found}"
    snapshots = job.snapshots()
    keys = len(snapshots), len(truth.snapshots), len(snapshots.keys() & truth.snapshots.keys())
    assert len(set(keys)) == 1, f"the changelog has {keys[0]} keys, the replay {keys[1]}, both {keys[2]}"
    differing = [key for key, snapshot in truth.snapshots.items() if snapshots[key] != snapshot]
    assert not differing, f"{len(differing)} of {len(snapshots)} final states differ, such as {differing[0]}"
    return results
