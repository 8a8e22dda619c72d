"""[source] time_unit = "auto": the first time that is a number decides its unit, once for all records.

Each unit has a range that no other one has; in all of them it is the time from 1973-03-03 to 5138-11-16. A later number
outside the range of the decided unit is a `bad_time`. Times in ISO 8601 decide nothing.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamjobs.core.decoding.one_field import field_reader
from streamjobs.core.decoding.records import Decoded, decoder
from streamjobs.core.decoding.samples import Problem
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.messages import Record, Unread
from streamjobs.settings.composition import Composition
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import AUTO, number_in, unit_of


def time_judge(source: SourceSection) -> Callable[[Record], str | None]:
    """A function that says in which unit a record's time must be, None where it does not tell."""
    assert source.time is not None
    field_of, lenient = field_reader(source, source.time), source.numbers == "lenient"

    def judge(record: Record) -> str | None:
        if isinstance(record, Unread):
            return None
        try:
            return _unit_of(field_of(record), lenient)
        except Problem:
            return None

    return judge


def _unit_of(time: Any, lenient: bool) -> str | None:
    if isinstance(time, bytes) and time and len(time) % 8 == 0:  # of a frame in MessagePack
        time = np.frombuffer(time, "<f8").tolist()
    numbers = time if isinstance(time, list) else [time]
    if lenient:
        numbers = [number_in(one) if isinstance(one, str) else one for one in numbers]
    return next((unit for one in numbers if (unit := unit_of(one)) is not None), None)


@dataclass(slots=True)
class UndecidedDecoder:
    """Decodes as [source] describes, with the unit that the first batch with a number in a range tells.

    What comes before that number is a dead letter in any unit, so where batches begin and end makes no difference. For one
    input read in order, such as a replay's; workers, which read partitions side by side, decide before they read.
    """

    source: SourceSection
    make: Callable[[SourceSection], Callable[[Sequence[Record]], Decoded]]
    unit: str | None = None
    _decode: Any = None
    _judge: Any = None

    def __call__(self, records: Sequence[Record]) -> Decoded:
        if self.unit is None:
            self._judge = self._judge or time_judge(self.source)
            self.unit = next((unit for record in records if (unit := self._judge(record)) is not None), None)
            self._decode = self.make(self.source.in_unit(self.unit or "s"))
        decoded: Decoded = self._decode(records)
        return decoded


def job_decoder(
    composition: Composition, source: SourceSection, schemas: Schemas | None = None
) -> Callable[[Sequence[Record]], Decoded]:
    """The decoder of what a job reads. source: the job's, or the same with the unit that was decided; schemas: `decoder`."""

    def make(source: SourceSection) -> Callable[[Sequence[Record]], Decoded]:
        return decoder(source, composition.dim, composition.mirror, composition.settings.labels.wait > 0, schemas)

    return UndecidedDecoder(source, make) if source.time_unit == AUTO else make(source)
