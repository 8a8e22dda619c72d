"""Which column holds the keys of a recording where none has the usual name: by its values and how rows take turns."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from streamjobs.recordings.columns import ASIDE, LABELS, Column, absent, plain_name, says_time, unit_of_cells
from streamjobs.recordings.guess.rows import Rows, follows, is_state, take_turns

MOST_WITHOUT_KEY = 0.1  # of the rows: without a key a record is a dead letter
ID_WORDS = {
    *("id", "uuid", "imei", "mac", "serial", "node", "unit", "station", "meter", "vehicle", "machine", "asset", "sensor"),
    *("card", "account", "customer", "driver", "tank", "vessel", "ship", "truck", "robot", "boiler", "well"),
    *("kunde", "karte", "konto", "pumpe", "raum", "haus", "wohnung", "kessel", "messstelle"),
    *("seriennummer", "fahrer", "gebaeude", "horse", "cow", "dog"),
    *("device", "engine", "pump", "turbine", "house", "household", "room", "patient", "participant", "player", "animal"),
}
OWNER = "the name of a person or device, by its name"  # why a column is not part of x
LEAST_REPEATED = 0.1  # of the rows: with the time of another row, so that several devices are in the recording
REGULAR, STEADY = 0.5, 0.9  # least share of devices' pauses that are usual, of numbers and of texts
OF_USUAL = 0.5, 1.5  # times the usual pause of a device


class Turns(NamedTuple):
    """key: the column, None where it is not certain. why: it is the key. candidates, states: columns if there is none."""

    key: str | None = None
    why: str = ""
    candidates: Sequence[str] = ()
    states: Sequence[str] = ()


def names_id(name: str) -> bool:
    """Whether a name ends as that of a device or a person.

    >>> [names_id(name) for name in ("pump_id", "unitNumber", "house", "humid", "serial no", "trip")]
    [True, True, True, False, True, False]
    """
    words = plain_name(name).split("_")
    if len(words) > 1 and words[-1] in ("no", "nr", "number"):
        words.pop()
    return words[-1] in ID_WORDS


def key_by_turns(rows: Rows, columns: Sequence[Column], time: str | None, label: str | None) -> Turns:
    """The column that has one value for each device; without texts that may be it, whole numbers. label: never the key."""
    most = MOST_WITHOUT_KEY * len(rows)
    there = [
        column for column in columns if column.missing <= most and column.name != label and 2 * column.distinct <= len(rows)
    ]
    texts = [c for c in there if not says_time(c.name) and plain_name(c.name) not in LABELS]
    texts = [c for c in texts if names_id(c.name) or unit_of_cells(c) is None]
    texts = [c for c in texts if (c.kind == "text" and not c.has_clocks) or (names_id(c.name) and c.is_whole)]
    ids = [c for c in texts if names_id(c.name) and c.distinct > 1]
    taken = False
    for some in filter(None, (ids, texts)):
        finest = max(some, key=lambda column: column.distinct)
        taken = taken or take_turns(rows, finest.name, time)
        if taken and all(follows(rows, other.name, finest.name) for other in some if other is not finest):
            what = "texts" if finest.kind == "text" else "numbers"
            return Turns(finest.name, f"rows of its {finest.distinct:,} different {what} take turns, as those of devices do")
    steady = [
        c for c in texts if time is not None and take_turns(rows, c.name, time) and _usual(rows, c.name, time) >= STEADY
    ]
    if len(steady) == 1:
        why = f"rows of its {steady[0].distinct:,} different values take turns, each at a steady pause"
        return Turns(steady[0].name, why)
    names = [column.name for column in sorted(texts, key=lambda column: (not names_id(column.name), -column.distinct))]
    states = [] if taken else [name for name in names if is_state(rows, name, time)]
    names = [name for name in names if name not in states]
    numbers = (
        []
        if names or time is None
        else [c.name for c in there if plain_name(c.name) not in ASIDE and c.is_whole and _owns(rows, c.name, time)]
    )
    if len(numbers) == 1:
        return Turns(numbers[0], "several rows have the same time, and for each of its numbers times rise at one pace")
    return Turns(None, candidates=names or numbers, states=states)


def _owns(rows: Rows, name: str, time: str) -> bool:
    """Whether rows share times that the rows of each of these numbers do not share, and each has its own steady pause.

    >>> rows = [{"house": i % 3, "t": i // 3, "lamps": i * i % 7} for i in range(60)]
    >>> _owns(rows, "house", "t"), _owns(rows, "lamps", "t")
    (True, False)
    """
    times = [row.get(time) for row in rows if not isinstance(row.get(time), list)]
    if len(times) - len({*times}) < LEAST_REPEATED * len(times):
        return False
    return _usual(rows, name, time) >= REGULAR


def _usual(rows: Rows, name: str, time: str) -> float:
    """Share of the pauses between rows of one value that are usual for it; 0 where a time does not rise or is missing."""
    by_value: dict[object, list[float]] = {}
    for row in rows:
        moment = row.get(time)
        if absent(moment) or not isinstance(moment, (int, float)):
            return 0.0
        by_value.setdefault(row.get(name), []).append(float(moment))
    usual, pauses = 0, 0
    for own in by_value.values():
        found = sorted(after - before for before, after in itertools.pairwise(own))
        if found and found[0] <= 0:
            return 0.0
        middle = found[len(found) // 2] if found else 0.0
        usual += sum(OF_USUAL[0] * middle <= pause <= OF_USUAL[1] * middle for pause in found)
        pauses += len(found)
    return usual / pauses if pauses and len(by_value) > 1 else 0.0
