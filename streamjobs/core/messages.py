"""What enters and leaves the core: records, outputs and the report of one call of `advance`."""

import math
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple, Protocol

from algorithms.common.protocol import Array
from streamjobs import __version__
from streamjobs.errors import RecordError

Headers = Sequence[tuple[str, bytes]]
Codec = tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]  # compresses bytes, and undoes it


class Record(Protocol):
    """A consumed record as the core reads it; aiokafka's ConsumerRecord is one as it is."""

    @property
    def topic(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def offset(self) -> int: ...
    @property
    def timestamp(self) -> int: ...  # milliseconds since 1970, the broker's or producer's
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Headers: ...


record_key, record_value = operator.attrgetter("key"), operator.attrgetter("value")  # to map over records


class Stored(NamedTuple):
    """A record with its fields: a fetched one, or one made of a row of a file, of a test, of a notebook."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Unread(Stored):
    """Unreadable records as one record: the last one's offset, no key, and the unchanged bytes as its value."""

    problem: str  # the end of a sentence


class Refused(Stored):
    """A record with a schema that can never be had, as its lookup has found: it stays a dead letter."""

    problem: str  # the end of a sentence


class PlainRow(Stored):
    """A row of a file, in JSON, MessagePack or raw, whatever envelope, compression or schema the job's records have."""


class Keyed(NamedTuple):
    """A record with the key inside its value."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None  # the one inside
    value: bytes | None
    headers: Headers
    own_key: bytes | None  # the record's, which the job does not go by
    problem: tuple[str, str] | None  # where there is none inside: the reason, and the rest of the sentence after the place
    origin: Record | None = None  # the record itself


class Output(NamedTuple):
    """One record to send, to the partition its input came from."""

    sink: str  # features | predictions | drift | alarms | bouts | forecasts | dlq
    key: bytes | None  # the input's key, unchanged
    value: bytes | None
    timestamp: int  # milliseconds: event time; of a dead letter the original record's
    headers: list[tuple[str, bytes]]  # begins with ("streamjobs-id", b"topic-partition-offset[-i]")


class Worst(NamedTuple):
    """The row of a batch that its model spans least."""

    ls_error: float
    key_hash: str  # of the record's key, 16 hexadecimal digits; tells rows of a key together without naming it
    time: float  # event time, seconds since 1970


class Failure(NamedTuple):
    """A record for which a stage raised an error. Nothing here quotes the record."""

    offset: int
    stage: str
    error: str  # type of the error
    place: str  # file and line


BACK = {  # what cannot be done with a state; what to do, before the key's dead letters are sent back
    "read": "'streamjobs state reset JOB KEY' or 'streamjobs state restore JOB KEY' brings back the key",
    "written": "correct the learner that left it ('streamjobs check-learner'), and start the workers again: the key "
    "continues with its last stored state",
}


class SetAside(NamedTuple):
    """A key that was set aside; see `core.live.aside`."""

    key_hash: str  # as in `Worst`
    what: str  # the state cannot be "read" or "written"
    why: str


class BatchRows(NamedTuple):
    """Rows of a batch as columns, in order, for the worker's page; never in a metric or a log.

    Its lists and arrays are those that the outputs were made of.
    """

    keys: Sequence[str]
    times: Array  # (n,) event times, seconds since 1970
    ls_errors: Array  # (n,) NaN where the learner has none
    predicted: Sequence[Any] | None = None  # class or number(s) of each row; None without predictions
    labels: Sequence[Any] | None = None  # the same of the labels that came with them


class LateLabel(NamedTuple):
    """A label in a record of its own that met its row."""

    key: str
    time: float  # event time of the row
    label: Any  # class or number(s)
    known: float  # event time of the key's newest row when the label came


class ShownAlarm(NamedTuple):
    """An alarm that is raised, or ends, for the worker's page."""

    key: str
    time: float  # event time of the row that raised it, seconds since 1970
    detector: str
    watch: str
    value: float  # what the detector saw
    before: float  # mean before the suspected change
    after: float
    columns: Sequence[tuple[str, float, float, float]] = ()  # that moved most: name, deviations, mean before, mean after
    id: str = ""  # as in its records; "" where the job has no topic of alarms
    since: float = math.nan  # event time of the estimated change
    end: float = math.nan  # event time of the row that ended it
    outcome: str | None = None  # how it ended; None: it is raised


class Letter(NamedTuple):
    """A dead letter, for the worker's page."""

    key: str
    partition: int
    offset: int
    reason: str
    message: str


FAR = 1e290  # larger squared errors are not summed, because their sum would not be finite
MOST_SHOWN = 50  # alarms, and dead letters, that a report holds for the page


@dataclass(slots=True)
class Report:
    """What one call of `advance` did, for metrics and logs; counts are plain ints; only `units` is keyed by a record key.

    The last three fields hold keys, and are for the worker's page alone.
    """

    records: int = 0
    bytes: int = 0
    samples: int = 0  # samples taken (a record can have several)
    rows: int = 0  # rows the learner advanced by (windows, or samples without windows)
    filled: int = 0  # missing numbers of samples that were filled
    lacking: dict[str, int] = field(default_factory=dict)  # samples that lacked a number, by the number's name
    outside: dict[str, int] = field(default_factory=dict)  # rows with a number that the population hardly has, by its name
    units: Counter[tuple[str, str]] = field(default_factory=Counter)  # rows of other units: see `stages.population.units`
    sensor_samples: dict[str, int] = field(default_factory=dict)  # samples by sensor, where there are several
    sensor_gaps: dict[str, int] = field(default_factory=dict)  # how often rows were left out for want of its samples
    redelivered: int = 0  # records at or below a key's last applied offset: skipped; letters between them, sent again
    applied_before: list[int] = field(default_factory=list)  # offsets of the skipped ones
    dead_lettered: dict[str, int] = field(default_factory=dict)  # by reason
    first_letter: str = ""  # reason and place of the first of them; never what the record holds
    skipped: dict[str, int] = field(default_factory=dict)  # samples by reason: late, duplicate, ...
    keys_created: int = 0
    states_read: int = 0  # from the store, of keys that were not live
    keys_evicted: int = 0  # that left the live states for want of room; they come back from the store
    keys_expired: int = 0  # that started over: idle for longer than [state] ttl of event time
    labels: int = 0  # rows learned with a label
    label_delay: float = float("nan")  # of the newest such row: its label's record time minus its event time, seconds
    wrong: int = 0  # of those, classifications that were wrong
    measured: int = 0  # labels of a regression that a prediction made before could be held against
    squared: float = 0.0  # sum of their squared errors, each the mean over the numbers of a label
    unknown: int = 0  # rows of an unknown class ([head] reject); not wrong, whatever their label
    targets_clipped: int = 0  # labels of a regression that were learned closer to what is usual for their key
    drift_events: int = 0
    watch_events: dict[str, int] = field(default_factory=dict)  # of those, by what is watched
    p_values: dict[str, list[int]] = field(default_factory=dict)  # by watch: how many without an open alarm, below SMALL_P
    ready: int = 0  # rows with a detector that could alarm, of all of these watches together
    control_events: dict[str, int] = field(default_factory=dict)  # alarms of the same detector, by control
    forecasts: dict[str, list[float]] = field(default_factory=dict)  # by column and rows ahead: see `core.events.forecasts`
    ls_errors: list[Array] = field(default_factory=list)  # of rows that have one, an array of each batch
    worst: "Worst | None" = None  # the row with the largest of them
    newest_event: float = 0.0  # event time in seconds since 1970 of the newest row, 0 = none
    newest_delay: float = float("nan")  # its record time minus its event time, seconds
    failures: list[Failure] = field(default_factory=list)  # dead letters "learner_failed"
    batches: list[BatchRows] = field(default_factory=list)
    late: list[LateLabel] = field(default_factory=list)
    alarms: list[ShownAlarm] = field(default_factory=list)  # the first MOST_SHOWN
    heard: list[tuple[Record, float, bool]] = field(default_factory=list)  # with silent: samples, event times, see `hear`
    write_all: bool = False  # states, with the next checkpoint: alarms of several keys follow from them together
    letters: list[Letter] = field(default_factory=list)  # the first MOST_SHOWN
    set_aside: list[SetAside] = field(default_factory=list)

    def add(self, later: "Report") -> None:
        """Count what was done after this as well."""
        if later.newest_event > self.newest_event:
            self.newest_event, self.newest_delay = later.newest_event, later.newest_delay
        if later.label_delay == later.label_delay:
            self.label_delay = later.label_delay
        if self.worst is None or (later.worst is not None and later.worst.ls_error > self.worst.ls_error):
            self.worst = later.worst
        self.first_letter = self.first_letter or later.first_letter
        for one in fields(self):
            ours, theirs = getattr(self, one.name), getattr(later, one.name)
            if isinstance(ours, dict):
                for name, count in theirs.items():
                    ours[name] = _sum(ours[name], count) if name in ours else count
            elif isinstance(ours, (int, list)) or one.name == "squared":
                setattr(self, one.name, ours + theirs)


def _sum(ours: int | list[int] | list[float], theirs: Any) -> Any:
    return [a + b for a, b in zip(ours, theirs, strict=True)] if isinstance(ours, list) else ours + theirs


class Advanced(NamedTuple):
    outputs: list[Output]
    report: Report


VERSION = __version__.encode()
LETTER_HEADERS = (  # of a dead letter, before those the record came with
    "streamjobs-id",
    *(f"streamjobs-error-{name}" for name in ("reason", "message", "stage", "topic", "partition", "offset", "timestamp")),
    "streamjobs-error-attempt",
    "streamjobs-error-version",
)
ASIDE = "state"  # reason of the dead letters of keys that are set aside, see `core.live.aside`
ATTEMPT = "streamjobs-attempt"  # header of a record sent back from the dead letters
ATTEMPT_DIGITS = 6


def topic_of_life(topic: str, life: str) -> str:
    """The topic as ids name it. life: "" for a topic that was never recreated under the job; else it tells which one it is.

    A recreated topic counts its offsets from 0 again. No topic has a ~ in its name.

    >>> topic_of_life("imu", ""), topic_of_life("imu", "5f0c81d2")
    ('imu', 'imu~5f0c81d2')
    """
    return f"{topic}~{life}" if life else topic


def place_of(record: Record, life: str) -> str:
    """The topic, partition and offset of a record, as ids name it. life: see `topic_of_life`."""
    return f"{topic_of_life(record.topic, life)}-{record.partition}-{record.offset}"


def dead_letter(record: Record, error: RecordError, life: str = "") -> Output:
    """The record as it came, with headers that say why it could not be used. life: see `topic_of_life`."""
    values = (
        place_of(record, life).encode(),
        error.reason.encode(),
        str(error).encode(),
        error.stage.encode(),
        record.topic.encode(),
        b"%d" % record.partition,
        b"%d" % record.offset,
        b"%d" % record.timestamp,
        b"%d" % _attempt(record),
        VERSION,
    )
    headers = list(zip(LETTER_HEADERS, values, strict=True))
    own_key = record.own_key if isinstance(record, Keyed) else record.key
    return Output("dlq", own_key, record.value, record.timestamp, [*headers, *record.headers])


def add_letter(
    record: Record, error: RecordError, life: str, outputs: list[Output], report: Report, *, again: bool = False
) -> None:
    """Make the record a dead letter, and count it. life: see `topic_of_life`. again: it was one before."""
    outputs.append(dead_letter(record, error, life))
    if again:
        report.redelivered += 1
        return
    report.dead_lettered[error.reason] = report.dead_lettered.get(error.reason, 0) + 1
    if not report.first_letter:
        report.first_letter = f"{error.reason}, topic {record.topic}[{record.partition}] offset {record.offset}"
    if len(report.letters) < MOST_SHOWN:
        report.letters.append(letter_shown(record, error))


def letter_shown(record: Record, error: RecordError) -> Letter:
    """A dead letter as the worker's page shows it."""
    key = (record.key or b"").decode("utf-8", "backslashreplace")
    return Letter(key, record.partition, record.offset, error.reason, str(error))


def _attempt(record: Record) -> int:
    """How often this record has been tried: 1, or what it was sent back with."""
    for name, text in record.headers:
        if name == ATTEMPT and text and len(text) <= ATTEMPT_DIGITS and text.isdigit():
            return max(1, int(text))
    return 1
