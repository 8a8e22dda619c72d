"""Reads dead letters, and sends their records back to the input, with the original bytes, headers and partition."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException, Producer

from streamjobs.core.decoding.keys import key_reader, place_of_key
from streamjobs.core.messages import ATTEMPT, LETTER_HEADERS, Record, Stored
from streamjobs.core.output_records import ID
from streamjobs.errors import SetupError
from streamjobs.kafka import client, groups, preflight, topics
from streamjobs.kafka.send import ANSWER_WITHIN, FULL, queued
from streamjobs.maintenance import changelog_edit
from streamjobs.maintenance.scan import changelog_records, newest_by_key, records_of
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import many
from streamjobs.worker.failures import DeliveryError

REDRIVEN = "streamjobs-redriven"  # header of a record that was sent back: topic-partition-offset of its dead letter

Place = tuple[int, int]  # partition and offset of the letter


class Letter(NamedTuple):
    partition: int  # in the dead-letter topic
    offset: int
    record: Record
    reason: str
    message: str
    stage: str
    source: tuple[str, int, int]  # topic, partition and offset of the original record
    attempt: int
    version: str
    key: bytes | None  # key of the record: the record's own key, or the one inside its value where the job uses that
    life: str = ""  # of the original record's topic, see `topic_of_life`
    timestamp: int = -1  # of the original record; the letter may have another or none
    moved: int | None = None  # the partition that has the key now, if it has moved since

    @property
    def place(self) -> Place:
        return self.partition, self.offset

    @property
    def name(self) -> str:
        return f"{self.partition}:{self.offset}"


def read_letters(settings: Settings, topic: str) -> tuple[list[Letter], int]:
    """All dead letters in order, and the number of other records in the topic. Raises SetupError."""
    letters, others = [], 0
    source = settings.source  # without their schemas, letters in a format that has them keep the records' own keys
    key_of = key_reader(source) if source.key is not None and not source.has_schema else None
    for record in records_of(settings.broker, topic, "[sinks] dlq"):
        letter = parse_letter(record)
        if letter is None:
            others += 1
        else:
            inside = None if key_of is None else key_of(letter.record).key
            letters.append(letter if inside is None else letter._replace(key=inside))
    return sorted(letters, key=lambda letter: letter.place), others


def with_present_partitions(settings: Settings, letters: list[Letter]) -> list[Letter]:
    """The letters with the partitions that have their keys now: some keys move if the input gets partitions.

    Keys inside values are placed by [source] partitioner, others by their states; a key without a state stays where it was.
    Raises SetupError if the broker does not answer.
    """
    source = settings.source
    partitions = topics.connect(settings.broker, [source.topic])[1].get(source.topic, 0)
    places: dict[bytes | None, set[int]] = {one.key: set() for one in letters if one.key and one.source[0] == source.topic}
    if partitions < 2 or not places:
        return letters
    if source.rekeyed or (source.key is not None and not source.has_schema):
        places = {key: {place_of_key(source, key, partitions)} for key in places if key}
    else:
        for number, key in newest_by_key(changelog_records(settings), lambda record: None, places.__contains__):
            places[key].add(number)
    now = [places.get(one.key, set()) for one in letters]
    return [
        one._replace(moved=min(held)) if len(held) == 1 and one.source[1] not in held else one
        for one, held in zip(letters, now, strict=True)
    ]


def sent_before(settings: Settings, chosen: Sequence[Letter], offsets: Mapping[Place, int]) -> set[bytes]:
    """The ids of the dead letters that were sent back before; reads their topics after the oldest chosen letter's record.

    offsets: of `offsets_after`.
    """
    starts: dict[str, dict[int, int]] = {}
    for letter in chosen:
        topic, partition, _ = letter.source
        start = starts.setdefault(topic, {})
        for number, after in ((partition, offsets[letter.place]), (letter.moved, 0)):
            if number is not None:
                start[number] = min(start.get(number, after), after)
    found: set[bytes] = set()
    for topic, start in starts.items():
        found |= letter_ids(records_of(settings.broker, topic, "[source] topic", start))
    return found


def older_than_input(settings: Settings, chosen: Sequence[Letter], offsets: Mapping[Place, int]) -> set[Place]:
    """The dead letters for which the input cannot show whether they were sent back: it may have deleted the new records.

    A compacted input shows this for no letter, because a newer record of the key replaces the record that was sent back.
    offsets: of `offsets_after`. Raises SetupError if the broker does not answer.
    """
    names, admin = {letter.source[0] for letter in chosen}, changelog_edit.admin_of(settings)
    compacted = {name for name in names if "compact" in (topics.setting_of(admin, name, "cleanup.policy") or "")}
    first = {name: changelog_edit.first_offsets(settings, name) for name in names}
    return {
        one.place
        for one in chosen
        if one.source[0] in compacted
        or offsets[one.place] < first[one.source[0]].get(one.source[1], 0)
        or (one.moved is not None and first[one.source[0]].get(one.moved, 0) > 0)
    }


def offsets_after(settings: Settings, chosen: Sequence[Letter]) -> dict[Place, int]:
    """The offset after each dead letter's record; 0 in a topic that was recreated since.

    Raises SetupError if the broker does not answer.
    """
    lives = {settings.source.topic: preflight.kept_life(settings)}
    return {one.place: one.source[2] + 1 if one.life == lives.get(one.source[0], "") else 0 for one in chosen}


def other_readers(settings: Settings, topic: str) -> list[str]:
    """The groups other than the job's own that read the topic and would get what is sent back.

    Raises SetupError if the broker does not answer.
    """
    try:
        found = groups.readers_of(client.for_aiokafka(settings.broker), topic)
    except KafkaError as error:
        raise client.unanswered(settings.broker, error) from None
    own = {settings.job.name, settings.source.topic if settings.source.rekeyed else ""}  # `rekey` has the copy's name
    return [name for name in found if name not in own]


def when_late(settings: Settings) -> str:
    """What becomes of samples that are sent back to a key that has newer ones; "" where it learns them."""
    source = settings.source
    if source.time is None or (settings.window is None and source.late == "learn"):
        return ""
    if source.late == "dlq":
        fate = "become dead letters again"
    else:
        fate = "are not learned" if source.late == "predict_only" and settings.window is None else "are skipped as late"
    return f"samples that are older than the newest sample of their key {fate}"


def send_back(settings: Settings, records: Sequence[Stored]) -> None:
    """Produce the records in order, each to its partition, acknowledged by all replicas.

    Raises DeliveryError if the broker refuses one, SetupError if it does not answer.
    """
    broker = client.for_confluent(settings.broker)
    producer = Producer({**broker, "enable.idempotence": True, "message.max.bytes": 100 << 20, "compression.type": "zstd"})
    problems, acknowledged, answered_at = list[str](), 0, time.monotonic()

    def delivered(error: Any, _: Any) -> None:
        nonlocal acknowledged, answered_at
        answered_at = time.monotonic()
        if error is None:
            acknowledged += 1
        else:
            problems.append(error.str())

    def answers() -> bool:
        return time.monotonic() - answered_at < ANSWER_WITHIN

    try:
        for record in records:
            place = {"partition": record.partition, "timestamp": record.timestamp, "headers": list(record.headers)}
            value: dict[str, Any] = {"key": record.key, "value": record.value, "on_delivery": delivered}
            while not (taken := queued(producer, record.topic, **place, **value)) and answers():
                producer.poll(FULL)
            if not taken:
                break
        while producer.flush(FULL) and answers():
            pass
    except KafkaException as error:
        raise SetupError(
            f"broker {broker['bootstrap.servers']}: {error}; nothing more was sent. Repeat the command."
        ) from None
    if left := len(records) - acknowledged:
        why = problems[0].rstrip(".") if problems else f"no answer within {ANSWER_WITHIN:.0f} s"
        raise DeliveryError(
            f"topic {settings.source.topic}: {left:,} of {many(len(records), 'record')} not sent ({why}). "
            "Repeat the command: it sends the rest only."
        )


def parse_letter(record: Record) -> Letter | None:
    """The dead letter in a record of the dead-letter topic; None if another program wrote the record."""
    headers: dict[str, bytes] = {}
    for name, value in record.headers:
        headers.setdefault(name, value or b"")  # the letter's own come first; its record may have been a dead letter too
    if not headers.keys() >= set(LETTER_HEADERS):
        return None

    def text(name: str) -> str:
        return headers[f"streamjobs-error-{name}"].decode("utf-8", "backslashreplace")

    try:
        source = text("topic"), int(text("partition")), int(text("offset"))
        attempt, timestamp = int(text("attempt")), int(text("timestamp"))
    except ValueError:
        return None
    place = record.partition, record.offset
    life = headers[ID].decode("utf-8", "backslashreplace").removeprefix(source[0]).removeprefix("~").partition("-")[0]
    why, version = (text("reason"), text("message"), text("stage")), text("version")
    return Letter(*place, record, *why, source, attempt, version, record.key, life, timestamp)


def original_headers(letter: Letter) -> list[tuple[str, bytes]]:
    """The headers that the record had before it became a dead letter."""
    added = set(LETTER_HEADERS)
    kept = []
    for name, text in letter.record.headers:
        if name in added:
            added.discard(name)  # the first of each name is the letter's
        else:
            kept.append((name, text or b""))
    return kept


def redriven(letter: Letter, topic: str) -> Stored:
    """The record to send back to the input: the original, with the number of its next attempt. topic: the letter's."""
    headers = [(name, text) for name, text in original_headers(letter) if name not in (ATTEMPT, REDRIVEN)]
    headers += [(ATTEMPT, b"%d" % (letter.attempt + 1)), (REDRIVEN, letter_id(topic, letter.place))]
    record = letter.record
    partition = letter.source[1] if letter.moved is None else letter.moved
    return Stored(letter.source[0], partition, -1, letter.timestamp, record.key, record.value, tuple(headers))


def letter_id(topic: str, place: Place) -> bytes:
    """The value of the header REDRIVEN."""
    return f"{topic}-{place[0]}-{place[1]}".encode()


def letter_ids(records: Iterable[Record]) -> set[bytes]:
    """The ids of the dead letters that these records were sent back from."""
    return {text for record in records for name, text in record.headers if name == REDRIVEN and text}
