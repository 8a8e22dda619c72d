"""What a dead letter says, and the record it was: original bytes, headers and partition."""

from collections.abc import Iterable
from typing import NamedTuple

from streamjobs.core.messages import ATTEMPT, LETTER_HEADERS, Record, Stored

REDRIVEN = "streamjobs-redriven"  # on a record that was sent back: topic-partition-offset of its dead letter

Place = tuple[int, int]  # partition and offset of the letter


class Letter(NamedTuple):
    partition: int  # where it lies in the dead-letter topic
    offset: int
    record: Record
    reason: str
    message: str
    stage: str
    source: tuple[str, int, int]  # topic, partition and offset of the record it was
    attempt: int
    version: str

    @property
    def place(self) -> Place:
        return self.partition, self.offset

    @property
    def name(self) -> str:
        return f"{self.partition}:{self.offset}"


def letter(record: Record) -> Letter | None:
    """The letter a record of the dead-letter topic is; None where it is none of ours."""
    held: dict[str, bytes] = {}
    for name, value in record.headers:
        held.setdefault(name, value or b"")  # ours come first; those of an input that was a dead letter itself come later
    if not held.keys() >= set(LETTER_HEADERS):
        return None

    def text(name: str) -> str:
        return held[f"streamjobs-error-{name}"].decode("utf-8", "backslashreplace")

    try:
        source = text("topic"), int(text("partition")), int(text("offset"))
        attempt = int(text("attempt"))
    except ValueError:
        return None
    place = record.partition, record.offset
    return Letter(*place, record, text("reason"), text("message"), text("stage"), source, attempt, text("version"))


def original(found: Letter) -> list[tuple[str, bytes]]:
    """The headers the record had before it became a letter."""
    ours = set(LETTER_HEADERS)
    kept = []
    for name, text in found.record.headers:
        if name in ours:
            ours.discard(name)  # the first of each name is the letter's
        else:
            kept.append((name, text or b""))
    return kept


def redriven(found: Letter, topic: str) -> Stored:
    """The record to send back to the input: as it was, and how often it has been tried. topic: of the letter."""
    headers = [(name, text) for name, text in original(found) if name not in (ATTEMPT, REDRIVEN)]
    headers += [(ATTEMPT, b"%d" % (found.attempt + 1)), (REDRIVEN, identity(topic, found.place))]
    record = found.record
    return Stored(found.source[0], found.source[1], -1, record.timestamp, record.key, record.value, tuple(headers))


def identity(topic: str, place: Place) -> bytes:
    return f"{topic}-{place[0]}-{place[1]}".encode()


def identities(records: Iterable[Record]) -> set[bytes]:
    """The letters that these records were sent back from."""
    return {text for record in records for name, text in record.headers if name == REDRIVEN and text}
