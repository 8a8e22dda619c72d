"""Finds records that have only the label of an earlier sample, as a job with [labels] wait reads them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from streamjobs.recordings.columns import LABELS, absent, plain_name
from streamjobs.recordings.guess.result import Guess, windowed

LEAST = 5  # rows of a kind: that have the same columns; of a label that was chosen 1
MOST = 0.5  # of the labels alone, at least, that repeat the time of a sample and follow a later one


class LateLabels(NamedTuple):
    label: str
    alone: list[bool]  # whether a row has the label and no sample


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
