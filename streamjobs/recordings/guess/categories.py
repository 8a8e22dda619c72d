"""Which columns of texts may predict a label as categories: few different texts, each of which returns."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from streamjobs.recordings.columns import Column, absent
from streamjobs.recordings.guess.rows import follows

TEXTS = "texts"  # why such a column is not part of x
FEW_TEXTS = "texts of a few kinds, such as yes and no; [source] categories lets fields have them"
OTHER_WORDS = "has in other words the label"
SAME_LABEL = 0.1  # of the mistakes that the most frequent label makes, of a column that names the label
MOST_TEXTS, MOST_COLUMNS = 16, 64  # of a column; of all columns, as each text is a column of x
LEAST_ROWS = 20  # for each text
LONGEST = 60  # characters


def categories_of(
    columns: Sequence[Column],
    rows: Sequence[dict[str, Any]],
    left_out: dict[str, str],
    owner: str | None,
    label: str | None,
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
