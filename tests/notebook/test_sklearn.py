"""The estimators of streamjobs.sklearn are scikit-learn's: they pass its own checks, and their numbers are the learner's."""

import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from algorithms import LEARNERS, SettingError, learner_from
from streamjobs import sklearn as ours
from streamjobs.estimators.catalogue import LEFT_OUT
from streamjobs.sklearn import BPAS, OKFEB, RLS, BOGDRegressor, KRLSClassifier, RLSClassifier, SiSPEED
from tests.notebook.small import EXPECTED_FAILED, small_settings

USUAL = ("OKFEB", "OKFE", "RLS", "RLSClassifier", "SiSPEEDFeatures", "BPAS", "OnlineGreedyRegressor", "Chain")
SKIPPED = {"check_array_api_input": "asks for SCIPY_ARRAY_API in the environment of the process"}


def parameters() -> Iterator[Any]:
    for title in ours.ESTIMATORS:
        yield pytest.param(title, marks=() if title in USUAL else pytest.mark.long)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", list(parameters()))
def test_an_estimator_passes_every_check_of_scikit_learn(title: str) -> None:
    cls = ours.ESTIMATORS[title]
    estimator = cls(**small_settings(cls._entry))
    problems, count = [], 0
    for one, check in estimator_checks_generator(estimator, legacy=True):
        name = check.func.__name__
        if name in SKIPPED or name in EXPECTED_FAILED.get(title, {}):
            continue
        count += 1
        try:
            check(one)
        except Exception as problem:  # noqa: BLE001 - whatever a check raises is its finding
            problems.append(f"{name}: {problem!r}"[:300])
    assert not problems
    assert count > 40


def test_every_learner_but_detectors_has_an_estimator() -> None:
    there = {cls._entry.learner for cls in ours.ESTIMATORS.values()}
    drift = {name for name, cls in LEARNERS.items() if cls.kind == "drift"}
    assert set(LEARNERS) - there == drift | set(LEFT_OUT)


def stream(n: int = 400) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    random = np.random.default_rng(5)
    X = random.normal(size=(n, 4))
    return X, X @ [1.0, -2.0, 0.5, 3.0], np.where(X[:, 0] + X[:, 1] > 0, "up", "down")


def test_the_numbers_are_the_learners_bit_for_bit() -> None:
    X, y, _ = stream()
    learner = learner_from("okfeb", {"rank": 3, "budget": 20})
    state, out = learner.run(learner.init(dim=4, targets=1, seed=0), X)
    estimator = OKFEB(rank=3, budget=20).fit(X)
    assert np.array_equal(estimator.transform(X), learner.transform(state, X))
    assert np.array_equal(estimator.ls_error_, out.ls_error, equal_nan=True)
    head = learner_from("rls", {"intercept": True})  # the default of the estimator
    state, _ = head.run(head.init(dim=4, targets=1, seed=0), X, y.reshape(-1, 1))
    assert np.array_equal(RLS().fit(X, y).predict(X), head.predict(state, X)[:, 0])


@pytest.mark.parametrize("title", ["OKFEB", "RLS", "KRLS", "KLMS", "SPEED", "RLSClassifier", "BPAS"])
def test_partial_fit_in_pieces_is_fit_bit_for_bit(title: str) -> None:
    cls = ours.ESTIMATORS[title]
    X, y, labels = stream()
    target = labels if cls._entry.task == "classification" else y
    whole, pieces = (cls(**small_settings(cls._entry)) for _ in range(2))
    whole.fit(X, target)
    more = {"classes": ["down", "up"]} if cls._entry.task == "classification" else {}
    for rows in np.split(np.arange(len(X)), [1, 2, 50, 51, 200]):
        pieces = pickle.loads(pickle.dumps(pieces)) if len(rows) == 1 else pieces
        pieces.partial_fit(X[rows], target[rows], **more)
    said = "transform" if cls._entry.task == "features" else "predict"
    assert np.array_equal(getattr(whole, said)(X), getattr(pieces, said)(X))
    assert pieces.n_seen_ == len(X)


def test_pipelines_searches_and_cross_validation_work() -> None:
    X, _, labels = stream()
    wavy, wide = np.sin(X[:, 0]) + 0.5 * X[:, 1], {"name": "gaussian", "bandwidth": 3.0}
    model = make_pipeline(ours.Scaling(), ours.RFF(features=100, kernel=wide), RLS(delta=100.0))
    assert cross_val_score(model, X, wavy, cv=3).min() > 0.9
    kernels = [{"name": "gaussian", "bandwidth": width} for width in (0.01, 2.0)]
    search = GridSearchCV(KRLSClassifier(budget=40), {"kernel": kernels}, cv=3).fit(X, labels)
    assert search.best_params_["kernel"]["bandwidth"] == 2.0
    assert search.best_score_ > 0.85


def test_settings_are_parameters_and_clone_keeps_them() -> None:
    estimator = OKFEB(rank=4, budget=9)
    assert estimator.get_params()["budget"] == 9
    assert clone(estimator.set_params(rank=5)).get_params() == estimator.get_params()
    signature = inspect.signature(OKFEB)
    assert (signature.parameters["rank"].default, signature.parameters["kernel"].default) == (10, None)
    assert "rank : integer" in OKFEB.__doc__ and "1 to budget" in OKFEB.__doc__
    assert "\nAttributes\n----------\nn_features_in_ : int\n" in OKFEB.__doc__, "a section of numpydoc is not indented"
    with pytest.raises(TypeError, match="bandwith"):
        OKFEB(bandwith=1.0)


def test_a_kernel_may_be_a_name_a_table_or_the_learners_own() -> None:
    X, y, _ = stream(100)
    made = [ours.KRLS(budget=20, kernel=kernel).fit(X, y) for kernel in ("laplacian", {"name": "laplacian"}, None)]
    assert np.array_equal(made[0].predict(X), made[1].predict(X))
    assert not np.array_equal(made[0].predict(X), made[2].predict(X))


def _transform_unfitted() -> Any:
    return OKFEB().transform([[1.0]])


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (_transform_unfitted, NotFittedError, "not fitted yet"),
        (lambda: OKFEB(rank=8, budget=60).fit(np.eye(20)), ValueError, "OKFEB: n_samples=20 rows are too few for features"),
        (lambda: OKFEB(rank=8, budget=3).fit(np.eye(20)), SettingError, "Okfeb: rank must be 1 to budget (3); got 8."),
        (lambda: BOGDRegressor(loss="hinge").fit(np.eye(20), np.ones(20)), SettingError, "the learner gives classification"),
        (lambda: BPAS().partial_fit(np.eye(2), [0, 1]), ValueError, "classes must be passed"),
        (lambda: RLSClassifier().partial_fit(np.eye(2), [0, 3], classes=[0, 1]), ValueError, "none of the classes"),
        (lambda: ours.OKFEC, AttributeError, "has no estimator 'OKFEC'"),
        (
            lambda: OKFEB().set_params(kernel__bandwidth=2.0),
            ValueError,
            "kernel__bandwidth cannot be set alone",
        ),
    ],
)
def test_what_cannot_be_is_reported(call: Callable[[], Any], error: type[Exception], sentence: str) -> None:
    with pytest.raises(error, match=re.escape(sentence)):
        call()


def test_a_regressor_with_features_gives_what_its_head_sees() -> None:
    X, y, _ = stream()
    settings = {"rank": 6, "seed_size": 10, "budget": 30}
    assert SiSPEED(**settings).fit(X, y).predict(X).shape == (400,)
    assert ours.SiSPEEDFeatures(**settings).fit(X).transform(X).shape == (400, 6)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", EXPECTED_FAILED)
def test_a_check_that_is_expected_to_fail_does(title: str) -> None:
    cls = ours.ESTIMATORS[title]
    result = check_estimator(cls(**small_settings(cls._entry)), expected_failed_checks=EXPECTED_FAILED[title], on_fail=None)
    assert {one["check_name"] for one in result if one["status"] == "xfail"} == set(EXPECTED_FAILED[title])


def test_the_page_lists_every_check_that_is_left_out_with_its_reason() -> None:
    page = (Path(ours.__file__).parent / "estimators" / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(check_\w+)`", page)) == set(SKIPPED).union(*EXPECTED_FAILED.values())
    for title, checks in EXPECTED_FAILED.items():
        for check, reason in checks.items():
            assert f"| `{title}` | `{check}` | {reason} |" in page


def test_a_plain_array_is_learned_as_after_all_checks_and_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """scikit-learn's checks of a row cost more than the row; what they would find, they still find."""
    X, y, _ = stream(60)
    classes = (y > 0).astype(int)
    for given, wrapped in ((RLS(), y), (RLSClassifier(), classes), (OKFEB(), None)):
        checked, plain = clone(given).fit(X[:30], wrapped if wrapped is None else wrapped[:30]), None
        plain = pickle.loads(pickle.dumps(checked))
        rest = () if wrapped is None else (wrapped[30:],)
        checked.partial_fit(X[30:].tolist(), *(one.tolist() for one in rest))
        with monkeypatch.context() as patch:
            patch.setattr(ours, "validate_data", None)
            plain.partial_fit(X[30:], *rest)
        for one, other in zip(checked.state_, plain.state_, strict=True):
            assert np.array_equal(one, other, equal_nan=True)
        rows = (y[:1] if wrapped is None else wrapped[:1],)
        with pytest.raises(ValueError, match="features"):
            plain.partial_fit(X[:1, :3], *rows)
        with pytest.raises(ValueError, match="NaN"):
            plain.partial_fit(np.full((1, 4), np.nan), *rows)
        with pytest.raises(ValueError, match="minimum of 1 is required"):
            plain.partial_fit(X[:0], *(one[:0] for one in rows))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        RLS().fit(X, y).partial_fit(X[:2], y[:1])
    with pytest.raises(ValueError, match="NaN"):
        RLS().fit(X, y).partial_fit(X[:1], np.array([np.nan]))
    with pytest.raises(ValueError, match="none of the classes"):
        RLSClassifier().fit(X, classes).partial_fit(X[:1], np.array([7]))


def test_texts_as_numbers_to_predict_lead_to_a_classifier() -> None:
    with pytest.raises(ValueError, match="RLS: expected numbers in y; labels need a classifier"):
        RLS().fit(np.eye(4), ["a", "b"] * 2)
