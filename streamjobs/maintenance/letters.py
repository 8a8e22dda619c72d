"""Parses dead letters, and rebuilds the records that they were: original bytes, headers and partition."""

from collections.abc import Iterable
from typing import NamedTuple

from streamjobs.core.messages import ATTEMPT, LETTER_HEADERS, Record, Stored
from streamjobs.core.output_records import ID

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
