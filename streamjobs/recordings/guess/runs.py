"""Which column numbers the runs of a recording, such as experiments on one machine, that follow one another."""

import itertools
import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from streamjobs.recordings.columns import absent, plain_name, says_time
from streamjobs.recordings.files import rows_of
from streamjobs.recordings.guess import courses
from streamjobs.recordings.guess.keys import names_id
from streamjobs.recordings.guess.result import Guess, with_key_known
from streamjobs.recordings.guess.x import quoted_names
from streamjobs.recordings.tables import HOW, How
from streamjobs.settings.paths import ABSENT, column_path

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
