"""The activity figures' claims on a small part of the protocol, and that the protocol itself is fair."""

import numpy as np
import pytest

from algorithms import learner_from
from papers import activity, recordings
from papers.late_labels import Model, empty, population, predicted
from streamjobs.fit.evaluation import by_person, table
from streamjobs.fit.recordings import LATE, Recordings, Stream, controls, fresh, shuffled, worth


@pytest.fixture(scope="module")
def watch():
    data = recordings.watch()
    runs = activity.run(data, activity.models(data.X.shape[1], quick=True), shuffles=1)
    print("\n" + table("watch, one shuffle", data, runs))
    return runs


@pytest.mark.parametrize("model", ["linear, warm", activity.BEST_CHAIN])
def test_a_warm_start_tells_the_exercises_of_an_unknown_person_in_eight_of_ten_windows(watch, model):
    assert by_person(watch, model, "all").mean() >= 0.80


def test_a_warm_start_beats_every_control_and_the_cold_start(watch):
    warm = by_person(watch, "linear, warm", "all").mean()
    for control in ("majority so far", "last label seen", "bound of cold: class labelled before", "linear, cold"):
        assert warm > by_person(watch, control, "all").mean() + 0.1, control


def test_a_cold_start_stays_below_what_a_cold_start_can_know(watch):
    cold = by_person(watch, "linear, cold", "all")
    assert (cold <= by_person(watch, "bound of cold: class labelled before", "all")).all()
    assert cold.mean() > by_person(watch, "last label seen", "all").mean()


def frozen_linear(**how):
    """Accuracy of the population's linear head, which learns nothing of the person."""
    data = recordings.watch(**how)
    return by_person(activity.run(data, activity.linear()[:1], shuffles=1), "frozen", "all").mean()


def test_rich_statistics_pay_once_one_arm_is_mirrored():
    rich = frozen_linear(statistics="rich", mirrored=True)
    assert rich >= 0.87
    assert rich > frozen_linear(statistics="simple", mirrored=True)
    assert rich > frozen_linear(statistics="rich") + 0.02


def test_gravity_aligned_statistics_do_not_care_how_the_sensors_are_mounted():
    assert frozen_linear(statistics="gravity", turned=True) == pytest.approx(frozen_linear(statistics="gravity"), abs=0.002)
    assert frozen_linear(statistics="rich", turned=True) < frozen_linear(statistics="gravity", turned=True) - 0.05


def synthetic(n=200, seed=0):
    rng = np.random.default_rng(seed)
    recording = np.repeat(np.arange(4), n // 4)
    return Stream(rng.normal(size=(n, 3)) + recording[:, None], recording % 3, recording)


def model(**how):
    return Model("linear", learner_from("rls", {"intercept": True}), **{"warm": False, **how})


def test_no_label_is_used_before_it_arrives():
    stream = synthetic()
    n = len(stream.X)
    before = predicted(model(), empty(model(), 3, 3), stream)
    for changed in (0, 57, n - LATE - 2):
        y = stream.activity.copy()
        y[changed] = (y[changed] + 1) % 3
        after = predicted(model(), empty(model(), 3, 3), stream._replace(activity=y))
        assert (after[: changed + LATE + 1] == before[: changed + LATE + 1]).all()
    assert (before[: LATE + 1] == -1).all() and (before[LATE + 1 :] >= 0).all()


def test_controls_know_only_labels_that_have_arrived():
    stream = synthetic()
    known = controls(stream, 3)
    assert all((labels[: LATE + 1] == -1).all() for labels in known.values())
    assert (known["last label seen"][LATE + 1 :] == stream.activity[: -LATE - 1]).all()
    bound = known["bound of cold: class labelled before"]
    assert worth(bound, stream).fresh == pytest.approx(21 / 84)  # only the last of the four recordings repeats a class


def test_a_fresh_window_has_no_label_of_its_own_recording():
    stream = synthetic()
    for i, first in enumerate(fresh(stream.recording, LATE).tolist()):
        arrived = stream.recording[: max(0, i - LATE)]
        assert first == (stream.recording[i] not in arrived)


def test_the_left_out_person_never_enters_the_population():
    rng = np.random.default_rng(1)
    person = np.repeat([1, 2], 100)
    data = Recordings(rng.normal(size=(200, 3)), np.arange(200) % 3, person, np.arange(200) // 25, list("abc"))
    others = shuffled(data, data.person != 2, [0, 2])
    changed = data._replace(X=np.where(person[:, None] == 2, 1e6, data.X))
    a = population(model(warm=True), others, 3)
    b = population(model(warm=True), shuffled(changed, changed.person != 2, [0, 2]), 3)
    assert a.learner.weights.tobytes() == b.learner.weights.tobytes()


def test_frozen_means_that_labels_change_nothing():
    stream = synthetic()
    frozen = model(warm=True, scale=0, arriving=0, labelled=0)
    start = population(frozen, synthetic(seed=1), 3)
    other = stream._replace(activity=(stream.activity + 1) % 3)
    assert (predicted(frozen, start, stream) == predicted(frozen, start, other)).all()
