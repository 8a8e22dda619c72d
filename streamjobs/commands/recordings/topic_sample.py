"""The newest records of a live topic as rows, for `init`: read without a group, and nothing is committed.

Also what `check --online` prints of the newest records of a job's input.
"""

import itertools
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from streamjobs.commands.console import moment
from streamjobs.core.decoding.loading import as_field
from streamjobs.core.decoding.with_schema.wire_format import ID, ID_END
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.errors import ConfigError
from streamjobs.job_files import with_schemas
from streamjobs.kafka.reader import newest
from streamjobs.kafka.topics import connect
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.types import many

MISSING = "it does not exist on this broker; correct --from-topic or --broker."
WHOLE_TOO = msgspec.json.Decoder().decode  # most texts of one letter are numbers of MessagePack
FORMATS: tuple[tuple[str, Any, int], ...] = (  # each with the bytes that stand before a value
    ("json", WHOLE_TOO, 0),
    ("msgpack", msgspec.msgpack.decode, 0),
    ("json", msgspec.json.decode, ID_END),
)
FEW, MANY, MOST_BYTES = 2_000, 50_000, 64 << 20  # records that are waited for; those that are read where they are there
LARGEST = 1 << 20  # bytes of a value, as [source] max_bytes has it unless set
FAR = 86_400.0  # seconds between event times and timestamps that are named


class TopicSample(NamedTuple):
    rows: list[dict[str, Any]]
    format: str  # json | msgpack | avro | protobuf
    records: list[Stored]  # of the rows, those of a partition in their order
    strange: int  # records that are not objects in this format
    partitions: int = 1  # of the topic
    registry: str | None = None  # address of the registry that has the records' schemas
    after_schema_id: bool = False  # JSON that follows the id of a schema, which need not be read
    whole: bool = True  # all records of the topic were read
    empty: int = 0  # records without a value

    @property
    def mixed(self) -> bool:
        """Whether records of a key may be in several partitions."""
        return self.owners is None and self.partitions > 1

    @property
    def owners(self) -> list[bytes | None] | None:
        """The keys of the rows' records; None where no record has one."""
        keys = [record.key for record in self.records]
        return keys if any(keys) else None


def sample_of(broker: BrokerSection, topic: str, records: int | None, seconds: float) -> TopicSample:
    """Up to so many records, or those that came within so many seconds. records: None: what shows the course of each key.

    Raises SetupError where the topic cannot be read, ConfigError where nothing in it is an object of JSON or MessagePack.
    """
    until = time.monotonic() + seconds

    def read(count: int, until: float) -> list[Stored]:
        return list(itertools.islice(newest(broker, topic, count, until, max_bytes=LARGEST, missing=MISSING), count))

    most = records or FEW
    found = read(most, until)
    if records is None and len(found) == FEW:
        size = sum(len(record.value or b"") for record in found) / FEW
        most = max(FEW, min(MANY, int(MOST_BYTES / max(size, 1))))
        found = read(most, 0.0) or found
    found, whole = [found[n] for n in order_of(found, [one.timestamp for one in found])], len(found) < most
    if not found:
        raise ConfigError(f"topic {topic}: no record came within {seconds:g} s; start its producer, or raise --seconds.")
    for name, decode, skipped in FORMATS:
        values = [None if record.value is None else record.value[skipped:] for record in found]
        rows = [(one, row) for one, value in zip(found, values, strict=True) if (row := _decoded(decode, value)) is not None]
        if 2 * len(rows) > len(found):
            partitions = connect(broker, [topic])[1][topic]
            strange, ones = len(found) - len(rows), [record for record, _ in rows]
            sample = TopicSample([row for _, row in rows], name, ones, strange, partitions, whole=whole)
            return sample._replace(after_schema_id=skipped > 0, empty=sum(not record.value for record in found))
    if 2 * sum(_names_schema(record.value) for record in found) > len(found):
        return _with_schemas(broker, topic, found, whole)
    empty = sum(not record.value for record in found)
    others = "records without a value"
    unread = (record.value for record in found if record.value and _decoded(WHOLE_TOO, record.value) is None)
    if 2 * empty <= len(found) and (value := next(unread, None)):
        others = f"others, such as {value[:40].decode(errors='backslashreplace')!r}{'...' * (len(value) > 40)},"
    raise ConfigError(
        f"topic {topic}: expected records that are objects in JSON or MessagePack, or numbers or lists in JSON, "
        f"got {others} in most of {len(found):,} records; see [source] format for what else can be read."
    )


def order_of(records: Sequence[Stored], times: Sequence[float]) -> list[int]:
    """The order by time of records of partitions that were read one after another; each partition's stay in their order."""
    newest, reached = dict[int, float](), list[float]()
    for one, time_ in zip(records, times, strict=True):
        newest[one.partition] = max(newest.get(one.partition, 0.0), time_)  # NaN counts as the time before it
        reached.append(newest[one.partition])
    return sorted(range(len(records)), key=reached.__getitem__)


def _with_schemas(broker: BrokerSection, topic: str, found: list[Stored], whole: bool) -> TopicSample:
    """With the schemas of a registry. Raises ConfigError where the registry is not known, or most values cannot be read."""
    if (read := with_schemas(found)) is None:
        raise ConfigError(
            f"topic {topic}: most of {len(found):,} values begin like values with a schema id; set "
            "STREAMJOBS_REGISTRY__URL=https://REGISTRY, and init reads Avro and Protobuf with the schemas of this registry."
        )
    registry, form, rows, why = read
    if 2 * len(rows) <= len(found):
        raise ConfigError(
            f"topic {topic}: most of {len(found):,} values cannot be read with the schemas of this registry ({why})."
        )
    partitions, strange = connect(broker, [topic])[1][topic], len(found) - len(rows)
    ones: list[Any] = [record for record, _ in rows]
    return TopicSample([row for _, row in rows], form, ones, strange, partitions, registry, whole=whole)


def _names_schema(value: bytes | None) -> bool:
    """Whether it begins with a byte 0 and an id in four bytes, as Confluent's serializers write it."""
    return value is not None and len(value) > ID_END and value[0] == ID and value[1] == 0  # ids are far below 2^24


def _decoded(decode: Any, value: bytes | None) -> Any:
    try:
        row = decode(value or b"")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if decode is WHOLE_TOO and (message := as_field(row)) is not None:
        return message
    return {str(name): one for name, one in row.items()} if isinstance(row, dict) else None


def shares(sample: TopicSample) -> Iterator[str]:
    """What should be known of it, for people."""
    keys = list(filter(None, sample.owners or ()))
    if keys:
        yield f"{len(keys):,} of {many(len(sample.rows), 'record')} have a key, {len(set(keys)):,} different ones"
        binary = [key for key in keys if not key.decode(errors="replace").isprintable()]
        if 2 * len(binary) > len(keys):
            yield (
                f"keys are bytes such as {str(binary[0])[1:]:.60}: a number, or a text with a schema id. They are not "
                "decoded, and outputs have these bytes; [source] key takes the key from a field of the value"
            )
    else:
        yield "no record has a key: [source] key names a field of the value instead"
    if sample.strange:
        empty = f" ({sample.empty:,} have no value)" if sample.empty else ""
        yield f"{sample.strange:,} records are not objects in {sample.format}{empty}; they would be dead letters"


def lines_of_newest(job: Job, found: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """A word and a sentence each. found: of `newest_records`."""
    if not found["records"]:
        yield "records", "the input topic is empty"
    else:
        yield (
            "records",
            f"of the newest {found['records']:,}, {found['with_key']:,} have a key ({found['keys']:,} different) and "
            f"{found['usable']:,} can be used",
        )
    if found["alone"] and job.settings.alarms is not None and job.settings.alarms.silent:
        yield (
            "silent",
            f"{found['alone']:,} of {many(found['keys'], 'key')} in these records had no other key in the partition; "
            "[alarms] silent never notices a key alone in its partition: use an input topic with fewer partitions",
        )
    if found["first_error"]:
        counts = ", ".join(f"{reason} {count}" for reason, count in found["dead_letters"].items())
        yield "", f"dead letters: {counts}; the first: {found['first_error']}"
    if found["times"]:
        first, last = (moment(1000 * one) for one in found["times"])
        far = found["ahead"] is not None and abs(found["ahead"]) > FAR
        way = "before" if far and found["ahead"] < 0 else "after"
        what = f", {abs(found['ahead']) / FAR:,.1f} days {way} the records' timestamps: are they right?" if far else ""
        yield "times", f"{first} to {last}{what}"
    by_group, ends, group = found["passed"], found["ends"], job.settings.job.name
    if by_group is None:
        yield "group", f"{group} has no offsets yet" + (f": it begins at the first of {ends:,}" if ends else "")
    elif by_group >= ends > 0:
        way = "to begin at the first record, give the job another [job] name"
        yield "group", f"{group} has already passed all {ends:,} offsets: 'run' waits for new records; {way}"
    else:
        yield "group", f"{group} has passed {by_group:,} of {ends:,} offsets"
