"""What a job is tried on: the records of a sample that trials of learners and of [drift] run."""

import dataclasses
import itertools
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streamjobs.commands.console import counted
from streamjobs.commands.recordings.options import with_rate
from streamjobs.core.decoding.keys import key_bytes
from streamjobs.core.messages import Stored
from streamjobs.recordings.clocks import Pauses
from streamjobs.recordings.files import records_of, records_of_rows, rows_of
from streamjobs.recordings.guess.result import Guess, key_to_try
from streamjobs.recordings.places import Place
from streamjobs.recordings.profile import moments_of
from streamjobs.recordings.tables import How, untold
from streamjobs.settings.paths import column_path
from streamjobs.settings.sections import Settings

if TYPE_CHECKING:
    from streamjobs.commands.recordings.topic_sample import TopicSample

KEYS, RECORDS = 20, 100_000  # keys of the sample that are tried, if they have many rows, and most of their records
LOOK_AT = 1_000_000  # records of the sample
IN_UTC = "STREAMJOBS_SOURCE__TIME_ZONE"
Triple = tuple[Any, dict[str, Any], Any]  # a key, its row, and the row again or its record


class Sample(NamedTuple):
    """What a job is tried on: a file, or records of a topic."""

    path: Path | None
    how: How
    topic: "TopicSample | None" = None


def environment(guessed: Guess) -> Mapping[str, str]:
    """Settings for a trial: times without a known zone are read in UTC, in which the pauses between them are the same."""
    return {**({IN_UTC: "UTC"} if "time_zone" in guessed.choose else {}), **os.environ}


def records_to_try(
    settings: Settings,
    sample: Sample,
    guessed: Guess,
    pauses: Pauses | None = None,
    most: int = KEYS,
    each: int | None = None,
) -> Iterator[Stored]:
    """Of the sample's first keys, `most` of them. pauses: gets those of all keys. each: records of a key, anywhere."""
    from streamjobs.commands.recordings.topic_sample import order_of  # which loads the client of Kafka

    key = key_to_try(guessed)
    key_of = (lambda row: None) if key is None else column_path(key).find
    if sample.topic is not None:  # as if all were in one partition: those of a key may be in several
        rows, records = sample.topic.rows, sample.topic.records
        keys = sample.topic.owners or map(key_of, rows)
        if sample.topic.owners is None:  # as `rekey` copies them
            records = [one._replace(key=key_bytes(key_of(row))) for row, one in zip(rows, records, strict=True)]
        given = list(zip(keys, rows, records, strict=True))
        # `rekey` copies several partitions by their timestamps. Else records of a key are in one partition, in order, and
        # those of a producer that catches up have timestamps of one moment.
        if guessed.time is not None and not sample.topic.mixed:
            given = [given[n] for n in order_of(records, list(map(moments_of(guessed), rows)))]
        tried = _of_first_keys(_measured(given, guessed, pauses), most, each)
        for number, record in enumerate(tried):
            yield record._replace(topic=settings.source.topic, partition=0, offset=number)
        return
    path = sample.path
    assert path is not None
    how = with_rate(sample.how, settings)
    start_time = None if guessed.rate is None else guessed.start_time  # of an unknown unit, it could be any time
    how = dataclasses.replace(how, tell=untold, key_from=guessed.key_from if key is None else None)
    if key is None and how.key_from is None:
        how = dataclasses.replace(how, key_is=Place(path, None, (path.resolve().name,)).stem)  # as `what_next` prints
    if key is None or guessed.preset is not None:
        read = records_of(path, settings.source, key, start_time, settings.side, how=how)
        for record in itertools.islice(read, max(RECORDS, each or 0)):
            if pauses is not None:
                pauses.add(record.key, record.timestamp / 1000)
            yield record
        return
    triples = ((key_of(row), row, row) for row in counted(rows_of(path, how), "rows of the sample read"))
    tried = _of_first_keys(_measured(triples, guessed, pauses), most, each)
    yield from records_of_rows(tried, settings.source, key, start_time, settings.side, how)


def _measured(triples: Iterable[Triple], guessed: Guess, pauses: Pauses | None) -> Iterator[Triple]:
    """The triples; the pauses of their keys are added to `pauses`."""
    seconds = moments_of(guessed)
    for key, row, one in triples:
        if pauses is not None and guessed.time is not None and isinstance(key, Hashable):
            pauses.add(key, seconds(row))
        yield key, row, one


def _of_first_keys(triples: Iterable[Triple], most: int, each: int | None) -> Iterator[Any]:
    """The last of each triple of the first keys, `most` of them."""
    counts, left = Counter[Hashable](), RECORDS if each is None else most * each
    for number, (key, _, one) in enumerate(triples):
        if isinstance(key, Hashable) and (key in counts or len(counts) < most) and (each is None or counts[key] < each):
            counts[key] += 1
            left -= 1
            yield one
        if not left or (each is None and number == LOOK_AT):
            return
