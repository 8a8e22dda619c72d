"""Keys inside values: the key of a record is what its value has at [source] key.

A text is the key as it is, in UTF-8; a whole number is the text of its decimal digits; a boolean is `true` or `false`.
That is what Kafka Connect makes of a field with ValueToKey, ExtractField$Key and its StringConverter.

One key may come on one partition only, or two learners would learn one device: Kafka partitions by the record's own key,
which is another one or none. So with several partitions each record must be on the partition that its producers choose for
the key in its value, which each record shows by itself, whichever worker reads it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from hashlib import blake2b

from streamjobs.core.decoding.one_field import field_reader
from streamjobs.core.decoding.samples import Problem
from streamjobs.core.decoding.values import kind_of
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import Keyed, Record, Unread
from streamjobs.core.partitioners import PARTITIONERS
from streamjobs.errors import SetupError
from streamjobs.settings.source import SourceSection

CACHED_KEYS = 65_536  # keys with a remembered partition
MOST_DIGITS = 40  # of a key that is a number

KeyAll = Callable[[Sequence[Record]], Sequence[Record]]


def key_bytes(value: object) -> bytes | None:
    """The key that a field's value is; None for what cannot be one, such as null, 7.5 or a list.

    >>> key_bytes("p7"), key_bytes(7), key_bytes(True), key_bytes(7.0), key_bytes("")
    (b'p7', b'7', b'true', None, None)
    """
    if value is True or value is False:
        return b"true" if value else b"false"
    if isinstance(value, str):
        try:
            return value.encode() or None
        except UnicodeEncodeError:  # half of a surrogate pair
            return None
    if isinstance(value, int) and abs(value) < 10**MOST_DIGITS:
        return b"%d" % value
    return None


def keyed(
    source: SourceSection, partitions: int = 1, schemas: Schemas | None = None, expected: Collection[str] = ()
) -> KeyAll:
    """A function that gives records the keys inside their values; without [source] key it gives them back as they are.

    partitions: of the topic; with more than one, the function raises SetupError at a record that is not on the partition of
    its key. schemas: those of [source] format, as `formats.parser` takes them. expected: keys of [alarms], which are
    looked for on the partitions that the partitioner gives them, and must come there.
    """
    if not source.key_in_value:
        if not expected or partitions == 1:
            return lambda records: records
        return partial(_on_place, source, partitions, frozenset(map(str.encode, expected)))
    key_of, choose = key_reader(source, schemas), PARTITIONERS[source.partitioner]

    @lru_cache(maxsize=CACHED_KEYS)
    def place(key: bytes) -> int:
        return choose(key, partitions)

    def all_keyed(records: Sequence[Record]) -> Sequence[Record]:
        given = [key_of(record) for record in records]
        if partitions > 1:
            for record in given:
                if record.key is not None and (there := place(record.key)) != record.partition:
                    digest = blake2b(record.key, digest_size=8).hexdigest()  # the key itself may be personal
                    raise SetupError(
                        f"topic {record.topic}[{record.partition}] offset {record.offset}: its key in field {source.key!r} "
                        f"(hash {digest}) belongs in partition {there} of {partitions} by {source.partitioner}, so keys "
                        "come on several partitions, where several learners would learn it. Nothing was learned from this "
                        "record. Set [source] rekeyed = true, run 'streamjobs rekey JOB' and start again; or name another "
                        "[source] partitioner, where producers partition by this field."
                    )
        return given

    return all_keyed


def _on_place(
    source: SourceSection, partitions: int, expected: frozenset[bytes], records: Sequence[Record]
) -> Sequence[Record]:
    for record in records:
        if (key := record.key) in expected and (place := place_of_key(source, key, partitions)) != record.partition:
            digest = blake2b(key, digest_size=8).hexdigest()
            raise SetupError(
                f"topic {record.topic}[{record.partition}] offset {record.offset}: its key (hash {digest}) is one of "
                f"[alarms] expected. With {source.partitioner} it belongs in partition {place} of {partitions}, which would "
                "report it as missing. Nothing was learned from this record. Set [source] partitioner as in the producers "
                f"({', '.join(PARTITIONERS)}); if none of them fits, remove expected."
            )
    return records


def place_of_key(source: SourceSection, key: bytes, partitions: int) -> int:
    """The partition on which producers send the key, by [source] partitioner."""
    return PARTITIONERS[source.partitioner](key, partitions)


def each_keyed(source: SourceSection, records: Iterable[Record]) -> Iterator[Record]:
    """Records one by one with the keys that the job uses, wherever they are."""
    return map(key_reader(source), records) if source.key_in_value else iter(records)


def key_reader(source: SourceSection, schemas: Schemas | None = None) -> Callable[[Record], Record]:
    """A function that gives a record the key inside its value; one without a key there says why in `problem`.

    schemas: see `keyed`; without them it raises SetupError for a value in a format that has schemas.
    """
    assert source.key is not None
    name, field_of = source.key, field_reader(source, source.key, schemas)

    def read(record: Record) -> bytes:
        found = field_of(record)
        key = key_bytes(found)
        if key is None:
            got = "an empty text" if found == "" else kind_of(found)
            kinds = "a text, a whole number or a boolean"
            raise Problem("no_key", f"expected {kinds} in field {name!r}, the key, got {got}")
        return key

    def key_of(record: Record) -> Record:
        if isinstance(record, (Unread, Keyed)):
            return record
        key, problem = None, None
        try:
            key = read(record)
        except Problem as error:
            problem = error.reason, error.text
        place = record.topic, record.partition, record.offset, record.timestamp
        return Keyed(*place, key, record.value, record.headers, record.key, problem, record)

    return key_of
