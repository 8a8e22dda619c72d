"""Changes of activity found under a stated number of false alarms, on people that chose no setting.

    python -m papers activity_promise [--quick] [--third] [--out FOLDER]

Streams, changes and false alarms as `activity_drift` counts them, on the person's own scale. `false_alarms = "20/h"` is
stated, which is one in 180 windows; a way with two watches gives each a half. The first half of the people of each set
chooses, for each way, one setting for both sets: that which finds most at no more than 20 false alarms an hour. The others
are told. With the population's reference it teaches as well, as `streamjobs fit` learns it: how windows differ within a
recording, and the limit. `--third`: the same on a set that chose nothing. Beside them Page-Hinkley on the same errors, which
states no number: with 0.1.0's thresholds, and with those that found most for the people who choose at no more than 20 false
alarms an hour, as `streamjobs drift tune` finds them.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from algorithms import learner_from
from algorithms.common.protocol import Array
from algorithms.drift.glr_chart import GlrChart
from papers import recordings
from papers.activity_drift import (
    FALSE_AN_HOUR,
    OKFEB,
    SETS,
    SHUFFLES,
    Found,
    alarm_rows,
    alarms,
    followed,
    judged,
    scaled,
)
from papers.common import line, options
from streamjobs.fit.alarms import learn_reference
from streamjobs.fit.recordings import Recordings, Stream, shuffled
from streamjobs.stages.population.reference import DIRECTIONS

STATED = 3600.0 / FALSE_AN_HOUR  # windows, one a second
BARS = {"watch": 0.95, "phone": 0.80}
OF_NUMBERS: list[dict[str, Any]] = [
    {"least": 20, "hold": 500, "reference": 500},  # the defaults
    {"least": 10, "hold": 30, "reference": 200},
    {"least": 5, "hold": 20, "reference": 100},
    {"least": 5, "hold": 0, "reference": 100},
]
OF_COLUMNS: list[dict[str, Any]] = [
    {"learn": 1000, "least": 20, "hold": 500, "reference": 300},
    {"learn": 120, "least": 10, "hold": 60, "reference": 200},
    {"learn": 30, "least": 5, "hold": 20, "reference": 100},
    {"learn": 30, "least": 5, "hold": 0, "reference": 100},
]
CONTROLS = ("last_points", "running_mean")
THRESHOLDS: list[dict[str, Any]] = [
    *(
        {"delta": delta, "threshold": most}
        for delta in (0.01, 0.03, 0.06)
        for most in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7)
    ),
    *(
        {"standardise": True, "min_rows": 5, "delta": delta, "threshold": most}
        for delta in (0.1, 0.25, 0.5)
        for most in (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, 8.0)
    ),
]


class Watched(NamedTuple):
    """Of one person and shuffle."""

    stream: Stream
    values: Mapping[str, Array]  # (n,) LS errors by extractor


def at_stated(detector: str, settings: dict[str, Any], X: Array, share: float) -> Array:
    """Rows of alarms of a detector that gets this share of the stated number."""
    return alarm_rows(learner_from(detector, {**settings, "rows_between": STATED / share}), X)


def of_columns(one: Watched, setting: int, share: float = 1.0) -> Array:
    return at_stated("column_chart", OF_COLUMNS[setting], one.stream.X, share)


def of_error(name: str) -> Callable[..., Array]:
    def made(one: Watched, setting: int, share: float = 1.0) -> Array:
        return at_stated("conformal", OF_NUMBERS[setting], one.values[name][:, None], share)

    return made


def of_both(one: Watched, setting: int) -> Array:
    return np.union1d(of_columns(one, setting, 0.5), of_error(OKFEB)(one, setting, 0.5))


WAYS: dict[str, Callable[[Watched, int], Array]] = {
    "columns": of_columns,
    "ls_error": of_error(OKFEB),
    "columns and ls_error": of_both,
    **{name: of_error(name) for name in CONTROLS},
}


def run(data: Recordings, people: list[int], shuffles: int) -> list[Watched]:
    """What is watched of these people."""
    found = []
    for person in people:
        for shuffle in range(shuffles):
            stream = shuffled(data, data.person == person, [1, person, shuffle])
            found.append(Watched(stream, followed(scaled(data, person, stream, "own"))))
    return found


def over_all(watched: list[Watched], rows: Callable[[Watched], Array]) -> Found:
    each = [judged(rows(one), one.stream) for one in watched]
    return Found(*(sum(column) for column in zip(*each, strict=True)))


def of_population(data: Recordings, teachers: list[int]) -> Callable[[Watched], Array]:
    """Rows of alarms by the reference that these people taught."""
    taught, detector = np.isin(data.person, teachers), GlrChart(limit=1.0, tested=DIRECTIONS)
    theirs = data._replace(**{name: getattr(data, name)[taught] for name in ("X", "activity", "person", "recording")})
    reference = learn_reference(theirs, detector, STATED).reference
    return lambda one: alarm_rows(detector, reference.rows(one.stream.X))


def halves(data: Recordings) -> tuple[list[int], list[int]]:
    """People who choose, and people who are told."""
    people = np.unique(data.person).tolist()
    return people[: len(people) // 2], people[len(people) // 2 :]


def chosen(way: Callable[[Watched, int], Array], choosing: list[list[Watched]]) -> int:
    """The setting that finds most in the mean of the sets, at no more false alarms than are stated in each."""
    best, most = 0, -1.0
    for setting in range(len(OF_NUMBERS)):
        found = [over_all(of_set, lambda one, setting=setting: way(one, setting)) for of_set in choosing]  # type: ignore[misc]
        share = float(np.mean([one.share for one in found]))
        if share > most and all(one.false_an_hour <= FALSE_AN_HOUR for one in found):
            best, most = setting, share
    return best


def by_threshold(values: Array, settings: dict[str, Any]) -> Array:
    return alarm_rows(learner_from("page_hinkley", settings), values[:, None])


def best_threshold(watched: list[Watched]) -> tuple[str, dict[str, Any]]:
    """Extractor and detector that find most for these people at no more than FALSE_AN_HOUR."""
    best, most = (OKFEB, THRESHOLDS[0]), -1.0
    for extractor in (OKFEB, *CONTROLS):
        for settings in THRESHOLDS:
            found = over_all(watched, lambda one, e=extractor, s=settings: by_threshold(one.values[e], s))  # type: ignore[misc]
            if found.share > most and found.false_an_hour <= FALSE_AN_HOUR:
                best, most = (extractor, settings), found.share
    return best


def figures(found: Found) -> str:
    return f"{found.share:.3f} of {found.changes}, {found.false_an_hour:.1f}/h"


def main(arguments: list[str] | None = None) -> int:
    given = options(
        "activity_promise", __doc__, arguments, quick="the watch only, one shuffle", third="a third set alone, no bar"
    )
    shuffles = 1 if given.quick else SHUFFLES
    if given.third:
        data = recordings.daily()
        first, others = halves(data)
        for teachers, told in ((first, others), (others, first)):
            found = over_all(run(data, told, shuffles), of_population(data, teachers))
            line(f"third set: the population's reference, people {', '.join(map(str, told))}", figures(found))
        return 0
    by_population: dict[str, Found] = {}
    turned: dict[str, Found] = {}
    choosing: dict[str, list[Watched]] = {}
    telling: dict[str, list[Watched]] = {}
    for title, load in SETS.items():
        if given.quick and title != "watch":
            continue
        data = load()
        first, others = halves(data)
        choosing[title], telling[title] = run(data, first, shuffles), run(data, others, shuffles)
        print(f"{title}: people {', '.join(map(str, first))} choose; {', '.join(map(str, others))} are told", flush=True)
        by_population[title] = over_all(telling[title], of_population(data, first))
        turned[title] = over_all(choosing[title], of_population(data, others))
    missed, found = [], {}
    for name, way in WAYS.items():
        setting = chosen(way, list(choosing.values()))
        used = [OF_COLUMNS[setting]] if "columns" in name else []
        used += [OF_NUMBERS[setting]] if name != "columns" else []
        print(f"{name}: {used}", flush=True)
        for title, others_watched in telling.items():
            for part, watched in (("who chose", choosing[title]), ("told", others_watched)):
                found[name, title, part] = over_all(watched, lambda one: way(one, setting))  # noqa: B023
                line(f"{name}, {title}, {part}", figures(found[name, title, part]))
    for title, others_watched in telling.items():
        for extractor in (OKFEB, *CONTROLS):
            usual = over_all(others_watched, lambda one: alarms(one.values[extractor]))  # noqa: B023
            line(f"nothing stated: page_hinkley, {extractor}, {title}", figures(usual))
        extractor, settings = best_threshold(choosing[title])
        by_others = over_all(others_watched, lambda one: by_threshold(one.values[extractor], settings))  # noqa: B023
        holds = by_others.share >= BARS[title] and by_others.false_an_hour <= FALSE_AN_HOUR
        print(f"chosen by the others, {title}: {extractor}, page_hinkley {settings}", flush=True)
        missed += line(f"{title}: a threshold that others chose", figures(by_others), f">= {BARS[title]}, <= 20/h", holds)
        ways = [name for name in WAYS if name not in CONTROLS]
        kept = [name for name in ways if found[name, title, "who chose"].false_an_hour <= FALSE_AN_HOUR]
        name = max(kept or ways, key=lambda name: found[name, title, "who chose"].share)
        line(f"{title}: under the promise, of those that rank, {name}", figures(found[name, title, "told"]))
        best = by_population[title]
        least = max(BARS[title], *(found[control, title, "told"].share for control in CONTROLS))
        holds = best.share >= least and best.false_an_hour <= FALSE_AN_HOUR
        missed += line(f"{title}: the population's reference", figures(best), f">= {least:.3f}, <= 20/h", holds)
        back = turned[title]
        holds = back.share >= BARS[title] and back.false_an_hour <= FALSE_AN_HOUR
        missed += line(
            f"{title}: the same, taught by those, told of these", figures(back), f">= {BARS[title]}, <= 20/h", holds
        )
    print(f"missed: {', '.join(missed) or 'nothing'}.")
    return 0
