"""The claims on a shared map with a head of one's own, on the watch by the whole protocol, and that the protocol is fair."""

import numpy as np
import pytest

from papers import activity_population
from papers.activity_population import BARS, COLD, FROZEN, GATED, QUICK
from papers.gated_streams import MAPS, way
from streamjobs.fit.evaluation import by_person, leave_one_out, table
from streamjobs.fit.learning import decided, learned_from
from streamjobs.fit.recordings import LATE, Stream, arriving


@pytest.fixture(scope="module")
def watch():
    data = activity_population.SETS["watch"]()
    runs = leave_one_out(data, QUICK)
    print("\n" + table("watch", data, runs) + "\n" + activity_population.bars("watch", runs))
    return runs


@pytest.mark.parametrize("bar", [bar for bar in BARS if bar[1] in QUICK], ids=lambda bar: bar[0])
def test_the_watch_reaches_the_bar_of(watch, bar):
    _, way, what, least, _ = bar
    assert activity_population.figure(watch, way, what) >= least


def test_every_control_and_a_cold_start_are_far_behind(watch):
    gated = by_person(watch, GATED.name, "all").mean()
    for name in ("majority so far", "last label seen", "bound of cold: class labelled before", COLD.name):
        assert gated > by_person(watch, name, "all").mean() + 0.2, name


def test_each_label_comes_20_windows_late():
    rows, late = arriving(50)
    assert rows[~late].tolist() == list(range(50)) and rows[late].tolist() == list(range(50 - LATE))
    for label in range(50 - LATE):
        place = np.flatnonzero(late & (rows == label))[0]
        assert rows[:place][~late[:place]].max() == label + LATE


@pytest.fixture(scope="module")
def person():
    """What others taught, and a person who does the same things another way; the features are the windows themselves."""

    def stream(seed: int, shift: int) -> Stream:
        random = np.random.default_rng(seed)
        recording = np.repeat(np.arange(12), 30)
        activity = recording % 3
        X = random.normal(size=(360, 4)) + 2.0 * np.eye(4)[(activity + shift) % 3]
        return Stream(X, activity, recording)

    others = stream(0, shift=0)
    return learned_from(others, way("", "linear").recipe, 3), stream(1, shift=1)


def said(how, learned, stream):
    """Class and the adapted head's share, of every window."""
    found = decided(how.recipe, how.start, learned, stream, stream.X)
    return found.chosen, found.out.features[:, 0]


def test_no_label_is_used_before_it_arrives(person):
    learned, stream = person
    gated = way("gated", "linear")
    before, _ = said(gated, learned, stream)
    changed = 0
    for one in (0, 57, 200):
        y = stream.activity.copy()
        y[one : one + 10] = (y[one : one + 10] + 1) % 3
        after, _ = said(gated, learned, stream._replace(activity=y))
        assert (after[: one + LATE + 1] == before[: one + LATE + 1]).all()
        changed += (after != before).sum()
    assert changed > 0


def test_a_frozen_head_hears_no_label_and_the_gate_turns_to_the_person_who_differs(person):
    learned, stream = person
    other = stream._replace(activity=(stream.activity + 1) % 3)
    frozen = way("frozen", "linear", "frozen")
    assert (said(frozen, learned, stream)[0] == said(frozen, learned, other)[0]).all()
    chosen, share = said(way("gated", "linear"), learned, stream)
    half = slice(180, None)
    assert share[0] == 0.5 and (share[half] > 0.9).all()
    assert (chosen[half] == stream.activity[half]).mean() > (
        said(frozen, learned, stream)[0][half] == stream.activity[half]
    ).mean() + 0.5


def test_smoothing_and_gate_leave_a_new_person_with_what_the_population_says(person):
    learned, stream = person
    quiet = stream._replace(X=stream.X[:LATE], activity=stream.activity[:LATE], recording=stream.recording[:LATE])
    scores = quiet.X @ learned.head.weights + learned.head.bias
    chosen, _ = said(way("gated", "linear", smooth=0.0), learned, quiet)
    assert (chosen == scores.argmax(axis=1)).all()


def test_the_map_of_the_figures_is_the_default_one():
    made = FROZEN.recipe.map
    assert made is MAPS["ald 300"] and made == type(made)()
