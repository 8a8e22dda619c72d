"""Summaries of snapshots: a line of figures per key, and every stage's fields of one key, as for `GET /api/keys/KEY`."""

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from streamjobs.core.alarms import open_now
from streamjobs.core.job import Job
from streamjobs.core.live.stored import load_snapshot, stored_samples
from streamjobs.core.messages import ShownAlarm
from streamjobs.core.partitioners import PARTITIONERS
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import Offsets, state_fields
from streamjobs.errors import ForeignStateError, SnapshotError
from streamjobs.maintenance.copies import Entry, printable, short_key
from streamjobs.stages.names import CLASS_COUNTS, FORECASTS, LEARNER

CHOSEN = "choice.bandwidth"  # field of a learner with bandwidth = "auto"
FEW = 8  # an array of at most so many numbers is shown whole


class Summary(NamedTuple):
    """One line about a key; if its snapshot cannot be used, `problem` says why and the figures are None."""

    key: str
    partition: int
    rows: int | None = None  # of this key
    seen: int | None = None  # rows its learner has seen, those of a start_from model or population included
    labels: int | None = None
    offset: int | None = None  # last applied offset of the input
    event_time: float | None = None  # of its newest sample, seconds since 1970
    bytes: int = 0
    written: int = 0  # milliseconds since 1970
    ls_error: float | None = None  # mean of the latest rows, if the state holds it
    problem: str | None = None


class Field(NamedTuple):
    stage: str
    name: str
    shape: tuple[int, ...]
    bytes: int  # in the snapshot: 0 of an array that it leaves out
    norm: float | None  # Euclidean norm of the finite numbers
    value: Any  # a number or a short list; None for a long one


def decode_entry(job: Job, entry: Entry, *, drift_anew: bool = False) -> tuple[dict[str, Any], list[str], Offsets]:
    """States by stage, class names and offsets. Raises SnapshotError that names the key.

    drift_anew: as of `decode_snapshot`.
    """
    try:
        return load_snapshot(job, entry.data, drift_anew=drift_anew)
    except SnapshotError as error:
        raise type(error)(f"key {short_key(entry.key)!r} in partition {entry.partition}: {with_remedy(error)}") from None


def with_remedy(error: SnapshotError) -> str:
    """The error in one sentence, with the commands that bring the key back."""
    if isinstance(error, ForeignStateError):
        return str(error)
    return (
        f"{str(error).rstrip('.')}; workers set such a key aside until 'streamjobs state reset JOB KEY' lets it start over "
        "or 'streamjobs state restore JOB KEY' gives it the state of a copy or of a local store; then 'streamjobs dlq "
        "redrive JOB --reason state' sends its records again."
    )


def summary(job: Job, entry: Entry) -> Summary:
    try:
        states, _, offsets = decode_entry(job, entry)
    except SnapshotError as error:
        return _without_figures(entry)._replace(problem=str(error))
    return _figures(job, entry, states, offsets)


def _without_figures(entry: Entry) -> Summary:
    return Summary(printable(entry.key), entry.partition, bytes=len(entry.data), written=entry.timestamp)


def _figures(job: Job, entry: Entry, states: dict[str, Any], offsets: Offsets) -> Summary:
    counts = states[CLASS_COUNTS]
    newest = float(states["order"].newest)
    mean = ls_error(job, states)
    return _without_figures(entry)._replace(
        rows=counts.rows,
        seen=counts.seen + counts.rows,
        labels=int(counts.labelled.sum()) if len(counts.labelled) else None,
        offset=offsets.get((job.settings.source.topic, entry.partition)),
        event_time=newest if math.isfinite(newest) else None,
        ls_error=mean[0] if mean is not None else None,
    )


def details(job: Job, entry: Entry) -> dict[str, Any]:
    """Everything about one key, ready for JSON. Raises SnapshotError."""
    return details_of(job, entry, *decode_entry(job, entry))


def details_of(job: Job, entry: Entry, states: dict[str, Any], names: list[str], offsets: Offsets) -> dict[str, Any]:
    """As `details`, of an entry that is decoded already."""
    line = _figures(job, entry, states, offsets)._asdict()
    del line["problem"]
    mean = ls_error(job, states)
    labelled = states[CLASS_COUNTS].labelled
    stored = list(fields(states))
    if job.untaught is not None:
        kept = snapshot.decode(entry.data).arrays
        left_out = {at for at, array in enumerate(kept) if isinstance(array, snapshot.LeftOut)}
        stored = [one._replace(bytes=0) if at in left_out else one for at, one in enumerate(stored)]
    more: dict[str, Any] = {}
    if job.steps.forecasts is not None:
        from streamjobs.core.events.forecasts import outlook

        more["forecasts"] = outlook(job, states[FORECASTS])
        more["forecasts"]["columns"] = [
            {name: finite_or_none(one) for name, one in column.items()} for column in more["forecasts"]["columns"]
        ]
    return {
        **line,
        **more,
        "offsets": {f"{topic}[{partition}]": offset for (topic, partition), offset in offsets.items()},
        "ls_error_over": mean[1] if mean is not None else None,
        "classes": {name: int(labelled[c]) for c, name in enumerate(names) if c < len(labelled)},
        "drift": {name: _watched(states[name]) for name in _watching(job)},
        "bandwidths": bandwidths(states),
        "prototypes": {one.part: len(getattr(one.state, one.field)) for one in stored_samples(job, states)},
        "stages": {name: job.described.get(name, "") for name in states},
        "parts": {name: sum(one.bytes for one in stored if one.stage == name) for name in states},
        "fields": [field._asdict() for field in stored],
    }


def bandwidths(states: dict[str, Any]) -> dict[str, float | None]:
    """Widths of kernels that were chosen from the key's first rows, by stage (and part); None: they still wait."""
    found: dict[str, float | None] = {}
    for stage, state in states.items():
        for name, value in state_fields(state):
            if name.endswith(CHOSEN):
                part = name.removesuffix(CHOSEN).rstrip(".")
                found[f"{stage}.{part}" if part else stage] = float(value) or None
    return found


def fields(states: dict[str, Any]) -> Iterator[Field]:
    for stage, state in states.items():
        for name, content in state_fields(state):
            array = np.asarray(content)
            finite = array[np.isfinite(array)].astype(float)
            with np.errstate(over="ignore"):
                norm = float(np.sqrt((finite * finite).sum())) if array.ndim and finite.size else None
            value = finite_or_none(array.tolist()) if array.size <= FEW else None
            yield Field(stage, name, array.shape, array.nbytes, finite_or_none(norm), value)


def _scalars(state: Any) -> dict[str, Any]:
    return {name: finite_or_none(value) for name, value in state_fields(state) if np.asarray(value).ndim == 0}


def _watched(state: Any) -> dict[str, Any]:
    """As `_scalars`; `opened` is 0 unless an alarm is open.

    >>> Chart = NamedTuple("Chart", [("seen", int), ("opened", int)])
    >>> _watched(Chart(7, 3)), _watched(Chart(7, (1 << 32) + 3))
    ({'seen': 7, 'opened': 3}, {'seen': 7, 'opened': 0})
    """
    from algorithms.drift.ranked import CLOSED

    found = _scalars(state)
    return found | ({"opened": 0} if found.get("opened", 0) >= CLOSED else {})


def finite_or_none(value: Any) -> Any:
    """The value, with None for NaN and infinity, which JSON does not have; also within lists."""
    if isinstance(value, list):
        return [finite_or_none(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def ls_error(job: Job, states: dict[str, Any]) -> tuple[float, str] | None:
    """The mean LS error in a key's state, and the rows it is of; None if the state holds none."""
    remembered = job.learner.recent_error(states[LEARNER])
    drift = job.settings.drift
    if remembered is not None or drift is None or drift.watch_names[0] != "ls_error" or drift.extractor is not None:
        return remembered
    watch = job.watches[0]
    return watch.detector.recent_error(states[watch.detector_stage])


def _watching(job: Job) -> list[str]:
    """The stages of what the job uses for drift, the controls aside."""
    watches = [watch for watch in job.watches if not watch.control]
    return [stage for watch in watches for stage in (watch.learner_stage, watch.detector_stage) if stage]


class States:
    """Of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def details(self, partition: int, key: bytes, data: bytes, said: Any, written: int) -> dict[str, Any]:
        """What `state show --json` says of a snapshot. Raises SnapshotError.

        said: what is in it, where that is known. written: milliseconds since 1970.
        """
        entry = Entry(partition, key, data, -1, written)
        return details(self._job, entry) if said is None else details_of(self._job, entry, *said)

    def open_alarms(self, live: Any, most: int) -> tuple[int, list[ShownAlarm]]:
        """How many live keys of a partition are in alarm, and their newest alarms."""
        if self._job.steps.stuck is None and self._job.steps.silent is None:
            return open_now(self._job, live, most)
        from streamjobs.core import sensor_alarms  # few jobs have them

        return sensor_alarms.open_now(self._job, live, most)

    @cached_property
    def needed_to_alarm(self) -> str | None:
        """What a key needs at least before all its detectors can alarm: '1,129 rows'. None as `rows_to_alarm` says."""
        from streamjobs.replay.warm_up import days_to_alarm, in_words, rows_to_alarm  # runs detectors: only if asked

        rows = rows_to_alarm(self._job)
        return None if rows is None else in_words(rows, days_to_alarm(self._job))

    def likely_partition(self, key: bytes, known: Mapping[int, list[bytes]], partitions: int) -> int | None:
        """Where the producers' partitioner puts the key, if one of ours explains where the known keys are; else None."""
        if not any(known.values()):
            return None
        for choose in PARTITIONERS.values():
            if all(choose(other, partitions) == number for number, keys in known.items() for other in keys):
                return choose(key, partitions)
        return None
