"""The worker's core on raw recordings, labels in records of their own 20 windows late: its numbers are the figures'.

    python -m papers core_population [--set watch|phone] [--people N] [--convolved]

Everybody but one person teaches the population as in `activity_population`. The person's recordings then go through the
default job as a worker gets them: a frame of samples a second, 30 s between recordings, and behind each window the label of
the window 20 before it. Every decision, score and share of the adapted head is compared with those of the figures, bit for
bit. With --convolved the job has convolutions, directions and a filter in place of prototypes and smoothing.
"""

import argparse
import json
import time
from typing import NamedTuple

import numpy as np

from papers import recordings
from papers.gated_streams import HEAD, SCALING, way
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.state.population import encode
from streamjobs.fit.evaluation import filter_learned
from streamjobs.fit.fitting import population_of
from streamjobs.fit.learning import Convolving, Recipe, Way, convolved, decided, features, learned_from
from streamjobs.fit.recordings import LATE, Recordings, Stream, shuffled
from streamjobs.settings.composition import composition_of
from streamjobs.settings.sections import Settings
from streamjobs.stages.smoothing import Transitions
from tests.data import dataset

START, RATE, PAUSE = 1_700_000_000.0, 50, 30.0  # seconds, Hz, seconds between recordings, at least
FIELDS = ["ax", "ay", "az", "wx", "wy", "wz"]
GATED = way("ald 300, gated", "ald 300")
SMALL = Recipe(SCALING, None, HEAD, filter=Transitions(), boosts=True, convolving=Convolving(40, 2 * RATE, 6), directions=64)
CONVOLVED = Way("convolutions in 64 directions, hmm, gated", SMALL)


class Raw(NamedTuple):
    """Samples of a set, and its windows as the figures have them."""

    X: np.ndarray  # (n, 6)
    recording: np.ndarray  # (n,)
    side: np.ndarray | None  # (n,)
    windows: Recordings


def raw(name: str, convolutions: int = 0) -> Raw:
    """convolutions: above 0, the windows have their samples behind the statistics."""
    data = dataset("seglearn_watch" if name == "watch" else "motionsense_8")
    ids = data["key"].astype(np.int64) * 1000 + data["seg"]
    if name == "watch":
        windows = recordings.watch("rich", True, even=True, convolutions=convolutions)
        return Raw(data["X"].astype(float), ids, data["side"], windows)
    return Raw(recordings.phone_signal(data), ids, None, recordings.phone("rich", even=True, convolutions=convolutions))


def settings(mirrored: bool, recipe: Recipe) -> Settings:
    """The default job, or one with convolutions, directions and a filter."""
    window = {"length": "2s", "hop": "1s", "rate": float(RATE), "statistics": "rich"}
    if mirrored:
        window["mirror"] = {"field": "side", "when": 1, "columns": ["ax", "wy", "wz"]}
    population, learner = {"file": "population.state"}, {"name": "ald", "above": 0.1, "budget": 300, "freeze": True}
    head = {"name": "rls", "delta": 100.0, "gate": True, "fallback": "last_label"}
    own = {"learner": learner, "head": {**head, "boost": 10.0, "smooth": 0.3}}
    if recipe.convolving is not None:
        window = window | {"convolutions": recipe.convolving.numbers}
        population = population | {"directions": recipe.directions}
        own = {"learner": {**head, "filter": "hmm"}}
    return Settings(
        source={"topic": "wrist", "fields": FIELDS, "time": "ts", "label": "activity"},
        window=window,
        labels={"wait": "2d", "most": 64},
        population=population,
        scaling={"method": "standard", "from": "population", "clip": 5.0},
        **own,
    )


def beginnings(data: Raw, stream: Stream) -> tuple[list[int], np.ndarray]:
    """The recordings in order, and when they begin (recordings,): at whole seconds, which add no rounding to times."""
    _, first = np.unique(stream.recording, return_index=True)
    order = stream.recording[np.sort(first)].tolist()
    lasts = np.ceil(np.array([np.sum(data.recording == one) for one in order]) / RATE) + PAUSE
    return order, START + np.cumsum(lasts) - lasts


class Through(NamedTuple):
    """What came out of the core."""

    said: list[dict]  # predictions
    late: int  # labels that met their window
    wrong: int
    seconds: float  # of processor time
    snapshot: bytes  # of the person in the end
    records: list[Stored]  # that went in


def through_core(job: Job, data: Raw, stream: Stream) -> Through:
    """The person's recordings through the core, record by record in an order a topic could have."""
    live = Live(job, lambda key: None)
    said: list[dict] = []
    records: list[Stored] = []
    late = wrong = 0
    names, begun = data.windows.names, time.process_time()
    for one, begins in zip(*beginnings(data, stream), strict=True):
        rows = np.flatnonzero(data.recording == one)
        times = begins + np.arange(len(rows)) / RATE
        for begin in range(0, len(rows), RATE):
            part = rows[begin : begin + RATE]
            body = dict(zip(FIELDS, data.X[part].T.tolist(), strict=True), ts=times[begin : begin + RATE].tolist())
            if data.side is not None:
                body["side"] = int(data.side[part[0]])
            stamp = int(1000 * (times[begin] + 1))

            def sent(message: dict, at: int = stamp) -> list[dict]:
                nonlocal late, wrong
                records.append(Stored("wrist", 0, len(records), at, b"p", json.dumps(message).encode()))
                advanced = advance(job, live, records[-1:])
                assert not advanced.report.dead_lettered
                late, wrong = late + advanced.report.labels, wrong + advanced.report.wrong
                return [json.loads(o.value) for o in advanced.outputs if o.sink == "predictions"]

            made = sent(body)
            assert len(made) <= 1
            said += made
            if made and len(said) > LATE:  # behind a window's prediction, the label of the one LATE before
                before = len(said) - 1 - LATE
                assert sent({"ts": said[before]["ts"], "activity": names[stream.activity[before]]}) == []
    return Through(said, late, wrong, time.process_time() - begun, dict(live.snapshots())[b"p"], records)


class Person(NamedTuple):
    """Somebody nobody has seen: the default job on the population of all others, and what the figures say of them."""

    settings: Settings
    population: bytes
    stream: Stream  # windows, recordings shuffled
    names: list[str]
    chosen: np.ndarray  # (n,) class of each window
    score: list[float]
    share: list[float]  # of the adapted head

    def same(self, said: list[dict]) -> bool:
        """Whether predictions are the figures', bit for bit."""
        decisions = [one["predicted_class"] for one in said] == [self.names[c] for c in self.chosen]
        numbers = [one["score"] for one in said] == self.score and [one["share"] for one in said] == self.share
        return decisions and numbers


def left_out(data: Raw, person: int, by: Way = GATED) -> Person:
    teaches, names, recipe = data.windows.person != person, data.windows.names, by.recipe
    windows, convolutions = convolved(data.windows, teaches, recipe.convolving)
    others = shuffled(windows, teaches, [0, person])
    stream = shuffled(windows, windows.person == person, [1, person, 0])
    order, begins = beginnings(data, stream)
    seconds = [begin + np.arange(np.sum(stream.recording == one)) for one, begin in zip(order, begins, strict=True)]
    stream = stream._replace(times=np.concatenate(seconds))  # a window begins each second
    learned = learned_from(others, recipe, len(names))
    recipe = filter_learned(windows.of(teaches), recipe, learned, LATE)
    figures = decided(recipe, "gated", learned, stream, features(learned, recipe, stream.X))
    chosen, n = settings(data.side is not None, recipe), len(stream.X)
    made = population_of(windows.of(teaches), composition_of(chosen), recipe, learned)
    scores = figures.scores if recipe.filter is not None else figures.out.prediction
    return Person(
        chosen,
        encode(made._replace(convolutions=convolutions)),
        stream,
        names,
        figures.chosen,
        scores[np.arange(n), figures.chosen].tolist(),
        figures.out.features[:, 0].tolist(),
    )


def compared(name: str, people: int, by: Way = GATED) -> list[str]:
    """A line per person; raises AssertionError where any number differs."""
    data = raw(name, 0 if by.recipe.convolving is None else by.recipe.convolving.numbers)
    lines = [f"{name}: the core and the figures, person by person"]
    for number in np.unique(data.windows.person)[:people].tolist():
        person = left_out(data, number, by)
        job = Job.from_settings(person.settings, population=person.population)
        job.compile()
        got = through_core(job, data, person.stream)
        assert person.same(got.said)
        right, n = person.chosen == person.stream.activity, len(person.chosen)
        assert got.late == n - LATE and got.wrong == int((~right[: n - LATE]).sum())
        lines.append(
            f"  person {number}: {n} windows, {got.late} late labels: decisions, scores and shares are the same bits; "
            f"right {right.mean():.3f}, second half {right[n // 2 :].mean():.3f}; {1e6 * got.seconds / n:.0f} us a window "
            f"with its frame and label, a record a call; state {len(got.snapshot) / 1024:.0f} KiB of at most "
            f"{job.state_bytes / 1024:.0f}"
        )
    return lines


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m papers core_population", description=__doc__.partition("\n")[0])
    parser.add_argument("--set", choices=("watch", "phone"), help="one of the two sets; absent: both")
    parser.add_argument("--people", type=int, default=2, help="how many people of each")
    parser.add_argument("--convolved", action="store_true", help="convolutions, directions and a filter")
    options = parser.parse_args(arguments)
    for name in (options.set,) if options.set else ("watch", "phone"):
        print("\n".join(compared(name, options.people, CONVOLVED if options.convolved else GATED)), flush=True)
    return 0
