"""Which columns of a recording make up x: all numbers that mean nothing else, or the one list that holds x."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from streamjobs.recordings.columns import ASIDE, FAULT_WORDS, Column, absent, plain_name, why_no_number
from streamjobs.settings.types import MOST_NUMBERS

BAD_NAME = "its name holds a quotation mark, a backslash or a control character, which no field of a record may"
EMPTY = "empty in"  # begins the reason why a column is left out that few rows have
_NO_NAME = re.compile(r'["\\\x00-\x1f]')
_MACHINE = re.compile(r"([^0-9]*[0-9]+)[_. -]+(.+)")  # pump1_temp
MOST_MACHINES = 5  # that are named
MANY_ALIKE = 20  # columns s1, s2, .. that may be of one sensor each
LEAST_READINGS = 100  # rows that show whether a column that rises is a meter
LEAST_THERE, COVERED = 20, 0.9  # rows with a number; least share of the rows that have one of the numbers that come in turns


class X(NamedTuple):
    """The fields, or the list that holds x and its length."""

    fields: list[str]  # candidates where `choose` says why they were not guessed
    x: str | None = None
    dim: int | None = None
    choose: str | None = None
    turns: Sequence[str] = ()  # fields of which each row has some only


def x_of(
    columns: Sequence[Column],
    times: Column | None,
    rows: Sequence[Mapping[str, Any]],
    left_out: dict[str, str],
    *,
    meters: bool = False,
    fills: bool = False,
) -> X:
    """columns: those that are nothing else; what is not part of x is put into `left_out`. times: the column of the time.

    meters: numbers that rise in every row, with fractions, may be readings of a meter, which their profile tells.
    fills: columns that are empty in most rows may be fields.
    """
    lists, fields, turns = [], [], in_turns(columns, rows)
    for column in columns:
        if column.name in left_out:
            continue
        why = None if column.texts else why_no_number(column)
        if not column.name:
            why = "it has no name"
        elif plain_name(column.name) in ASIDE or plain_name(column.name).endswith("_id"):
            why = "not a signal, by its name"
        elif column.kind == "number" and column.distinct <= 2 and plain_name(column.name).split("_")[-1] in FAULT_WORDS:
            why = f"marks faults, by its name, which an alarm must not depend on; --label {column.name} predicts it"
        elif column.depth and "[]." in column.name and (times is None or _list_of(times) != _list_of(column)):
            why = "lists, and the time is not in their objects"
        elif column.depth:
            lists.append(column)
            continue
        elif column.rises and not (meters and len(column.values) >= LEAST_READINGS and not column.is_whole):
            why = "rises in every row: a time or a counter"
        elif why is None and 2 * column.missing > len(rows) and column.name not in turns and not fills:
            why = f"{EMPTY} {column.missing:,} of {len(rows):,} rows; --missing hold takes its last number for them, "
            why += f"--label {column.name} predicts it"
        if why is None:
            fields.append(column.name)
        else:
            left_out[column.name] = why
    if lists:
        return _of_lists(lists, fields, times, left_out)
    if not fields:
        return X(fields, choose="no column of numbers is left for x")
    if len(fields) > MOST_NUMBERS:
        why = f"there are {len(fields):,} columns of numbers, of which x has {MOST_NUMBERS:,} at most"
        return X(fields[:MOST_NUMBERS], choose=why)
    return X(fields, turns=[name for name in fields if name in turns])


def in_turns(columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> set[str]:
    """Columns of which nearly each row has some, and few rows have more than half: as if each sensor sends its own number.

    >>> rows = [{"temp": 20.5 + i} if i % 2 else {"humid": 50.5 - i} for i in range(60)]
    >>> sorted(in_turns([Column(name, [0.0] * 30, 30, "number") for name in ("humid", "temp")], rows))
    ['humid', 'temp']
    """
    sparse = [c for c in columns if c.kind == "number" and 2 * c.missing >= len(rows) and len(c.values) >= LEAST_THERE]
    there = [sum(not absent(row.get(column.name)) for column in sparse) for row in rows]
    covered, many = sum(map(bool, there)), sum(2 * count > len(sparse) for count in there)
    if len(sparse) < 2 or covered < COVERED * len(rows) or many > (1 - COVERED) * len(rows):
        return set()
    return {column.name for column in sparse}


def _of_lists(lists: Sequence[Column], fields: list[str], times: Column | None, left_out: dict[str, str]) -> X:
    """Where columns hold lists: x as one list, or frames of several samples."""
    if times is not None and times.kind == "list":  # frames: a list of each named field is as long as that of the times
        framed = [column for column in lists if column.depth == 1 and _lengths(column) == _lengths(times)]
        if framed and len(framed) == len(lists):
            left_out |= dict.fromkeys(fields, "one number a record, of which each sample has a time of its own")
            return X([column.name for column in framed])
    named = [column for column in lists if plain_name(column.name) == "x"]
    if len(lists) > 1 and not named:
        return X(fields, choose=f"{quoted_names([c.name for c in lists])} hold lists; x is one of them, as x and dim")
    if fields and not named:
        return X(fields, choose=f"x may be the list {lists[0].name!r}, as x and dim, or these columns")
    x = (named or lists)[0]
    dims = set(_lengths(x)) if x.depth == 1 else {len(one) for value in x.values for one in value}
    left_out |= {name: f"x is read from the list {x.name!r}" for name in fields}
    left_out |= {column.name: f"x is read from the list {x.name!r}" for column in lists if column is not x}
    if len(dims) > 1:
        return X([], choose=f"the lists in {x.name!r} have {min(dims)} to {max(dims)} numbers; x has one length, dim")
    return X([], x.name, dims.pop())


def quoted_names(names: Sequence[str]) -> str:
    """The first names, for a sentence."""
    return ", ".join(map(repr, names[:10])) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _list_of(column: Column) -> str:
    """The list that a path such as samples[].ax leads into."""
    return column.name.partition("[].")[0]


def _lengths(column: Column) -> list[int]:
    return [len(value) for value in column.values]


def is_bad(name: str) -> bool:
    """Whether no path leads there: quotation marks that path_of takes are its own."""
    return bool(_NO_NAME.search(name.replace('"', "") if '."' in name or '".' in name else name))


def machines_in(fields: Sequence[str], time: str | None) -> Iterator[str]:
    """What to send where the columns of one row may be those of several machines.

    >>> [line[:40] for line in machines_in(["pump1_temp", "pump1_flow", "pump2_temp", "pump2_flow"], "ts")]
    ['if pump1, pump2 are machines of their ow']
    >>> [line[-66:] for line in machines_in([f"s{n:03}" for n in range(500)], "ts")]
    ['{"machine": ..., "ts": ..., "value": ...}: one key learns all here']
    """
    named = defaultdict[str, list[str]](list)
    for field in fields:
        machine = _MACHINE.fullmatch(field)
        named[machine[1] if machine else ""].append(machine[2] if machine else field)
    alike = len(fields) >= MANY_ALIKE and len({field.rstrip("0123456789") for field in fields}) == 1
    if alike:
        named = defaultdict(list, {field: ["value"] for field in fields})
    numbers = next(iter(named.values()), [])
    if len(named) > 1 and (len(numbers) > 1 or alike) and all(own == numbers for own in named.values()):
        names = ", ".join([*named][:MOST_MACHINES]) + (", ..." if len(named) > MOST_MACHINES else "")
        of_one = ", ".join(f'"{name}": ...' for name in ("machine", time or "time", *numbers))
        yield f"if {names} are machines of their own, send a record of each, such as {{{of_one}}}: one key learns all here"
