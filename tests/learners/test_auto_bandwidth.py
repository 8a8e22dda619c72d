"""A width chosen from the first rows: what it is, and that from then on the learner is the one with this width."""

import numpy as np
import pytest

from algorithms import SettingError, learner_from
from algorithms.alignment import aligned_bandwidth, kernel_alignment
from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, LEARN_HEAD, PREDICT_ONLY
from streamjobs.learner_checks.case import Case, curve, easy

ROWS = 20
AUTO = {"bandwidth": "auto", "bandwidth_rows": ROWS}
LEARNERS = {  # with settings under which a width scales everything the learner does
    "klms": {"budget": 60, "step_size": 0.5},
    "knlms": {"budget": 60, "coherence_below": 0.9},
    "krls": {"budget": 60, "ald_above": 0.01},
    "okfeb": {"rank": 4, "budget": 8, "role": "head"},
    "rff": {"features": 30},
}


def stream(n: int = 80, targets: int = 1, seed: int = 0):
    X = 3.0 * curve(n, 3, np.random.default_rng(seed))
    return X, np.sin(X[:, :targets])


def slow_bandwidth(X, Y, laplacian: bool = False) -> float:
    """As `alignment` tells it, pair by pair."""
    gaps = np.sqrt(((X[:, None] - X) ** 2).sum(axis=2))
    pairs = gaps[np.tril_indices(len(X), -1)]
    ordered = np.sort(pairs[pairs > 0])
    median = ordered[len(ordered) // 2]
    if Y is None:
        return median / 2
    best, most = 0.0, -np.inf
    for step in range(13):
        width = median * 2.0 ** ((step - 6) / 2)
        K = np.exp(-gaps / width) if laplacian else np.exp(-((gaps / width) ** 2) / 2)
        alignment = kernel_alignment(K, Y, diagonal=False)
        if alignment > most:
            best, most = width, alignment
    return best if most > 0 else median / 2


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian"])
def test_the_width_is_the_one_that_agrees_best_with_the_labels(kernel: str) -> None:
    for seed in range(2):
        X, numbers = stream(60, seed=seed)
        classes = easy("classification", 60, 3, 4, "onehot", seed)[1]
        X[:30] *= 1e-3  # distances of many sizes
        for Y in (numbers, np.sign(numbers), classes, None):
            expected = slow_bandwidth(X, Y, kernel == "laplacian")
            assert aligned_bandwidth(X, Y, kernel=kernel) == pytest.approx(expected, rel=1e-12)


def test_alignment_is_the_cosine_of_the_two_matrices() -> None:
    random = np.random.default_rng(0)
    y = np.sign(random.standard_normal(30))
    K = np.exp(-np.abs(random.standard_normal((30, 30))))
    K = (K + K.T) / 2
    wanted = np.outer(y, y)
    assert kernel_alignment(K, y) == pytest.approx((K * wanted).sum() / np.sqrt((K**2).sum() * (wanted**2).sum()))
    assert kernel_alignment(wanted, y) == pytest.approx(1.0) == kernel_alignment(wanted, y, centred=True)
    H = np.eye(30) - 1 / 30
    Kc, wc = H @ K @ H, H @ wanted @ H
    assert kernel_alignment(K, y, centred=True) == pytest.approx((Kc * wc).sum() / np.sqrt((Kc**2).sum() * (wc**2).sum()))
    assert np.isnan(kernel_alignment(K, np.ones(30)))
    with pytest.raises(ValueError, match="expected K of shape"):
        kernel_alignment(K, y[:4])


@pytest.mark.parametrize("name", LEARNERS)
def test_after_the_choice_it_is_the_learner_with_that_width(name: str) -> None:
    """All rows through the learner with the width as a number: the rows that waited were learned in their order."""
    X, Y = stream()
    auto = learner_from(name, {**LEARNERS[name], "kernel": AUTO})
    state, out = auto.run(auto.init(dim=3, targets=1, seed=4), X, Y)
    bandwidth = aligned_bandwidth(X[:ROWS], Y[:ROWS] if auto.kind != "features" else None)
    assert state.choice.bandwidth == bandwidth and len(state.choice.samples) == 0
    fixed = learner_from(name, {**LEARNERS[name], "kernel": {"bandwidth": bandwidth}})
    _, expected = fixed.run(fixed.init(dim=3, targets=1, seed=4), X, Y)
    for field in ("features", "prediction", "ls_error", "loss"):
        ours, theirs = getattr(out, field), getattr(expected, field)
        assert np.isnan(ours[:ROWS]).all(), field
        np.testing.assert_allclose(ours[ROWS:], theirs[ROWS:], rtol=1e-7, atol=1e-9, err_msg=field)
    np.testing.assert_array_equal(out.admitted[ROWS:], expected.admitted[ROWS:])


def test_a_head_behind_learns_nothing_from_rows_that_wait() -> None:
    X, Y = stream(60)
    extractor = {"name": "rff", "features": 20, "kernel": AUTO}
    chain = learner_from("chain", {"extractor": extractor, "head": {"name": "rls"}})
    state, out = chain.run(chain.init(dim=3, targets=1, seed=0), X, Y)
    assert np.isnan(out.prediction[:ROWS]).all() and (out.prediction[ROWS] == 0).all()
    assert state.extractor.choice.bandwidth == aligned_bandwidth(X[:ROWS], Y[:ROWS])  # labels that come along are used


def test_one_width_for_all_classes() -> None:
    X, Y = easy("classification", 80, 3, 4, "onehot", 0)
    binary = {"name": "knlms", "loss": "hinge", "budget": 20, "kernel": AUTO}
    learner = learner_from("one_vs_rest", {"learner": binary})
    state, out = learner.run(learner.init(dim=3, targets=4, seed=0), X, Y)
    assert state.choice.bandwidth == aligned_bandwidth(X[:ROWS], Y[:ROWS])
    assert (out.prediction[40:].argmax(axis=1) == Y[40:].argmax(axis=1)).mean() > 0.7


def test_only_rows_that_may_be_learned_count() -> None:
    X, Y = stream(40)
    Y[::2] = np.nan
    X[5] = np.nan
    learner = learner_from("klms", {"budget": 9, "kernel": AUTO})
    case = Case("klms", learner)
    for learn, held in ((PREDICT_ONLY, 0), (LEARN_EXTRACTOR, 0), (LEARN_HEAD, 10), (LEARN, 10)):
        work = case.workspace([case.init()], extra=0)
        out = case.advance(work, 0, X[:11], Y[:11], learn)
        state = learner.save(work, 0, case.init())
        assert len(state.choice.samples) == held and np.isnan(out.prediction).all()
    assert state.choice.marks.tolist() == [3, 7, 3, 7, 3, 3, 7, 3, 7, 3]


@pytest.mark.parametrize(
    "X", [np.zeros((40, 2)), np.full((40, 2), 1e300), np.eye(2)[np.arange(40) % 2] * 1e300, np.full((40, 2), 1e-308)]
)
def test_rows_that_do_not_differ_or_are_out_of_range_have_the_usual_width(X) -> None:
    learner = learner_from("klms", {"budget": 9, "kernel": AUTO})
    state, out = learner.run(learner.init(dim=2, targets=1, seed=0), X, np.arange(40.0)[:, None])
    assert state.choice.bandwidth == pytest.approx(np.sqrt(2))
    assert np.isfinite(out.prediction[ROWS:]).all()


def test_many_keys_that_choose_in_one_batch_equal_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_from("klms", {"budget": 9, "kernel": AUTO})
    case = Case("klms", learner)
    start, keys, rows = case.init(), 30, 25
    X, Y = stream(keys * rows)
    slots = np.tile(np.arange(keys), rows)
    outs = []
    for numbers in (1 << 18, 500):
        monkeypatch.setattr("algorithms.auto_bandwidth.CHUNK_NUMBERS", numbers)
        outs.append(case.advance(case.workspace([start] * keys, extra=0), slots, X, Y))
    np.testing.assert_array_equal(outs[0].prediction, outs[1].prediction)
    for key in (0, 7, 29):
        np.testing.assert_array_equal(
            outs[0].prediction[slots == key], learner.run(start, X[slots == key], Y[slots == key])[1].prediction
        )


@pytest.mark.parametrize(
    ("kernel", "said"),
    [
        ({"bandwidth": "Auto"}, "kernel: bandwidth must be a number or 'auto'; got 'Auto'."),
        ({"bandwidth": "auto", "bandwidth_rows": 1}, "kernel: bandwidth_rows must be an integer, 2 to 1000; got 1."),
        ({"bandwidth": 1.0, "bandwidth_rows": 9}, "unknown setting 'bandwidth_rows' for the gaussian kernel"),
        ({"name": "polynomial", "bandwidth": "auto"}, "unknown setting 'bandwidth' for the polynomial kernel"),
    ],
)
def test_what_cannot_be_is_refused(kernel: dict, said: str) -> None:
    with pytest.raises(SettingError) as caught:
        learner_from("klms", {"kernel": kernel})
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("learner", "said"),
    [
        ({"name": "rls"}, "a learner with a gaussian or laplacian kernel of its own; got 'Rls'"),
        ({"name": "klms", "kernel": {"name": "linear"}}, "a learner with a gaussian or laplacian kernel of its own"),
        (
            {"name": "klms", "kernel": {"bandwidth": 2.0}},
            "a learner with a kernel without bandwidth, because it is chosen; got 2.0",
        ),
    ],
)
def test_a_learner_without_a_width_to_choose_is_refused(learner: dict, said: str) -> None:
    with pytest.raises(SettingError) as caught:
        learner_from("auto_bandwidth", {"learner": learner})
    assert said in str(caught.value)


@pytest.mark.parametrize("name", ["klms", "okfeb"])
def test_the_table_and_the_learner_by_its_own_name_are_one(name: str) -> None:
    settings = {"budget": 30} if name == "klms" else {"rank": 3, "budget": 6}
    by_table = learner_from(name, {**settings, "kernel": AUTO})
    assert by_table == learner_from("auto_bandwidth", {"rows": ROWS, "learner": {"name": name, **settings}})


def test_a_state_that_cannot_be_is_refused() -> None:
    learner = learner_from("klms", {"budget": 9, "kernel": AUTO})
    state, _ = learner.run(learner.init(dim=3, targets=1, seed=0), *stream(10))
    for wrong, said in (({"bandwidth": -1.0}, "bandwidth of 0 or more"), ({"bandwidth": 2.0}, "no rows with a chosen")):
        with pytest.raises(ValueError, match=said):
            learner.run(state._replace(choice=state.choice._replace(**wrong)), *stream(3))
