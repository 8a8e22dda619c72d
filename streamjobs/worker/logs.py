"""Logging of a worker: one line per event on stderr.

An event is a fixed lower-case phrase that people can search for; what varies goes into fields. A key or a value of a
record is never logged.
"""

import copy
import functools
import logging
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import structlog

from streamjobs.core.messages import BACK, Report, SetAside
from streamjobs.core.unlearned import ENOUGH, Taken
from streamjobs.kafka.topic_id import settings_of

log = structlog.get_logger("streamjobs")

SELDOM = 60.0  # seconds between two lines of a kind
MOST_LINES = 10  # about keys of a partition that are set aside, in SELDOM seconds
MANY_MISSES = 0.1  # states read to records
FEWEST_RECORDS = 1_000  # of a minute, for a line about what most of its records needed, or were
SLOW = 1.0  # seconds of a call of `advance`, which takes 0.15 s where 16 records or more fit


def configure(*, debug: bool = False) -> None:
    """Readable lines on a terminal, JSON otherwise.

    Libraries log with --debug only: the worker meets their problems as well, and reports each once, in one line.
    """
    terminal = sys.stderr.isatty()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG if debug else logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.INFO if debug else logging.CRITICAL + 1,
        format="%(asctime)s %(name)s %(levelname)s %(message)s",
    )


class Unlearned:
    """Warns, at most once a minute for each reason, of what was taken in that minute and not learned.

    taken: counts since the worker's start, which others raise.
    """

    def __init__(self, taken: Taken, now: float) -> None:
        self._taken, self._before, self._since = taken, copy.deepcopy(taken), now
        self._unlike = False
        self._named = set[tuple[str, str]]()  # keys in other units, once each

    def check(self, now: float, *, last: bool = False) -> None:
        """Warn where a minute is over; with `last`, of the minute begun, because the worker stops."""
        if now - self._since < SELDOM and not last:
            return
        minute = self._taken.since(self._before)
        seconds, self._since, self._before = round(now - self._since), now, copy.deepcopy(self._taken)
        for one in minute.much_skipped():
            log.warning(
                "samples skipped",
                reason=one.reason,
                skipped=one.number,
                of=one.of,
                unit=one.unit,
                percent=one.percent,
                seconds=seconds,
                meaning=one.advice,
            )
        if self._taken.unlike and not self._unlike:  # once, of all since the start: a minute may be one person at rest
            self._unlike = True
            log.warning("windows unlike the population", rows=self._taken.rows, meaning=self._taken.unlike)
        for sentence, keys in self._taken.other_units(self._named):
            log.warning("keys in other units than the population", keys=len(keys), meaning=sentence)
        self._named |= {one for one, rows in self._taken.units.items() if rows >= ENOUGH}
        if minute.absent:
            log.warning(
                "a number is missing in all samples",
                columns=minute.absent,
                samples=minute.samples,
                seconds=seconds,
                meaning="[source] missing fills it in; check its sensor, and whether the field has a new name",
            )
        if minute.redelivered >= FEWEST_RECORDS and 2 * minute.redelivered > minute.records:
            log.info(
                "most records were applied before",
                redelivered=minute.redelivered,
                of=minute.records,
                seconds=seconds,
                meaning="as after a crash, or offsets that were set back: the states of their keys have them, so that they "
                "give no outputs",
            )
        if minute.mostly_dead:
            log.warning(
                "most records became dead letters",
                dead_lettered=minute.dead_lettered.total(),
                of=minute.records - minute.redelivered,
                reasons=dict(minute.dead_lettered),
                example=minute.latest_letter,
                seconds=seconds,
            )


class CacheMisses:
    """Counts what calls of `advance` report, over a minute. A key's first record after a start is not a miss."""

    def __init__(self, cache: int) -> None:
        self._cache = cache
        self._records = self._read = self._evicted = 0
        self._since: float | None = None

    def count(self, report: Report, now: float) -> None:
        """now: time.monotonic()."""
        self._since = now if self._since is None else self._since
        self._records += report.records
        self._read += report.states_read
        self._evicted += report.keys_evicted
        if now - self._since < SELDOM:
            return
        read = min(self._read, self._evicted)
        if self._records >= FEWEST_RECORDS and read > MANY_MISSES * self._records:
            log.warning(
                "keys do not fit the cache",
                records=self._records,
                states_read=read,
                cache=f"{self._cache >> 20}MB",
                meaning="states are read from the store again and again: raise [state] cache, or start more workers",
            )
        self._since, self._records, self._read, self._evicted = now, 0, 0, 0


def totals(taken: Taken) -> dict[str, Any]:
    """What became of the records, as fields of the event `stopped`."""
    return {
        "records": taken.records,
        "redelivered": taken.redelivered,
        "samples": taken.samples,
        "rows": taken.rows,
        "dead_lettered": taken.dead_lettered.total(),
        "dead_letter_reasons": dict(taken.dead_lettered),
        "skipped": {reason: count for reason, count in taken.skipped.items() if count},
    }


class Notices:
    """Lines about a partition's records that people should look into, few a minute: of most kinds one, with the count."""

    def __init__(self, partition: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.partition, self.clock = partition, clock
        self._lines, self._lines_since = 0, float("-inf")  # about keys set aside
        self._told: dict[str, tuple[int, float]] = {}  # kind -> records since its last line, and when that was

    def take(self, report: Report, seconds: float = 0.0) -> None:
        """Of one call of `advance`, which took so long."""
        if seconds > SLOW and self._due("slow", report.records):
            log.warning(
                "records are slow",
                partition=self.partition,
                records=report.records,
                seconds=round(seconds, 1),
                meaning="nothing else happens in the worker meanwhile: make the learner faster, lower its budget, or give "
                "the worker more processor",
            )
        if report.failures and (records := self._due("failed", len(report.failures))):
            log.error("learner failed", partition=self.partition, records=records, **report.failures[-1]._asdict())

        if report.targets_clipped and (records := self._due("clipped", report.targets_clipped)):
            log.warning("targets clipped", partition=self.partition, records=records)

        if report.set_aside:
            self._log_set_aside(report.set_aside)

    def _log_set_aside(self, keys: Sequence[SetAside]) -> None:
        """A line for each key, MOST_LINES a minute."""
        now = self.clock()
        if now - self._lines_since >= SELDOM:
            self._lines_since, self._lines = now, 0
        for one in keys[: MOST_LINES - self._lines]:
            self._lines += 1
            log.error(
                "key set aside",
                partition=self.partition,
                key_hash=one.key_hash,
                state=f"cannot be {one.what}",
                reason=one.why,
                records="become dead letters with reason 'state', which name the key",
                action=f"{BACK[one.what]}; see StreamjobsKeysSetAside in deploy/runbook.md",
            )

    def _due(self, kind: str, records: int) -> int:
        """Number of records that the line due now counts; 0: no line is due."""
        waiting, told = self._told.get(kind, (0, float("-inf")))
        waiting, now = waiting + records, self.clock()
        due = now - told >= SELDOM
        self._told[kind] = (0, now) if due else (waiting, told)
        return waiting if due else 0


def log_deleted(topic: str, partition: int, *, unlearned: int, unread: int) -> None:
    """Records that retention deleted. unlearned: outputs are out, states of some keys lack them; unread: without outputs."""
    if unlearned:
        log.warning(
            "records were deleted before states had them",
            topic=topic,
            partition=partition,
            records=unlearned,
            hint="keys that were not written since have not learned them; let the input keep records for longer",
        )
    if unread:
        log.warning("records were deleted before this job read them", topic=topic, partition=partition, records=unread)


def log_removed(topic: str, partition: int, offsets: int) -> None:
    log.warning(
        "a compacted input has offsets without records",
        topic=topic,
        partition=partition,
        offsets=offsets,
        meaning="Kafka removed records of keys that have newer ones before this job read them, and no key learns them; "
        "markers of transactions are counted too",
        hint="set the input's min.compaction.lag.ms to the longest time without a worker",
    )


def log_new_settings(place: tuple[str, int], metadata: str, settings: str, records: tuple[int, int]) -> None:
    """A job file that changed while states lacked these records, from the first offset to the one after the last.

    metadata: of the commit; settings: the hash of the present ones.
    """
    before = settings_of(metadata)
    if records[0] < records[1] and before and settings and before != settings:
        log.warning(
            "the job file changed while states lacked records",
            topic=place[0],
            partition=place[1],
            first=records[0],
            end=records[1],
            action="states apply these records with the new settings; their outputs are those of the former",
            hint="do not send dead letters of these records back if the new settings accept them: they are learned now",
        )


def log_foreign_offset(place: tuple[str, int], offset: int, learned: int) -> None:
    """learned: the offset after the newest record that a state has learned."""
    log.warning(
        "another program set the group's offset",
        topic=place[0],
        partition=place[1],
        offset=offset,
        learned_up_to=learned,
        meaning=f"no state has learned the {offset - learned} offsets from {learned} on, and they are not read"
        if offset > learned
        else "records that a key has already applied are skipped, and give no output; outputs of others may come again",
    )


def log_uncommitted(place: tuple[str, int]) -> None:
    log.warning(
        "states exist but no offset is committed",
        topic=place[0],
        partition=place[1],
        action="reading from the beginning; records a key has already applied are skipped, outputs of others may come again",
        hint="if the input topic was recreated, run 'streamjobs state forget-offsets' first",
    )


@functools.cache  # partitions have the same
def log_starting_over(meaning: str) -> None:
    """meaning: what `Live.meet` gives."""
    if meaning:
        log.warning("sections start over or end", meaning=meaning)


def log_stateless(place: tuple[str, int], offset: int) -> None:
    log.warning(
        "offsets are committed but there are no states",
        topic=place[0],
        partition=place[1],
        offset=offset,
        action="keys start over from there",
        hint="if the changelog was deleted, stop the workers and restore it: 'streamjobs state restore'",
    )
