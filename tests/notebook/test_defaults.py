"""What users of scikit-learn and river expect: defaults that beat the mean, names of kernels, probabilities."""

import re
from pathlib import Path

import numpy as np
import pytest
from river import evaluate, metrics
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel

from algorithms import SettingError
from algorithms.common.kernels import value
from streamjobs import river, sklearn
from streamjobs.estimators.catalogue import make_learner

NEEDS = ("Chain", "SPEED", "SparseSPEED")  # settings without a default
REGRESSORS = [name for name, one in sklearn.ESTIMATORS.items() if one._entry.task == "regression" and name not in NEEDS]


@pytest.mark.parametrize("shift", [11, pytest.param(12, marks=pytest.mark.long)])
def test_no_regressor_loses_to_the_mean_on_standardised_data(shift: int) -> None:
    """Noisy data that chose no default: a curve in three of five columns."""
    random = np.random.default_rng(shift)
    X = random.normal(size=(800, 5))
    y = X[:, 0] + np.sin(2.0 * X[:, 1]) * 0.7 - 0.5 * X[:, 2] + 1.0 * random.normal(size=800)
    y = (y - y[:500].mean()) / y[:500].std()
    lost = {}
    for name in REGRESSORS:
        score = sklearn.ESTIMATORS[name]().fit(X[:500], y[:500]).score(X[500:], y[500:])
        if not score > 0.0:
            lost[name] = score
    lost.pop("BOGDRegressor", None)  # it drops stored rows at random: noisy targets cost it most, as the page says
    assert lost == {}


@pytest.mark.parametrize("name", ["RLS", "NLMS", "ExRLS"])
def test_a_target_with_a_mean_needs_no_setting(name: str) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 3))
    y = X @ [1.0, 2.0, 3.0] + 40.0 + 0.1 * random.normal(size=400)
    assert getattr(sklearn, name)().fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9


def test_kernels_by_the_names_of_scikit_learn_are_its_kernels() -> None:
    random = np.random.default_rng(1)
    a, b = random.normal(size=(2, 4))
    entry = sklearn.KRLS._entry

    def ours(kernel: object) -> float:
        return value(make_learner(entry, {"kernel": kernel}).kernel.code, a, b)  # type: ignore[attr-defined]

    assert ours({"name": "rbf", "gamma": 0.3}) == pytest.approx(rbf_kernel([a], [b], gamma=0.3)[0, 0])
    poly = polynomial_kernel([a], [b], degree=3, gamma=0.4, coef0=2.0)[0, 0]
    assert ours({"name": "poly", "gamma": 0.4, "coef0": 2.0}) == pytest.approx(poly)
    assert ours("rbf") == ours("gaussian") and ours("linear") == pytest.approx(a @ b) and ours("laplacian") > 0
    with pytest.raises(SettingError, match="gamma must be a number above 0; got 'scale'"):
        ours({"name": "rbf", "gamma": "scale"})
    with pytest.raises(SettingError, match="name must be one of gaussian"):
        ours("cosine")


@pytest.mark.parametrize(
    ("name", "settings"), [("Logistic", {}), ("FOGD", {"loss": "logistic"}), ("KOGD", {"loss": "logistic"})]
)
def test_probabilities_are_better_than_the_shares_of_the_classes(name: str, settings: dict) -> None:
    random = np.random.default_rng(2)
    X = random.normal(size=(1500, 3))
    y = (random.uniform(size=1500) < 1.0 / (1.0 + np.exp(-1.5 * X[:, 0]))).astype(int)
    model = getattr(sklearn, name)(**settings).fit(X[:1000], y[:1000])
    found = model.predict_proba(X[1000:])
    assert found.shape == (500, 2) and np.allclose(found.sum(axis=1), 1.0)
    assert (model.classes_[found.argmax(axis=1)] == model.predict(X[1000:])).all()
    assert log_loss(y[1000:], found) < log_loss(y[1000:], np.tile(np.bincount(y[:1000]) / 1000, (500, 1)))


@pytest.mark.parametrize("name", ["FOGD", "RLSClassifier", "BPAS"])
def test_scores_that_are_no_probabilities_have_no_predict_proba(name: str) -> None:
    assert not hasattr(getattr(sklearn, name)(), "predict_proba")


@pytest.mark.parametrize("name", ["Logistic", "RLSClassifier", "BPAS", "FOGD"])
def test_rocauc_of_river_works_and_shows_what_was_learned(name: str) -> None:
    random = np.random.default_rng(3)
    X = random.normal(size=(600, 2))
    stream = [
        ({"a": a, "b": b}, bool(a + b + 0.5 * noise > 0)) for (a, b), noise in zip(X, random.normal(size=600), strict=True)
    ]
    model = getattr(river, name)()
    assert model.predict_proba_one({"a": 0.0}) == {}
    assert evaluate.progressive_val_score(stream, model, metrics.ROCAUC()).get() > 0.8
    shares = model.predict_proba_one({"a": 1.0, "b": 1.0})
    assert sum(shares.values()) == pytest.approx(1.0) and max(shares, key=shares.__getitem__) is True


def test_the_notebook_names_every_package_that_it_imports() -> None:
    """Run from its own install line: what it imports is streamjobs, an extra of that line, or what the extra brings."""
    root = Path(__file__).resolve().parents[2]
    text = (root / "examples" / "first_job.ipynb").read_text()
    extras = set(re.search(r"pip install -e '\.\[([a-z,]+)\]'", text)[1].split(","))  # type: ignore[index]
    imported = set(re.findall(r'"(?:import|from) (\w+)', text)) | ({"matplotlib"} if "%matplotlib" in text else set())
    needs = {"pandas": "pandas", "matplotlib": "plots", "sklearn": "sklearn", "river": "river", "streamjobs": ""}
    assert {needs[name] for name in imported} - {""} <= extras
    assert "ipykernel" in text
