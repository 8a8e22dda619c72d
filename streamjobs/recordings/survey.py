"""Counts people and classes in a whole file: its first rows are often one person at one activity."""

from pathlib import Path

from streamjobs.recordings.files import rows_of
from streamjobs.recordings.guess.columns import MOST_CLASSES, Guess
from streamjobs.recordings.tables import HOW, How
from streamjobs.settings.paths import ABSENT, column_path

LEAST_RATE = 5.0  # Hz
PEOPLE = 5  # from so many on `streamjobs fit` can tell what a population is worth for others


def teaches(guessed: Guess | None) -> bool:
    """Whether the sample can teach a population: enough people with labels, in windows."""
    return guessed is not None and guessed.people >= PEOPLE and windowed(guessed) and "fields" not in guessed.choose


def windowed(guessed: Guess) -> bool:
    """Whether samples come fast enough for windows; at lower rates rows are whole events, and windows would mix them."""
    return guessed.rate is not None and guessed.rate >= LEAST_RATE


def survey(path: Path, guessed: Guess, how: How = HOW) -> Guess:
    """The guess with the classes and people of all rows; unchanged without classes to count.

    More than MOST_CLASSES different labels are not counted further.
    """
    if guessed.label is None or guessed.task != "classification":
        return guessed
    wanted = [name for name in (guessed.label, guessed.key) if name is not None]
    label_of, classes, people = column_path(guessed.label), set[object](), set[object]()
    key_of = None if guessed.key is None else column_path(guessed.key)
    for row in rows_of(path, how, wanted):
        label = label_of.find(row)
        if label is ABSENT or label is None or label == "":
            continue
        classes.add(label)
        if len(classes) > MOST_CLASSES:
            return guessed
        if key_of is not None:
            people.add(key_of.find(row))
    because, known = dict(guessed.because), len(people - {ABSENT, None, ""})
    for what, count in (("label", len(classes)), ("key", known)):
        reason, counted, _ = because.get(what, "").partition(", and ")
        if count and counted:
            because[what] = f"{reason}, and {count:,} different values in the file"
    return guessed._replace(classes=len(classes), people=known, because=because)
