"""Guesses from names and values what the columns of a recording mean; `init` writes the guess into the job file.

A guess that cannot be made is left to the user: `choose` says why, with the candidates. What is not part of x is in
`left_out` with its reason. What the user has said is taken as it is.
"""

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.core.decoding.keys import key_bytes
from streamjobs.errors import ConfigError
from streamjobs.recordings.columns import (
    ASIDE,
    KEYS,
    LABELS,
    Column,
    Times,
    absent,
    columns_of,
    columns_of_times,
    flattened,
    plain_name,
    read_times,
    reads,
    says_time,
)
from streamjobs.recordings.exports import Exported
from streamjobs.recordings.files import Recording, recordings_of, rows_of
from streamjobs.recordings.guess.columns import Columns
from streamjobs.recordings.guess.keys import names_id
from streamjobs.recordings.guess.narrow import MOST_NAMES, VALUES, as_narrow
from streamjobs.recordings.guess.narrow import NAMES as SENSORS
from streamjobs.recordings.guess.result import NOTHING_CHOSEN, Chosen, Guess, windowed
from streamjobs.recordings.guess.texts import read_numbers
from streamjobs.recordings.guess.x import EMPTY, machines_in, quoted_names
from streamjobs.recordings.tables import HOW, How, untold
from streamjobs.settings.paths import column_path
from streamjobs.settings.presets import NAMES, Preset, preset_of
from streamjobs.settings.types import many

LOOK_AT = 2000  # rows of the file
SHORT_LIST = 16  # numbers
MORE_ROWS, DATE = 200_000, 10  # rows of the file that may tell days from months; characters that have both
FEW_KEYS = 20  # of which rows are looked for in MORE_ROWS rows where the first rows have more keys than repeat
BARE = "only in files without fields"  # why a column is not part of x
MOST_FILES, FIRST_ROWS = 100, 20  # that are looked at for columns that few files have
OF_EACH = 500  # rows of each sensor, where those of one follow those of another
LEAST = 5  # rows of a kind: that have the same columns; of a label that was chosen 1
MOST = 0.5  # of the labels alone, at least, that repeat the time of a sample and follow a later one


class LateLabels(NamedTuple):
    label: str
    alone: list[bool]  # whether a row has the label and no sample


def guess(path: Path, how: How = HOW, chosen: Chosen = NOTHING_CHOSEN) -> Guess:
    """The meaning of columns by their names and values; all columns of numbers without another meaning are part of x.

    Raises ConfigError for a file that cannot be read, or has no rows.
    """
    found = recordings_of(path, how)

    def without(alone: Sequence[str], others: Sequence[Recording]) -> Guess:
        key, label = (None if one in alone else one for one in (chosen.key, chosen.label))
        again = _guess_of(others, path, how, chosen._replace(key=key, label=label))
        if chosen.key in alone:
            again.remarks.append(f"{chosen.key!r} is not the key, because only files without fields have it")
        return again

    return _by_file(found, how, _guess_of(found, path, how, chosen), without)


def _guess_of(found: Sequence[Recording], path: Path, how: How, chosen: Chosen) -> Guess:
    one = found[0].of
    preset = one.preset if isinstance(one, Exported) else _preset_of(found[0].rows(dataclasses.replace(how, tell=untold)))
    if preset is not None and preset.strip:
        how = dataclasses.replace(how, preset=preset.name)
    every = itertools.chain.from_iterable(each.rows(how) for each in found)
    first = list(itertools.islice(every, LOOK_AT))
    few = _of_few_keys(first, every, chosen.key)
    rows = _of_other_sensors(few, found, how) or few + _of_other_columns(few, every)
    guessed = guess_rows(rows, str(path), chosen, preset)
    if (only := _only_format(path, guessed, how)) is not None:
        guessed = guess_rows(rows, str(path), chosen._replace(time_format=only), preset)
    if few is not first:
        why = f"few of the keys in the first {LOOK_AT:,} rows repeat there; the rows of {FEW_KEYS} keys were looked at"
        guessed = guessed._replace(remarks=[why, *guessed.remarks])
    return guessed._replace(files=len(found))


def _by_file(
    found: Sequence[Recording], how: How, guessed: Guess, without: Callable[[Sequence[str], Sequence[Recording]], Guess]
) -> Guess:
    """With the number of files that have a column, where it is empty for this reason; names files without any field.

    Of these nothing is guessed: a key that only they have is of no sample, and neither is a label.
    """
    empty = [name for name, why in guessed.left_out.items() if why.startswith(EMPTY)]
    if len(found) == 1 or not (empty or guessed.gaps.lacking) or any(isinstance(one.of, Exported) for one in found):
        return guessed
    how, there = dataclasses.replace(how, tell=untold), list[set[str]]()
    for one in found[:MOST_FILES]:
        rows = map(flattened, itertools.islice(one.rows(how), FIRST_ROWS))
        there.append({name for row in rows for name, value in row.items() if not absent(value)})
    fields = guessed.fields if guessed.narrow is None else guessed.narrow.columns
    bare = [number for number, names in enumerate(there) if fields and names.isdisjoint(fields)]
    bare = [number for number in bare if not _has(fields, [found[number]], how)]  # fields may begin late
    left_out = dict(guessed.left_out)
    for name in empty:
        files = [number for number, names in enumerate(there) if name in names]
        if files and {*files} <= {*bare}:
            left_out[name] = BARE
        elif 0 < len(files) < len(there):
            why = "put the files of each kind into a folder of their own, for a job each"
            left_out[name] = f"only in {len(files):,} of {many(len(there), 'file')}; {why}"
    if bare and guessed.wait is None:
        guessed = guessed._replace(bare=[found[number].name for number in bare])
        others = f" and {many(len(bare) - 1, 'other file')}" if len(bare) > 1 else ""
        why = (
            f"no row of {found[bare[0]]}{others} has a field. Labels with a begin and an end are written into the samples "
            "first, as streamjobs/fit/README.md does, and the file is moved elsewhere; a label in a record of its own needs "
            "the time of its sample ([labels])"
        )
        rest = [one for number, one in enumerate(found) if number not in bare]
        alone = [name for name in (guessed.key, guessed.label) if name is not None and not _has([name], rest, how)]
        if not alone:
            guessed.remarks.append(why)
            return guessed._replace(left_out=left_out)
        again, label = without(alone, rest)._replace(files=len(found), bare=guessed.bare), guessed.label
        of_bare = {name: one for name, one in left_out.items() if one == BARE} | dict.fromkeys(alone, BARE)
        choose = {**again.choose, "label": f"{label!r} has no sample; {why}"} if label in alone else again.choose
        remarks = again.remarks if label in alone else [*again.remarks, why]
        return again._replace(left_out={**again.left_out, **of_bare}, choose=choose, remarks=remarks)
    return guessed._replace(left_out=left_out)


def _has(names: Sequence[str], found: Sequence[Recording], how: How) -> bool:
    """Whether a row of these files has one of these columns: labels may begin late."""
    every = map(flattened, itertools.chain.from_iterable(one.rows(how, names) for one in found))
    return any(not absent(row.get(name)) for row in itertools.islice(every, MORE_ROWS) for name in names)


def _of_few_keys(first: list[dict[str, Any]], others: Iterator[dict[str, Any]], key: str | None) -> list[dict[str, Any]]:
    """The first rows; where they have so many keys that few repeat, rows of the first keys. key: as chosen."""
    if len(first) < LOOK_AT:
        return first
    flat, few = [flattened(row) for row in first], dict[str, set[Any]]()
    times = columns_of_times(flat)
    for column in columns_of(flat):
        named = column.name == key if key else names_id(column.name) or (column.kind == "text" and not column.has_clocks)
        if named and 2 * column.distinct > LOOK_AT and column.name not in times:
            few[column.name] = set(column.values[:FEW_KEYS])
    if not few:
        return first
    taken: dict[str, list[dict[str, Any]]] = {name: [] for name in few}
    for row in itertools.chain(flat, map(flattened, itertools.islice(others, MORE_ROWS))):
        for name, values in few.items():
            if row.get(name) in values:
                taken[name].append(row)
        if any(len(own) == LOOK_AT for own in taken.values()):
            break
    return next((own for own in taken.values() if len(own) >= 2 * FEW_KEYS), first)


def _of_other_sensors(rows: list[dict[str, Any]], found: Sequence[Recording], how: How) -> list[dict[str, Any]]:
    """The first rows of each sensor, where a long table is sorted by the names of its sensors; empty for other tables."""
    flat = [flattened(row) for row in rows]
    columns = columns_of(flat)
    names = [
        c.name for c in columns if c.kind == "text" and plain_name(c.name) in SENSORS and c.distinct == 1 and not c.missing
    ]
    if len(rows) < LOOK_AT or len(names) != 1 or not any(plain_name(column.name) in VALUES for column in columns):
        return []
    taken, how = dict[str, list[dict[str, Any]]](), dataclasses.replace(how, tell=untold)
    every = itertools.chain.from_iterable(each.rows(how) for each in found)
    for row in itertools.chain(flat, map(flattened, itertools.islice(every, LOOK_AT, LOOK_AT + MORE_ROWS))):
        if not absent(sensor := row.get(names[0])):  # a label may have a row of its own
            own = taken.setdefault(str(sensor), [])
            own += [row] * (len(own) < OF_EACH)
    return list(itertools.chain.from_iterable(taken.values())) if 1 < len(taken) <= MOST_NAMES else []


def _of_other_columns(rows: list[dict[str, Any]], others: Iterator[dict[str, Any]]) -> list[dict[str, Any]]:
    """Later rows with a column that none of these has, and without others that each has: labels that come late."""
    there = [{name for name, value in row.items() if not absent(value)} for row in rows]
    known, always, found = set().union(*there), set.intersection(*there) if there else set(), list[dict[str, Any]]()
    for row in itertools.islice(others, MORE_ROWS):
        old = row.keys() <= known or all(name in known or absent(value) for name, value in row.items())
        if not old and any(absent(row.get(name)) for name in always):
            found.append(row)
            if len(found) == LOOK_AT // 10:
                break
    return found


def _only_format(path: Path, guessed: Guess, how: How) -> str | None:
    """The format that alone reads the times of more rows, where several read those of the first rows; else None."""
    formats, last = list(guessed.candidates.get("time_format", ())), ""
    if guessed.time is None or not formats:
        return None
    find = column_path(guessed.time).find
    for row in itertools.islice(rows_of(path, dataclasses.replace(how, tell=untold), [guessed.time]), MORE_ROWS):
        text = find(row)
        if isinstance(text, str) and (date := text[:DATE]) != last:
            last, formats = date, [form for form in formats if reads(text, form)] or formats
            if len(formats) == 1:
                return formats[0]
    return None


def _preset_of(rows: Iterator[dict[str, Any]]) -> Preset | None:
    """The tool that writes the columns of a file."""
    first = next(rows, {})
    for preset in map(preset_of, NAMES):
        if preset.strip and all(any(name.startswith(one) for name in first) for one in preset.strip):
            return preset
        source = preset.source
        if "fields" not in source:
            continue
        if source["time"] in first and all(name in first for name in source["fields"]) and not preset.strip:
            return preset
    return None


def guess_rows(
    rows: Sequence[dict[str, Any]],
    where: str,
    chosen: Chosen = NOTHING_CHOSEN,
    preset: Preset | None = None,
    owners: Sequence[Any] | None = None,
) -> Guess:
    """Of rows that are read already. where: for errors; owners: the keys of the rows' records, where these have keys."""
    given = rows
    rows = [flattened(row) for row in rows]
    owners = None if owners is None else [owner for owner, row in zip(owners, rows, strict=True) if row]
    read, times = read_times([row for row in rows if row], chosen.time_format)
    columns = columns_of(read)
    texts: list[str] = []
    if preset is None:
        read, texts = read_numbers(read, columns, (chosen.key, chosen.label))
        columns = columns_of(read) if texts else columns
    if spread := _short_lists(columns, given):
        read = [_spread(row, spread) for row in read]
        columns = columns_of(read)
    if chosen.key:
        read = [row | {chosen.key: None} if isinstance(row.get(chosen.key), list) else row for row in read]
    if not columns:
        got = "lines of something else" if rows else "no rows"
        raise ConfigError(
            f"{where}: expected a few records as they will arrive, JSON objects or rows of a table; got {got}."
        )
    names = {column.name for column in columns}
    for name in filter(None, (chosen.key, chosen.time, chosen.label, *(chosen.fields or ()))):
        if name not in names:
            raise ConfigError(f"{where}: no column is named {name!r}; the columns are {quoted_names(sorted(names))}.")
    if preset is None and (late := late_labels(read, owners, chosen.label)) is not None:
        guessed = _with_late_labels(read, times, chosen, owners, late)
    else:
        guessed = Columns(read, columns, times, chosen, preset, owners).guess()
        guessed.remarks.extend(apart(read, guessed))
    guessed = guessed._replace(lenient=[name for name in texts if name in (guessed.time, *guessed.fields)])
    guessed = as_narrow(guessed, read, columns, owners)
    if owners is None and guessed.key and (lost := sum(not _may_be_key(row.get(guessed.key)) for row in read)):
        guessed.remarks.append(
            f"{lost:,} of {len(read):,} rows have no text and no whole number in {guessed.key!r}, the key; they would be "
            "dead letters"
        )
    if "key" in guessed.choose:
        guessed.remarks.extend(machines_in(guessed.fields, guessed.time))
    if len(read) == len(rows):
        return guessed
    broken = f"{len(rows) - len(read):,} of {len(rows):,} rows are not objects with fields; they would be dead letters"
    return guessed._replace(remarks=[broken, *guessed.remarks])


def _may_be_key(value: Any) -> bool:
    """A whole number may also be one that a table has as a float."""
    return key_bytes(value) is not None or (isinstance(value, float) and value.is_integer())


def _with_late_labels(
    rows: Sequence[dict[str, Any]], times: Times, chosen: Chosen, owners: Sequence[Any] | None, late: LateLabels
) -> Guess:
    """A guess from the samples alone; only the label is of all rows."""
    keys, samples = owners, [row for row, alone in zip(rows, late.alone, strict=True) if not alone]
    owners = None if owners is None else [one for one, alone in zip(owners, late.alone, strict=True) if not alone]
    label = next(column for column in columns_of(rows) if column.name == late.label)
    columns = [*(column for column in columns_of(samples) if column.name != label.name), label]
    guessed = Columns(samples, columns, times, chosen._replace(label=label.name), None, owners).guess()
    why = f"{sum(late.alone):,} of {len(rows):,} records have it with a time and no sample, as labels that come later"
    guessed.remarks.extend(unmatched(rows, keys, late.alone, guessed))
    return guessed._replace(wait=0.0, because={**guessed.because, "label": why})


def _short_lists(columns: Sequence[Column], rows: Sequence[dict[str, Any]]) -> list[str]:
    """The lists that are fields, such as of three phases: each of one short length, and not the only numbers."""
    lists = [column for column in columns if column.kind == "list"]
    for one in lists:
        lengths, first = {len(value) for value in one.values}, column_path(f"{one.name}[0]").find
        short = one.depth == 1 and len(lengths) == 1 and max(lengths) <= SHORT_LIST
        if not short or says_time(one.name) or plain_name(one.name) in ("x", *LABELS):
            return []
        if not any(first(row) == one.values[0][0] for row in rows):  # a name that cannot be a path
            return []
    others = [c for c in columns if c.kind == "number" and c.distinct > 1 and not c.rises and not says_time(c.name)]
    signals = [c for c in others if plain_name(c.name) not in (*KEYS, *LABELS, *ASIDE)]
    return [one.name for one in lists] if len(lists) > 1 or signals else []


def _spread(row: dict[str, Any], lists: Sequence[str]) -> dict[str, Any]:
    """
    >>> _spread({"id": 7, "u": [1, 2], "i": None}, ["u", "i"])
    {'id': 7, 'u[0]': 1, 'u[1]': 2}
    """
    spread = {f"{name}[{n}]": one for name in lists for n, one in enumerate(row.get(name) or ())}
    return {name: value for name, value in row.items() if name not in lists} | spread


def late_labels(rows: Sequence[dict[str, Any]], owners: Sequence[Any] | None, chosen: str | None) -> LateLabels | None:
    """The column that some rows have alone, next to what all rows have; None without such rows, or if several are possible.

    owners: the keys of the rows' records. chosen: the label; "" for none.

    >>> rows = [{"id": 1, "t": t, "a": 0.1 * t, "b": 0.2} for t in range(9)]
    >>> later = [row for t in range(9) for row in (rows[t], {"id": 1, "t": t - 2, "grade": 5.0})]
    >>> late_labels(later, None, None).label, late_labels(rows, None, None), late_labels(later, None, "a")
    ('grade', None, None)
    """
    there = [frozenset(name for name, value in row.items() if not absent(value)) for row in rows]
    kinds = {kind for kind, count in Counter(there).items() if count >= LEAST or chosen in kind}
    shared: frozenset[str] = frozenset.intersection(*kinds) if kinds else frozenset()
    single = [name for kind in kinds if len(kind - shared) == 1 for name in kind - shared]
    if len(kinds) < 2 or not single:
        return None
    named = [name for name in single if (name == chosen if chosen is not None else plain_name(name) in LABELS)]
    if chosen is None and not named and len(single) == 1:
        named = [name for name in single if _repeats(rows, there, owners, shared, name)]
    if len(named) != 1 or not any(kind - shared - {named[0]} for kind in kinds):
        return None  # samples of which some have a label have nothing that the others lack
    alone = [kind - shared == {named[0]} for kind in there]  # also samples that lack the same numbers: few
    return LateLabels(named[0], alone) if 2 * sum(alone) > sum(named[0] in kind for kind in there) else None


def _repeats(
    rows: Sequence[dict[str, Any]],
    there: Sequence[frozenset[str]],
    owners: Sequence[Any] | None,
    shared: frozenset[str],
    name: str,
) -> bool:
    """Whether rows with this column alone have the time of a sample, and come after a later sample of the same key."""
    if any(name in kind and kind - shared != {name} for kind in there):
        return False
    for time in sorted(shared):
        others, newest, seen, late = sorted(shared - {time}), dict[str, float](), set[tuple[str, float]](), list[bool]()
        for number, row in enumerate(rows):
            moment = row.get(time)
            if isinstance(moment, bool) or not isinstance(moment, (int, float)):
                break
            key = repr([owners[number] if owners is not None else None, *map(row.get, others)])
            if there[number] - shared == {name}:
                late.append((key, moment) in seen and newest[key] > moment)
                continue
            seen.add((key, moment))
            newest[key] = max(newest.get(key, moment), moment)
        else:
            if sum(late) >= MOST * len(late):
                return True
    return False


def apart(rows: Sequence[dict[str, Any]], guessed: Guess) -> Iterator[str]:
    """What to do with the one column that never stands next to a field, in case it is the label of other records."""
    if guessed.time is None:
        return
    fields = set(guessed.fields)
    there = [{name for name, value in row.items() if not absent(value)} for row in rows]
    copies = [name for name in guessed.left_out if _copies(rows, there, guessed.time, name)]
    there = [names.difference(copies) for names in there]
    beside = {name for names in there if (own := names & fields) for name in (names if len(own) > 1 else names - own)}
    alone = [name for name in sorted(set().union(*there) - beside - {guessed.time, guessed.key}) if fields - {name}]
    if len(alone) == 1 and guessed.label in (None, alone[0]):
        copied = f" (as in {copies[0]!r})" if copies else ""
        then = f", and --label {alone[0]}" if guessed.label is None else ""
        yield (
            f"{alone[0]!r} comes in records of its own; if it is the label of the others, give each the {guessed.time!r} of "
            f"its sample{copied}{then}"
        )


def _copies(rows: Sequence[dict[str, Any]], there: Sequence[set[str]], time: str, name: str) -> bool:
    """Whether each value of this column is the time of a row without the column."""
    times = {repr(row.get(time)) for row, names in zip(rows, there, strict=True) if name not in names}
    return all(repr(row[name]) in times for row, names in zip(rows, there, strict=True) if name in names)


def unmatched(
    rows: Sequence[dict[str, Any]], owners: Sequence[Any] | None, alone: Sequence[bool], guessed: Guess
) -> Iterator[str]:
    """That most labels have no sample at their time, where the two must be equal."""
    if guessed.time is None or windowed(guessed.rate):
        return
    keys = [row.get(guessed.key or "") for row in rows] if owners is None else owners
    places = [(repr(key), row.get(guessed.time)) for key, row in zip(keys, rows, strict=True)]
    there = {place for place, label in zip(places, alone, strict=True) if not label}
    lost = sum(label and place not in there for place, label in zip(places, alone, strict=True))
    if lost > MOST * sum(alone):
        yield (
            f"{lost:,} of {sum(alone):,} labels in records of their own have the time of no sample here; a label "
            f"becomes a dead letter if its {guessed.time!r} is not that of a sample"
        )
