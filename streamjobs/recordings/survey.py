"""Counts people and classes in a whole file: its first rows are often one person at one activity.

Also which columns change their sign with the side of the body that a sensor is worn on. Left and right are mirror images, so
the means of a column on both sides, of one person at one activity each, are about equal or about opposite. The cosine
between the two, over people and activities, says which.
"""

import dataclasses
import itertools
import json
import math
import re
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streamjobs.recordings.columns import plain_name
from streamjobs.recordings.files import SECONDS, Recording, named, recordings_of, rows_of
from streamjobs.recordings.guess.columns import MOST_CLASSES
from streamjobs.recordings.guess.keys import with_runs
from streamjobs.recordings.guess.result import Guess, Mirror, windowed, with_key_known
from streamjobs.recordings.guess.x import quoted_names
from streamjobs.recordings.tables import HOW, How
from streamjobs.settings.paths import ABSENT, column_path
from streamjobs.settings.types import many

Count = Callable[[Iterable[Any]], Iterable[Any]]
_BETWEEN_WORDS = re.compile(r"[\W_]+")
_DATED = re.compile(r"(?:19|20)[0-9]{2}[-_.]?[0-9]{2}(?:[-_.]?[0-9]{2})?")  # a year and a month: of parts of one stream
_NUMBER = re.compile("[0-9]+")
_JOINED = re.compile(r"(?<=[^\W\d_])[-_]+(?=[^\W\d_])")  # between letters
_ENDING = re.compile("(?<=..[^\\W\\d_])(?:ing|ed|es|e|(?<!s)s)$")  # behind three letters or more
APART = "are different classes"
MOST_SPELLINGS = 4  # of a label in a sentence
MOST_LISTED = 32  # labels with their counts
MISSPELT, SHORTEST = 0.25, 4  # most rows of a misspelling, as a share of the right label's; letters of a label
NO_LABEL = {"null", "none", "nan", "n/a", "na", "?", "-", "unknown", "undefined", "unlabelled", "unlabeled", "nolabel"}
CODED = 2  # times the rows of any other class has 0, at least, where it probably is the code of no label
MOST_UNSTATED = 64  # labels that `streamjobs fit` reads if the job states no max_classes
PEOPLE, KEYS = 3, 5  # from so many on others teach more than the own labels do: of windows, and of rows
VERSIONS = {
    *("raw", "original", "clean", "cleaned", "processed", "preprocessed", "filtered", "smoothed", "resampled", "interim"),
    *("backup", "roh", "rohdaten", "bereinigt", "gefiltert"),
}
NAMES = ("side", "arm", "wrist", "hand", "leg", "foot", "ankle", "pocket")
Array = NDArray[Any]
CLEAR, DEVIATIONS = 0.4, 3.0  # a cosine below -CLEAR, and so many deviations of noise below 0: the sign changes
MOST_HELD, SPAN = 20_000, 10.0  # samples of a person that wait for a label; seconds that one label is of, at most


class Sides:
    """Sums over samples by person, activity and side. field: the column with the side; fields: the numbers of x."""

    def __init__(self, field: str, fields: Sequence[str], time: str | None = None, second: float = 1.0) -> None:
        """time: column with the time of samples and of labels that come later; second: in its unit."""
        self._time, self._span = None if time is None else column_path(time), SPAN * second
        self._held: dict[object, deque[tuple[float, dict[str, Any]]]] = defaultdict(lambda: deque(maxlen=MOST_HELD))
        self.field, self.fields = field, list(fields)
        self._side, self._numbers = column_path(field), [column_path(name) for name in fields]
        self._sums: dict[tuple[str, object, object], list[float]] = {}

    @property
    def wanted(self) -> list[str]:
        return [self.field, *self.fields]

    def add(self, row: dict[str, Any], person: object, activity: object) -> None:
        side, values = self._side.find(row), [path.find(row) for path in self._numbers]
        if not isinstance(side, str) or not all(isinstance(value, float | int) for value in values):
            return
        sums = self._sums.setdefault((side, person, activity), [0.0] * (len(values) + 1))
        for n, value in enumerate(values):
            sums[n] += value
        sums[-1] += 1

    def hold(self, row: dict[str, Any], person: object) -> None:
        """A sample, until its label comes."""
        time = None if self._time is None else self._time.find(row)
        if isinstance(time, float | int):
            self._held[person].append((time, row))

    def label(self, row: dict[str, Any], person: object, activity: object) -> None:
        """A label that came later, of the samples up to its time."""
        held, time = self._held[person], None if self._time is None else self._time.find(row)
        while held and isinstance(time, float | int) and held[0][0] <= time:
            at, sample = held.popleft()
            if at > time - self._span:
                self.add(sample, person, activity)

    def mirror(self) -> Mirror | None:
        """None if there are not two sides."""
        sides = sorted({side for side, _, _ in self._sums})
        if len(sides) != 2:
            return None
        when, turned = sides
        one, other = ({place[1:]: _mean(sums) for place, sums in self._sums.items() if place[0] == side} for side in sides)
        both = [place for place in one if place in other]
        clear = max(CLEAR, DEVIATIONS / math.sqrt(max(1, len(both))))
        if clear >= 1:
            return Mirror(self.field, when, turned, [], False)
        cosines = _cosines(np.array([one[place] for place in both]), np.array([other[place] for place in both]))
        opposite = [name for name, cosine in zip(self.fields, cosines.tolist(), strict=True) if cosine < -clear]
        return Mirror(self.field, when, turned, opposite, True)


def teaches(guessed: Guess) -> bool:
    """Whether the sample can teach a population: enough people with labels of two classes or more, in their records."""
    if guessed.people < (PEOPLE if windowed(guessed.rate) else KEYS) or guessed.classes == 1 or guessed.alone:
        return False
    in_rows = guessed.wait is None and not guessed.counters  # which `streamjobs fit` does not read
    return (windowed(guessed.rate) or in_rows) and "fields" not in guessed.choose


def survey(path: Path, guessed: Guess, how: How = HOW, pass_on: Count = iter) -> Guess:
    """The guess with the classes, people and sides of all rows; unchanged without classes to count.

    More than MOST_CLASSES different labels are not counted further. pass_on: passes the rows on, and may report how many
    there were.
    """
    guessed = with_runs(path, guessed, how)
    if guessed.files > 1 and guessed.preset is None:
        recordings = recordings_of(path, how)
        if versions := _versions(path, recordings):
            guessed = guessed._replace(choose={**guessed.choose, "key": versions})
        else:
            guessed = _by_folder(recordings, _by_file(recordings, guessed, how))
    if guessed.label is None or guessed.task != "classification":
        return guessed
    wanted = [name for name in (guessed.label, guessed.key) if name is not None]
    label_of, classes, people = column_path(guessed.label), Counter[object](), set[object]()
    sides = _sides(guessed)
    wanted += [] if sides is None else sides.wanted
    if sides is None:
        how = dataclasses.replace(how, only=frozenset(name for one in wanted for name in (one, column_path(one).top)))
    key_of = None if guessed.key is None else column_path(guessed.key)
    found = [("", rows_of(path, how, wanted))]
    if guessed.key_from is not None:
        found = [(named(one, guessed.key_from), one.rows(how, wanted)) for one in recordings_of(path, how)]
    for name, rows in found:
        for row in pass_on(rows):
            label, person = label_of.find(row), name if key_of is None else key_of.find(row)
            if label is ABSENT or label is None or label == "":
                if sides is not None:
                    sides.hold(row, person)
                continue
            classes[label] += 1
            if len(classes) > MOST_CLASSES:
                return guessed
            people.add(person)
            if sides is not None:
                sides.label(row, person, label)
                sides.add(row, person, label)
    because, known = dict(guessed.because), len(people - {ABSENT, None, ""})
    for what, count in (("label", len(classes)), ("key", known)):
        reason, counted, _ = because.get(what, "").partition(", and ")
        if count and counted:
            because[what] = f"{reason}, and {count:,} different values in the file"
    guessed = _labelled(guessed._replace(classes=len(classes), people=known, because=because), classes)
    mirror = None if sides is None or not teaches(guessed) else sides.mirror()
    return guessed if mirror is None else _mirrored(guessed, mirror)


def of_labels(rows: Iterable[Any], guessed: Guess) -> Guess:
    if guessed.label is None or guessed.task != "classification":
        return guessed
    labels = Counter(map(column_path(guessed.label).find, rows))
    return _labelled(guessed, {label: n for label, n in labels.items() if label not in (ABSENT, None, "")})


def _labelled(guessed: Guess, labels: Mapping[Any, int]) -> Guess:
    return guessed._replace(labels=labels, remarks=[*guessed.remarks, *doubtful(labels)])


def with_counts(labels: Mapping[Any, int]) -> str:
    """The labels with the number of their rows, the most frequent first.

    >>> with_counts({"sit": 30, "walk": 1200})
    'walk 1,200, sit 30'
    """
    some = [f"{label!s:.60} {count:,}" for label, count in Counter(labels).most_common(MOST_LISTED)]
    return ", ".join(some) + (f" and {len(labels) - len(some)} more" if len(labels) > len(some) else "")


def doubtful(labels: Mapping[Any, int], rows: str = "row") -> Iterator[str]:
    """What the owner of labels may not want, a sentence each. labels: with the number of their rows.

    >>> list(doubtful({"run": 9, "walk": 9, "Walk ": 9, "none": 9}))  # doctest: +NORMALIZE_WHITESPACE
    ["the labels 'Walk ', 'walk' differ only in case, spaces, '-' or '_', but are different classes; write them in one way.",
     'the label \\'none\\' is a class like any other; with [source] no_label = ["none"] its rows have no label.']
    >>> list(doubtful({"sit": 9, "Sitting": 9, "stairs_up": 9, "stand": 9}))  # doctest: +NORMALIZE_WHITESPACE
    ["the labels 'Sitting', 'sit' differ only in their endings, but are different classes; if they mean the same activity,
     write them in one way."]
    >>> list(doubtful({"run": 9, "  ": 9}))
    ['the label \\'  \\' is a class like any other; with [source] no_label = ["  "] its rows have no label.']
    >>> list(doubtful({0: 80, 1: 40, 2: 20}))
    ['the label 0 (80 rows) is a class like any other; with [source] no_label = [0] its rows have no label.']
    >>> list(doubtful({0: 79, 1: 40, 2: 20})), list(doubtful({0: 900, 1: 10}))
    ([], [])
    >>> list(doubtful({"walk": 40, "wlak": 10, "talk": 40, "walk2": 1}))  # doctest: +NORMALIZE_WHITESPACE
    ["the label 'wlak' (10 rows) is spelled nearly as 'walk' (40), but is a different class; correct it in the recordings
     if it is a misspelling."]
    """
    texts = {label: count for label, count in labels.items() if isinstance(label, str)}
    spellings: dict[str, list[str]] = {}
    for label in sorted(texts):
        spellings.setdefault(_plain(label), []).append(label)
    stems: dict[str, list[str]] = {}
    for plain, alike in spellings.items():
        stems.setdefault(_stem(plain), []).append(alike[0])
        if len(alike) > 1:
            yield f"the labels {_some(alike)} differ only in case, spaces, '-' or '_', but {APART}; write them in one way."
        if plain in NO_LABEL or not plain:
            yield _class_like_others(repr(alike[0]), alike)
    for alike in stems.values():
        if len(alike) > 1:
            what = f"the labels {_some(alike)} differ only in their endings, but {APART}"
            yield f"{what}; if they mean the same activity, write them in one way."
    most = max([count for label, count in labels.items() if str(label) != "0"], default=0)
    for label, count in labels.items() if len(labels) > 2 else ():
        if str(label) == "-1" or (str(label) == "0" and count >= CODED * most):
            yield _class_like_others(f"{label} ({many(count, rows)})", [label])
    for label in sorted(texts, key=texts.__getitem__)[:MOST_CLASSES]:
        enough = [one for one, count in texts.items() if count * MISSPELT >= texts[label]]
        plain = _plain(label)
        near = [one for one in enough if _one_slip(plain, _plain(one)) and _stem(_plain(one)) != _stem(plain)]
        if near:
            yield (
                f"the label {label!r} ({many(texts[label], rows)}) is spelled nearly as {near[0]!r} ({texts[near[0]]:,}), "
                "but is a different class; correct it in the recordings if it is a misspelling."
            )


def _class_like_others(label: str, none: Sequence[Any]) -> str:
    listed = json.dumps(none, ensure_ascii=False)
    return f"the label {label} is a class like any other; with [source] no_label = {listed} its rows have no label."


def _some(labels: Sequence[str]) -> str:
    return ", ".join(map(repr, labels[:MOST_SPELLINGS]))


def _plain(label: str) -> str:
    return _JOINED.sub("", "".join(label.split())).casefold()


def _stem(plain: str) -> str:
    """Without an ending of English verbs and plurals: 'sit' of 'sitting', 'cycl' of 'cycle' and 'cycling'."""
    stem = _ENDING.sub("", plain)
    doubled = stem != plain and stem[-1] == stem[-2] and stem[-1] not in "ls"  # 'jogg', but not 'fall' and 'press'
    return stem[:-1] if doubled else stem


def _one_slip(a: str, b: str) -> bool:
    """Whether one letter is added, left out or replaced, or two neighbours are swapped. Digits number different labels."""
    start = _shared(a, b)
    end = _shared(a[start:][::-1], b[start:][::-1])
    ours, others = a[start : len(a) - end], b[start : len(b) - end]
    if min(len(a), len(b)) < SHORTEST or any(map(str.isdigit, ours + others)):
        return False
    return max(len(ours), len(others)) == 1 or (len(ours) == 2 and ours == others[::-1])


def _shared(a: str, b: str) -> int:
    """Letters with which both begin."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _versions(path: Path, recordings: Sequence[Recording]) -> str:
    """What to do with folders that have the same recordings twice, as their names say: raw/ and clean/. Else empty."""
    folders = [*dict.fromkeys(one.folder for one in recordings)]
    if len(folders) < 2 or not {*map(plain_name, folders)} <= VERSIONS:
        return ""
    return (
        f"the folders {quoted_names(folders)} have versions of the same recordings by their names, so each sample would be "
        f"learned {'twice' if len(folders) == 2 else 'several times'}; use one folder, such as --sample {path / folders[0]}"
    )


def _by_file(recordings: Sequence[Recording], guessed: Guess, how: How) -> Guess:
    """With the names of a folder's files as keys, where no column may have the key and the names are not dates; or of its
    folders, where files with labels have the same names in each, or those of slow samples are named by the same dates.
    In folders of days files of slow samples have the same names: each is a sensor or a machine, but hours or parts of one
    where names differ in numbers only.

    A column of few texts that do not take turns is rather the label of each file's person.
    """
    if guessed.key is not None or "key" not in guessed.choose:
        return guessed
    recordings = [one for one in recordings if one.name not in guessed.bare]
    files = [recording.name for recording in recordings]
    named = all(recording.named for recording in recordings) and len({*files}) > 1  # each person in several folders
    keys, labels = (guessed.candidates.get(what, []) for what in ("key", "label"))
    dates = [None if (one := _DATED.search(name)) is None else one[0] for name in files]
    dated, slow = any(dates), guessed.label is None and not windowed(guessed.rate)
    of_days = slow and all(_DATED.search(recording.folder) for recording in recordings)
    of_days = of_days and len({"".join(filter(str.isalpha, name)) for name in files}) > 1
    if {*keys} - {*labels} or dated > all(dates):
        return guessed
    if not dated and (len({*files}) == len(files) or named or of_days):
        return _by_name(guessed, [*dict.fromkeys(files)])
    folders = {recording.folder for recording in recordings}
    if len(folders) < 2 or any("=" in one or _DATED.search(one) for one in folders):
        return guessed
    if dated and len({*dates}) == len({*zip((one.folder for one in recordings), dates, strict=True)}):
        return guessed  # folders of years, or of parts of a stream: no date is in two of them
    if not (dated and slow) and _of_one_label(recordings, guessed, how):  # else a file a day of each machine
        return guessed
    return with_key_known(guessed)._replace(key_from="folder", files=len(folders))


def _by_name(guessed: Guess, files: Sequence[str]) -> Guess:
    """With files as keys, unless some may be of one person: the first part in which names differ is often the same.

    Rows without labels are of machines, of which each has a file: line1_pumpA, line1_pumpB.
    """
    parts = [list(filter(None, _BETWEEN_WORDS.split(name))) for name in files]
    first = next((words for words in map(dict.fromkeys, zip(*parts, strict=False)) if len(words) > 1), {})
    of_people = guessed.label is not None or windowed(guessed.rate)
    if not (of_people and 1 < len(first) <= len(files) / 2):
        return with_key_known(guessed)._replace(key_from="file", files=len(files))
    words = list(first)
    why = (
        f"several of the {len(files):,} files may be of one person, because their names have {len(words):,} different words "
        f"at one place ({quoted_names(words[:3])}{' ...' if len(words) > 3 else ''}); put the files of each person into a "
        f"folder such as person={words[0]}, and if names have labels too, into folders such as label=walk in it"
    )
    return guessed._replace(choose=guessed.choose | {"key": why})


def _of_one_label(recordings: Sequence[Recording], guessed: Guess, how: How) -> bool:
    """Whether labels are unknown, or each folder seems to have one of its own: that of the first row of its files."""
    if guessed.label is None:
        return True
    label_of, labels = column_path(guessed.label).find, dict[str, set[object]]()
    for one in recordings:
        label = next((label_of(row) for row in one.rows(how, [guessed.label])), None)
        labels.setdefault(one.folder, set()).add(label)
    return all(len(own) == 1 for own in labels.values()) and len(set().union(*labels.values())) > 1


def _by_folder(recordings: Sequence[Recording], guessed: Guess) -> Guess:
    """With the names of a folder's folders as what may be the label, where no column is."""
    if guessed.key_from or "label" not in guessed.choose:
        return guessed
    folders = [*dict.fromkeys(one.folder for one in recordings)]
    if len(folders) < 2 or len(folders) == guessed.files or any("=" in name for name in folders):
        return guessed
    some, first = quoted_names(folders[:3]), folders[0]
    how_to = f"if folders are named after labels ({some} ...), name them label=..., as in label={first}"
    if len({_NUMBER.sub("", name) for name in folders}) == 1:
        how_to = f"if folders are of people and names of files have labels, make folders such as person={first}/label=walk"
    why = f"{guessed.choose['label']}; {how_to}"
    return guessed._replace(choose=guessed.choose | {"label": why})


def _sides(guessed: Guess) -> Sides | None:
    """Of the column that is named as a side of the body, if there is one."""
    if not guessed.fields or "fields" in guessed.choose:
        return None
    name = next((one for one in guessed.left_out if plain_name(one) in NAMES), None)
    late = guessed.time if guessed.wait is not None and not guessed.written else None
    return None if name is None else Sides(name, guessed.fields, late, 1 / SECONDS[guessed.time_unit])


def _mirrored(guessed: Guess, mirror: Mirror) -> Guess:
    why = f"where the sensor is worn, {mirror.when!r} or {mirror.other!r}"
    if not mirror.known:
        why += (
            "; [window] mirror turns one side into the other, but too few people wear it on both to see which signs change"
        )
    elif mirror.columns:
        why += f": [window] mirror changes the signs of {quoted_names(mirror.columns)}"
    else:
        why += "; no column changes its sign between the two, so mirror is not needed"
    return guessed._replace(mirror=mirror if mirror.columns else None, left_out={**guessed.left_out, mirror.field: why})


def _mean(sums: list[float]) -> list[float]:
    return [value / sums[-1] for value in sums[:-1]]


def _cosines(A: Array, B: Array) -> Array:
    """Between the columns of A and B (pairs, fields); 0 where a column is 0."""
    norms = np.sqrt((A * A).sum(axis=0) * (B * B).sum(axis=0))
    cosines: Array = np.divide((A * B).sum(axis=0), norms, out=np.zeros(A.shape[1]), where=norms > 0)
    return cosines
