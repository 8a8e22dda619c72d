"""Which columns of texts may predict a label as categories: few different texts, each of which returns."""

from collections.abc import Mapping, Sequence
from typing import Any

from streamjobs.recordings.columns import Column
from streamjobs.recordings.guess.rows import follows

TEXTS = "texts"  # why such a column is not part of x
MOST_TEXTS, MOST_COLUMNS = 16, 64  # of a column; of all columns, as each text is a column of x
LEAST_ROWS = 20  # for each text
LONGEST = 60  # characters


def categories_of(
    columns: Sequence[Column], rows: Sequence[dict[str, Any]], left_out: Mapping[str, str], owner: str | None
) -> dict[str, list[str]]:
    """The texts of each column, sorted. owner: the column with the key, for each of which a name has one text."""
    found: dict[str, list[str]] = {}
    room = MOST_COLUMNS
    for column in columns:
        if left_out.get(column.name) != TEXTS or (owner is not None and follows(rows, column.name, owner)):
            continue
        texts = sorted(set(column.values))
        few = 2 <= len(texts) <= min(MOST_TEXTS, room, len(column.values) // LEAST_ROWS)
        if few and all(len(text) <= LONGEST and text.isprintable() for text in texts):
            found[column.name] = texts
            room -= len(texts)
    return found
