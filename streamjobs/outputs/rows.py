"""Records of an output topic as rows: repeats dropped, fields as the job's schema names them."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from streamjobs.core.job import Job
from streamjobs.core.messages import LETTER_HEADERS, Headers
from streamjobs.core.output_records import ID, SCHEMA, schema_name
from streamjobs.errors import ConfigError
from streamjobs.outputs.schema import JsonSchema, output_schemas
from streamjobs.settings.composition import not_sent

MOST_RECENT = 200_000  # ids of a partition that are kept: more than a checkpoint repeats
ADDED = {  # columns before those of the record
    "output_id": {"type": "string"},
    "time": {"type": "string", "format": "date-time"},
}
_LETTER = [name.removeprefix("streamjobs-error-") for name in LETTER_HEADERS[1:]]
_NUMBERS = ("partition", "offset", "timestamp", "attempt")  # of a letter
Given = tuple[int, bytes | None, bytes | None, Headers]  # timestamp in milliseconds, key, value, headers

_decode = msgspec.json.Decoder().decode


class Repeats:
    """Tells outputs that came before, by their ids. Bounded: it keeps the newest ids of each input partition and life.

    Outputs come in the order of their input's offsets, but for batches that a crash repeats. So an id with an offset below
    all that are kept is a repeat as well.
    """

    def __init__(self, source: str) -> None:
        self.count = 0
        self._place = re.compile(rf"{re.escape(source)}((?:~[0-9a-f]+)?-[0-9]+)-([0-9]+)(?:-.+)?")
        self._recent: dict[str, dict[str, int]] = {}  # by life and partition: id -> offset, oldest first
        self._floor: dict[str, int] = {}  # the largest offset of those dropped

    def seen(self, identity: str) -> bool:
        """Whether this id came before; now it has."""
        place = self._place.fullmatch(identity)
        partition, offset = (place[1], int(place[2])) if place else ("", -1)
        recent = self._recent.setdefault(partition, {})
        if identity in recent or (place and offset <= self._floor.get(partition, -1)):
            self.count += 1
            return True
        recent[identity] = offset
        if len(recent) > MOST_RECENT:
            oldest = next(iter(recent))
            self._floor[partition] = max(self._floor.get(partition, -1), recent.pop(oldest))
        return False


class Table:
    """What a sink's rows look like, and how a record becomes one."""

    def __init__(self, job: Job, sink: str) -> None:
        """Raises ConfigError where the job sends nothing there."""
        if sink not in job.sinks:
            raise ConfigError(not_sent(sink, job.sinks, "export"))
        self.sink = sink
        self.repeats = Repeats(job.settings.source.topic)
        self.count = 0
        self.others: set[str] = set()  # fields that no row has: another job's
        self.foreign = 0  # records that are not outputs
        if sink == "dlq":
            numbers = {name: {"type": "integer"} for name in _NUMBERS}
            text: JsonSchema = {"anyOf": [{"type": "string"}, {"type": "null"}]}
            self.fields: dict[str, JsonSchema] = {
                "key": text,
                **{name: numbers.get(name, text) for name in _LETTER},
                "value": {"anyOf": [{"type": "string", "contentEncoding": "bytes"}, {"type": "null"}]},
            }
        else:
            self.fields = output_schemas(job)[sink]["properties"]

    def rows(self, records: Iterable[Given]) -> Iterator[dict[str, Any]]:
        """A row for each record that did not come before. Raises ConfigError for one that this job does not send."""
        for timestamp, key, value, headers in records:
            named = {name: value or b"" for name, value in reversed(headers)}  # a letter's own come before its record's
            if ID not in named:
                self.foreign += 1
                continue
            identity = named[ID].decode("utf-8", "backslashreplace")
            if self.repeats.seen(identity):
                continue
            row = self._letter(key, value, named) if self.sink == "dlq" else self._row(identity, value, named)
            if row is not None:
                self.count += 1
                yield {"output_id": identity, "time": timestamp, **row}

    def _row(self, identity: str, value: bytes | None, named: dict[str, bytes]) -> dict[str, Any] | None:
        try:
            fields = _decode(value or b"")
        except msgspec.DecodeError:
            fields = None
        if not isinstance(fields, dict):
            self.foreign += 1
            return None
        stated = named.get(SCHEMA, b"").decode("utf-8", "backslashreplace")
        if stated != schema_name(self.sink):
            raise ConfigError(
                f"export: the record {identity} has the schema {stated or 'of an older release'}; this release reads "
                f"{schema_name(self.sink)}. Export it with the release that wrote it."
            )
        if not fields.keys() <= self.fields.keys():
            self.others |= fields.keys() - self.fields.keys()
        return {name: fields.get(name) for name in self.fields}

    def _letter(self, key: bytes | None, value: bytes | None, named: dict[str, bytes]) -> dict[str, Any] | None:
        if not named.keys() >= set(LETTER_HEADERS):
            self.foreign += 1
            return None
        row: dict[str, Any] = {"key": None if key is None else key.decode("utf-8", "backslashreplace")}
        for name in _LETTER:
            text = named[f"streamjobs-error-{name}"].decode("utf-8", "backslashreplace")
            row[name] = int(text) if name in _NUMBERS and text.lstrip("-").isdigit() else text
        return {**row, "value": value}
