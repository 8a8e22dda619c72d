"""PROS-N-KONS, which only the papers run: it agrees with whole matrices, and passes the checks of learners."""

from typing import Any

import numpy as np
import pytest

from algorithms.common.kernels import Kernel
from algorithms.common.settings import build
from papers.batch.pros_n_kons import ProsNKons
from streamjobs.learner_checks.case import Case, easy
from streamjobs.learner_checks.suite import CHECKS
from tests.reference import sketching as slow

EXAMPLES = [
    ({"budget": 8, "ridge": 0.1, "kernel": {"name": "laplacian", "bandwidth": 2.0}}, 3),
    ({"budget": 10, "loss": "squared", "curvature": 0.01, "ridge": 0.1}, 2),
    ({}, 1),
]


def made(settings: dict[str, Any]) -> ProsNKons:
    learner = build("pros_n_kons", ProsNKons, settings, lambda own: Kernel(**own))
    assert isinstance(learner, ProsNKons)
    return learner


def test_it_agrees_with_the_slow_reference() -> None:
    settings = {"budget": 12, "ridge": 0.5, "curvature": 0.2, "kernel": {"name": "gaussian", "bandwidth": 1.0}}
    X, Y = easy("classification", 80, 3, 1, "signs", 1)
    learner = made(settings)
    _, out = learner.run(learner.init(dim=3, targets=1, seed=0), X, Y)
    expected = slow.pros_n_kons(X, Y, **settings)["prediction"]
    np.testing.assert_allclose(out.prediction, expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize(("settings", "targets"), EXAMPLES)
def test_it_passes_the_checks_of_learners(settings: dict[str, Any], targets: int, check: str) -> None:
    CHECKS[check](Case("pros_n_kons", made(settings), settings, targets=targets))
