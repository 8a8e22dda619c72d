"""Which column holds the keys of a recording where none has the usual name: by its values and how rows take turns.

Also the column that numbers the runs of a recording, such as experiments on one machine, that follow one another.
"""

import itertools
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.recordings.columns import ASIDE, LABELS, Column, absent, plain_name, says_time, unit_of_cells
from streamjobs.recordings.files import rows_of
from streamjobs.recordings.guess import courses
from streamjobs.recordings.guess.result import Guess, with_key_known
from streamjobs.recordings.guess.rows import Rows, follows, is_state, take_turns
from streamjobs.recordings.guess.x import quoted_names
from streamjobs.recordings.tables import HOW, How
from streamjobs.settings.paths import ABSENT, column_path

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
RUN_WORDS = {
    *("experiment", "run", "trial", "session", "recording", "episode", "test", "measurement"),
    *("versuch", "lauf", "durchlauf", "messung", "aufnahme", "sitzung"),
}
ASKED_WORDS = {  # of what may be a recording of its own or a part of one: `init` asks. Other numbers may be counts
    *("batch", "lot", "trip", "journey", "flight", "ride", "file", "exp", "series", "block", "nr", "no", "number"),
    *("charge", "los", "fahrt", "flug", "datei", "serie", "nummer"),
}
CALENDAR = {
    *("day", "doy", "weekday", "week", "month", "year", "quarter", "hour", "minute", "shift", "date"),
    *("tag", "woche", "monat", "jahr", "quartal", "stunde", "schicht"),
}
TIMES = ("a time", "a part", "a label")  # how the reasons begin why a column cannot be the key
LOOK_AT, FIRST = 1_000_000, 2000  # rows of the file; rows that show which columns may be one
LEAST_ROWS = 300  # of the usual run, of which a detector can learn
FEW, FEWEST = 5, 20  # values that may have any rows; rows of each of the others, at least, for a look at more of the file
EVEN = 1.25  # the longest run over the shortest: hours, days and months are as long as each other


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


class Runs(NamedTuple):
    """The values of a column, in the order of their rows, and the number of rows of each."""

    values: list[Any]
    rows: list[int]

    @property
    def even(self) -> bool:
        """Whether all but the first and the last have nearly as many rows, as what a clock counts."""
        inner = self.rows[1:-1]
        return bool(inner) and max(inner) <= EVEN * min(inner)

    @property
    def has_texts(self) -> bool:
        return all(isinstance(value, str) for value in self.values)


def names_run(name: str) -> bool:
    """Whether a name ends as that of an experiment or another recording.

    >>> [names_run(name) for name in ("experiment", "run_id", "TestNr", "session_name", "running", "batch")]
    [True, True, True, True, False, False]
    """
    return _subject(name) in RUN_WORDS


def _subject(name: str) -> str:
    """What a name counts or names: its last word without id and number."""
    words = plain_name(name).split("_")
    while len(words) > 1 and words[-1] in ("id", "no", "nr", "num", "number", "name"):
        words.pop()
    return words[-1]


def with_runs(path: Path, guessed: Guess, how: How = HOW) -> Guess:
    """With the key that the runs of a recording have, where none was found: one by its name, else a candidate.

    Without a label also a column of texts with another name may be it, if its values do not change as a clock's.
    """
    if guessed.key is not None or guessed.preset is not None or guessed.narrow is not None or "key" not in guessed.choose:
        return guessed
    asked = guessed.candidates.get("key", [])
    names = [*asked] if len(asked) == 1 and names_id(asked[0]) else []
    if guessed.label is None:
        names += [name for name in (*guessed.fields, *guessed.left_out) if name not in names and _may_be(name, guessed)]
    first = _runs_of(itertools.islice(rows_of(path, how, names), FIRST), names) if names else {}
    found = _runs_of(rows_of(path, how, list(first)), list(first)) if first else {}
    found = {name: one for name, one in found.items() if len(one.values) > 1}
    ids = [name for name in found if names_id(name) and name in asked]
    long = {name: one for name, one in found.items() if statistics.median(one.rows) >= LEAST_ROWS and name not in ids}
    ids += [name for name in long if names_run(name)]
    if ids:
        key = max(ids, key=lambda name: len(found[name].values))
        return _keyed(guessed, key, found[key])
    several = {name: one for name, one in long.items() if len(one.values) >= courses.RUNS and not one.even}
    others = [name for name, one in several.items() if one.has_texts or _subject(name) in ASKED_WORDS]
    likely = max(others, key=lambda name: len(found[name].values), default=None)
    return guessed if likely is None or (asked and likely not in asked) else _asked(guessed, likely, found[likely])


def _may_be(name: str, guessed: Guess) -> bool:
    clock = says_time(name) or CALENDAR & set(plain_name(name).split("_"))
    alone = guessed.fields == [name]
    return bool(name) and not clock and not alone and not guessed.left_out.get(name, "").startswith(TIMES)


def _runs_of(rows: Iterable[dict[str, Any]], names: Sequence[str]) -> dict[str, Runs]:
    """Of the columns of texts or whole numbers in which no value returns, and few values have few rows."""
    finds, known = {name: column_path(name).find for name in names}, {name: set[Any]() for name in names}
    found = {name: Runs([], []) for name in names}
    for number, row in enumerate(itertools.islice(rows, LOOK_AT)):
        for name, find in [*finds.items()]:
            value, own = find(row), found[name]
            if own.values and value == own.values[-1]:
                own.rows[-1] += 1
            elif (
                not _names(value) or value in known[name] or (len(own.values) > FEW + number / FEWEST and not names_id(name))
            ):
                del finds[name], found[name]
            else:
                known[name].add(value)
                own.values.append(value)
                own.rows.append(1)
        if not finds:
            break
    return {name: one for name, one in found.items() if one.values}


def _names(value: Any) -> bool:
    """Whether a cell may name a run."""
    if value is ABSENT or absent(value) or isinstance(value, bool):
        return False
    return value != "" if isinstance(value, str) else isinstance(value, (int, float)) and float(value).is_integer()


def _keyed(guessed: Guess, key: str, runs: Runs) -> Guess:
    left_out = {name: why for name, why in guessed.left_out.items() if name != key}
    because = {**guessed.because, "key": _why(runs)}
    return with_key_known(_without(guessed, key))._replace(key=key, left_out=left_out, because=because)


def _asked(guessed: Guess, key: str, runs: Runs) -> Guess:
    guessed = _without(guessed, key)
    why = f"{key!r} may have the key: {_why(runs)}, as recordings do; if all is of one device, take --key-is NAME"
    choose = {**guessed.choose, "key": f"no column has the name of a key; {why}"}
    left_out = {**guessed.left_out, key: "may be the key"}
    return guessed._replace(choose=choose, candidates={**guessed.candidates, "key": [key]}, left_out=left_out)


def _why(runs: Runs) -> str:
    return f"the rows of each of its {len(runs.values):,} different values follow one another"


def _without(guessed: Guess, key: str) -> Guess:
    """Without the column as a field, or as what may be the label."""
    labels, choose = guessed.candidates.get("label", []), dict(guessed.choose)
    if key in labels:
        others = [name for name in labels if name != key]
        rest = f"; candidates: {quoted_names(others)}" if others else ""
        choose["label"] = choose["label"].replace(f"; candidates: {quoted_names(labels)}", rest)
        candidates = {what: names for what, names in guessed.candidates.items() if what != "label"}
        guessed = guessed._replace(candidates={**candidates, "label": others} if others else candidates)
    fields, lenient = ([name for name in names if name != key] for names in (guessed.fields, guessed.lenient))
    return guessed._replace(fields=fields, lenient=lenient, choose=choose)
