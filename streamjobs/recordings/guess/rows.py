"""What the first rows of a recording show of its keys: which texts take turns, and which pauses the keys have."""

import bisect
import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from streamjobs.recordings.clocks import flat, usual_pause
from streamjobs.recordings.columns import COUNTER_ROWS, Column, absent
from streamjobs.recordings.guess.x import quoted_names
from streamjobs.settings.source import MOST_USUAL

FAR_APART = 3.0  # times a pause between samples: windows of one rate would have too few samples, or too many
STEADY_APART = 1.5  # the same, of many samples at the rate of a sensor
MOST_ERRORS, FAR = 0.01, 1e6  # of the numbers of a column; times its largest other number
MOST_FALLS = 0.1  # of the rows: a signal falls in half of them
MOST_STATES = 8  # different texts of a state
SWITCHED = {"on", "off", "true", "false", "yes", "no", "open", "closed", "ein", "aus", "an", "ja", "nein", "auf", "zu"}
MOST_PAUSE = 1.5  # times the usual one, between two rows of one device
DECIDES = "[source] missing decides what happens to such a record"
NEVER, APART = "never change", "keys have rates of their own"
Rows = Sequence[dict[str, Any]]


def take_turns(rows: Rows, name: str, time: str | None) -> bool:
    """Whether most rows have another text than the row before, or the time begins again where the text changes.

    >>> take_turns([{"oven": "ab"[i % 2]} for i in range(9)], "oven", None)
    True
    >>> take_turns([{"oven": "ab"[i > 4], "t": i % 5} for i in range(9)], "oven", "t")
    True
    >>> take_turns([{"mode": "ab"[i > 4], "t": i} for i in range(9)], "mode", "t")
    False
    """
    pairs = list(itertools.pairwise((row.get(name), None if time is None else row.get(time)) for row in rows))
    turns = [(then, now) for (before, then), (after, now) in pairs if before != after]
    if 2 * len(turns) > len(pairs):
        return True
    return bool(turns) and all(then is not None and now is not None and now < then for then, now in turns)


def is_state(rows: Rows, name: str, time: str | None) -> bool:
    """Whether the text seldom changes, and never with a pause: rows of another device would begin at a time of their own.

    Texts such as on and off are of a state without a look at times.

    >>> is_state([{"mode": "ab"[i // 4 % 2], "t": i} for i in range(12)], "mode", "t")
    True
    >>> is_state([{"oven": "ab"[i // 6], "t": i + 9 * (i // 6)} for i in range(12)], "oven", "t")
    False
    """
    if {str(row.get(name)).lower() for row in rows} <= SWITCHED:
        return True
    known: list[tuple[Any, Any]] = [] if time is None else [(row.get(name), row.get(time)) for row in rows]
    if len({text for text, _ in known}) > MOST_STATES or any(map(absent, itertools.chain.from_iterable(known))):
        return False
    pauses = [(later - earlier, text != other) for (text, earlier), (other, later) in itertools.pairwise(known)]
    usual = sorted(pause for pause, changes in pauses if not changes)
    turns = [pause for pause, changes in pauses if changes]
    if not turns or len(turns) > len(usual) / 2:
        return False
    return usual[0] >= 0 and all(0 < pause <= MOST_PAUSE * usual[len(usual) // 2] for pause in turns)


def rises(numbers: Sequence[float], owners: Iterable[Sequence[Any]]) -> bool:
    """Whether numbers never fall, or seldom do for each owner: a topic's partitions are read one after another.

    >>> rises([1, 3, 2, 5, 4, 6, 1, 2], []), rises([1, 3, 2, 5, 4, 6, 8, 9], ["abababab"])
    (False, True)
    """
    if all(one <= other for one, other in itertools.pairwise(numbers)):
        return True
    for names in filter(None, owners):
        last, falls = dict[Any, float](), 0
        for name, number in zip(names, numbers, strict=True):
            falls += number < last.get(name, number)
            last[name] = number
        if falls <= MOST_FALLS * len(numbers) and 2 * len(last) <= len(numbers):
            return True
    return False


def follows(rows: Rows, name: str, key: str) -> bool:
    """Whether each text of the key has one text of this name."""
    texts = {row.get(key) for row in rows}
    return len({(row.get(key), row.get(name)) for row in rows}) == len(texts)


def rates_apart(rows: Rows, key: str, time: str, second: float) -> str | None:
    """What keys with rates far apart need, None where all are alike. second: of the time's unit."""
    by_key: dict[Any, list[dict[str, Any]]] = {}
    for row in rows:
        by_key.setdefault(row.get(key), []).append(row)
    return pauses_apart({name: usual_pause(own, [0] * len(own), time) for name, own in by_key.items()}, second, FAR_APART)


def pauses_apart(pauses: Mapping[Any, float | None], second: float, apart: float = STEADY_APART) -> str | None:
    """As `rates_apart`, of the usual pause of each key."""
    known = sorted((pause * second, str(name)) for name, pause in pauses.items() if pause)
    if len(known) < 2 or known[-1][0] < apart * known[0][0]:
        return None
    (fast, quick), (slow, lazy) = known[0], known[-1]
    return (
        f"{APART}: {quick!r} a sample every {fast:.3g} s, {lazy!r} every {slow:.3g} s; a [window] has "
        "one rate, and needs the share [window] fewest of its samples from each key"
    )


def parts_of_times(times: Collection[str], names: Collection[str]) -> dict[str, str]:
    """Columns with the date or the time of day of a column that has both, with the name of this column.

    >>> parts_of_times(["Datum Zeit"], ["Datum", "Zeit", "kW", "Datum Zeit"])
    {'Datum': 'Datum Zeit', 'Zeit': 'Datum Zeit'}
    """
    cut = ((time[:at], time[at + 1 :], time) for time in times for at in range(len(time)) if time[at] == " ")
    return {part: time for date, clock, time in cut if date in names and clock in names for part in (date, clock)}


def oddities(rows: Rows, columns: Sequence[Column], fields: Sequence[str], x: str | None) -> tuple[list[str], int]:
    """What is odd about the fields or the list that make up x, in sentences; and how many rows lack a number."""
    said, own = [], [column for column in columns if column.name in fields]
    if still := [column.name for column in own if column.distinct == 1 and len(rows) >= COUNTER_ROWS]:
        said.append(stands_still(still))
    said += [
        f"{column.texts:,} of {len(rows):,} rows have a text in {column.name!r}, where others have a number; they would be "
        "dead letters"
        for column in own
        if column.texts
    ]
    gaps = [column.name for column in own if column.missing]
    lacking = sum(any(absent(row.get(name)) for name in gaps) for row in rows)
    if gaps:
        said.append(f"{lacking:,} of {len(rows):,} rows lack a number in {quoted_names(gaps)}; {DECIDES}")
    if x is not None and (without := sum(absent(row.get(x)) for row in rows)):
        said.append(f"{without:,} of {len(rows):,} rows lack the list {x!r}; they would be dead letters")
    return said, lacking


def beyond(name: str, largest: float) -> str:
    return f"{name!r} has numbers up to {largest:.3g}: max_abs is set, beyond which a record is a dead letter"


def largest_of(columns: Sequence[Column]) -> tuple[dict[str, float], list[str]]:
    """The largest absolute numbers without errors of columns beyond the usual max_abs, and what is said of large numbers.

    Errors are few, and far beyond the others of their column.

    >>> largest_of([Column("a", [1.0] * 99 + [1e308], 0, "number")])[0]
    {}
    >>> largest_of([Column("a", [1e20, 2.0], 0, "number")])
    ({'a': 1e+20}, ["'a' has numbers up to 1e+20: max_abs is set, beyond which a record is a dead letter"])
    """
    said, largest = list[str](), dict[str, float]()
    for column in columns:
        numbers = sorted(abs(one) for one in flat(column.values) if isinstance(one, (int, float)))
        usual = numbers[: bisect.bisect(numbers, MOST_USUAL)]
        odd = numbers[len(usual) :]
        if 0 < len(odd) <= MOST_ERRORS * len(numbers) and odd[0] > FAR * max(usual[-1], 1.0):
            said.append(
                f"{len(odd):,} of {len(numbers):,} numbers in {column.name!r} {'is' if len(odd) == 1 else 'are'} up to "
                f"{odd[-1]:.3g}; beyond [source] max_abs = {MOST_USUAL:g} a record is a dead letter"
            )
        elif odd:
            largest[column.name] = odd[-1]
    return largest, [*said, *itertools.starmap(beyond, largest.items())]


def stands_still(names: Sequence[str]) -> str:
    return f"{quoted_names(names)} {NEVER}{'s' * (len(names) == 1)} in the sample; remove from fields what never changes"
