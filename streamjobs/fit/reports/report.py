"""The report of how new people are recognised: text and a page for people, a table for programs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.fit.evaluation import BIN, Runs, accuracy_over_time, by_person, calibration, confusion, mean_of, table
from streamjobs.fit.learning import Recipe, Way
from streamjobs.fit.reading import Read
from streamjobs.fit.recordings import Recordings
from streamjobs.fit.reports import findings
from streamjobs.fit.reports.findings import Curve, Suspicious
from streamjobs.fit.reports.page import Chart, Table, page
from streamjobs.recordings.places import natural
from streamjobs.recordings.survey import doubtful
from streamjobs.settings.types import listed, many

FIGURES = ("all", "half", "f1", "fresh", "fresh_half")
REPLAYED = "replay"  # title where people may be those who taught
LAST, MAJORITY = "last label seen", "majority so far"
COLD = "linear, cold, population's scale"
FEW = 5  # people
MOST_NAMED = 10  # people without a window
CLOSE = 0.005  # a difference of accuracy that does not matter
CURVES = 4  # ways with a curve of accuracy over time, at most
POINTS = 30  # of such a curve, fewer than twice as many: a curve that follows each change of activity shows nothing else


class Evaluated(NamedTuple):
    """People served, and what was decided."""

    title: str
    data: Recordings  # of the people served, and perhaps of others
    runs: Runs
    ways: list[str]  # the job's first; without the controls
    frozen: str | None  # of these, the one with the job's map that learns no label of the person
    late: int  # windows
    shuffles: int
    curve: Curve | None = None
    suspicious: Sequence[Suspicious] = ()  # recordings that look mislabelled
    more: tuple[str, ...] = ()  # sentences on alarms and on what is unknown
    left_out: bool = True  # each in turn, of the people who taught; False: people of another file
    taught: int | None = None  # activities that others taught, the first of the names; None: all, or those of left_out

    @property
    def job(self) -> str:
        return self.ways[0]

    @property
    def served(self) -> list[int]:
        return sorted({person for person, _ in self.runs[self.job]})

    @property
    def names(self) -> list[str]:
        return [self.data.people[person] if self.data.people else str(person) for person in self.served]

    def of(self, way: str, figure: str = "all") -> Array:
        """(people,) means of the shuffles."""
        return by_person(self.runs, way, figure)

    @property
    def recordings(self) -> int:
        return len(np.unique(self.data.recording[np.isin(self.data.person, self.served)]))

    @property
    def counts(self) -> Array:
        """(classes, classes) windows by true and decided class."""
        return confusion(self.runs, self.job, len(self.data.names))


def ways_of(recipe: Recipe, model: str, numbers: int) -> list[Way]:
    """The ways to serve a new person: the job's first, then those it is compared with. numbers: of a window, as scaled."""
    plain = replace(recipe, map=None, input=False, directions=recipe.directions if recipe.directions < numbers else 0)
    ways = [Way(f"{model}, gated: this job", recipe), Way(f"{model}, frozen head", recipe, "frozen")]
    if recipe.map is not None:
        ways += [Way("linear, gated", plain), Way("linear, frozen head", plain, "frozen")]
    cold = replace(plain, smooth=0.0, filter=None)
    return [*ways, Way(COLD, cold, "cold")]


def described(read: Read, numbers: int) -> list[str]:
    """What was read and what was left out, in lines; numbers: of a window."""
    data = read.data
    classes = [f"{name} {int((data.activity == c).sum()):,}" for c, name in enumerate(data.names)]
    lines = [
        f"{read.samples:,} samples of {len(np.unique(data.person))} people in {len(np.unique(data.recording))} recordings "
        f"(separated {read.apart}): {len(data.X):,} labelled windows of {numbers} numbers",
        f"{len(data.names)} activities: {', '.join(classes)}",
    ]
    left = [f"{read.unlabelled:,} windows without a label"] if read.unlabelled else []
    left += [f"{read.unusable:,} windows with statistics that are not numbers"] if read.unusable else []
    left += [f"{count:,} {reason}" for reason, count in read.skipped.items()]
    left += [f"{many(count, 'record')} refused ({reason})" for reason, count in read.refused.items()]
    return [*lines, f"left out: {', '.join(left)}"] if left else lines


def doubts(read: Read, recipe: Recipe, columns: Sequence[str]) -> list[str]:
    """What the data is too little or not fit for, one sentence each; columns: names of the windows' statistics."""
    data, sentences = read.data, []
    people = len(np.unique(data.person))
    if without := sorted(read.met - {data.people[person] for person in np.unique(data.person)}, key=natural):
        sentences.append(
            f"{len(without):,} of {len(read.met):,} people gave no window with a label, and teach nothing: "
            f"{listed(without, MOST_NAMED)}."
        )
    if people < FEW and recipe.map is not None:
        sentences.append(
            f"only {people} people: with fewer than about {FEW} prefer a linear head ([learner] name = 'rls', without "
            "[head]) or a novelty dictionary ([learner] name = 'ald'), and do not rely on the figures."
        )
    elif 2 < people < FEW:
        sentences.append(
            f"only {people} people: a report's figures are of a population of {people - 1}, because each is left out in "
            "turn; the mean of three other people is usually more than .02 away from them."
        )
    for c, name in enumerate(data.names):
        doing = len(np.unique(data.person[data.activity == c]))
        if doing <= 1:
            who = "no one does" if doing == 0 else "only one person does"
            sentences.append(f"{who} {name!r}: it cannot be recognised in others from these recordings.")
    if alone := findings.of_one_activity(data):
        sentences.append(
            f"{len(alone)} of {people} people do a single activity ({listed(alone, MOST_NAMED)}), so one label predicts all "
            "their later windows; judge the job by its windows without any label of the person, and record people who do "
            "several activities."
        )
    windows = np.bincount(data.activity, minlength=len(data.names)).tolist()
    sentences += [*doubtful(dict(zip(data.names, windows, strict=True)), "window"), *findings.copies(data)]
    sentences += findings.strangers(data, columns) if people >= FEW else ()
    sentences += [*findings.turned(data, columns), *findings.other_units(data, columns)]
    if read.skipped.get("late", 0) > read.samples // 20:
        sentences.append(
            f"{read.skipped['late']:,} of {read.samples:,} samples are older than a sample of their person before; sort the "
            "file by time, or, if all recordings start at the same time, name the column that tells them apart with "
            "--recording."
        )
    return sentences


def summary(evaluated: Evaluated) -> list[str]:
    """The figures in words, the advice last."""
    job, runs, ways = evaluated.job, evaluated.runs, evaluated.ways
    every, half, last = evaluated.of(job), evaluated.of(job, "half"), evaluated.of(LAST)
    fresh, majority = evaluated.of(job, "fresh"), evaluated.of(MAJORITY)
    still = None if evaluated.frozen is None else evaluated.of(evaluated.frozen)
    first = "window" if evaluated.late == 0 else f"{evaluated.late + 1} windows"
    unlabelled = "" if still is None else f"Without any label of the person: {still.mean():.1%}. "
    begins = f" (worst person {np.nanmin(fresh):.1%}" if np.isfinite(fresh).any() else ""
    if begins:
        alone = mean_of(evaluated.of(job, "begins"))
        begins += f"; the first window alone: {alone:.1%})" if evaluated.late and np.isfinite(alone) else ")"
    who = "These people" if evaluated.title == REPLAYED else "A new person"
    lines = [
        f"{who}: {every.mean():.1%} of windows right (worst person {every.min():.1%}), {half.mean():.1%} in the "
        f"second half. {unlabelled}In the first {first} of each recording, "
        f"before a label of it: {mean_of(fresh):.1%}{begins}. Always predicting the last label seen: {last.mean():.1%}; the "
        f"most frequent label so far: {majority.mean():.1%}."
    ]
    if len(every) > 1:
        lines.append(f"People differ: about one new person in {len(every) + 1} is below the worst of these {len(every)}.")
    if len(every) >= findings.LEAST_PEOPLE and evaluated.left_out:
        ranges = [
            "{:.1%} to {:.1%}".format(*findings.of_others(shares, evaluated.recordings)) + when
            for shares, when in ((every, ""), (half, " in the second half"), (fresh, " before a label of the recording"))
            if np.isfinite(shares).all()
        ]
        lines[-1] += (
            f" The mean of {findings.OTHERS} other people is probably {findings.probably(len(every))} {', '.join(ranges)}."
        )
    if (error := calibration(runs, job)) is not None:
        lines.append(f"The score is a probability; it is off by {error:.3f} on average (expected calibration error).")
    linear = next((name for name in ways[1:] if name == "linear, gated"), None)
    if linear is not None and evaluated.of(linear).mean() >= every.mean() - CLOSE:
        lines.append(
            'A linear head does as well on these recordings and is smaller: [learner] name = "rls", without [head].'
        )
    if still is not None:
        gains = list(zip(evaluated.names, (every - still).tolist(), strict=True))
        lines.append(findings.adaptation(gains, evaluated.recordings if evaluated.left_out else 0))
    found = evaluated.suspicious
    lines += findings.sentences(found, findings.confused(evaluated.counts, evaluated.data.names), evaluated.curve)
    if (other := findings.takes_most(evaluated.counts, evaluated.data.names)) is not None:
        lines.append(
            f"Most other activities are often recognised as {other}. If {other} means that none of them is known, leave the "
            "label empty and fit again."
        )
    if evaluated.left_out and evaluated.frozen is not None:
        unlabelled_counts = confusion(runs, evaluated.frozen, len(evaluated.data.names))
        lines += [
            f"No person does both {pair}, and without labels each is often recognised as the other. If they are one "
            "activity, give it one label and fit again."
            for pair in findings.one_activity_twice(evaluated.data, unlabelled_counts)
        ]
    lines += evaluated.more
    if still is not None and findings.of_one_activity(evaluated.data.of(np.isin(evaluated.data.person, evaluated.served))):
        return [
            *lines,
            "Advice: Record people who do several activities. Most of these people do a single one, so their labels show "
            f"nothing; a new person without labels gets {still.mean():.1%} of windows right.",
        ]
    cold = evaluated.of(COLD) if COLD in ways else None
    cause = _cause(evaluated, evaluated.served[int(every.argmin())])
    return [*lines, findings.advice(every, still, last, evaluated.names, evaluated.curve, len(found), cold, cause)]


def _cause(evaluated: Evaluated, person: int) -> str:
    """Of most wrong windows of a person; empty where it is not known."""
    data, runs = evaluated.data, evaluated.runs[evaluated.job]
    truths = [truth[chosen != truth] for (one, _), (chosen, truth, _) in runs.items() if one == person]
    wrong = np.bincount(np.concatenate(truths), minlength=len(data.names))
    taught = np.arange(len(data.names)) < (evaluated.taught or len(data.names))
    if evaluated.left_out:
        taught = np.isin(np.arange(len(data.names)), data.activity[data.person != person])
    missed = wrong * ~taught
    if 2 * missed.sum() > wrong.sum():
        names = [data.names[c] for c in np.flatnonzero(missed).tolist()]
        what, them = listed(names, MOST_NAMED), "it" if len(names) == 1 else "them"
        return (
            f"{missed.sum() / wrong.sum():.0%} of the wrong windows are of {what}, which no other person teaches. Record "
            f"other people at {them}, or remove {them}"
        )
    return ""


def compared(before: Evaluated, tested: Evaluated) -> str:
    """Whether other people are recognised as well as leaving people out estimated; empty without a range."""
    promised, got = before.of(before.job), tested.of(tested.job)
    if len(promised) < findings.LEAST_PEOPLE:
        return ""

    def where(promised: Array, got: Array, least: float) -> tuple[float, float, str]:
        low, high = findings.of_others(promised, before.recordings, least, len(got))
        return low, high, "within" if low <= got.mean() <= high else "below" if got.mean() < low else "above"

    low, high, place = where(promised, got, 0.0)
    text = (
        f"Leaving people out estimated {promised.mean():.1%}, and for the mean of {len(got)} other people "
        f"probably {low:.1%} to {high:.1%}. The people of --test are {place} this range, with {got.mean():.1%} right."
    )
    if before.frozen is None or tested.frozen is None:
        return text
    promised, got = promised - before.of(before.frozen), got - tested.of(tested.frozen)
    low, high, place = where(promised, got, -1.0)
    return f"{text} Their labels gain {got.mean():+.3f}, {place} the estimated {low:+.3f} to {high:+.3f}."


def people_rows(evaluated: Evaluated) -> tuple[list[str], list[list[str | float | int]]]:
    """Columns, and a row per person served; figures are means of the shuffles."""
    job = evaluated.job
    columns, figures = ["all", "half", "F1", "fresh"], [evaluated.of(job, one) for one in ("all", "half", "f1", "fresh")]
    if evaluated.frozen is not None:
        columns.append("frozen")
        figures.append(evaluated.of(evaluated.frozen))
    columns += ["last label", "majority"]
    figures += [evaluated.of(LAST), evaluated.of(MAJORITY)]
    rows: list[list[str | float | int]] = []
    for row, (person, name) in enumerate(zip(evaluated.served, evaluated.names, strict=True)):
        count = int((evaluated.data.person == person).sum())
        rows.append([name, count, *(float(column[row]) for column in figures)])
    return ["person", "windows", *columns], rows


def people_table(evaluated: Evaluated) -> str:
    (first, *columns), rows = people_rows(evaluated)
    wide = max(6, *(len(str(row[0])) for row in rows)) + 2
    lines = [f"{first:<{wide}}" + "".join(f"{name:>{max(8, len(name) + 2)}}" for name in columns)]
    for name, count, *figures in rows:
        shown = "".join(f"{one:{max(8, len(what) + 2)}.3f}" for what, one in zip(columns[1:], figures, strict=True))
        lines.append(f"{name:<{wide}}{count:>9}{shown}")
    return "\n".join(lines)


def as_text(evaluated: Evaluated) -> str:
    figures = table(evaluated.title, evaluated.data, evaluated.runs, evaluated.late)
    return "\n".join([figures, "", people_table(evaluated), "", *summary(evaluated)])


def as_page(evaluated: Evaluated, before: Evaluated | None = None) -> str:
    """The whole report as HTML; before: what was estimated of the same job, to compare."""
    data, names = evaluated.data, evaluated.data.names
    columns = ["all", "second half", "F1", "fresh", "fresh in the second half", "worst person", "its second half"]
    ways: list[list[str | float | int]] = []
    for name in evaluated.runs:
        means = [mean_of(evaluated.of(name, figure)) for figure in FIGURES]
        ways.append([name, *means, float(evaluated.of(name).min()), float(evaluated.of(name, "half").min())])
    own = list(evaluated.runs).index(evaluated.job)
    if before is not None:
        means = [mean_of(before.of(before.job, figure)) for figure in FIGURES]
        worst = float(before.of(before.job).min()), float(before.of(before.job, "half").min())
        ways.append([f"estimated before: {before.job}", *means, *worst])
    tables = [
        Table(f"{evaluated.title}: shares of right windows", ["", *columns], ways, own),
        Table("Each person", *people_rows(evaluated)),
        Table("Each activity", ["activity", "windows", "found", "precise", "F1"], activity_rows(evaluated.counts, names)),
    ]
    found = evaluated.suspicious
    if found:
        tables.append(Table("Recordings that look mislabelled", _SUSPECT, found))
    charts = []
    bin, curves = curves_of(evaluated)
    if curves:
        lines = {name: ((bin * (np.arange(len(one)) + 0.5)).tolist(), one.tolist()) for name, one in curves.items()}
        charts.append(Chart(f"Right in every {bin} windows of a person", "windows of the person so far", lines))
    if evaluated.curve is not None:
        by_people = {evaluated.job: (evaluated.curve.people, evaluated.curve.right)}
        charts.append(Chart("Right by people in the population", "people in the population", by_people))
    people = f"{len(evaluated.served)} people, {len(names)} activities, {len(data.X)} windows"
    said = [f"{people}, labels {evaluated.late} windows late.", *summary(evaluated)]
    return page(evaluated.title, said, tables, evaluated.counts, names, charts)


_SUSPECT = ["person", "recording", "label", "looks like", "windows", "of them alike", "of other recordings"]


def activity_rows(counts: Array, names: list[str]) -> list[list[str | float | int]]:
    """Share of an activity's windows that are found, share of its decisions that are right, and F1."""
    hit, true, said = np.diag(counts), counts.sum(axis=1), counts.sum(axis=0)
    recall, precision = hit / np.maximum(true, 1), hit / np.maximum(said, 1)
    f1 = 2 * hit / np.maximum(true + said, 1)
    columns = zip(names, true.astype(int).tolist(), recall.tolist(), precision.tolist(), f1.tolist(), strict=True)
    return [list(row) for row in columns]


def as_table(evaluated: Evaluated) -> dict[str, Any]:
    """The report, ready for JSON; figures are means over people of the means of the shuffles."""
    job, runs = evaluated.job, evaluated.runs
    report: dict[str, Any] = {
        "protocol": {
            "late_windows": evaluated.late,
            "shuffles": evaluated.shuffles,
            "people_left_out": len(evaluated.served),
        },
        "job": job,
        "ways": {name: {figure: _spread(evaluated.of(name, figure)) for figure in FIGURES} for name in runs},
        "calibration_error": calibration(runs, job),
        "people": {},
        "activities": evaluated.data.names,
        "confusion": evaluated.counts.astype(int).tolist(),
        "learning_curve": None if evaluated.curve is None else evaluated.curve._asdict(),
        "look_mislabelled": [one._asdict() for one in evaluated.suspicious],
        "advice": summary(evaluated)[-1],
    }
    gains = np.full(len(evaluated.served), np.nan)
    if evaluated.frozen is not None:
        gains = evaluated.of(job) - evaluated.of(evaluated.frozen)
    for row, (person, name) in enumerate(zip(evaluated.served, evaluated.names, strict=True)):
        figures = {figure: _number(evaluated.of(job, figure)[row]) for figure in FIGURES}
        figures["adapting_gained"] = _number(gains[row])
        report["people"][name] = {"windows": int((evaluated.data.person == person).sum()), **figures}
    return report


def curves_of(evaluated: Evaluated) -> tuple[int, dict[str, Array]]:
    """Windows of a point, and accuracy over a person's time by way; the job's first."""
    shown, runs = [*evaluated.ways[:CURVES], LAST, MAJORITY], evaluated.runs
    usual = int(np.median([len(truth) for _, truth, _ in runs[evaluated.job].values()]))
    bin = BIN * max(1, usual // (BIN * POINTS))
    rights = {name: [chosen == truth for chosen, truth, _ in runs[name].values()] for name in shown}
    return bin, {name: curve for name, one in rights.items() if len(curve := accuracy_over_time(one, bin))}


def _spread(values: np.ndarray[Any, Any]) -> dict[str, float | None]:
    known = values[np.isfinite(values)]
    if not known.size:
        return {"mean": None, "sd": None, "worst": None}
    return {"mean": float(known.mean()), "sd": float(known.std()), "worst": float(known.min())}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
