"""Decides the unit of event times at a job's first start, with [source] time_unit = "auto".

The first record with a number in a unit's range as its time decides, in the order of partitions and offsets. The unit is
kept in the metadata of every offset that the group commits, from the first start on: there other workers, restarts and
replays of the topic find it. Workers that start for the first time together read the same records; should their answers
differ all the same, because the topic mixes units and was being filled, the next assignment of partitions stops them
(`decided_time_unit`).
"""

import time
from collections.abc import Callable
from contextlib import closing
from itertools import islice
from typing import NamedTuple

from streamjobs.core.interface import JobLike
from streamjobs.errors import SetupError
from streamjobs.kafka import reader
from streamjobs.settings.sections import Settings

LOOK_AT = 1_000  # most records of a partition that are looked at
ASK_EVERY = 1.0  # seconds between two looks at an input without such a record


class Decided(NamedTuple):
    unit: str
    partition: int
    offset: int


def decide(
    settings: Settings, job: JobLike, partitions: int, *, once: bool, on_wait: Callable[[], None] = lambda: None
) -> Decided | None:
    """The unit of the input's times. Waits for a record that shows it; with `once`, None of an empty input.

    on_wait: called once if it waits. Raises SetupError if the first LOOK_AT records of a partition do not show the unit, or
    with `once` no record of the input does.
    """
    waits = False
    while (found := _decided(settings, job, partitions, once=once)) is None and not once:
        if not waits:
            on_wait()
            waits = True
        time.sleep(ASK_EVERY)
    return found


def _decided(settings: Settings, job: JobLike, partitions: int, *, once: bool) -> Decided | None:
    source, records = settings.source, 0
    for number in range(partitions):
        looked = 0
        with closing(reader.read(settings.broker, source.topic, {number: (0, None)}, max_bytes=source.max_bytes)) as read:
            for record in islice(read, LOOK_AT):
                if (unit := job.time_unit_of(record)) is not None:
                    return Decided(unit, number, record.offset)
                looked += 1
        records += looked
        if looked == LOOK_AT or (once and records and number == partitions - 1):
            raise SetupError(
                f"topic {source.topic}[{number}]: expected a time from 1973 to 5138 as a number of s, ms, us or ns in "
                f"field {source.time!r} of one of the first {records:,} records, for time_unit = 'auto', got none; set "
                "[source] time_unit."
            )
    return None
