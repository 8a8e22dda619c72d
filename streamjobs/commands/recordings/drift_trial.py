"""Tries the [drift] that `init` writes on its sample, as `drift tune` does, and chooses what to watch by it."""

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from streamjobs.commands.console import compile_loops, counted, note
from streamjobs.commands.recordings import trial
from streamjobs.commands.recordings.job_template import LEARN
from streamjobs.commands.recordings.trial import Sample, Trial, Tried
from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import ConfigError
from streamjobs.job_files import job_from, read_job
from streamjobs.recordings.clocks import Pauses
from streamjobs.recordings.guess.result import Guess, cycle_of
from streamjobs.recordings.profile import may_leave_out
from streamjobs.replay import alarm_rates
from streamjobs.replay.alarm_rates import Way
from streamjobs.replay.warm_up import rows_to_alarm
from streamjobs.settings.composition import composition_of
from streamjobs.settings.events import AlarmsSection, DriftSection
from streamjobs.settings.learners import WITHOUT_RHYTHM
from streamjobs.settings.sections import Settings, SinksSection
from streamjobs.settings.types import many, printable, reference

LEAST = 500  # rows of a key; a list of watches needs about 460
FEW = 1500  # rows of a key, of which a detector that learns from LEARN rows judges less than half
ENOUGH = 1.5  # times the samples that a key's windows need before they can alarm
IN_WINDOWS = 300_000  # samples of keys that are tried in windows, if one key has not more
PARTS = 12  # least parts of the sample that are judged: keys, or of few keys equal parts of their rows
SENSORS = 10  # of so many keys one may have a sensor that stops
PAUSES = 10, 100  # of the usual one, after which a key is silent
MEANS = {
    "stuck": "a column repeats one number",
    "silent": "no sample for {}",
    "group": "this share of the keys alarms at once",
}
JUDGES = 0.25  # of the rows that another way judges, at least: else alarms are rare because hardly a row is judged


def tried_on(file: Path, sample: Sample, guessed: Guess, most_rows: int, again: str = "") -> Trial:
    """The file's own [drift] first; where it alarms too often, without its loudest watch, then others.

    again: what differs from the trial before.
    """
    sinks = SinksSection(features="", predictions="", drift="rows", alarms="alarms", forecasts="")
    try:
        own = job_from(read_job(file, trial.environment(guessed)), str(file))
        drift = own.settings.drift
        assert drift is not None
        if most_rows < LEAST and (drift.detector, drift.reference) == (None, None):  # which `init` writes for a short sample
            return Trial(
                [], f"the sample has at most {many(most_rows, 'row')} of a key, and a detector needs {LEAST:,} or more"
            )
        note(f"trying [drift] on the sample{again} ...")
        pauses = Pauses()
        keys = max(trial.KEYS, trial.RECORDS // max(most_rows, 1))  # of short ones more, because much of each is warm-up
        (least, most_needed), each = _samples_to_alarm(own), None
        if most_needed * trial.KEYS > trial.RECORDS:
            each = math.ceil(ENOUGH * most_needed)
            keys = max(1, IN_WINDOWS // each)
        records = list(trial.records_to_try(own.settings, sample, guessed, pauses, keys, each))
    except ConfigError as error:
        return Trial([], str(error))
    if each is not None and (longest := max(Counter(one.key for one in records).values(), default=0)) < least:
        of = "a key" if keys > 1 else "its first key"
        return Trial([], f"the sample has {longest:,} samples of {of}, and a detector of these windows needs {least:,}")
    found, learn = list[Tried](), drift.learn
    if isinstance(drift.watch, str) and own.settings.window is None and most_rows >= FEW:
        learn = LEARN  # of lists in its place
    for watch, daily in _watches(drift, found, may_leave_out(guessed)):
        one = drift
        if (watch, daily) != (drift.watch, drift.daily):
            usual = {"watch": watch, "false_alarms": drift.false_alarms, "idle": drift.idle}
            one = DriftSection.model_validate(usual | _of_list(drift, watch, guessed, learn))
        way = alarm_rates.Way("", one, True)
        try:
            settings = alarm_rates.watching(own.settings, way).model_copy(update={"sinks": sinks})
            job = job_from(composition_of(settings), str(file))
        except ConfigError:  # the errors of a learner of one number
            continue
        found.append(_tried(job, way, records))
        if watch == "ls_error" and len(found) > 1 and not found[-1].alarms.total():  # silent where all else alarms
            found.pop()
            continue
        enough = found[-1].rows > JUDGES * found[0].rows
        sooner = daily or (own.settings.window is not None and len(found) == 1)  # others learn from fewer windows
        if drift.reference or (found[-1].fits if enough else not (sooner or found[-1].rows)):
            break
    own_way = found[0] if found and found[0].rows else None
    most = max((one.rows for one in found), default=0)
    found = [one for one in found if one.rows and (not one.fits or one.rows > JUDGES * most)]
    if not found:
        of, needed = "sample", rows_to_alarm(own)
        then = "" if needed is None else f", {needed:,} or more"
        if len(records) == trial.RECORDS:
            of = f"first {trial.RECORDS:,} records of the sample, which are tried,"
            then += f"; 'streamjobs replay {file}' reads all records and counts the alarms"
        return Trial([], f"no key of the {of} has enough rows for watch = {drift.watch!r} to learn what is normal{then}")
    found.sort(key=lambda one: (one.fits, -one.usual.total() / one.stated))  # by rate: some learn for longer than others
    rows_alone = guessed.label is None and own.settings.window is None
    sensors, off = _sensors(own.settings, records, guessed, found[-1], pauses) if rows_alone else ((), ())
    return Trial(found, None, sensors, off, own_way)


def _samples_to_alarm(job: Job) -> tuple[int, int]:
    """Samples of a key before a list of watches, and before the job's own can alarm, with windows; 0 without windows."""
    window = job.settings.window
    if window is None:
        return 0, 0
    compile_loops(job)
    rows, hop = rows_to_alarm(job) or 0, (window.hop or window.length) * window.rate
    return math.ceil(min(rows, LEAST) * hop), math.ceil(rows * hop)


def _of_list(drift: DriftSection, watch: str | Sequence[str], guessed: Guess, learn: int | None) -> dict[str, Any]:
    """Settings that [drift] has with some watches only. drift: of the file; without its `daily`, a day is a cycle.

    learn: rows that teach a list what is normal.
    """
    return {
        "learn": None if isinstance(watch, str) else learn,
        "cycle": cycle_of(guessed, watch) if drift.daily else None,
        "each": drift.each and not isinstance(watch, str) and "columns" in watch,
        "counts": bool(guessed.counts) and not isinstance(watch, str),
        "slopes": None if watch == "ls_error" else drift.slopes,
    }


def _watches(drift: DriftSection, tried: Sequence[Tried], several: bool) -> Iterator[tuple[str | Sequence[str], bool]]:
    """What to try in turn, and whether by the time of day: the file's own, then others without it."""
    yield drift.watch, drift.daily
    if drift.daily:
        yield drift.watch, False
    yield from ((watch, False) for watch in _other_watches(drift.watch, tried, several))


def _other_watches(own: str | Sequence[str], tried: Sequence[Tried], several: bool) -> Iterator[str | Sequence[str]]:
    """tried: the last is the file's own. several: columns that alarm often may be left out."""
    if isinstance(own, str):
        ways = [[*WITHOUT_RHYTHM], ["innovations", "rows"]]
        yield from ways[::-1] if several and tried[-1].loud else ways  # first what can watch a level that wanders
        yield from (name for name in ("columns", "ls_error") if name != own)
        return
    first = tried[-1]
    order = sorted(own, key=lambda name: (not (first.lasts and name == own[0]), -first.usual[name]))
    pairs = [[name for name in own if name != left] for left in order]
    yield from sorted(pairs, key=lambda pair: several and pair != [*WITHOUT_RHYTHM])
    yield from ("columns", "ls_error")


def _sensors(
    settings: Settings, records: list[Stored], guessed: Guess, best: Tried, of_keys: Pauses
) -> tuple[list[str], list[str]]:
    """The lines of [alarms], those that many keys raise as comments; and what to print of what raised any."""
    keys = len({record.key for record in records})
    pauses = PAUSES if guessed.pause and guessed.time is not None and keys > 1 else (0,)  # one key has no others
    pause, of = of_keys.of_slowest(guessed.pause or 0.0)
    for times in pauses:  # of the usual pause between two samples
        asked: dict[str, object] = {"stuck": True}
        if times:
            asked["silent"] = math.ceil(times * pause)
        if times and keys >= trial.KEYS:
            asked["group"] = 0.1
        raised = _raised(settings, records, asked, best, guessed)
        if not raised["silent"]:
            break
    most = {"stuck": 1 if keys == 1 else keys // SENSORS, "silent": keys // SENSORS, "group": 0}  # keys
    quiet = [name for name in asked if len({*raised[name]}) <= most[name]]
    lines = [
        "",
        f"{'' if quiet else '# '}[alarms]  # of sensors that stop; tried on {many(len(records), 'record')} of the sample",
    ]
    off = []
    for name, value in asked.items():
        line = f'{name} = "{value}s"' if name == "silent" else f"{name} = {json.dumps(value)}"
        on = name in quiet and (name != "group" or "silent" in quiet)
        what = f"{MEANS[name].format(f'{times} usual pauses{of}')}; it raised {many(len(raised[name]), 'alarm')}"
        named = list(dict.fromkeys(filter(None, raised[name])))
        more = " ..." if len(named) > trial.MOST_NAMED else ""
        what += f", of {', '.join(named[: trial.MOST_NAMED])}{more}" if named else ""
        rare = name == "stuck" and bool(guessed.turns)
        what += "; it never alarms for a column that changes in less than half of a key's records" if rare else ""
        lines.append(f"{'' if on else '# '}{line}  # {what}")
        if not on and name in quiet:
            off.append(f"off in [alarms]: {line}, {what}; it needs silent, which is off")
        elif on and rare:
            off.append(f"on in [alarms]: {line}, {what}")
        elif on and raised[name]:
            off.append(f"on in [alarms]: {line}, {what}; if nothing is wrong there, remove this line")
        elif on and name == "silent" and of:
            off.append(f"on in [alarms]: {line}, {what}; all keys have the same setting")
        elif not on:
            off.append(f"off in [alarms]: {line}, {what}; if the sample has such faults, remove the # before this line")
    return lines, off


def _raised(
    settings: Settings, records: list[Stored], asked: dict[str, object], best: Tried, guessed: Guess
) -> dict[str, list[str]]:
    """Keys of the alarms, by what raised them."""
    from streamjobs.replay.engine import Replay  # which a short sample does not need

    assert settings.drift is not None
    own = best.watch == settings.drift.watch
    drift = settings.drift.model_copy(
        update={"watch": best.watch, "daily": best.daily}
        | ({} if own else {"detector": None})
        | ({} if best.daily else _of_list(settings.drift, best.watch, guessed, best.learn))
    )
    changed = settings.model_copy(update={"drift": drift, "alarms": AlarmsSection.model_validate(asked)})
    raised: dict[str, list[str]] = {name: [] for name in MEANS}

    def take(output: Output) -> None:
        if output.sink == "alarms" and output.value is not None:
            alarm = msgspec.json.decode(output.value)
            if alarm["open"] and alarm["watch"] in raised:
                raised[alarm["watch"]].append(printable(alarm["key"]))

    Replay(job_from(composition_of(changed))).run(_counted(records), take, lambda tally: None)
    return raised


def _counted(records: list[Stored]) -> Iterator[Stored]:
    return counted(records, f"of {many(len(records), 'record')} tried")


def _tried(job: Job, way: Way, records: list[Stored]) -> Tried:
    from streamjobs.replay.engine import Replay  # which a short sample does not need

    ready, seen = dict[str, set[str]](), Counter[str]()  # watches of a key that can alarm; rows of a key
    raised = list[tuple[str, int, str]]()  # key, row of the key, and watch of each alarm
    named = set[tuple[str, str]]()  # fields in the alarms of a key
    fields = dict(zip(job.composition.watched, job.composition.columns, strict=True)) | dict(job.settings.source.columns)
    rows, watched, warming, opened, idle = 0, 0, 0, 0, 0

    def take(output: Output) -> None:
        nonlocal rows, watched, warming, opened, idle
        if output.sink == "alarms" and output.value is not None:
            alarm = msgspec.json.decode(output.value)
            named.update((fields.get(moved["column"], moved["column"]), alarm["key"]) for moved in alarm["columns"][:1])
        if output.sink != "drift" or output.value is None:
            return
        row = msgspec.json.decode(output.value, type=alarm_rates.DriftRow)
        of_key = ready.setdefault(row.key, set())
        of_key.update(name for name, one in row.beside.items() if one.statistic and name in alarm_rates.WATCHES)
        of_key.update(() if row.warming_up or row.statistic is None else {row.watch})
        if row.judged:
            rows, watched, warming = rows + bool(of_key), watched + len(of_key), warming + (not of_key)
        idle, opened = idle + (not row.judged), opened + row.open
        raised.extend((row.key, seen[row.key], name) for name in row.raised)
        seen[row.key] += 1

    compile_loops(job)
    Replay(job).run(_counted(records), take, lambda tally: None)
    between = alarm_rates.stated_by(job.composition)
    assert between is not None
    stated = watched / (between * sum(not watch.control for watch in job.composition.watches))
    columns, alarms = Counter(column for column, _ in named), Counter(key for key, _, _ in raised)
    keys = sum(map(bool, ready.values()))
    usual = _usual(raised, seen, keys)
    ways = way.drift.daily, way.drift.week, idle, between, way.drift.reference
    learned = reference(way.drift.reference)[0] if way.drift.reference else 0
    soon = {key for key, row, _ in raised if row < learned + trial.SOON * (seen[key] - learned)}
    how = warming, opened, *ways, len(soon), way.drift.learn
    return Tried(way.drift.watch, keys, rows, alarms, usual, stated, columns, *how)


def _usual(raised: Sequence[tuple[str, int, str]], rows: Mapping[str, int], keys: int) -> Counter[str]:
    """Watches of the alarms outside the parts of the sample with the most: a fault is in one part, a broken promise in all.

    raised: key, row of the key, and watch. keys: that can alarm.
    """
    each = math.ceil(PARTS / max(keys, 1))
    part_of = [(key, row * each // rows[key]) for key, row, _ in raised]
    faulty = {part for part, _ in Counter(part_of).most_common(keys * each // trial.FAULTY)}
    return Counter(watch for (_, _, watch), part in zip(raised, part_of, strict=True) if part not in faulty)
