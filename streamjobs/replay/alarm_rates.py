"""How often keys alarm: in a replay, and of several ways to watch a job's rows before and after a known time."""

from collections import Counter
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

import msgspec

from streamjobs.core.messages import Output
from streamjobs.settings.composition import Composition
from streamjobs.settings.events import DriftSection
from streamjobs.settings.learners import FORESEEN, THRESHOLDS, WITHOUT_RHYTHM
from streamjobs.settings.sections import Settings, SinksSection
from streamjobs.settings.types import POPULATION

HOUR = 3600.0
STATED = "1 per 10000 rows"  # where the job states nothing
CONTROLS = (THRESHOLDS, "adwin", "window_ratio")
TOGETHER = ("columns", *FORESEEN)
WATCHES = (*TOGETHER, "ls_error", "loss")


@dataclass(slots=True)
class Rates:
    """Alarms that were raised, by key."""

    alarms: Counter[str] = field(default_factory=Counter)
    watches: Counter[str] = field(default_factory=Counter)  # alarms by what was watched

    def take(self, output: Output) -> None:
        if output.sink == "alarms" and output.value is not None:
            alarm = msgspec.json.decode(output.value, type=_Raised)
            self.alarms[alarm.key or "(group)"] += alarm.open
            self.watches[alarm.watch] += alarm.open

    def summary(self, hours: float) -> dict[str, Any]:
        """hours: that the rows of all keys span together."""
        total = self.alarms.total()
        by_key = dict(self.alarms.most_common())
        rate = total / hours if hours > 0 else None
        return {"total": total, "key_hours": hours, "per_key_hour": rate, "by_key": by_key, "by_watch": dict(self.watches)}


class _Raised(msgspec.Struct):
    """Of the alarms topic, of either version."""

    key: str
    open: bool
    watch: str


class _Verdict(msgspec.Struct):
    alarm: bool
    statistic: float | None = None  # 0 in the warm-up


class DriftRow(msgspec.Struct):
    key: str
    ts: float
    watch: str
    alarm: bool
    statistic: float | None = None
    warming_up: bool = False
    open: bool = False
    columns: dict[str, float] = {}
    beside: dict[str, _Verdict] = {}

    @property
    def judged(self) -> bool:
        """Whether it was watched; False: the sensor is idle."""
        return self.statistic is not None or any(one.statistic is not None for one in self.beside.values())

    @property
    def alarms(self) -> int:
        """Of all that is watched, without controls."""
        return len(self.raised)

    @property
    def raised(self) -> list[str]:
        beside = [name for name, one in self.beside.items() if one.alarm and name in WATCHES]
        return [self.watch, *beside] if self.alarm else beside


class Way(NamedTuple):
    name: str
    drift: DriftSection
    stated: bool  # it keeps a number of false alarms


class Judged(NamedTuple):
    """What a way gave."""

    way: Way
    false_alarms: int  # before the quiet time's end
    at_most: float | None  # of them, on average, as the way promises; None where it promises nothing
    per_key_hour: float | None
    promise: float | None  # the same per key and hour
    found: int  # keys with an alarm after it
    keys: int  # keys with rows after it
    delay: float | None  # median seconds from its end to their first alarm
    alarms: list[float]  # times


def ways(settings: Settings, predicts: bool) -> list[Way]:
    """The job's own, each watch under the job's stated number, and the detectors with thresholds.

    Labels that come late have no loss when their row is watched.
    """
    own, labels = settings.drift or DriftSection(), settings.labels
    predicts = predicts and labels.wait <= 0 and labels.delay <= 0
    stated, extractor = own.false_alarms or STATED, own.extractor
    found = [Way("the job's own", own, own.false_alarms is not None)] if settings.drift is not None else []
    of_columns: dict[str, Any] = {name: getattr(own, name) for name in ("slopes", "each", "daily", "week")}
    for several, cycle in ((TOGETHER, own.cycle), (WITHOUT_RHYTHM, None)):
        usual = {"learn": own.learn, "counts": own.counts, "false_alarms": stated, "idle": own.idle}
        drift = DriftSection.model_validate({"watch": list(several), "cycle": cycle} | usual | of_columns)
        found.append(Way(", ".join(several), drift, True))
    for watch in ("columns", "ls_error", *(("loss",) if predicts else ())):
        follows = {"extractor": extractor} if watch == "ls_error" else of_columns if watch == "columns" else {}
        found.append(Way(watch, DriftSection(watch=watch, false_alarms=stated, idle=own.idle, **follows), True))  # type: ignore[arg-type]
        if own.reference not in (None, POPULATION) and (watch != "ls_error" or extractor is not None):
            still = DriftSection(watch=watch, false_alarms=stated, reference=own.reference, idle=own.idle, **follows)  # type: ignore[arg-type]
            found.append(Way(f"{watch}, {own.reference}", still, True))
    for detector in CONTROLS:
        found.append(
            Way(f"ls_error, {detector}", DriftSection(detector=detector, idle=own.idle, extractor=extractor), False)
        )
    return found


def watching(settings: Settings, way: Way) -> Settings:
    """The job with this way alone, and the topic of rows alone."""
    sinks = SinksSection(features="", predictions="", drift="rows", alarms="")
    state = settings.state.model_copy(update={"start_from": None})  # a start has the job's own detector
    drift = way.drift.model_copy(update={"reference_from": "own", "relearn_after": None})  # of the start, and by open alarms
    return settings.model_copy(update={"drift": drift, "alarms": None, "sinks": sinks, "state": state})


def stated_by(composition: Composition) -> float | None:
    """Rows from one false alarm to the next, of all its watches together; None where that is not known."""
    if composition.between is not None:
        return composition.between
    of_each = getattr(composition.watches[0].detector, "rows_between", None)
    return None if of_each is None else float(of_each) / sum(not watch.control for watch in composition.watches)


class Judge:
    """Takes a replay's rows of drift, and judges them by the time until which nothing changes, seconds since 1970."""

    def __init__(self, quiet_until: float) -> None:
        self.quiet_until = quiet_until
        self.first: dict[str, float] = {}
        self.quiet_last: dict[str, float] = {}
        self.quiet_rows = self.false_alarms = 0
        self.after: dict[str, float | None] = {}  # key -> first alarm
        self.times: list[float] = []

    def take(self, output: Output) -> None:
        if output.sink != "drift" or output.value is None:
            return
        row = msgspec.json.decode(output.value, type=DriftRow)
        self.times += [row.ts] * row.alarms
        if row.ts <= self.quiet_until:
            self.first.setdefault(row.key, row.ts)
            self.quiet_last[row.key] = row.ts
            self.quiet_rows += 1
            self.false_alarms += row.alarms
            return
        known = self.after.setdefault(row.key, None)
        if row.alarms and known is None:
            self.after[row.key] = row.ts

    def judged(self, way: Way, rows_between: float | None) -> Judged:
        """rows_between: of the way's detectors together, None where none is stated."""
        hours = sum(self.quiet_last[key] - first for key, first in self.first.items()) / HOUR
        delays = [time - self.quiet_until for time in self.after.values() if time is not None]
        return Judged(
            way=way,
            false_alarms=self.false_alarms,
            at_most=self.quiet_rows / rows_between if rows_between else None,
            per_key_hour=self.false_alarms / hours if hours > 0 else None,
            promise=self.quiet_rows / hours / rows_between if hours > 0 and rows_between else None,
            found=len(delays),
            keys=len(self.after),
            delay=median(delays) if delays else None,
            alarms=self.times,
        )
