"""The models of streamjobs.river are river's: they pass its own checks, and their numbers are the learner's."""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas
import pytest
from river import compose, metrics, preprocessing
from river.checks import yield_checks

from algorithms import LEARNERS, learner_from
from algorithms.drift.report import watches_columns
from streamjobs import Job
from streamjobs import river as ours
from streamjobs.estimators.catalogue import LEFT_OUT
from streamjobs.learner_checks.states import same_state
from streamjobs.river import BPAS, PageHinkley, RLSClassifier
from tests.notebook.small import small_settings

USUAL = ("OKFEB", "RLS", "BPAS", "Chain")
CHECKED = [title for title, cls in ours.MODELS.items() if cls._entry.task != "drift"]


def parameters() -> Iterator[Any]:
    for title in CHECKED:
        yield pytest.param(title, marks=() if title in USUAL else pytest.mark.long)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("title", list(parameters()))
def test_a_model_passes_every_check_of_river(title: str) -> None:
    cls = ours.MODELS[title]
    model = cls(**small_settings(cls._entry))
    problems, count = [], 0
    for check in yield_checks(model):
        count += 1
        try:
            check(model.clone())
        except Exception as problem:  # noqa: BLE001 - whatever a check raises is its finding
            problems.append(f"{check.__name__}: {problem!r}"[:300])
    assert not problems
    assert count > 20


def test_every_learner_has_a_model() -> None:
    there = {cls._entry.learner for cls in ours.MODELS.values()}
    charts = {name for name, cls in LEARNERS.items() if watches_columns(cls)}  # river's detectors watch a number
    assert set(LEARNERS) - there == {*LEFT_OUT, *charts}


@pytest.mark.parametrize("title", CHECKED)
def test_the_parameters_of_river_s_own_checks_make_a_learner(title: str) -> None:
    cls = ours.MODELS[title]
    for parameters in cls._unit_test_params():
        assert cls(**parameters).learner.name == cls._entry.learner


def stream(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(6).normal(size=(n, 3))
    return X, X @ [1.0, -2.0, 0.5]


@pytest.mark.parametrize("title", ["OKFEB", "RLS", "KRLS", "KLMS", "SPEED", "Chain"])
def test_one_row_at_a_time_and_many_are_the_learners_bits(title: str) -> None:
    cls = ours.MODELS[title]
    settings = small_settings(cls._entry)
    X, y = stream()
    learner = cls(**settings).learner
    begun = learner.init(dim=3, targets=1, seed=0)
    _, out = learner.run(begun, X, None if cls._entry.task == "features" else y.reshape(-1, 1))
    one, many = cls(**settings), cls(**settings)
    for n, row in enumerate(X):
        x = dict(zip("abc", row.tolist(), strict=True))
        if cls._entry.task == "features":
            said = list(one.transform_one(x).values())
            assert said == (out.features[n].tolist() if np.isfinite(out.features[n]).all() else [])
            one.learn_one(x)
        else:
            expected = out.prediction[n, 0]
            assert one.predict_one(x) == (expected if np.isfinite(expected) else 0.0)
            one.learn_one(x, y[n])
    frame = pandas.DataFrame(X, columns=list("abc"))
    for rows in np.split(np.arange(len(X)), [1, 70]):
        many.learn_many(frame.iloc[rows], *(() if cls._entry.task == "features" else (pandas.Series(y[rows]),)))
    same_state(one.state, many.state, "row by row and in pieces")


def test_labels_may_come_as_they_like_up_to_the_most() -> None:
    model = RLSClassifier(max_classes=2, intercept=True)
    assert model.predict_one({"a": 1.0}) is None
    for n in range(50):
        model.learn_one({"a": float(n % 2)}, "odd" if n % 2 else "even")
    assert (model.predict_one({"a": 1.0}), model.predict_one({"a": 0.0})) == ("odd", "even")
    with pytest.raises(ValueError, match=r"the label 'third' is one more than max_classes \(2\); set it higher"):
        model.learn_one({"a": 2.0}, "third")


@pytest.mark.parametrize(
    ("x", "said"),
    [
        ({"a": None, "b": 1.0}, "RLSClassifier: column 'a': expected a number, got None."),
        (pandas.DataFrame({"a": [1.0, 2.0], "b": [2.0, "n/a"]}), "RLSClassifier: column 'b': expected a number, got 'n/a'."),
        ([1.0, 2.0], "RLSClassifier: expected a row as a dict of numbers by name, got list."),
    ],
)
def test_a_row_that_is_not_of_numbers_is_named_with_its_column(x: Any, said: str) -> None:
    model = RLSClassifier()
    model.learn_one({"a": 1.0, "b": 2.0}, "even")
    with pytest.raises((TypeError, ValueError), match=f"^{re.escape(said)}$"):
        model.learn_many(x, pandas.Series(["even", "odd"])) if hasattr(x, "columns") else model.learn_one(x, "odd")
    with pytest.raises(ValueError, match="PageHinkley: expected a number, got 'x'"):
        PageHinkley().update("x")


def test_a_row_with_nan_has_no_prediction_and_takes_none_from_others() -> None:
    X, y = stream()
    table, labels = pandas.DataFrame(X[:, :2], columns=["a", "b"]), pandas.Series(np.where(y > 0, "up", "down"))
    number, label, features = ours.RLS(), RLSClassifier(), ours.OKFEB(rank=3, budget=20)
    assert number.predict_one({"a": np.nan, "b": 1.0}) == 0.0  # as of any row before the first is learned
    number.learn_many(table, pandas.Series(y))
    label.learn_many(table, labels.tolist())
    features.learn_many(table)
    some = table[:3].copy()
    some.iloc[1, 0] = np.nan
    assert np.isnan(number.predict_one(some.iloc[1].to_dict()))
    assert label.predict_one(some.iloc[1].to_dict()) is None
    for model, nothing in ((number.predict_many, np.isnan), (label.predict_many, lambda one: one is None)):
        every, with_gap = model(table[:3]).tolist(), model(some).tolist()
        assert nothing(with_gap[1]) and [with_gap[0], with_gap[2]] == [every[0], every[2]]
    assert features.transform_many(some).notna().all(axis=1).tolist() == [True, False, True]
    for missing in (None, np.nan, pandas.NA, pandas.NaT):
        with pytest.raises(ValueError, match="RLSClassifier: expected a label, got"):
            label.learn_one({"a": 1.0, "b": 2.0}, missing)


def test_a_pipeline_of_river_learns() -> None:
    X, y = stream(600)
    model = compose.Pipeline(preprocessing.StandardScaler(), BPAS(budget=30))
    right = metrics.Accuracy()
    for row, label in zip(X, y > 0, strict=True):
        x = dict(zip("abc", row.tolist(), strict=True))
        if (said := model.predict_one(x)) is not None:
            right.update(bool(label), said)
        model.learn_one(x, bool(label))
    assert right.get() > 0.8


def test_a_job_has_the_scores_of_the_model_it_was_written_from() -> None:
    X, y = stream(200)
    table = pandas.DataFrame(X, columns=list("abc")).assign(label=np.where(y > 0, "up", "down"))
    extractor, head = {"name": "okfeb", "rank": 5, "budget": 20}, {"name": "rls", "intercept": True}
    source = {"fields": list("abc"), "label": "label"}
    sections = {"source": source, "scaling": {"method": "none"}, "learner": extractor}
    job = Job(sections | {"head": head | {"task": "classification"}})
    model, scores = ours.ChainClassifier(extractor=extractor, head=head), []
    for x, label in zip(table[list("abc")].to_dict("records"), table["label"], strict=True):
        scores.append(max(model.scores_one(x).values(), default=None))
        model.learn_one(x, label)
    assert job.replay(table, key_is="p").predictions["score"].tolist()[25:] == scores[25:]


def test_a_detector_says_what_the_learner_says() -> None:
    values = np.concatenate([np.full(200, 0.1), np.full(100, 0.7)]) + 0.01 * np.random.default_rng(1).random(300)
    learner = learner_from("page_hinkley", {})
    _, out = learner.run(learner.init(dim=1, targets=0, seed=0), values.reshape(-1, 1))
    detector, alarms = PageHinkley(), []
    for value in values.tolist():
        detector.update(value)
        alarms.append(detector.drift_detected)
    assert alarms == (out.features[:, 1] > 0).tolist() and sum(alarms) == 1
