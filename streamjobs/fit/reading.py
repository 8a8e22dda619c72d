"""Turns recordings of many people into windows, with the worker's own core: the same samples give the same numbers.

The windows come from a real `advance`, of a job with a learner that returns its input. So decoding, order, mirroring,
windows and statistics are exactly a worker's, now and in later releases.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec
import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Record
from streamjobs.errors import ConfigError
from streamjobs.fit.recordings import CLOSE, Recordings, Unlabelled, begins
from streamjobs.recordings.places import natural
from streamjobs.recordings.survey import MOST_UNSTATED
from streamjobs.replay.engine import Replay, Tally
from streamjobs.replay.first_rows import passing_through
from streamjobs.replay.scoring import Row, with_late
from streamjobs.settings.composition import derived
from streamjobs.settings.sections import HeadSection, ScalingSection, Settings

BETWEEN = "\0"  # separates person and recording in a key
KEY_BYTES = 4096
USUAL = ("gap", "late")  # between recordings, and where all begin at one time, of which `fit` has a sentence of its own
LATE_SHARE = 0.05  # of samples or windows, at most, that are older than others of their key without a word
AT_ONCE = 1000  # records
MOST_BEFORE = 30  # unlabelled windows before one with a label; a filter forgets those further back


class Read(NamedTuple):
    """The windows of the input, and counts of what was left out."""

    data: Recordings  # windows with a label
    samples: int
    unlabelled: int  # windows without a label, which teach nothing
    unusable: int  # windows with statistics that are not finite, left out
    skipped: dict[str, int]  # samples and windows by reason
    doubts: list[str]  # a sentence on each reason that skipped much
    refused: dict[str, int]  # records by reason
    refusal: str | None  # message of the first one, as in a dead letter
    apart: str  # how recordings were separated
    key: str = ""  # option with which other commands read these people; empty if they need none
    in_order: bool = True  # of time are nearly all windows of each person, as a worker needs them
    lived: Recordings | None = None  # windows of the same people as a worker cuts them; None: as `data`
    hop: float = 1.0  # seconds from one window to the next; of a job without windows, the usual time between two rows
    met: frozenset[str] = frozenset()  # people with records


class _Rows:
    """Collects the core's outputs, window by window."""

    def __init__(self) -> None:
        self.X: list[Array] = []
        self.keys: list[str] = []
        self.ends: list[float] = []
        self.labels: list[str | None] = []
        self.refusal: str | None = None

    def take(self, output: Output) -> None:
        if output.sink == "dlq":
            self.refusal = self.refusal or dict(output.headers)["streamjobs-error-message"].decode()
            return
        value = msgspec.json.decode(output.value or b"null")  # a row of hundreds of numbers, in a third of json's time
        if output.sink == "features":
            self.X.append(np.array(value["z"], dtype=np.float64))  # null becomes NaN
        else:
            self.keys.append(value["key"])
            self.ends.append(value["ts"])
            self.labels.append(value["true_class"])

    def usable(self, replay: Replay) -> tuple[list[int], list[int]]:
        """The rows with a label, late ones added, and those of them with numbers alone."""
        came = zip(self.keys, self.ends, itertools.repeat(None), self.labels)
        self.labels = [row.label for row in with_late([Row(*one) for one in came], replay.late)]
        labelled = [i for i, label in enumerate(self.labels) if label is not None]
        return labelled, [i for i in labelled if np.isfinite(self.X[i]).all()]


def read(
    settings: Settings,
    sources: Iterable[Iterable[Record]],
    *,
    pause: float,
    column: str | None,
    schema: Definition | None = None,
    by_file: bool = False,
    lived: bool = False,
    progress: Callable[[Tally], None] = lambda tally: None,
) -> Read:
    """All windows of all sources. Each source needs a topic or partition of its own, or it hides another's records.

    column: name of the column that tells recordings apart; then a key is the person, a NUL and the recording, as it is with
    by_file, where the file's name is the recording. Neither: keys are people, and a recording ends at a pause of more than
    `pause` seconds between two windows. A recording always ends where the label changes. lived: whether `Read.lived` is
    wanted. Raises ConfigError if nothing can be learned from the windows.
    """
    job, by_name = Job.from_composition(derived(_passing_through(settings)), schema=schema), column is not None or by_file
    rows, replay = _Rows(), Replay(job)
    whole = (_Rows(), Replay(job)) if lived and by_name else None
    for source in sources:
        records = iter(source)
        while some := list(itertools.islice(records, AT_ONCE)):
            replay.run(some, rows.take, progress)
            if whole is not None:
                whole[1].run(_without_recordings(some), whole[0].take, lambda tally: None)
    tally = replay.tally
    labelled, usable = rows.usable(replay)
    _require_labelled_windows(rows, tally, settings, labelled, column)
    window, hop = settings.window, _pause(rows)
    length = hop
    if window is not None:
        hop, length = window.hop or window.length, window.length
    if by_name:
        apart, places = "by file" if column is None else f"by column {column!r}", _by_column(rows, usable)
    else:
        apart = f"by pauses of more than {pause:g} s"
        places = _by_pauses(rows, usable, length, pause)
    declared = _of_head(settings, "classes")
    data = _numbered(rows, usable, places, list(declared) if declared else None)
    data = data if by_name else data._replace(times=_times(rows, usable, hop))
    return Read(
        data,
        tally.samples,
        len(rows.labels) - len(labelled),
        len(labelled) - len(usable),
        {reason: count for reason, count in tally.skipped.items() if reason != "unlabelled"},
        [*(one.sentence for one in tally.much_skipped() if one.reason not in USUAL), *_unmatched(tally, len(replay.late))],
        dict(tally.dead_lettered),
        rows.refusal,
        f"{apart} and by changes of the label",
        in_order=_in_order(rows),
        lived=None if whole is None else _lived(*whole, data, length, pause, hop),
        hop=hop,
        met=frozenset(key.decode("utf-8", "backslashreplace").partition(BETWEEN)[0] for key in replay.met),
    )


def _pause(rows: _Rows) -> float:
    """Seconds, the median between two rows of a person; rounded, because times since 1970 have few digits."""
    newest, pauses = dict[str, float](), []
    for key, end in zip(rows.keys, rows.ends, strict=True):
        pauses.append(end - newest.get(key, end))
        newest[key] = end
    later = [pause for pause in pauses if pause > 0]
    return round(float(np.median(later)), 6) or CLOSE if later else 1.0


def _unmatched(tally: Tally, met: int) -> list[str]:
    """A sentence where many labels in records of their own met no window."""
    lost = tally.dead_lettered["unmatched_label"] + tally.skipped["unmatched_label"]
    if lost <= LATE_SHARE * (lost + met):
        return []
    return [
        f"{lost:,} of {lost + met:,} labels in records of their own met no waiting window: check [labels] wait and within."
    ]


def _without_recordings(records: Iterable[Any]) -> Iterator[Record]:
    """The records with people as keys, as a worker has them."""
    for record in records:
        person, apart, _ = (record.key or b"").partition(BETWEEN.encode())
        yield record._replace(key=person) if apart else record


def _times(rows: _Rows, usable: list[int], hop: float) -> Array:
    ends = np.array([rows.ends[i] for i in usable])
    return np.asarray((ends - ends[:1]) / hop)


def _lived(rows: _Rows, replay: Replay, data: Recordings, length: float, pause: float, hop: float) -> Recordings | None:
    """The windows of the people, numbered as in `data`; None if the recordings of a person overlap in time."""
    if replay.tally.skipped["late"] > LATE_SHARE * replay.tally.samples:
        return None
    known = {*data.people}, {*data.names}
    usable = [i for i in rows.usable(replay)[1] if rows.keys[i] in known[0] and rows.labels[i] in known[1]]
    if {rows.keys[i] for i in usable} != {data.people[person] for person in np.unique(data.person)}:
        return None
    found = _numbered(rows, usable, _by_pauses(rows, usable, length, pause), data.names)
    return found._replace(times=_times(rows, usable, hop))


def _in_order(rows: _Rows) -> bool:
    newest, back = dict[str, float](), 0
    for key, end in zip(rows.keys, rows.ends, strict=True):
        person = key.partition(BETWEEN)[0]
        back += end < newest.get(person, end)
        newest[person] = max(end, newest.get(person, end))
    return back <= LATE_SHARE * len(rows.keys)


def _passing_through(settings: Settings) -> Settings:
    """The job up to its windows: features are the unchanged statistics, predictions carry the label, or it comes later."""
    head = HeadSection(name="lms", classes=_of_head(settings, "classes"), max_classes=_most_classes(settings))
    source = settings.source.model_copy(update={"max_key_bytes": KEY_BYTES, "key": None})  # keys are people by now
    labels, none = settings.labels.model_copy(update={"delay": 0.0}), ScalingSection(method="none")
    return passing_through(settings.model_copy(update={"source": source}), none, labels=labels, head=head)


def _most_classes(settings: Settings) -> int:
    """How many different labels are read."""
    return max(MOST_UNSTATED, len(_of_head(settings, "classes") or ()), _of_head(settings, "max_classes") or 0)


def _of_head(settings: Settings, name: str) -> Any:
    """What the section with the head states; None: nothing."""
    stated = settings.head or settings.learner
    return getattr(stated, name, None) or (stated.model_extra or {}).get(name)


def _require_labelled_windows(
    rows: _Rows, tally: Tally, settings: Settings, labelled: list[int], column: str | None
) -> None:
    """Raises ConfigError without windows, or without a window with a label."""
    if tally.dead_lettered.get("too_many_classes"):
        raise ConfigError(
            f"--input: field {settings.source.label!r} has more than {_most_classes(settings)} different labels; is it the "
            f"activity? Correct [source] label, or set [{'head' if settings.head else 'learner'}] max_classes."
        )
    if tally.records == 0:
        raise ConfigError("--input: expected recordings of two people or more, got no records.")
    if not rows.labels:
        why = [f"{count:,} {reason}" for reason, count in (tally.dead_lettered + tally.skipped).items()]
        first = f" The first record refused: {rows.refusal}" if rows.refusal else ""
        window, what, where = settings.window, "row", "[source]"
        if window is not None:
            what, where = f"window of {window.length:g} s at {window.rate:g} Hz", "[window] rate and [source] time"
        raise ConfigError(
            f"--input: {tally.samples:,} samples of {tally.records:,} records gave no {what} "
            f"({', '.join(why) or 'too few samples'}); check {where}.{first}"
        )
    if not labelled:
        first = f" The first record refused: {rows.refusal}" if rows.refusal else ""
        if tally.dead_lettered["unmatched_label"] and column is not None:
            first += f" Such a label needs its recording in column {column!r}; or ignore this column with --pause 10s."
        elif not settings.labels.wait and rows.refusal:
            first += " If labels come in records of their own, set [labels] wait."
        raise ConfigError(
            f"--input: none of {len(rows.labels):,} windows has a label in field {settings.source.label!r}; "
            f"a population learns from labelled recordings.{first}"
        )


def _unlabelled(rows: _Rows, usable: list[int]) -> Unlabelled | None:
    """The last windows without a label before each usable one of the same key; None without any."""
    place, following = {i: at for at, i in enumerate(usable)}, dict[str, tuple[int, int]]()
    found = []
    for i in range(len(rows.labels) - 1, -1, -1):
        key = rows.keys[i]
        if i in place:
            following[key] = place[i], 0
        elif rows.labels[i] is None and key in following and np.isfinite(rows.X[i]).all():
            before, count = following[key]
            following[key] = before, count + 1
            if count < MOST_BEFORE:
                found.append((before, i))
    found.sort()
    return Unlabelled(np.array([rows.X[i] for _, i in found]), np.array([before for before, _ in found])) if found else None


def _by_column(rows: _Rows, usable: list[int]) -> list[tuple[str, str]]:
    """(person, recording) of each usable window; what follows a change of the label has a number behind the name."""
    places = []
    parts: dict[str, tuple[int, str | None]] = {}
    for i in usable:
        (person, _, recording), label = rows.keys[i].partition(BETWEEN), rows.labels[i]
        number, before = parts.get(rows.keys[i], (1, label))
        parts[rows.keys[i]] = number, _ = number + (label != before), label
        places.append((person, recording if number == 1 else f"{recording}/{number}"))
    return places


def _by_pauses(rows: _Rows, usable: list[int], length: float, pause: float) -> list[tuple[str, str]]:
    of_person: dict[str, list[int]] = {}
    for at, i in enumerate(usable):
        of_person.setdefault(rows.keys[i], []).append(at)
    places = [("", "")] * len(usable)
    for person, own in of_person.items():
        ends, labels = np.array([rows.ends[usable[at]] for at in own]), [rows.labels[usable[at]] for at in own]
        for at, number in zip(own, np.cumsum(begins(ends, labels, length, pause)).tolist(), strict=True):
            places[at] = person, str(number)
    return places


def _numbered(rows: _Rows, usable: list[int], places: list[tuple[str, str]], declared: list[str] | None) -> Recordings:
    """Numbers for names, which do not depend on the order of the file: everything sorted as people sort."""
    labels = [rows.labels[i] for i in usable]
    names = declared or sorted({str(label) for label in labels}, key=natural)
    people = sorted({person for person, _ in places}, key=natural)
    recordings = {place: n for n, place in enumerate(sorted(set(places), key=lambda p: (natural(p[0]), natural(p[1]))))}
    code, number = {name: n for n, name in enumerate(names)}, {person: n for n, person in enumerate(people, 1)}
    recording = np.array([recordings[place] for place in places], np.int64)
    return Recordings(
        np.array([rows.X[i] for i in usable]),
        np.array([code[str(label)] for label in labels], np.int64),
        np.array([number[person] for person, _ in places], np.int64),
        recording,
        names,
        ["", *people],
        [recording for _, recording in recordings],
        _unlabelled(rows, usable),
        began=np.array(rows.ends)[usable][np.unique(recording, return_index=True)[1]],
    )
