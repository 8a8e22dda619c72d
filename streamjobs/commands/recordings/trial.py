"""What the trials of [drift] did on the sample, and what `init` concludes."""

import dataclasses
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from streamjobs.commands.console import counted
from streamjobs.commands.recordings.options import with_rate
from streamjobs.core.decoding.keys import key_bytes
from streamjobs.core.messages import Stored
from streamjobs.recordings.clocks import Pauses
from streamjobs.recordings.files import records_of, records_of_rows, rows_of
from streamjobs.recordings.guess.result import Guess, key_to_try, windowed
from streamjobs.recordings.places import stem_of
from streamjobs.recordings.profile import moments_of
from streamjobs.recordings.survey import teaches
from streamjobs.recordings.tables import How, untold
from streamjobs.settings.learners import WITHOUT_RHYTHM
from streamjobs.settings.paths import column_path
from streamjobs.settings.sections import Settings
from streamjobs.settings.types import many

if TYPE_CHECKING:
    from streamjobs.commands.recordings.topic_sample import TopicSample

KEYS, RECORDS = 20, 100_000  # keys of the sample that are tried, if they have many rows, and most of their records
LOOK_AT = 1_000_000  # records of the sample
IN_UTC = "STREAMJOBS_SOURCE__TIME_ZONE"
Triple = tuple[Any, dict[str, Any], Any]  # a key, its row, and the row again or its record
MOST_NAMED = 3  # columns, or keys, in alarms that are printed
FAULTY = 4  # of so many parts of the sample one may have faults
MOST_KEYS = 0.5  # of the keys: what more of them have is not a fault
MOSTLY = 2  # times as many rows of warm-up as others
OPEN = 0.2  # of the rows, at most, a watch may have an open alarm: of a level that keeps moving it learns again and again
SOON = 0.1  # of a key's rows after its reference
RARER = 0.5  # of the alarms of a column, at most, once others are left out
TOO_MANY, MORE = 2.0, 2  # alarms are too many beyond so many times the stated number, and so many more


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
        how = dataclasses.replace(how, key_is=stem_of(path))  # as `what_next` prints
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


def is_tried(guessed: Guess) -> bool:
    """Whether the job that `init` writes can be tried on its sample, and has a [drift]."""
    return not {"fields", "time_format"} & set(guessed.choose) and not (windowed(guessed.rate) and teaches(guessed))


class Tried(NamedTuple):
    """What a way to watch did on the sample."""

    watch: str | Sequence[str]
    keys: int  # with a detector that could alarm
    rows: int  # of these keys, since then
    alarms: Counter[str]  # by key
    usual: Counter[str]  # by watch, without the parts of the sample that may have faults
    stated: float  # alarms that false_alarms allows on so many rows
    named: Counter[str]  # columns in the alarms, by the number of keys with such alarms
    warming: int = 0  # rows of all keys before that
    opened: int = 0  # rows with an open alarm of the first watch
    daily: bool = False  # with deviations from the time of day
    week: str | None = None  # and kinds of days
    idle: int = 0  # rows that are not watched, because they repeat
    between: float = 0.0  # rows of a key from one alarm to the next, as false_alarms states
    reference: str | None = None
    soon: int = 0  # keys with an alarm in the first SOON of the rows after the reference
    learn: int | None = None  # rows that teach a list of watches; None: as usual

    @property
    def fits(self) -> bool:
        """Whether alarms are as rare as stated, except in a quarter of the sample, which may have faults, and few keys.

        By the time of day, alarms in most keys are not faults, also of two: weekends and holidays are in few parts.
        With a reference most keys may have faults, but few of them soon after it.
        """
        if self.reference is not None:  # experiments are made for their faults
            return FAULTY * self.soon <= self.keys
        raised, keys = (self.alarms.total(), 2) if self.daily else (len(self.alarms), FAULTY)
        spread = self.keys >= keys and raised > self.most and len(self.alarms) > MOST_KEYS * self.keys
        return self.usual.total() <= self.most and not self.lasts and not spread

    @property
    def early(self) -> float:
        """Rows of a key from one alarm to the next, in the first SOON of those after its reference; infinite without any."""
        return SOON * self.rows / self.soon if self.soon else math.inf

    @property
    def loud(self) -> str | None:
        """The column in the alarms of most keys."""
        column, keys = next(iter(self.named.most_common(1)), (None, 0))
        return column if keys > max(MOST_KEYS * self.keys, FAULTY) else None

    @property
    def lasts(self) -> bool:
        """Whether alarms of the first watch are open for too many rows."""
        return self.reference is None and self.opened > OPEN * (self.rows + self.warming + self.idle)

    @property
    def most(self) -> float:
        """Alarms outside that quarter, beyond which there are too many."""
        return TOO_MANY * self.stated + MORE

    @property
    def _close(self) -> bool:
        return self.fits and self.alarms.total() > self.most and self.reference is None

    def __str__(self) -> str:
        most = ", ".join(f"{name} of {many(count, 'key')}" for name, count in self.named.most_common(MOST_NAMED))
        others = {"of warm-up": self.warming, "of idle sensors": self.idle}
        more = " and ".join(f"{many(count, 'more row')} {what}" for what, count in others.items() if count)
        more = f" ({more})" if more else ""
        watch = json.dumps(self.watch) + (" with daily = true" if self.daily else "")
        watch += f" and week = {json.dumps(self.week)}" if self.week else ""
        watch += f" with reference = {json.dumps(self.reference)}" if self.reference else ""
        return (
            f"on the sample, watch = {watch} raised {many(self.alarms.total(), 'alarm')} in "
            f"{len(self.alarms):,} of {many(self.keys, 'key')} and {many(self.rows, 'row')}{more}; "
            f"false_alarms allows {self.stated:.2g}"
            + (f"; columns in them: {most}" if most and not self.fits else "")
            + (f"; they are open for more than {OPEN:.0%} of the rows" if self.lasts else "")
            + ("; most are close together, as those of faults are" if self._close else "")
            + (f"; {many(self.soon, 'key')} in the first tenth of the rows after the reference" if self.reference else "")
        )


class Trial(NamedTuple):
    """What was tried, the best last."""

    tried: list[Tried]
    why_not: str | None = None  # nothing was tried
    sensors: Sequence[str] = ()  # lines of the job file, from [alarms] on
    off: Sequence[str] = ()  # to print of each of these that raised alarms, or is a comment
    own: Tried | None = None  # what the file's own [drift] did

    @property
    def unfit(self) -> tuple[str, str] | None:
        """A column that should not be watched, and why: most keys alarm on it, and also differ from its forecasts."""
        best = self.tried[-1] if self.tried else None
        if best and best.fits and "innovations" in best.watch and best.usual.total() <= best.stated:  # a level that wanders
            return None
        for way in self.tried:
            if way.watch in ([*WITHOUT_RHYTHM], "columns") and not way.fits and (loud := way.loud):
                return loud, f"in the alarms of {way.named[loud]:,} of {many(way.keys, 'key')} of the sample"
        return None

    @property
    def each(self) -> float:
        """Alarms of the file's own [drift] in a row, outside the parts with faults; infinite where it was not tried."""
        return self.own.usual.total() / self.own.rows if self.own is not None else math.inf

    @property
    def waits(self) -> bool:
        """Whether most rows of the sample are warm-up, as where rows resemble those before them over a day."""
        return not self.tried or (self.tried[-1].fits and self.tried[-1].warming > MOSTLY * self.tried[-1].rows)

    def lines(self) -> Iterator[str]:
        """What to print and to write into the job file."""
        if self.why_not is not None:
            yield f"[drift] was not tried: {self.why_not}"
        yield from map(str, self.tried)
        if self.tried and (best := self.tried[-1]).early < best.between:
            yield (
                f"if experiments begin without faults, expect 1 false alarm in {best.early:,.0f} rows of a key, not 1 in "
                f"{best.between:,.0f}, as false_alarms states: a short reference does not show how far slow columns move"
            )
        elif self.tried and (count := best.alarms.total()) > best.most:
            yield (
                f"if the sample has no faults, expect up to 1 alarm in {best.rows / count:,.0f} rows of a key, not 1 in "
                f"{best.between:,.0f}, as false_alarms states"
                + ("" if best.reference else "; fewer later, where levels return")
            )
        if self.tried and not self.tried[-1].fits:
            yield (
                "[drift] alarms too often: if the sample has no such faults, remove the columns that are in the alarms from "
                "fields, or set [drift] reference"
            )


def worth_leaving_out(ways: Sequence[tuple[Guess, Trial]]) -> int:
    """How many of the columns that were left out in turn make alarms rarer, by more than in proportion to their number.

    ways: with all columns first, then without one after the other. Faults are in the alarms of all columns: each column less
    finds fewer of them. A column that breaks the promise has nearly all alarms.
    """
    best = 0
    for number, (guessed, trial) in enumerate(ways[1:], 1):
        if trial.each / len(guessed.fields) < RARER * ways[best][1].each / len(ways[best][0].fields):
            best = number
    return best
