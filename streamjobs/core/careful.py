"""A record for which a stage raises becomes a dead letter; its key keeps the state from before it, and the rest goes on.

While all goes well, this costs nothing. When a stage raises, the keys of the batch go back to the states before it
(`Kept`). Then the batch is applied in parts, with the states kept before each part, until the record is alone.
For the next records states are kept beforehand, because such errors seldom come alone.

Where samples wait in the key (a window, [source] lateness, late labels), the next record would only meet the same row. There
the record's samples stay in the signal, and the rows it completes are left out: no learner sees them, no output tells them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType, TracebackType
from typing import NamedTuple, Protocol

from numba.core.errors import NumbaError

from streamjobs.core.job import Job
from streamjobs.core.live.live import POOLED, Live
from streamjobs.core.live.log import Model
from streamjobs.core.live.slots import shared
from streamjobs.core.messages import Advanced, Failure, Output, Record, Report, dead_letter, letter_shown
from streamjobs.errors import RecordError, StreamjobsError
from streamjobs.stages.names import CLASS_COUNTS

REASON = "learner_failed"
CAREFUL = 5_000  # records after a failure before which states are kept
OURS = (StreamjobsError, MemoryError, OSError, NumbaError)  # no fault of a record


class Kept(NamedTuple):
    """States to which some keys can return.

    Nothing is copied while no stage fails: a state is restored from its last stored snapshot, by applying the records since
    then (`log`) again, which gives the same bits. While a failure is recent, `keep` takes copies, as snapshots.
    """

    snapshots: dict[bytes, bytes | None]  # None: as `live.read` has it
    model: Model | None
    counts: tuple[int, int, int]


class StageError(Exception):
    """A stage raised for a batch of records; the error is its cause."""

    def __init__(self, failed: str, error: BaseException) -> None:
        self.stage, self.error = failed, type(error).__name__
        frame, line = list(_frames(error.__traceback__))[-1]
        self.place = f"{frame.f_code.co_filename.rpartition('/')[2]}:{line}"
        super().__init__(f"{failed} raised {self.error} at {self.place}")


class NotRepeatable(StreamjobsError):
    """A stage raises for records that it has taken before: the states from before a failure cannot be computed again."""


class Guard:
    """Names what runs, for errors outside of stages; None: errors stay as they are."""

    part: str | None = None


class Apply(Protocol):
    def __call__(
        self, job: Job, live: Live, records: Sequence[Record], guard: Guard, left_out: bool = False
    ) -> Advanced: ...


def _guarded(apply: Apply, job: Job, live: Live, records: Sequence[Record], left_out: bool = False) -> Advanced:
    """`apply`; raises StageError for an error that a record may have caused."""
    guard = Guard()
    try:
        return apply(job, live, records, guard, left_out)
    except Exception as error:
        if guard.part is None or isinstance(error, OURS):
            raise
        raise StageError(_stage_of(job, error.__traceback__) or guard.part, error) from error


def careful(job: Job, live: Live, records: Sequence[Record], apply: Apply) -> Advanced:
    """`apply` for the records; a record for which a stage raises becomes a dead letter instead."""
    if not live.careful:
        counts = counts_of(live)
        try:
            made = _guarded(apply, job, live, records)
        except StageError:
            try:
                rewind(live, records, counts, lambda batch, left_out: _guarded(apply, job, live, batch, left_out))
            except StageError as error:
                raise NotRepeatable(
                    f"{error} for records that it had applied before. Nothing is lost: look for other inputs than rows, "
                    "such as a file or a service, then restart; the job continues from the last checkpoint."
                ) from error
        else:
            live.log.add(records, made.report.bytes)
            return made
    live.careful = max(0, live.careful - len(records))
    outputs: list[Output] = []
    report = Report()
    for part in _in_parts(job, live, records, apply):
        outputs += part.outputs
        report.add(part.report)
    return Advanced(outputs, report)


def _in_parts(job: Job, live: Live, records: Sequence[Record], apply: Apply) -> Iterator[Advanced]:
    kept = keep(live, [record.key for record in records])
    try:
        made = _guarded(apply, job, live, records)
    except StageError as error:
        live.careful = CAREFUL
        put_back(live, kept)
        if len(records) == 1:
            yield _without(job, live, records[0], error, kept, apply)
        else:
            half = len(records) // 2
            yield from _in_parts(job, live, records[:half], apply)
            yield from _in_parts(job, live, records[half:], apply)
    else:
        live.log.add(records, made.report.bytes)
        yield made


def _without(job: Job, live: Live, record: Record, error: StageError, kept: Kept, apply: Apply) -> Advanced:
    """The dead letter of a record for which a stage raises, and what happened to its key."""
    row, done = _next_row(job, live, record), "the key keeps its state from before the record"
    size = len(record.value or b"")
    report = Report(records=1, bytes=size)
    steps = job.steps
    if any((steps.sensors, steps.windows, steps.waiting)) or steps.order.lateness > 0:  # rows may have earlier samples
        try:
            report = _guarded(apply, job, live, [record], left_out=True).report
            live.log.add([record], size, left_out=True)
            live.log.letters.add(record.offset)
            done = "the rows it completed are left out, its samples stay in the key's signal"
        except StageError:
            put_back(live, kept)
    where = f"topic {record.topic}[{record.partition}] offset {record.offset}"
    text = (
        f"{where}: expected '{error.stage}' of {job.model} to take row {row} of the key, got {error.error} at {error.place}"
    )
    report.dead_lettered, report.first_letter = {REASON: 1}, f"{REASON}, {where}"
    report.failures.append(Failure(record.offset, error.stage, error.error, error.place))
    reason = RecordError(REASON, f"{text}; {done}.", error.stage)
    report.letters = [letter_shown(record, reason)]
    return Advanced([dead_letter(record, reason, job.life)], report)


def _next_row(job: Job, live: Live, record: Record) -> int:
    """Number of the key's next row, from 0."""
    if record.key is None:
        return 0
    live.tick()
    slot = 0 if live.pooled else live.slot(record.key)
    return 0 if slot is None else int(live.work[CLASS_COUNTS]["rows"][slot])


def _stage_of(job: Job, trace: TracebackType | None) -> str | None:
    """The name of the stage that raised an error; None: no stage raised it."""
    names = {id(stage): name for name, stage in job.stages.items()}
    for frame, _ in _frames(trace):
        owner = frame.f_locals.get("self")
        if id(owner) in names:
            return names[id(owner)]
    return None


def _frames(trace: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    """The calls on the way to an error, with the line each had reached."""
    while trace is not None:
        yield trace.tb_frame, trace.tb_lineno
        trace = trace.tb_next


def keep(live: Live, keys: Iterable[bytes | None]) -> Kept:
    """Copies of the present states of these keys, and of what they share."""
    known = dict.fromkeys(key for key in keys if key is not None)
    changed = [slot for key in known if (slot := live.slot_of.get(key)) in live.dirty and slot is not None]
    changed = live.writable(changed)
    snapshots: dict[bytes, bytes | None] = {key: live.parked.get(key) for key in known}
    snapshots |= zip([live.key_of[slot] for slot in changed], live.encode(changed), strict=True)
    return Kept(snapshots, live.model, counts_of(live))


def counts_of(live: Live) -> tuple[int, int, int]:
    return live.created, live.left, live.expired


def put_back(live: Live, kept: Kept) -> None:
    """Drop the live states of the kept keys. The next record of a key starts from its kept state."""
    for key, snapshot in kept.snapshots.items():
        live.parked.take(key)
        slot = live.slot_of.get(key)
        if slot is not None:
            live.dirty.discard(slot)
            live.forget(key)
        if snapshot is not None and key not in live.aside:
            live.parked[key] = snapshot
    if kept.model is not None:
        for name, stage in live.job.own.items():
            stage.load(live.work[name], 0, kept.model.states[name])
        live.names[0] = shared(kept.model.names)
    live.created, live.left, live.expired = kept.counts


def rewind(
    live: Live, records: Sequence[Record], counts: tuple[int, int, int], apply: Callable[[Sequence[Record], bool], object]
) -> None:
    """Restore the states that the records' keys had before them. counts: from before; apply: as it was then."""
    keys = None if live.pooled else {record.key for record in records}
    known = {*live.slot_of, *live.parked} - {POOLED} if keys is None else keys
    kept = Kept(dict.fromkeys(key for key in known if key is not None), live.model_stored, counts)
    changed = {live.key_of[slot] for slot in live.dirty} | live.parked.keys()
    live.repeated = changed & kept.snapshots.keys()
    put_back(live, kept)
    for batch, left_out in live.log.of(keys):
        apply(batch, left_out)
    live.repeated = set()
    live.created, live.left, live.expired = counts
