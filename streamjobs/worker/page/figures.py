"""The figures of the page: a point a second in a bounded ring, and tables; made in the page's thread of what `Feed` has."""

import json
import math
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import Any

import numpy as np

from streamjobs import __version__
from streamjobs.core.messages import BatchRows, ShownAlarm
from streamjobs.core.unlearned import Taken as Counts
from streamjobs.errors import REASONS
from streamjobs.settings.types import shortened
from streamjobs.worker.health import Health
from streamjobs.worker.page.ask import States
from streamjobs.worker.page.feed import Feed, Taken
from streamjobs.worker.page.people import People, Scores

POINTS = 900  # a quarter of an hour
EVERY = 1.0  # seconds between two points
NEWEST_EVENTS = 40  # alarms, open alarms, and dead letters, in their tables
JUDGED = 100  # newest records, at least, that `_doubts` judges
DOUBTFUL = 50.0  # percent of their samples, or windows, that one reason skips
MOST_VALUES = 20_000  # LS errors of a second that its quantiles are of: the newest
WORST = 10
MOST_KEY = 1000  # characters of a key; a longer one does not fit into a request for its state
SERIES = (  # columns of a point
    *("time", "records", "rows", "delay_p50", "delay_p99", "error_p50", "error_p99", "lag", "recovery", "cpu"),
)


class Figures:
    """`look` once a second; `full` and `tick` give what viewers are sent, as JSON."""

    def __init__(
        self, feed: Feed, health: Health, about: dict[str, Any], states: States | None = None, scores: Scores | None = None
    ) -> None:
        """about: the job's name and the like; states: reads open alarms from live states; scores: as labels come."""
        self.people, self.scores = People(), scores or Scores()
        self.number = 0  # of the last look
        self._feed, self._health, self._about, self._states = feed, health, about, states
        self._open: list[ShownAlarm] = []  # the newest open alarms, as the states have them
        self._in_alarm = 0  # keys
        self._counts: deque[Counts] = deque([_copy(health.metrics.taken)], maxlen=2)
        self._points: deque[list[float | None]] = deque(maxlen=POINTS)
        self._alarms: deque[dict[str, Any]] = deque(maxlen=NEWEST_EVENTS)
        self._letters: deque[dict[str, Any]] = deque(maxlen=NEWEST_EVENTS)
        self._labels = 0
        self._fresh: set[str] = set()  # tables that the last look changed
        self._before = (time.monotonic(), 0, 0, time.process_time())
        self._texts: dict[str, tuple[int, bytes]] = {}

    def look(self, now: float | None = None) -> None:
        """Take what has come since the last look. now: time.time()."""
        moment = time.time() if now is None else now
        self._labels = self._feed.labels  # before the rows that they are of: never more than those tell
        taken = self._feed.look(moment)
        self.number += 1
        self._fresh = set()
        self._read_states()
        raised = [(alarm.key, alarm.time) for alarm in taken.alarms if alarm.outcome is None]
        self.people.take(taken.batches, raised, self.number, dict.fromkeys(one.key for one in self._open))
        self.scores.take(taken.batches, taken.late)
        if taken.batches:
            self._fresh.add("confusion")
        for alarm in taken.alarms:
            self._tell(_alarm(alarm))
            self._fresh.add("alarms")
        if self._health.metrics.taken.records - self._counts[-1].records >= JUDGED:
            self._counts.append(_copy(self._health.metrics.taken))
        for at, letter in taken.letters:
            shown = {"at": round(at or moment, 1), **letter._asdict(), "key": shortened(letter.key, MOST_KEY)}
            self._letters.appendleft(shown)
            self._fresh.add("letters")
        self._points.append(self._point(moment, taken))

    def _read_states(self) -> None:
        """Which alarms are open, by the states: an alarm that was raised before a restart is as well."""
        if self._states is None:
            return
        read = [self._states.open_alarms(one.live, NEWEST_EVENTS) for one in self._health.metrics.partitions()]
        before, self._in_alarm = self._open, sum(keys for keys, _ in read)
        self._open = sorted((one for _, some in read for one in some), key=lambda one: -one.time)[:NEWEST_EVENTS]
        if [one.id for one in before] != [one.id for one in self._open]:
            self._fresh.add("alarms")

    def _alarm_table(self) -> list[dict[str, Any]]:
        """Open alarms first; then the newest that are over, or of keys that are not in memory."""
        by_id = {alarm["id"]: alarm for alarm in self._alarms if alarm["id"]}
        opened = [by_id.get(alarm.id) or _alarm(alarm) for alarm in self._open]
        ids = {alarm.id for alarm in self._open}
        return [{**alarm, "open": True} for alarm in opened] + [alarm for alarm in self._alarms if alarm["id"] not in ids]

    def _doubts(self) -> list[str]:
        """Why most of the newest records were not learned, a sentence for each reason."""
        newest = _copy(self._health.metrics.taken).since(self._counts[0])
        much = [skipped for skipped in newest.much_skipped() if skipped.percent >= DOUBTFUL]
        sentences = [
            f"{skipped.percent:g} % of the newest {skipped.of:,} {skipped.unit} are {skipped.reason}: {skipped.advice}."
            for skipped in much
        ]
        if newest.records and newest.mostly_dead:
            sentences.append(
                f"{newest.dead_lettered.total():,} of the newest {newest.records:,} records became dead letters."
            )
        return sentences

    def _tell(self, alarm: dict[str, Any]) -> None:
        """An alarm that is raised comes first; one that ends stays where it is, or is forgotten already."""
        if alarm["outcome"] is None:
            self._alarms.appendleft(alarm)
            return
        for one in self._alarms:
            if one["id"] == alarm["id"]:
                one |= {"end": alarm["end"], "outcome": alarm["outcome"]}

    def _point(self, moment: float, taken: Taken) -> list[float | None]:
        metrics = self._health.metrics
        now, records, rows, cpu = time.monotonic(), metrics.taken.records, self._feed.rows, time.process_time()
        then, records_then, rows_then, cpu_then = self._before
        self._before = now, records, rows, cpu
        took = max(1e-3, now - then)
        lag = sum(metrics.lag_of(one) for one in metrics.partitions())
        rates = (records - records_then) / took, (rows - rows_then) / took
        quantiles = *_quantiles(np.asarray(taken.delays)), *_quantiles(_errors(taken.batches))
        return [
            round(moment, 1),
            *map(_short, (*rates, *quantiles)),
            lag,
            metrics.remaining,
            _short((cpu - cpu_then) / took),
        ]

    def full(self) -> bytes:
        """Everything, for a viewer who has just come."""
        return self._text("full", self._full)

    def tick(self) -> bytes:
        """What the last look added, for viewers who have everything before it."""
        return self._text("tick", self._tick)

    def _text(self, kind: str, make: Callable[[], dict[str, Any]]) -> bytes:
        """An event for all viewers of this look, made once."""
        number, text = self._texts.get(kind, (-1, b""))
        if number != self.number:
            body = json.dumps(make(), separators=(",", ":"), allow_nan=False).encode()
            text = b"event: %s\ndata: %s\n\n" % (kind.encode(), body)
            self._texts[kind] = self.number, text
        return text

    def _full(self) -> dict[str, Any]:
        people = [self._person(key, fresh=False) for key in self.people.shown]
        tables = {"alarms": self._alarm_table(), "letters": list(self._letters), "confusion": self._confusion()}
        needed = self._states.needed_to_alarm if self._states is not None else None
        about = {**self._about, "needed": needed, "version": __version__, "series": SERIES}
        return {"about": about, "points": list(self._points), "people": people, **self._status(), **tables}

    def _tick(self) -> dict[str, Any]:
        people = [self._person(key, fresh=True) for key in self.people.shown]
        event = {"point": self._points[-1], "people": people, **self._status()}
        if "alarms" in self._fresh:
            event["alarms"] = self._alarm_table()
        if "letters" in self._fresh:
            event["letters"] = list(self._letters)
        if "confusion" in self._fresh:
            event["confusion"] = self._confusion()
        return event

    def _person(self, key: str, *, fresh: bool) -> dict[str, Any]:
        person = self.people.shown[key]
        cells = person.fresh if fresh and person.rows > len(person.fresh) else list(person.cells)
        event = {"key": shortened(key, MOST_KEY), "rows": person.rows, "right": person.right, "labelled": person.labelled}
        event["cells"] = [[*cell[:3], _short(cell[3])] for cell in cells]
        event["alarm"] = person.alarm
        event["new"] = len(cells) == person.rows or not fresh  # these are all cells
        event["error"] = _short(person.errors[-1][1]) if person.errors and person.errors[-1][0] == self.number else None
        if event["new"]:
            first = self.number - len(self._points) + 1
            event["errors"] = [[look - first, _short(error)] for look, error in person.errors if look >= first]
        return event

    def _confusion(self) -> dict[str, Any]:
        names = self.people.classes
        pairs = [[self.people.number(a), self.people.number(b), rows] for (a, b), rows in self.people.confusion.items()]
        counted, feed = sum(self.people.confusion.values()), self._feed
        rmse = math.sqrt(feed.squared / feed.measured) if feed.measured else None
        totals = {"counted": counted, "labels": self._labels, "unpredicted": self.people.unpredicted, "rmse": _short(rmse)}
        return {"pairs": pairs, "classes": names, **totals, "repeated": self._repeated()}

    def _repeated(self) -> float | None:
        """What repeating each key's last label gets: the share that is right, or the root mean squared error."""
        scores = self.scores
        if not scores.rows:
            return None
        if self._feed.measured:
            return _short(math.sqrt(scores.last_squared / scores.rows))
        return scores.last_right / scores.rows

    def _status(self) -> dict[str, Any]:
        """How the worker is, and small tables that may change at every look."""
        status, health = self._health.answer()
        metrics = self._health.metrics
        stats = metrics.stats()
        worst = sorted((pair for one in metrics.partitions() for pair in one.worst(WORST)), key=lambda pair: -pair[1])
        dead, skipped = dict(metrics.taken.dead_lettered), dict(metrics.taken.skipped)  # the job's thread adds to them
        return {
            "number": self.number,
            "classes": self.people.classes,
            "doubts": self._doubts(),
            "health": {**health, "status": status},
            "worst": [[shortened(key, MOST_KEY), _short(error)] for key, error in worst[:WORST]],
            "totals": {
                "records": metrics.taken.records,
                "rows": self._feed.rows,
                "alarms": self._feed.alarms,
                "in_alarm": self._in_alarm,
                "warming_up": stats.warming_up,
                "letters": sum(dead.values()),
                "reasons": {reason: dead[reason] for reason in REASONS if dead.get(reason)},
                "skipped": {reason: count for reason, count in skipped.items() if count},
                "keys": sum(one.live.keys for one in metrics.partitions()),
                "uptime": max(0, round(time.time() - metrics.started)),  # clocks go back
                "silent": round(time.monotonic() - self._health.last_answer) if self._health.last_answer else 0,
                "recovery_seconds": metrics.recovery_seconds,
            },
        }


def _copy(counts: Counts) -> Counts:
    """What `_doubts` compares; the job's thread adds to them meanwhile."""
    dead, skipped = Counter(dict(counts.dead_lettered)), Counter(dict(counts.skipped))
    return Counts(counts.records, counts.redelivered, counts.samples, counts.rows, dead, skipped)


def _alarm(alarm: ShownAlarm) -> dict[str, Any]:
    """What the table of alarms shows; the one place that knows what an alarm is."""
    figures = {name: _short(getattr(alarm, name)) for name in ("value", "before", "after")}
    of_alarm = {name: getattr(alarm, name) for name in ("time", "since", "end")}
    times = {name: round(time, 2) if math.isfinite(time) else None for name, time in of_alarm.items()}
    columns = [[name, *map(_short, moved)] for name, *moved in alarm.columns]
    names = {name: getattr(alarm, name) for name in ("key", "id", "detector", "watch", "outcome")}
    names["key"] = shortened(alarm.key, MOST_KEY)
    return {**names, **times, **figures, "columns": columns}


def _errors(batches: list[BatchRows]) -> Any:
    newest, left = [], MOST_VALUES
    for batch in reversed(batches):
        newest.append(batch.ls_errors)
        left -= len(batch.ls_errors)
        if left <= 0:
            break
    values = np.concatenate(newest) if newest else np.zeros(0)
    return values[np.isfinite(values)]


def _quantiles(values: Any) -> tuple[float, float]:
    """Median and p99; NaN without values."""
    if not len(values):
        return math.nan, math.nan
    median, high = np.quantile(values, (0.5, 0.99)).tolist()
    return median, high


def _short(value: float | None) -> float | None:
    """Four digits are enough for a picture; None for what JSON does not have."""
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None
