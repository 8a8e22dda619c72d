"""The gated head against its slow reference, and what it promises to people whose labels come late."""

from typing import Any

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, Array
from algorithms.common.workspace import packed, unpacked
from algorithms.heads.gated_rls import GatedRls
from streamjobs.learner_checks.states import same_outputs, same_state
from streamjobs.stages.smoothing import FIRST, MOVED, Changes, Elapsed, Refuted, Smoothing, Transitions
from streamjobs.stages.stage import Shape
from tests.reference.gated import gated as slow

DIM, CLASSES = 5, 3


def stream(n: int, seed: int, turned: bool = False, block: int = 1) -> tuple[Array, Array]:
    """One-hot classes by the largest of three directions, in blocks of one class; `turned`: a person who differs."""
    random = np.random.default_rng(seed)
    directions = np.random.default_rng(0).standard_normal((DIM, CLASSES))
    X = random.standard_normal((n, DIM))
    label = (X @ directions).argmax(axis=1)
    order = np.argsort(label, kind="stable")
    if block > 1:
        queues = [list(order[label[order] == c]) for c in range(CLASSES)]
        order = []
        while sum(len(queue) >= block for queue in queues) > 1:
            for queue in queues:
                order += [queue.pop() for _ in range(min(block, len(queue)))]
        X, label = X[order], label[order]
    return X, np.eye(CLASSES)[(label + 1) % CLASSES if turned else label]


def others(n: int = 300) -> Any:
    rls = learner_from("rls", {"delta": 10.0})
    return rls.run(rls.init(dim=DIM, targets=CLASSES, seed=0), *stream(n, seed=1))[0]


def head(**settings: Any) -> GatedRls:
    made = learner_from("gated_rls", {"delta": 10.0, **settings})
    assert isinstance(made, GatedRls)
    return made


def right(prediction: Array, Y: Array) -> Array:
    return prediction.argmax(axis=1) == Y.argmax(axis=1)


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("unlabelled", [1.0, 0.5])
@pytest.mark.parametrize("taught", [CLASSES, CLASSES - 1])
def test_the_head_agrees_with_its_slow_reference(forgetting: float, turned: bool, unlabelled: float, taught: int) -> None:
    X, Y = stream(300, seed=2, turned=turned, block=10)
    Y[::4] = np.nan
    settings = {"boost": 10.0, "rate": 0.3, "discount": 0.98, "forgetting": forgetting, "unlabelled": unlabelled}
    population, learner = others(), head(**settings)
    population.weights[:, taught:] = 0.0
    state, out = learner.run(learner.from_population(population), X, Y)
    predictions, shares, weights, votes = slow(X, Y, population.weights, unpacked(population.P, DIM), **settings)
    np.testing.assert_allclose(out.prediction, predictions, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(out.features[:, 0], shares, rtol=1e-9)
    np.testing.assert_allclose(state.weights, weights, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(state.votes, votes, rtol=1e-12)
    assert state.frozen.tobytes() == population.weights.tobytes()


@pytest.mark.parametrize("forgetting", [1.0, 0.99])
@pytest.mark.parametrize("joint", [1, 3])
def test_covariances_of_some_inputs_alone_agree_with_the_slow_reference(forgetting: float, joint: int) -> None:
    X, Y = stream(300, seed=2, turned=True, block=10)
    Y[::4] = np.nan
    settings = {"boost": 10.0, "rate": 0.3, "discount": 0.98, "forgetting": forgetting}
    population, learner = others(), head(**settings)
    start = learner.from_population(population, joint)
    assert {array.dtype for array in start[:6]} == {np.dtype(np.float32)} and len(start.P) == (joint + 1) * (joint + 2) // 2
    state, out = learner.run(start, X, Y)
    W, P = start.frozen.astype(float), np.eye(DIM) / population.seen
    predictions, shares, weights, _ = slow(X, Y, W, P, **settings, joint=joint)
    np.testing.assert_allclose(out.prediction, predictions, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(out.features[:, 0], shares, rtol=1e-9)
    np.testing.assert_allclose(state.weights, weights, rtol=1e-4, atol=1e-5)
    assert all(getattr(state, field).tobytes() == getattr(start, field).tobytes() for field in learner.constant(start))


def test_covariances_that_would_save_nothing_are_whole() -> None:
    population, learner = others(), head()
    for joint in (0, DIM - 1, DIM + 7):
        same_state(learner.from_population(population, joint), learner.from_population(population), f"{joint} of {DIM}")


def test_covariances_of_some_inputs_survive_100_000_labels_and_a_state_is_the_workspace() -> None:
    """In float32: a state that is stored and read on the way gives the same bits."""
    learner, random = head(forgetting=0.999), np.random.default_rng(5)
    X, Y = (
        np.repeat(stream(100, seed=6, turned=True)[0], 1000, axis=0),
        np.repeat(np.eye(3)[random.integers(3, size=100)], 1000, axis=0),
    )
    X[:, 2] = 0.0  # an input that is idle
    once, _ = learner.run(learner.from_population(others(), 3), X, Y)
    half, _ = learner.run(learner.from_population(others(), 3), X[:33_333], Y[:33_333])
    twice, _ = learner.run(half, X[33_333:], Y[33_333:])
    same_state(once, twice, "in two parts")
    assert np.isfinite(once.weights).all() and np.abs(once.weights).max() < 10.0
    assert np.linalg.eigvalsh(unpacked(once.P, 4)).min() > 0.0


def test_a_new_person_gets_what_the_population_says() -> None:
    X, _ = stream(50, seed=3)
    population, learner = others(), head()
    np.testing.assert_allclose(learner.predict(learner.from_population(population), X), X @ population.weights, rtol=1e-12)


def test_a_person_who_differs_is_learned_and_one_who_does_not_loses_nothing() -> None:
    population = others()
    for turned, least in ((True, 0.8), (False, -0.01)):
        X, Y = stream(600, seed=4, turned=turned, block=20)
        learner = head()
        _, out = learner.run(learner.from_population(population), X, Y)
        half = slice(len(X) // 2, None)
        frozen = right(X @ population.weights, Y)[half].mean()
        assert right(out.prediction, Y)[half].mean() >= frozen + least, f"turned={turned}"


def test_the_gate_saves_what_adapting_to_meaningless_rows_would_lose() -> None:
    """Every other label comes with an x that is noise, each weighing as a thousand of the population's."""
    population = others()
    X, Y = stream(600, seed=5, block=30)
    noise = np.random.default_rng(6).standard_normal(X.shape)
    learner, alone = head(boost=1000.0), head(boost=1000.0, gate=False)
    mixed = np.where((np.arange(len(X)) % 2 == 0)[:, None], noise, X)
    start = learner.from_population(population)
    rows = np.flatnonzero(np.arange(len(X)) % 2 == 1)
    frozen = right(X @ population.weights, Y)[rows].mean()
    gated = right(learner.run(start, mixed, Y)[1].prediction, Y)[rows].mean()
    ungated = right(alone.run(start, mixed, Y)[1].prediction, Y)[rows].mean()
    assert gated > ungated + 0.02 and gated > frozen - 0.03


def test_the_adapted_head_votes_with_what_it_knew_before_the_present_run_of_labels() -> None:
    """Twenty labels of a class the person does in another way: right answers only once the class comes back."""
    population, learner = others(), head()
    X, Y = np.tile([[1.0, 0, 0, 0, 0]], (20, 1)), np.zeros((20, CLASSES))
    wrong = int((X[0] @ population.weights).argmin())
    Y[:, wrong] = 1.0
    state, _ = learner.run(learner.from_population(population), X, Y)
    assert right(X[:1] @ state.weights, Y[:1]).all() and state.votes.tolist() == [0.0, 0.0]
    other = np.roll(Y[:1], 1, axis=1)
    state, _ = learner.run(state, [[0.0, 0, 0, 0, 1]], other)
    again, _ = learner.run(state, X[:1], Y[:1])
    assert again.votes[1] == pytest.approx(0.98 * state.votes[1] + 1.0)
    assert again.votes[0] == pytest.approx(0.98 * state.votes[0])


def test_a_label_weighs_as_boost_of_the_population() -> None:
    """One label with boost 7 equals that label learned seven times by the population's head."""
    rls = learner_from("rls", {"delta": 10.0})
    population = others()
    X, Y = stream(1, seed=8)
    learner = head(boost=7.0)
    boosted, _ = learner.run(learner.from_population(population), X, Y)
    often, _ = rls.run(population, np.tile(X, (7, 1)), np.tile(Y, (7, 1)))
    np.testing.assert_allclose(boosted.weights, often.weights, rtol=1e-9, atol=1e-12)


def test_what_labels_of_others_taught_of_a_class_counts_by_half_until_its_first_label() -> None:
    X, Y = stream(60, seed=2, turned=True)
    first = Y.argmax(axis=1) == 0
    whole, half, none = (head(unlabelled=share) for share in (1.0, 0.5, 0.0))
    begin = whole.from_population(others())
    after, _ = whole.run(begin, X[first], Y[first])
    of_half, _ = half.run(begin, X[first], Y[first])
    assert of_half.latest.tolist() == [0.75, 0.0, 0.0]
    same_state(after, of_half._replace(latest=after.latest), "after labels of one class alone both keep the same")
    asked = X, np.full_like(Y, np.nan)
    full, halved, frozen = (one.run(after, *asked)[1].prediction for one in (whole, half, none))
    assert np.array_equal(full[:, 0], halved[:, 0])
    assert np.allclose(halved[:, 1:], (full[:, 1:] + frozen[:, 1:]) / 2) and not np.allclose(full[:, 1:], frozen[:, 1:])
    second = Y.argmax(axis=1) == 1
    state, _ = half.run(of_half, X[second], Y[second])
    assert state.latest.tolist() == [0.5, 0.75, 0.0]
    third, _ = half.run(state, X[first][:1], Y[first][:1])
    assert third.latest.tolist() == [1.0, 0.5, 0.0]
    assert np.array_equal(half.run(state, *asked)[1].prediction[:, :2], whole.run(state, *asked)[1].prediction[:, :2])


def test_the_last_label_alone_is_predicted_where_classes_before_it_are_remembered() -> None:
    learner = head(unlabelled=0.5)
    X, Y = np.zeros((3, DIM)), np.eye(CLASSES)[[0, 1, 1]]
    _, out = learner.run(learner.init(dim=DIM, targets=CLASSES, seed=0), X, Y)
    assert out.prediction.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]


def test_without_a_population_it_is_plain_least_squares() -> None:
    X, Y = stream(100, seed=9)
    rls, learner = learner_from("rls", {"delta": 10.0}), head(fallback="none")
    plain, predictions = rls.run(rls.init(dim=DIM, targets=CLASSES, seed=0), X, Y)
    state, out = learner.run(learner.init(dim=DIM, targets=CLASSES, seed=0), X, Y)
    assert out.prediction.tobytes() == predictions.prediction.tobytes() and state.P.tobytes() == plain.P.tobytes()
    assert (out.features == 1.0).all()


def test_the_last_label_is_predicted_where_nothing_else_is_known() -> None:
    learner = head()
    fresh = learner.init(dim=1, targets=2, seed=0)
    _, out = learner.run(fresh, [[0.0], [0.0], [0.0]], [[0, 1], [1, 0], [np.nan, np.nan]])
    assert out.prediction.tolist() == [[0, 0], [0, 1], [1, 0]]
    _, out = head(fallback="none").run(fresh, [[0.0], [0.0]], [[0, 1], [1, 0]])
    assert out.prediction.tolist() == [[0, 0], [0, 0]]


def test_a_late_label_changes_the_head_and_a_present_row_changes_nothing() -> None:
    X, Y = stream(40, seed=10)
    learner = head()
    start = learner.from_population(others())
    for learn, moves in ((LEARN_HEAD, True), (LEARN_EXTRACTOR, False)):
        work = learner.workspace(start)
        learner.load(work, 0, start)
        out = learner.outputs(40, DIM, CLASSES)
        learner.advance(work, np.zeros(40, np.int64), X, Y, out, np.full(40, learn, np.int8))
        after = learner.save(work, 0, start)
        if moves:
            whole, whole_out = learner.run(start, X, Y)
            same_state(after, whole, "with labels only")
            same_outputs(out, whole_out, "with labels only")
        else:
            same_state(after, start, "with present rows only")


def test_a_person_begins_from_either_head_of_a_population() -> None:
    rls, learner = learner_from("rls", {"delta": 10.0}), head()
    X, Y = stream(100, seed=11)
    by_rls = rls.run(rls.init(dim=DIM, targets=CLASSES, seed=0), X, Y)[0]
    by_gated = learner.run(learner.init(dim=DIM, targets=CLASSES, seed=0), X, Y)[0]
    same_state(learner.from_population(by_rls), learner.from_population(by_gated), "started from gated_rls")
    np.testing.assert_array_equal(unpacked(packed(np.eye(3)), 3), np.eye(3))


CHANGING = Transitions(sharpness=5.0, switch=0.1, changes=Changes((2.0, -1.0, 3.0), 1.5, -2.0))
STAGES = [Smoothing(smooth=0.3), Transitions(sharpness=5.0, switch=0.1), CHANGING]


def _shape(targets: int) -> Shape:
    return Shape(dim=1, width=1, label_width=1, targets=targets)


def smoothed(scores: Array, learn: Any, slots: Any = 0, stage: Any = None, work: Any = None) -> Array:
    stage = stage or Smoothing(smooth=0.3)
    work = work or stage.workspace(stage.begin(_shape(scores.shape[1]), seed=0), slots=3)
    flags = np.ascontiguousarray(np.broadcast_to(learn, len(scores)), np.int8)
    return stage.advance(work, np.ascontiguousarray(np.broadcast_to(slots, len(scores)), np.int64), scores, flags)


def test_smoothing_follows_its_formula_and_begins_with_the_first_score() -> None:
    scores = np.random.default_rng(0).standard_normal((20, 2))
    expected = [scores[0]]
    for score in scores[1:]:
        expected.append(0.3 * expected[-1] + 0.7 * score)
    np.testing.assert_allclose(smoothed(scores, LEARN), expected, rtol=1e-12)
    assert smoothed(scores, LEARN, stage=Smoothing(smooth=0.0)).tobytes() == scores.tobytes()


def test_probabilities_follow_the_forward_algorithm() -> None:
    """As Rabiner writes it, with a matrix; a class with a score of 0 has none of them."""
    scores = np.random.default_rng(0).normal(0.3, 0.5, (40, 4))
    scores[:20, 2] = 0.0
    got = smoothed(scores, LEARN, stage=Transitions(sharpness=5.0, switch=0.1))
    for known, rows in (([0, 1, 3], slice(0, 20)), ([0, 1, 2, 3], slice(20, 40))):
        n = len(known)
        goes = np.full((n, n), 0.1 / (n - 1)) + (0.9 - 0.1 / (n - 1)) * np.eye(n)
        for i in range(rows.start, rows.stop):
            says = np.exp(5.0 * (scores[i, known] - scores[i, known].max()))
            joint = np.maximum(says / says.sum(), 1e-4) * (1.0 if i == 0 else goes.T @ got[i - 1, known])
            np.testing.assert_allclose(got[i, known], joint / joint.sum(), rtol=1e-12)
    assert (got[:20, 2] == 0.0).all()
    assert smoothed(np.zeros((3, 2)), LEARN, stage=Transitions(sharpness=5.0, switch=0.1)).tolist() == [[0.0, 0.0]] * 3


def test_scores_that_move_raise_the_chance_of_a_change() -> None:
    """As `Changes` says, with matrices; the scores of a row that is not remembered are not those before the next."""
    scores = np.random.default_rng(0).normal(0.3, 0.5, (40, 2))
    learn = np.where(np.arange(40) % 7 == 3, LEARN_HEAD, LEARN)
    got, before = smoothed(scores, learn, stage=CHANGING), None
    for i in range(40):
        joint = np.maximum(softmax(5.0 * scores[i]), 1e-4)
        if before is not None:
            moved = np.array([[2.0, 0.0], [-1.0, 3.0]]).T @ (scores[i] - scores[before])
            odds = np.exp(1.5 * np.log1p(np.mean(moved**2)) - 2.0) * 0.1 / 0.9
            switch = odds / (1.0 + odds)
            joint *= got[before] * (1.0 - switch) + switch * (1.0 - got[before])
        np.testing.assert_allclose(got[i], joint / joint.sum(), rtol=1e-12)
        before = i if learn[i] == LEARN else before
    huge = smoothed(np.array([[1e308, -1e308], [-1e308, 1e308]]), LEARN, stage=CHANGING)
    np.testing.assert_allclose(huge, [[1.0, 1e-4], [1e-4, 1.0]], atol=1e-3)


def test_a_late_label_moves_the_chance_of_the_class_that_it_refutes() -> None:
    """Of the first labels of a run alone, whether rows come at once or one by one; the others change no chance."""
    scores = np.resize([[0.9, 0.3, 0.2], [0.8, 0.1, 0.4]], (60, 3))
    learn, codes = np.resize([LEARN_EXTRACTOR, LEARN_HEAD], 60).astype(np.int8), np.resize([np.nan, 1.0], 60)
    stage, labels = Transitions(sharpness=2.0, switch=0.1), Refuted()
    works = [(one.workspace(fresh), one, fresh) for one in (stage, labels) for fresh in [one.begin(_shape(3), 0)]]
    for work, one, fresh in works:
        one.load(work, 0, fresh)
    moves, labelled = works[0][0], works[1][0]
    before, expected = np.zeros(3), []
    for i in range(0, 60, 2):
        chance = before * 0.9 + 0.1 * (1.0 - before) / 2 if i else np.ones(3)
        before = np.maximum(softmax(2.0 * scores[i]), 1e-4) * chance
        before /= before.sum()
        expected.append(before)
        if i // 2 < FIRST:
            before = before + MOVED * before[0] * np.array([-1.0, 1.0, 0.0])
    got = []
    for begin, end in ((0, 25), (25, 26), (26, 60)):
        part = slice(begin, end)
        slots = np.zeros(end - begin, np.int64)
        refuted = labels.advance(labelled, slots, scores[part], codes[part], learn[part])
        assert (refuted >= 0).tolist() == [bool(i % 2) and i // 2 < FIRST for i in range(begin, end)]
        got.append(stage.advance(moves, slots, scores[part], learn[part], (refuted, codes[part])))
    np.testing.assert_allclose(np.concatenate(got)[::2], expected, rtol=1e-12)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("switch", [0.1, 0.9])
def test_after_a_pause_the_class_may_have_changed_in_each_step(classes: int, switch: float) -> None:
    """The transition matrix of one step, as often as there were steps; labels and rows without scores are none."""
    random, hop, most = np.random.default_rng(3), 0.5, (classes - 1) / classes
    scores, learn, steps = (
        random.random((12, classes)),
        np.full(12, LEARN, np.int8),
        [1, 1, 1, 5, 1, 1, 1, 2, 2, 1, 10**6, 1],
    )
    times = 1.7e9 + hop * np.cumsum([1, 1, 1, 4, 1, -2, 3, 1, 2.4, 1, 1e6, 1]) + 0.01 * random.random(12)
    scores[6], learn[[2, 5]] = np.nan, LEARN_HEAD
    one_step = np.full((classes, classes), switch / (classes - 1))
    np.fill_diagonal(one_step, 1.0 - switch)
    before, expected = np.full(classes, 1.0 / classes), []
    for row, learns, k in zip(scores, learn, steps, strict=True):
        by_chance = k > 1 and switch > most  # a chance above that of a class drawn blindly would swing from step to step
        now = np.maximum(softmax(2.0 * row), 1e-4)
        now = now * (1.0 / classes if by_chance else before @ np.linalg.matrix_power(one_step, k))
        expected.append(now / now.sum())
        before = expected[-1] if learns == LEARN and np.isfinite(row).all() else before
    for parts in ([0, 12], [0, 3, 4, 9, 12]):
        stage, since, got, seen = Transitions(sharpness=2.0, switch=switch), Elapsed(hop=hop), [], []
        work, elapsed = (one.holding(one.begin(_shape(classes), 0)) for one in (stage, since))
        for part in map(slice, parts, parts[1:]):
            slots = np.zeros(part.stop - part.start, np.int64)
            seen.append(since.advance(elapsed, slots, scores[part], times[part], learn[part]))
            got.append(stage.advance(work, slots, scores[part], learn[part], steps=seen[-1]))
        assert np.concatenate(seen).tolist() == steps
        np.testing.assert_allclose(np.concatenate(got), expected, rtol=1e-9)
    unknown_hop = Elapsed().advance(elapsed, np.zeros(12, np.int64), scores, times, learn)
    assert unknown_hop.tolist() == [1] * 12


def softmax(scores: Array) -> Array:
    chances = np.exp(scores - scores.max())
    return np.asarray(chances / chances.sum())


def test_an_activity_that_lasts_longer_needs_more_windows_to_change() -> None:
    scores = np.repeat([[0.8, 0.2], [0.2, 0.8]], 30, axis=0)
    last = [
        int(smoothed(scores, LEARN, stage=Transitions(sharpness=3.0, switch=switch)).argmax(axis=1).argmax())
        for switch in (0.2, 0.01, 0.0001)
    ]
    assert last[0] < last[1] < last[2]


@pytest.mark.parametrize("stage", STAGES)
def test_late_labels_and_rows_without_scores_do_not_disturb_smoothing(stage: Any) -> None:
    scores = np.random.default_rng(1).standard_normal((30, 2))
    learn = np.random.default_rng(2).choice([LEARN, LEARN_EXTRACTOR, LEARN_HEAD, 0], 30)
    scores[5] = np.nan
    present = (learn & LEARN_EXTRACTOR).astype(bool) & np.isfinite(scores).all(axis=1)
    assert smoothed(scores, learn, stage=stage)[present].tobytes() == smoothed(scores[present], LEARN, stage=stage).tobytes()
    assert np.isnan(smoothed(scores, learn, stage=stage)[5]).all()


@pytest.mark.parametrize("stage", STAGES)
def test_smoothing_gives_the_same_bits_for_any_split_and_mix_of_keys(stage: Any) -> None:
    scores = np.random.default_rng(3).standard_normal((60, 2))
    keys = np.random.default_rng(4).integers(0, 3, 60)
    work = stage.workspace(stage.begin(_shape(2), seed=0), slots=3)
    halves = [smoothed(scores[part], LEARN, keys[part], stage, work) for part in (slice(0, 23), slice(23, 60))]
    together = np.concatenate(halves)
    for key in range(3):
        assert together[keys == key].tobytes() == smoothed(scores[keys == key], LEARN, stage=stage).tobytes()


@pytest.mark.parametrize("unlabelled", [1.0, 0.0])
def test_a_class_that_the_population_lacks_is_learned_from_the_person(unlabelled: float) -> None:
    """To the population the third class looks like the first; the frozen head is right in most rows, and so has a weight."""
    random, rls = np.random.default_rng(0), learner_from("rls", {"delta": 10.0})
    centres = np.array([[2.0, 0, 0, 0, 0], [0, 2, 0, 0, 0], [2, 0, 2, 0, 0]])
    theirs, label = random.integers(0, CLASSES, 1000), np.repeat(np.tile([0, 1, 0, 1, 0, 1, 2], 8), 12)
    rows = [centres[one] + 0.5 * random.standard_normal((len(one), DIM)) for one in (theirs, label)]
    targets = [np.eye(CLASSES)[one] for one in (np.where(theirs == 2, 0, theirs), label)]
    population, _ = rls.run(rls.init(dim=DIM, targets=CLASSES, seed=0), rows[0], targets[0])
    learner = head(unlabelled=unlabelled)
    _, out = learner.run(learner.from_population(population), rows[1], targets[1])
    was_right, later = right(out.prediction, targets[1]), np.arange(len(label)) >= len(label) // 2
    assert was_right[later & (label == 2)].mean() > 0.4 and was_right[later & (label != 2)].mean() > 0.98
