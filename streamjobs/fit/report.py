"""The report of a fit: text for people, a table for programs."""

from dataclasses import replace
from typing import Any

import numpy as np

from streamjobs.fit.evaluation import Runs, accuracy_over_time, by_person, calibration, confusion, table
from streamjobs.fit.learning import Recipe, Way
from streamjobs.fit.reading import Read
from streamjobs.fit.recordings import Recordings

FIGURES = ("all", "half", "f1", "fresh", "fresh_half")
LAST, MAJORITY = "last label seen", "majority so far"
FEW = 5  # people
CLOSE = 0.005  # a difference of accuracy that does not matter


def ways_of(recipe: Recipe, model: str) -> list[Way]:
    """The ways to serve a new person: the job's first, then those it is compared with."""
    plain = replace(recipe, map=None, input=False)
    ways = [Way(f"{model}, gated: this job", recipe), Way(f"{model}, frozen head", recipe, "frozen")]
    if recipe.map is not None:
        ways += [Way("linear, gated", plain), Way("linear, frozen head", plain, "frozen")]
    cold = replace(plain, smooth=0.0, filter=None)
    return [*ways, Way("linear, cold, population's scale", cold, "cold")]


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
    left += [f"{count:,} records refused ({reason})" for reason, count in read.refused.items()]
    return [*lines, f"left out: {', '.join(left)}"] if left else lines


def doubts(read: Read, recipe: Recipe) -> list[str]:
    """What the data is too little for, one sentence each."""
    data, sentences = read.data, []
    people = len(np.unique(data.person))
    if people < FEW and recipe.map is not None:
        sentences.append(
            f"only {people} people: with fewer than about {FEW} prefer a linear head ([learner] name = 'rls', without "
            "[head]) or a novelty dictionary ([learner] name = 'ald'), and do not rely on the figures."
        )
    for c, name in enumerate(data.names):
        doing = len(np.unique(data.person[data.activity == c]))
        if doing <= 1:
            who = "no one does" if doing == 0 else "only one person does"
            sentences.append(f"{who} {name!r}: it cannot be recognised in others from these recordings.")
    if read.skipped.get("late", 0) > read.samples // 20:
        sentences.append(
            f"{read.skipped['late']:,} of {read.samples:,} samples are older than those before; if all recordings start "
            "at the same time, name the column that tells them apart with --recording."
        )
    return sentences


def summary(runs: Runs, ways: list[Way]) -> list[str]:
    """The figures in words."""
    job = ways[0].name
    every, half, last = by_person(runs, job, "all"), by_person(runs, job, "half"), by_person(runs, LAST, "all")
    fresh, majority = by_person(runs, job, "fresh"), by_person(runs, MAJORITY, "all")
    unlabelled = by_person(runs, ways[1].name, "all")
    lines = [
        f"A new person: {every.mean():.1%} of windows right (worst person {every.min():.1%}), {half.mean():.1%} in the "
        f"second half. Without any label of the person: {unlabelled.mean():.1%}. In the first windows of each recording, "
        f"before a label of it: {fresh.mean():.1%}. Always predicting the last label seen: {last.mean():.1%}; the most "
        f"frequent label so far: {majority.mean():.1%}."
    ]
    if (error := calibration(runs, job)) is not None:
        lines.append(f"The score is a probability; it is off by {error:.3f} on average (expected calibration error).")
    linear = next((way.name for way in ways[1:] if way.name == "linear, gated"), None)
    if linear is not None and by_person(runs, linear, "all").mean() >= every.mean() - CLOSE:
        lines.append(
            'A linear head does as well on these recordings and is smaller: [learner] name = "rls", without [head].'
        )
    return lines


def people_table(data: Recordings, runs: Runs, ways: list[Way]) -> str:
    """A line per person left out; figures are means of the shuffles."""
    job, frozen = ways[0].name, ways[1].name
    left_out = sorted({person for person, _ in runs[job]})
    names = [data.people[person] if data.people else str(person) for person in left_out]
    wide = max(6, *(len(name) for name in names)) + 2
    lines = [f"{'person':<{wide}}{'windows':>8}{'all':>7}{'half':>7}{'F1':>7}{'fresh':>7}{'frozen':>8}{'last label':>12}"]
    columns = [by_person(runs, job, figure) for figure in ("all", "half", "f1", "fresh")]
    columns += [by_person(runs, frozen, "all"), by_person(runs, LAST, "all")]
    for row, (person, name) in enumerate(zip(left_out, names, strict=True)):
        every, half, f1, fresh, still, last = (float(column[row]) for column in columns)
        count = int((data.person == person).sum())
        lines.append(f"{name:<{wide}}{count:>8}{every:7.3f}{half:7.3f}{f1:7.3f}{fresh:7.3f}{still:8.3f}{last:12.3f}")
    return "\n".join(lines)


def as_text(data: Recordings, runs: Runs, ways: list[Way], late: int, shuffles: int) -> str:
    """The whole report."""
    title = f"each person left out in turn, {shuffles} shuffle{'s' * (shuffles > 1)}"
    return "\n".join(
        [table(title, data, runs, late), "", people_table(data, runs, ways), "", *summary(runs, ways)],
    )


def as_table(data: Recordings, runs: Runs, ways: list[Way], late: int, shuffles: int) -> dict[str, Any]:
    """The report, ready for JSON; figures are means over people of the means of the shuffles."""
    job = ways[0].name
    left_out = sorted({person for person, _ in runs[job]})
    report: dict[str, Any] = {
        "protocol": {"late_windows": late, "shuffles": shuffles, "people_left_out": len(left_out)},
        "job": job,
        "ways": {name: {figure: _spread(by_person(runs, name, figure)) for figure in FIGURES} for name in runs},
        "calibration_error": calibration(runs, job),
        "people": {},
        "activities": data.names,
        "confusion": confusion(runs, job, len(data.names)).astype(int).tolist(),
    }
    for row, person in enumerate(left_out):
        name = data.people[person] if data.people else str(person)
        figures = {figure: _number(by_person(runs, job, figure)[row]) for figure in FIGURES}
        report["people"][name] = {"windows": int((data.person == person).sum()), **figures}
    return report


def curves_of(runs: Runs, ways: list[Way]) -> dict[str, np.ndarray[Any, Any]]:
    """Accuracy over a person's time, by way; the job's first."""
    shown = [*(way.name for way in ways), LAST, MAJORITY]
    return {name: accuracy_over_time([chosen == truth for chosen, truth, _ in runs[name].values()]) for name in shown}


def _spread(values: np.ndarray[Any, Any]) -> dict[str, float | None]:
    known = values[np.isfinite(values)]
    if not known.size:
        return {"mean": None, "sd": None, "worst": None}
    return {"mean": float(known.mean()), "sd": float(known.std()), "worst": float(known.min())}


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
