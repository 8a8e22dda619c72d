"""Columns of texts: which may predict a label as categories, and which have numbers that `numbers = "lenient"` reads."""

import math
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from streamjobs.recordings.clocks import unit_since_1970
from streamjobs.recordings.columns import ASIDE, KEYS, LABELS, Column, absent, plain_name, says_time
from streamjobs.recordings.guess.keys import names_id
from streamjobs.recordings.guess.rows import follows
from streamjobs.settings.types import number_in

TEXTS = "texts"  # why such a column is not part of x
FEW_TEXTS = "texts of a few kinds, such as yes and no; [source] categories lets fields have them"
OTHER_WORDS = "has in other words the label"
SAME_LABEL = 0.1  # of the mistakes that the most frequent label makes, of a column that names the label
MOST_TEXTS, MOST_COLUMNS = 16, 64  # of a column; of all columns, as each text is a column of x
LEAST_ROWS = 20  # for each text
LONGEST = 60  # characters
Row = dict[str, Any]


def categories_of(
    columns: Sequence[Column], rows: Sequence[dict[str, Any]], left_out: dict[str, str], owner: str | None, label: str | None
) -> dict[str, list[str]]:
    """The texts of each column, sorted; `left_out` loses these, and has why others are none.

    owner: the column with the key, for each of which a name has one text. label: its column; without, there are none.
    """
    found: dict[str, list[str]] = {}
    room = MOST_COLUMNS
    for column in columns:
        if left_out.get(column.name) != TEXTS or (owner is not None and follows(rows, column.name, owner)):
            continue
        texts = sorted(set(column.values))
        few = 2 <= len(texts) <= min(MOST_TEXTS, room, len(column.values) // LEAST_ROWS)
        if few and all(len(text) <= LONGEST and text.isprintable() for text in texts):
            left_out[column.name] = FEW_TEXTS if label is None else f"{OTHER_WORDS} {label!r}"
            if label is not None and not is_label(rows, column.name, label):
                left_out.pop(column.name)
                found[column.name] = texts
                room -= len(texts)
    return found


def is_label(rows: Sequence[dict[str, Any]], name: str, label: str) -> bool:
    """Whether a column's texts name the label, but for a tenth of the mistakes that the most frequent label makes.

    >>> rows = [{"why": why, "fault": fault} for why, fault in [("none", 0)] * 9 + [("wear", 1), ("heat", 1)]]
    >>> is_label(rows, "why", "fault"), is_label(rows * 2 + [{"why": "none", "fault": 1}] * 4, "why", "fault")
    (True, False)
    """
    pairs = Counter((row.get(name), row.get(label)) for row in rows if not absent(row.get(label)))
    labels, of_text = Counter[Any](), dict[Any, int]()
    for (text, one), times in pairs.items():
        labels[one] += times
        of_text[text] = max(times, of_text.get(text, 0))
    mistakes = labels.total() - max(labels.values(), default=0)
    return mistakes > 0 and labels.total() - sum(of_text.values()) <= SAME_LABEL * mistakes


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
    times = set()
    for name, values in found.items():
        numbers = [number for text in values if (number := _number(text)) is not None]
        if unit_since_1970(Column(name, numbers, 0, "number")) is not None and min(numbers) >= 1e9:
            times.add(name)
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


def _number(text: str) -> float | None:
    number = number_in(text)
    return None if number is None or not math.isfinite(number) else number
