"""What the fields of a sample do over time, key by key: a field that trends or follows another makes a detector alarm."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from streamjobs.recordings.arrays import Array
from streamjobs.recordings.clocks import LATE_SHARE, LATENESS, NEWEST, NEWEST_FIRST, SORTED, newest_first, unsorted
from streamjobs.recordings.columns import absent, plain_name
from streamjobs.recordings.files import SECONDS, named, recordings_of, rows_of
from streamjobs.recordings.guess import courses
from streamjobs.recordings.guess.courses import codes_of
from streamjobs.recordings.guess.result import Gaps, Guess, by_kind, windowed
from streamjobs.recordings.guess.rows import APART, DECIDES, NEVER, beyond, pauses_apart, stands_still
from streamjobs.recordings.guess.x import quoted_names
from streamjobs.recordings.survey import Count, teaches
from streamjobs.recordings.tables import HOW, How
from streamjobs.settings.paths import ABSENT, column_path
from streamjobs.settings.times import EXCEL, seconds_since_1970, zone_of
from streamjobs.settings.types import number_in

LOOK_AT = 1_000_000  # rows of the file
KEYS = 20  # the first keys of the file
NUMBERS = 2_000_000  # numbers that are kept
MOST = 1e100  # a larger number counts as missing: its square may be infinite
FEW_UNTIMED = 0.01  # of a key's rows, at most: rows without a time among others that have one
HOUR = 3600.0
MOST_GAPS = 0.25  # of the rows, that skipping those without one field's number may cost
COORDINATES = {"lat", "latitude", "lon", "lng", "long", "longitude"}
ANGLE = re.compile(r"heading|bearing|azimuth|direction|wind.?dir|yaw|course|compass", re.IGNORECASE)
MOST_FOLLOWING = 20  # fields that only alarm when they come apart from another
ADVICE = ". If the label does not need these columns, remove them from fields"
POSITION = "a position, which each journey changes"


class Profile(NamedTuple):
    still: list[str]  # never change in any key
    trending: dict[str, str]  # field -> one of WAYS
    daily: list[str]
    following: dict[str, str]  # field -> the earlier field with the same course
    counts: list[str]  # never below 0, and often there
    names: list[str]  # one whole number in each key, and others in others
    most_rows: int  # of a key
    keys: int  # of the file, at most KEYS
    apart: str | None = None  # what keys with samples at rates of their own need
    wait: float | None = 0.0  # seconds until the last late label; None: none comes after its sample
    waiting: int = 0  # rows of a key in this time
    codes: Mapping[str, list[float]] = {}  # as of the guess
    gaps: Gaps = Gaps()
    counters: Sequence[str] = ()  # as of the guess
    angles: Mapping[str, float] = {}  # as of the guess
    slopes: Mapping[str, str] = {}  # as of the guess
    back: int = 0  # rows that are older than a row of their key before them
    repeats: int = 0  # rows with the time of the row of their key before them, and other numbers
    runs: int = 0  # rows of the usual key, where keys follow one another; 0: keys run at the same time
    lacking: Sequence[str] = ()  # fields that some row lacks
    steps: int = 0  # from a row of a key to the next, between different times
    falls: int = 0  # of them, back
    fall: float = 0.0  # seconds, of the largest
    week: str = ""  # as `courses.week_of`, of the field with most kinds of days, in most keys


def profiled(path: Path, guessed: Guess, how: How = HOW, count: Count = iter) -> tuple[Guess, Profile]:
    """The guess without the fields that a detector cannot watch, and what the fields do. Reads LOOK_AT rows.

    count: passes the rows on, and may report how many there were.
    """
    wanted = [
        *(guessed.fields if guessed.narrow is None else guessed.narrow.columns),
        *guessed.categories,
        *guessed.candidates.get("key", ()),
        *filter(None, (guessed.key, guessed.time, guessed.x)),
    ]
    owners: Iterable[Any] | None = None
    rows: Iterable[Mapping[str, Any]] = rows_of(path, how, wanted)
    if (key_from := guessed.key_from) is not None:
        pairs = ((named(one, key_from), row) for one in recordings_of(path, how) for row in one.rows(how, wanted))
        some, others = itertools.tee(pairs)
        owners, rows = (owner for owner, _ in some), (row for _, row in others)
    guessed, found = profiled_rows(count(rows), guessed, owners)
    one_by_one = guessed.files > 1 and (teaches(guessed) or "key" in guessed.choose)  # as 'fit' reads the files
    much = 0 < LATE_SHARE * found.gaps.rows < found.back and not one_by_one
    much = much and not any(LATENESS in one for one in guessed.remarks)
    if much and found.falls >= NEWEST_FIRST * found.steps:
        said = newest_first(found.back, found.gaps.rows)
        guessed = guessed._replace(remarks=[*(one for one in guessed.remarks if NEWEST not in one), said])
    elif much:
        put_back = found.falls <= found.keys and "time_zone" in guessed.choose and 0.9 * HOUR < found.fall <= HOUR
        said = unsorted(found.back, found.gaps.rows, guessed.time or "")
        if put_back:
            why = "clocks go back by an hour there; let the device write UTC, or an offset such as +01:00"
            said = said[: said.index(SORTED)] + why
        guessed = guessed._replace(remarks=[*(one for one in guessed.remarks if SORTED not in one), said])
    return guessed, found


def profiled_rows(
    rows: Iterable[Mapping[str, Any]], guessed: Guess, owners: Iterable[Any] | None = None
) -> tuple[Guess, Profile]:
    """As `profiled`, of rows at hand. owners: as for `profile_of`."""
    if "fields" in guessed.choose:
        return guessed, Profile([], {}, [], {}, [], [], 0, 0)
    found = profile_of(rows, guessed, owners)
    return without_unsteady(guessed, found), found


def without_unsteady(guessed: Guess, found: Profile) -> Guess:
    """Leaves out fields that cannot be watched, with the reason; names them where they were chosen, or predict a label."""
    if found.gaps.lacking:  # of more rows than were looked at before
        guessed = guessed._replace(gaps=found.gaps)
    counts = [name for name in found.counts if name not in found.trending]
    guessed = guessed._replace(
        codes=found.codes, counters=found.counters, slopes=found.slopes, angles=found.angles, counts=counts
    )
    if guessed.wait is not None:
        guessed = guessed._replace(wait=found.wait or 0.0, waiting=found.waiting)
        if found.wait is None:  # as of folders with a file of labels that sorts before the samples'
            why = "no label of the sample comes after its sample; one that comes before it becomes a dead letter"
            guessed = guessed._replace(choose={**guessed.choose, "wait": why})
    left_out = dict.fromkeys(found.still, f"{NEVER}s in the sample; among fields it alarms when it does")
    left_out |= dict.fromkeys(found.names, "one whole number for each key, as its name")
    left_out |= {
        name: f"{way} all through the sample, which drift detection would report again and again"
        for name, way in found.trending.items()
    }
    left_out |= {name: POSITION for name in guessed.fields if plain_name(name) in COORDINATES}
    following = {name: f"follows {other!r}" for name, other in found.following.items() if name not in left_out}
    stay = _may_follow(guessed, found, following, len(left_out))
    left_out = left_out if stay else left_out | following
    remarks = [*guessed.remarks, *_said_of(found.codes)]
    if found.most_rows >= courses.LEAST:  # of more rows than those by which the remark was made
        remarks = [one for one in remarks if NEVER not in one]
    if stay:
        remarks.append(f"{quoted_names([*following])}: in step with another field; an alarm comes when that ends")
    unsure = windowed(guessed.rate) or guessed.turns or guessed.candidates.get("key")
    if found.repeats > LATE_SHARE * found.gaps.rows and not unsure:
        guessed = guessed._replace(repeats=True)
        remarks.append(
            f"{found.repeats:,} of {found.gaps.rows:,} rows have the time of the row of their key before them, and other "
            'numbers; duplicates = "learn" keeps them'
        )
    if found.apart is not None and not any(APART in one for one in remarks):
        remarks.append(found.apart)
    if found.daily:
        remarks.append(
            f"{quoted_names([name for name in found.daily if name not in left_out])}: a daily cycle, which drift detection "
            "learns in some days; it reports what differs from it"
        )
    if found.week:
        remarks.append(f"a weekly rhythm: from Monday on, days with the same letter of {found.week!r} are alike")
    if counters := quoted_names([name for name in found.counters if name not in left_out]):
        remarks.append(f"{counters}: readings that only rise, or start over; counters gives x what they rose by, a second")
    if slopes := quoted_names([name for name in found.slopes if name not in left_out]):
        remarks.append(f"{slopes}: a level that falls or rises all the time, but for jumps; [drift] watches how fast")
    if angles := quoted_names([name for name in found.angles if name not in left_out]):
        remarks.append(f"{angles}: an angle that wraps around; angles gives x its cosine and sine")
    if may_leave_out(guessed) and len(left_out) < len(guessed.fields):
        return left_out_of(guessed._replace(remarks=remarks), left_out)
    unsteady = {name: why for name, why in left_out.items() if name not in (*found.still, *found.names)}
    remarks += by_kind(unsteady, "{!r} {}", ADVICE)
    remarks += [stands_still(found.still)] if found.still else []
    return guessed._replace(remarks=remarks)


def _said_of(codes: Mapping[str, Sequence[float]]) -> Iterator[str]:
    """A sentence for the fields with the same codes."""
    for one in dict.fromkeys(map(tuple, codes.values())):
        names = quoted_names([name for name, own in codes.items() if tuple(own) == one])
        numbers = " and ".join(f"{code:.10g}" for code in one)
        yield f"{numbers} in {names} is far from all other numbers, as a code for a missing one: missing_values has it"


def _may_follow(guessed: Guess, found: Profile, following: Collection[str], left_out: int) -> bool:
    """Whether fields of rows stay that raise no alarm while they follow another: a few, without gaps."""
    others = len(guessed.fields) - len(following) - left_out
    few = 0 < len(following) <= MOST_FOLLOWING and others > 0 and not any(name in found.lacking for name in following)
    return few and may_leave_out(guessed) and not windowed(guessed.rate)


def may_leave_out(guessed: Guess) -> bool:
    """Whether a field may go: it was not chosen, predicts no label, and is not alone."""
    chosen = guessed.because.get("fields") == "as chosen" or guessed.preset is not None
    return guessed.label is None and not chosen and len(guessed.fields) > 1


def left_out_of(guessed: Guess, why: Mapping[str, str]) -> Guess:
    named = guessed.fields, guessed.lenient, guessed.counters
    fields, lenient, counters = ([name for name in names if name not in why] for names in named)
    angles = {name: turn for name, turn in guessed.angles.items() if name not in why}
    slopes = {name: span for name, span in guessed.slopes.items() if name not in why}
    largest = {name: number for name, number in guessed.largest.items() if name not in why}
    gone = {beyond(*one) for one in guessed.largest.items() if one[0] in why}
    return guessed._replace(
        fields=fields,
        lenient=lenient,
        counters=counters,
        slopes=slopes,
        angles=angles,
        left_out={**guessed.left_out, **why},
        largest=largest,
        remarks=[one for one in guessed.remarks if one not in gone],
    )


def without_gaps(guessed: Guess) -> Guess:
    """Leaves out fields that many rows lack, where these rows would be skipped."""
    rows, _, often, others = guessed.gaps
    often = {name: count for name, count in often.items() if name in guessed.fields and name not in guessed.turns}
    if not often or len(often) == len(guessed.fields) or not may_leave_out(guessed):
        return guessed
    skipped = "which would be skipped; --missing skip keeps it, such as for a machine that rests then"
    why = {name: f"empty in {count:,} of {rows:,} rows, {skipped}" for name, count in often.items()}
    remarks = [one for one in guessed.remarks if DECIDES not in one]
    remarks += [f"{others:,} of {rows:,} rows lack a number of another field; {DECIDES}"] if others else []
    return left_out_of(guessed._replace(remarks=remarks), why)._replace(gaps=Gaps(rows, others))


def profile_of(rows: Iterable[Mapping[str, Any]], guessed: Guess, owners: Iterable[Any] | None = None) -> Profile:
    """Of the first keys' rows. owners: the keys of the rows' records, where these have keys."""
    fields = guessed.fields
    kept, late = _by_key(rows, guessed, owners)
    of_keys = kept.values()
    codes = _without_codes(fields, of_keys) if guessed.narrow is None else {}
    gaps = _gaps(fields, of_keys) if guessed.narrow is None else Gaps(sum(map(len, of_keys)))
    second = SECONDS[guessed.time_unit] if guessed.time is not None and not guessed.written else 1.0
    counters = _as_rates(fields, of_keys, second) if may_count(guessed) else []
    lacking = [name for n, name in enumerate(fields, 1) if not all(np.isfinite(key[:, n]).all() for key in of_keys)]
    runs = courses.runs(of_keys)
    sloping = may_count(guessed) and not windowed(guessed.rate) and not runs  # runs have a reference
    slopes = _as_slopes(fields, counters, of_keys, second) if sloping else {}
    angles = _as_sines(fields, counters, of_keys) if may_turn(guessed) else {}
    keys = [key for key in of_keys if len(key) >= courses.LEAST]
    numbers = [key[:, 1:] for key in keys]
    still = [n for n in range(len(fields)) if numbers and all(courses.is_still(key[:, n]) for key in numbers)]
    moving = [n for n in range(len(fields)) if n not in still]
    trending: dict[str, str] = {}
    for n in moving:
        ways = Counter(courses.trend(key[:, n]) for key in numbers)
        way = next((way for way in courses.WAYS if ways[way] >= max(courses.MOST_KEYS * len(keys), 1)), None)
        if way is not None:
            trending[fields[n]] = way
    steady = [n for n in moving if fields[n] not in trending]
    cycles = [n for n in steady if courses.most(courses.is_daily(second * key[:, 0], key[:, 1 + n]) for key in keys)]
    following: dict[str, str] = {}
    units = [courses.unit_of(key) for key in numbers]
    for place, n in enumerate(steady):
        votes = [courses.same(key, unit, steady[:place], n) for key, unit in zip(numbers, units, strict=True)]
        first = next((m for m, *shown in zip(steady[:place], *votes, strict=True) if courses.most(shown)), None)
        if first is not None and fields[first] not in following:
            following[fields[n]] = fields[first]
    counts = [
        fields[n] for n in moving if numbers and courses.never_negative(np.concatenate([key[:, n] for key in numbers]))
    ]
    names = [name for n, name in enumerate(fields) if courses.is_name([key[:, 1 + n] for key in of_keys])]
    never, daily = [fields[n] for n in still if fields[n] not in names], [fields[n] for n in cycles]
    pauses = {who: _pause(key[:, 0]) for who, key in kept.items() if len(key) >= courses.LEAST}
    apart = pauses_apart(pauses, second) if windowed(guessed.rate) else None
    usual = [pause for pause in pauses.values() if pause]
    waiting = math.ceil((late or 0.0) / min(usual)) if usual else 0
    return Profile(
        never,
        trending,
        daily,
        following,
        counts,
        names,
        max(map(len, of_keys), default=0),
        len(of_keys),
        apart,
        None if late is None else second * late,
        waiting,
        codes,
        gaps,
        counters,
        angles,
        slopes,
        sum(int((key[:, 0] < np.fmax.accumulate(key[:, 0])).sum()) for key in of_keys),
        0 if guessed.narrow is not None else sum(map(_repeats, of_keys)),
        runs,
        lacking,
        *_falls([second * key[:, 0] for key in of_keys]),
        _week([[courses.week_of(second * key[:, 0], key[:, 1 + n]) for n in steady] for key in keys]),
    )


def _repeats(key: Array) -> int:
    """Rows with the time of the row before them, and other numbers. key: (rows, 1 + fields)."""
    steps = np.diff(np.nan_to_num(key), axis=0)
    return int(((np.diff(key[:, 0]) == 0) & steps[:, 1:].any(axis=1)).sum())


def _falls(of_keys: Iterable[Array]) -> tuple[int, int, float]:
    """Steps between different times of a key, those of them that go back, and how far the largest does."""
    steps = np.concatenate([np.empty(0), *(np.diff(times) for times in of_keys)])
    steps = steps[np.abs(steps) > 0]
    return len(steps), int((steps < 0).sum()), max(0.0, -float(steps.min(initial=0.0)))


def _week(of_keys: Sequence[Sequence[str]]) -> str:
    finest = [max(of_fields, key=lambda week: len(set(week)), default="") for of_fields in of_keys]
    return next((week for week, _ in Counter(finest).most_common(1) if courses.most(one == week for one in finest)), "")


def _without_codes(fields: Sequence[str], of_keys: Iterable[Array]) -> dict[str, list[float]]:
    """The codes of each field; they are NaN afterwards."""
    whole = np.concatenate([np.empty((0, 1 + len(fields))), *of_keys])
    codes = {name: found for n, name in enumerate(fields) if (found := codes_of(whole[:, 1 + n]))}
    for key, (name, found) in itertools.product(of_keys, codes.items()):
        column = key[:, 1 + fields.index(name)]
        column[np.isin(column, found)] = np.nan
    return codes


def may_turn(guessed: Guess) -> bool:
    """Whether a job of this guess may read angles: not where windows of movements have labels, which may be mirrored."""
    return guessed.preset is None and guessed.narrow is None and (guessed.label is None or not windowed(guessed.rate))


def may_count(guessed: Guess) -> bool:
    """Whether a job of this guess may read counters."""
    return guessed.time is not None and guessed.label is None and guessed.preset is None and guessed.narrow is None


def _as_rates(fields: Sequence[str], of_keys: Iterable[Array], second: float) -> list[str]:
    """The fields with readings that only rise, or start over, at a pace that varies; they are rates a second afterwards."""
    keys = [key for key in of_keys if len(key) >= courses.LEAST]
    counters = []
    for n, name in enumerate(fields, 1):
        rates = [courses.rates_of(second * key[:, 0], key[:, n]) for key in keys]
        if courses.most(one is not None for one in rates):
            counters.append(name)
            for key, rate in zip(keys, rates, strict=True):
                key[:, n] = np.nan if rate is None else rate
    return counters


def _as_slopes(fields: Sequence[str], counters: Sequence[str], of_keys: Iterable[Array], second: float) -> dict[str, str]:
    """The fields with levels that fall or rise nearly all the time, and the span of their slopes, which replace them."""
    keys, levels = [key for key in of_keys if len(key) >= courses.LEAST], {}
    for n, name in enumerate(fields, 1):
        found = [None if name in counters else courses.slopes_of(second * key[:, 0], key[:, n]) for key in keys]
        if courses.most(one is not None for one in found):
            levels[name] = max((one[0] for one in found if one is not None), key=[*courses.SPANS].index)
            for key, one in zip(keys, found, strict=True):
                key[:, n] = np.nan if one is None else one[1]
    return levels


def _as_sines(fields: Sequence[str], counters: Sequence[str], of_keys: Iterable[Array]) -> dict[str, float]:
    """The fields with angles, and how much a whole turn is; they are sines afterwards."""
    keys, angles = [key for key in of_keys if len(key) >= courses.LEAST], {}
    for n, name in enumerate(fields, 1):
        if (
            keys
            and name not in counters
            and (turn := courses.turn_of([key[:, n] for key in keys], bool(ANGLE.search(name))))
        ):
            angles[name] = turn
            for key in keys:
                key[:, n] = np.sin(2 * np.pi / turn * key[:, n])
    return angles


def _gaps(fields: Sequence[str], of_keys: Iterable[Array]) -> Gaps:
    """Of the rows that have any of the fields."""
    absent = ~np.isfinite(np.concatenate([np.empty((0, len(fields))), *(key[:, 1:] for key in of_keys)]))
    absent = absent[~absent.all(axis=1)]
    each = absent.sum(axis=0)
    often = each > MOST_GAPS * len(absent)
    named = {name: int(count) for name, count, one in zip(fields, each, often, strict=True) if one and not often.all()}
    return Gaps(len(absent), int(absent.any(axis=1).sum()), named, int(absent[:, ~often].any(axis=1).sum()))


def _pause(times: Array) -> float | None:
    pauses = np.diff(times)
    return float(np.median(pauses[pauses > 0])) if (pauses > 0).any() else None


def _by_key(
    rows: Iterable[Mapping[str, Any]], guessed: Guess, owners: Iterable[Any] | None
) -> tuple[dict[Any, Array], float | None]:
    """(rows, 1 + fields) of each of the first keys: time and numbers, NaN for none. And how late labels come."""
    finds = [None if name is None else _finder(guessed, name) for name in (guessed.time, *guessed.fields)]
    key = guessed.key or next(iter(guessed.candidates.get("key", ())), None)
    key_of = None if key is None or owners is not None else column_path(key).find
    kept: dict[Any, list[Any]] = {}  # the cells of a row behind those of another: no object for each row
    newest: dict[Any, float] = {}
    late: float | None = None  # the most
    of_sample = [column_path(name).find for name in (*guessed.fields, *guessed.categories, *filter(None, [guessed.x]))]
    room = NUMBERS // len(finds)
    for number, (row, owner) in enumerate(zip(rows, itertools.repeat(None) if owners is None else owners, strict=False)):
        if number >= LOOK_AT or room <= 0:
            break
        key = owner if key_of is None else key_of(row)  # type: ignore[arg-type]
        if isinstance(key, (list, dict)) or (key not in kept and len(kept) >= KEYS):
            continue
        cells = [None if find is None else find(row) for find in finds]  # type: ignore[arg-type]
        if guessed.wait is not None:
            moment = moment_of(cells[0], guessed.time_format)
            if all(absent(value := find(row)) or value is ABSENT for find in of_sample):  # type: ignore[arg-type]
                if (after := newest.get(key, -math.inf) - moment) >= 0:
                    late = max(late or 0.0, after)
                continue
            newest[key] = max(newest.get(key, moment), moment)
        if _is_frame(cells):
            cells = list(itertools.chain.from_iterable(zip(*cells, strict=True)))
        kept.setdefault(key, []).extend(cells)
        room -= len(cells) // len(finds)
    return {key: _timed(_numbers(found, len(finds), guessed.time_format)) for key, found in kept.items()}, late


def _is_frame(cells: Sequence[Any]) -> bool:
    """Whether a record's cells are lists: the times and numbers of several samples."""
    return isinstance(cells[0], list) and all(isinstance(one, list) and len(one) == len(cells[0]) > 0 for one in cells)


def _numbers(found: Sequence[Any], width: int, form: str | None) -> Array:
    """Rows of a time and numbers, as `moment_of` and `_number` give them. found: their cells, `width` in each."""
    columns: list[Any] = []
    for at in range(width):
        cells = found[at::width]
        if {*map(type, cells)} <= {int, float} and (at or form != EXCEL):
            with suppress(OverflowError):
                column = np.array(cells, float)
                column[np.abs(column) > MOST] = np.nan
                columns.append(column)
                continue
        columns.append([_number(cell) if at else moment_of(cell, form) for cell in cells])
    return np.array(columns).T.copy()


def _timed(key: Array) -> Array:
    """Without the few rows that have no time, such as a line of totals: they become dead letters."""
    known = np.isfinite(key[:, 0])
    return key[known] if known.sum() >= (1 - FEW_UNTIMED) * len(key) else key


def moment_of(value: Any, form: str | None) -> float:
    """Of a record with several samples, that of the last one."""
    value = value[-1] if isinstance(value, list) and value else value
    try:
        written = isinstance(value, str) or (form == EXCEL and not absent(value))
        return seconds_since_1970(value, zone_of("UTC"), form) if written else _number(value)
    except (TypeError, ValueError, OverflowError):
        return float("nan")


def moments_of(guessed: Guess) -> Callable[[dict[str, Any]], float]:
    """A function of a row: its event time in seconds, NaN without one."""
    time_of, second = _finder(guessed, guessed.time or ""), 1.0 if guessed.written else SECONDS[guessed.time_unit]
    return lambda row: second * moment_of(time_of(row), guessed.time_format)


def _finder(guessed: Guess, name: str) -> Callable[[Any], Any]:
    """A function of a row: what it has in a column, texts as numbers where the guess reads them so."""
    find = column_path(name).find if guessed.narrow is None else guessed.narrow.find(name)
    if name not in guessed.lenient:
        return find

    def number_of(row: Any) -> Any:
        value = find(row)
        return number_in(value) if isinstance(value, str) else value

    return number_of


def _number(value: Any) -> float:
    if value is ABSENT or absent(value) or not isinstance(value, (int, float)) or abs(value) > MOST:
        return float("nan")
    return float(value)
