"""Columns with numbers as texts, such as 64-bit numbers of Protobuf as JSON: `init` reads them with numbers = "lenient"."""

import math
from collections.abc import Collection, Sequence
from typing import Any

from streamjobs.recordings.clocks import unit_since_1970
from streamjobs.recordings.columns import ASIDE, KEYS, LABELS, Column, absent, plain_name, says_time
from streamjobs.recordings.guess.keys import names_id
from streamjobs.settings.types import number_in

Row = dict[str, Any]


def read_numbers(
    rows: Sequence[Row], columns: Sequence[Column], chosen: Collection[str | None]
) -> tuple[list[Row], list[str]]:
    """The rows with these columns as numbers, None for an empty text; and the names of the columns.

    Whole numbers may be ids or codes: they are read only as times, or where no column has numbers. chosen: the columns of
    the key and the label.

    >>> rows = [{"at": "1764201600123", "kw": "21.5", "zip": "10115"}, {"at": "1764201660123", "kw": "", "zip": "10117"}]
    >>> columns = [Column("n", [1, 2], 0, "number")] + [Column(one, [r[one] for r in rows], 0, "text") for one in rows[0]]
    >>> read_numbers(rows, columns, [])[0][1], read_numbers(rows, columns, [])[1]
    ({'at': 1764201660123.0, 'kw': None, 'zip': '10117'}, ['at', 'kw'])
    """
    taken = {*KEYS, *LABELS, *ASIDE}
    found = {c.name: c.values for c in columns if c.kind == "text" and c.name not in chosen and _are_numbers(c.values)}
    found = {name: values for name, values in found.items() if plain_name(name) not in taken and not names_id(name)}
    times = {name for name, values in found.items() if _counts_time(name, values)}
    signals = {
        name for name, values in found.items() if not all(text.strip().lstrip("+-").isdigit() for text in values if text)
    }
    if not signals and not any(c.kind == "number" and not says_time(c.name) for c in columns):
        signals = set(found)
    names = [name for name in found if name in times | signals]
    return [row | {name: _number(row[name]) for name in names if not absent(row.get(name))} for row in rows], names


def _are_numbers(texts: Sequence[str]) -> bool:
    """Whether all are numbers or empty, none as ids are written: 007."""
    some = [text.strip() for text in texts if text.strip()]
    return bool(some) and all(
        text[0] in "+-.0123456789" and number_in(text) is not None and not (text[0] == "0" and text[1:2].isdigit())
        for text in some
    )


def _counts_time(name: str, texts: Sequence[str]) -> bool:
    numbers = [number for text in texts if (number := _number(text)) is not None]
    return unit_since_1970(Column(name, numbers, 0, "number")) is not None and min(numbers) >= 1e9


def _number(text: str) -> float | None:
    number = number_in(text)
    return None if number is None or not math.isfinite(number) else number
