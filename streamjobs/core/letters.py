"""Dead letters: the record as it came, its bytes untouched, with headers that say why it could not be used."""

from streamjobs import __version__
from streamjobs.core.messages import Output, Record
from streamjobs.errors import RecordError

VERSION = __version__.encode()
LETTER_HEADERS = (  # of a dead letter, before those the record came with
    "streamjobs-id",
    *(f"streamjobs-error-{name}" for name in ("reason", "message", "stage", "topic", "partition", "offset", "timestamp")),
    "streamjobs-error-attempt",
    "streamjobs-error-version",
)
ATTEMPT = "streamjobs-attempt"  # header of a record sent back from the dead letters
ATTEMPT_DIGITS = 6


def dead_letter(record: Record, error: RecordError) -> Output:
    """The record as it came, with headers that say why it could not be used."""
    values = (
        f"{record.topic}-{record.partition}-{record.offset}".encode(),
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
    return Output("dlq", record.key, record.value, record.timestamp, [*headers, *record.headers])


def _attempt(record: Record) -> int:
    """How often this record has been tried: 1, or what it was sent back with."""
    for name, text in record.headers:
        if name == ATTEMPT and text and len(text) <= ATTEMPT_DIGITS and text.isdigit():
            return max(1, int(text))
    return 1
