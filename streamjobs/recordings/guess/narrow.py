"""Rows in the long format: each has one sensor's number, and the name of the sensor. `[source.sensors]` reads them."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress, pairwise
from typing import Any

from streamjobs.recordings.columns import Column, absent, plain_name
from streamjobs.recordings.files import SECONDS
from streamjobs.recordings.guess.keys import OF_USUAL, OWNER, STEADY
from streamjobs.recordings.guess.result import Gaps, Guess, Narrow, Pauses, windowed, with_key_known
from streamjobs.recordings.guess.rows import DECIDES, Rows
from streamjobs.recordings.guess.x import BAD_NAME, is_bad, quoted_names
from streamjobs.settings.source import SensorSection, SensorsSection, sensors_of

NAMES = {
    *("metric", "measurement", "measure", "signal", "variable", "parameter", "channel", "quantity", "property", "field"),
    *("tag", "sensor", "sensor_name", "sensor_type", "attribute", "item", "point", "type", "kind", "name", "indicator"),
    *("messgroesse", "messwert_name", "merkmal", "kanal", "signalname", "metrik", "groesse", "datenpunkt"),
}
VALUES = {"value", "val", "v", "reading", "wert", "messwert", "numeric_value", "measured_value"}
MOST_NAMES, LEAST_ROWS = 64, 20  # sensors; rows of each
TOGETHER = 0.5  # least share of rows with a time that others of the key have
TWICE = 0.05  # most, of rows with the time and the name of another
TURNS = 0.1  # least share of a key's rows with another name than the row before: one of two may be ten times slower
OFTEN = 0.5  # of the keys, at least, that have a sensor
SLOWER = 10.0  # times the pause of the fastest sensor: a slower one would hold up the rows of all others


def as_narrow(guessed: Guess, rows: Rows, columns: Sequence[Column], owners: Sequence[Any] | None) -> Guess:
    """The guess, with a field for each sensor where each row has the numbers of one.

    They do where rows of a key with one time have different names, or where columns are named as metric and value, and each
    metric has a pace of its own: events come at any time.
    """
    stated = guessed.because.get("fields") == "as chosen" or guessed.preset is not None or guessed.wait is not None
    if stated or guessed.time is None or guessed.x is not None or "fields" in guessed.choose:
        return guessed
    timed = [isinstance(row.get(guessed.time), (int, float)) and not absent(row.get(guessed.time)) for row in rows]
    rows = list(compress(rows, timed))  # without those of which the time was not read
    owners = None if owners is None else list(compress(owners, timed))
    names = [
        column.name
        for column in columns
        if column.kind == "text" or (plain_name(column.name) in NAMES and all(type(one) is int for one in column.values))
        if not column.missing and 2 <= column.distinct <= MOST_NAMES
        if column.name != guessed.time and column.distinct * LEAST_ROWS <= len(rows)
    ]
    names.sort(key=lambda name: plain_name(name) not in NAMES)
    found = list[Guess]()
    for of_key in _with_key(guessed, owners):
        keys = owners if of_key.key is None else [row.get(of_key.key) for row in rows]
        if keys is None or any(map(absent, keys)) or (of_key is guessed and found):
            continue
        for name in names:
            of_name = of_key._replace(fields=[field for field in of_key.fields if field != name])
            if name != of_key.key and of_name.fields and _names_sensors(of_name, rows, keys, name):
                found.append(_by_sensor(of_name, [row | {name: str(row[name])} for row in rows], keys, name))
                break
    return found[0] if len(found) == 1 else guessed


def _with_key(guessed: Guess, owners: Sequence[Any] | None) -> Iterator[Guess]:
    """The guess; where its key is not certain, or may be a sensor's name, first with each other column that may be it."""
    names = guessed.candidates.get("key", [])
    if guessed.key is not None and plain_name(guessed.key) in NAMES and guessed.because["key"] != "as chosen":
        names = [name for name, why in guessed.left_out.items() if why == OWNER]  # such as of one person in the first rows
    elif guessed.key is not None or owners is not None:
        yield guessed
        return
    known = with_key_known(guessed)
    for key in names:
        if plain_name(key) not in NAMES:
            left_out = {name: why for name, why in guessed.left_out.items() if name != key}
            because = {**guessed.because, "key": "next to a column with the names of sensors"}
            yield known._replace(key=key, left_out=left_out, because=because)
    if guessed.key is not None:
        yield guessed  # such as "sensor", next to "metric"


def _names_sensors(guessed: Guess, rows: Rows, keys: Sequence[Any], name: str) -> bool:
    """Whether a column names the sensors of most keys."""
    time = guessed.time or ""
    moments = [(key, row.get(time)) for key, row in zip(keys, rows, strict=True)]
    named = {(*moment, row.get(name)) for moment, row in zip(moments, rows, strict=True)}
    of_key = Counter(key for key, _ in {(key, text) for key, _, text in named})
    if 2 * sum(count > 1 for count in of_key.values()) < len(of_key) or len(named) < (1 - TWICE) * len(rows):
        return False
    together = sum(count for count in Counter(moments).values() if count > 1)
    if together >= TOGETHER * len(rows):
        return True
    if plain_name(name) not in NAMES or len(guessed.fields) > 1 or plain_name(guessed.fields[0]) not in VALUES:
        return False
    times, texts = defaultdict[Any, list[float]](list), defaultdict[Any, list[str]](list)
    for key, row in zip(keys, rows, strict=True):
        times[key, row[name]].append(row[time])
        texts[key].append(row[name])
    changes = [before != after for own in texts.values() for before, after in pairwise(own)]
    if sum(changes) < TURNS * len(changes):
        return False  # as a machine's mode
    pauses = [pause / _pause(own) for own in times.values() for pause in _pauses(own)]
    return sum(OF_USUAL[0] <= pause <= OF_USUAL[1] for pause in pauses) >= STEADY * len(pauses) > 0


def _by_sensor(guessed: Guess, rows: Rows, keys: Sequence[Any], name: str) -> Guess:
    """The guess with a field for each number of each sensor that is not much slower than the fastest, and seldom lacking."""
    times, there = defaultdict[str, dict[Any, list[float]]](dict), defaultdict[str, Counter[str]](Counter)
    for key, row in zip(keys, rows, strict=True):
        times[row[name]].setdefault(key, []).append(row[guessed.time or ""])
        there[row[name]].update(field for field in guessed.fields if not absent(row.get(field)))
    second = 1.0 if guessed.written else SECONDS[guessed.time_unit]
    pauses = dict[str, Pauses]()
    for text, of_keys in times.items():
        if own := [second * pause for one in of_keys.values() if (pause := _pause(one))]:
            pauses[text] = Pauses(min(own), max(own))
    left_out = {one: why for one, why in guessed.left_out.items() if one != name}
    paths, seldom, kept = dict[str, tuple[str, str]](), set[str](), dict[str, float]()
    fastest = min((pause.slowest for pause in pauses.values()), default=0.0)
    for text, of_keys in times.items():
        fields = [field for field in guessed.fields if there[text][field] >= LEAST_ROWS]
        if is_bad(text):
            left_out[text] = BAD_NAME
        elif not fields or text not in pauses or len(of_keys) < OFTEN * len({*keys}):
            left_out[text] = "a sensor with few rows, or of few keys"
        elif pauses[text].slowest > SLOWER * fastest:
            left_out[text] = (
                f"a sensor with a row every {pauses[text].slowest:g} s, for which the rows of faster sensors would wait"
            )
        else:
            seldom |= {*keys} - {*of_keys}
            kept[text] = pauses[text].slowest
            for column, field in zip(sensor_columns(text, fields), fields, strict=True):
                paths[column] = (text, field)
    if len(kept) < 2:
        return guessed
    wanted = set(paths.values())
    lacking = sum(any(absent(row.get(field)) for text, field in wanted if text == row[name]) for row in rows)
    remarks = [remark for remark in guessed.remarks if DECIDES not in remark]  # also of fields that are another sensor's
    if lacking:
        remarks.append(f"{lacking:,} of {len(rows):,} rows lack a number of their sensor; {DECIDES}")
    if seldom:
        remarks.append(
            f"{len(seldom):,} of {len({*keys}):,} keys lack one of the sensors in {name!r}, and will have no rows"
        )
    choose, candidates = dict(guessed.choose), dict(guessed.candidates)
    if "label" in candidates:
        others = [one for one in candidates["label"] if one not in (name, guessed.key)]
        old, new = (f"; candidates: {quoted_names(some)}" if some else "" for some in (candidates["label"], others))
        choose["label"], candidates["label"] = choose["label"].replace(old, new), others
    pause = min(kept.values()) if windowed(1.0 / min(kept.values())) else max(kept.values())
    why = f"those of the {len(kept)} sensors in {name!r}: each row has the number of one"
    because = {**guessed.because, "fields": why, "rate": f"a sensor's median pause between samples is {pause:.3g} s"}
    categories = {column: texts for column, texts in guessed.categories.items() if column != name}
    lenient = [column for column, (_, field) in paths.items() if field in guessed.lenient]
    return guessed._replace(
        fields=[*paths],
        narrow=Narrow(name, paths, {text: pauses.get(text, Pauses(0.0, 0.0)) for text in times}),
        pause=pause,
        rate=float(f"{1.0 / pause:.2g}"),
        left_out=left_out,
        remarks=remarks,
        choose=choose,
        candidates=candidates,
        because=because,
        gaps=Gaps(len(rows), lacking),
        categories=categories,
        turns=(),
        lenient=[*(one for one in guessed.lenient if one == guessed.time), *lenient],
    )


def _pause(times: Sequence[float]) -> float:
    """The median pause between a sensor's samples of one key; 0 for less than two."""
    pauses = _pauses(times)
    return round(statistics.median(pauses), 6) if pauses else 0.0  # times since 1970 as floats have parts of a microsecond


def _pauses(times: Iterable[float]) -> list[float]:
    return [later - earlier for earlier, later in pairwise(sorted(times)) if later > earlier]


def sensor_columns(name: str, fields: Sequence[str]) -> list[str]:
    """What the columns of a sensor are called."""
    section = SensorsSection(name="name", each={name: SensorSection(fields=list(fields), rate=1.0)})
    return sensors_of(section)[0].columns
