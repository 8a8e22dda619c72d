"""The budgeted learners' figures in short: fewer orders and rows than the scripts budgeted_*.py print."""

import ctypes
import shutil

import numpy as np
import pytest

from papers import budgeted_speed, budgeted_svmguide3, learners_robust

FAMILY = tuple(budgeted_speed.C_LOOPS)


@pytest.mark.parametrize("name", budgeted_svmguide3.TARGETS)
def test_mistakes_on_svmguide3(name: str) -> None:
    """Two of the 20 orders, so within two of their deviations of 1.2."""
    found = budgeted_svmguide3.mistakes(name, trials=2)
    assert np.mean(found) == pytest.approx(budgeted_svmguide3.TARGETS[name], abs=2.4)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    return budgeted_speed.compiled(compiler, tmp_path_factory.mktemp("c"))


@pytest.mark.parametrize("name", FAMILY)
def test_a_plain_c_loop_gives_the_same_scores(name: str, library: ctypes.CDLL) -> None:
    assert budgeted_speed.measured(library, name, rows=600, rounds=0)[2] <= 1e-9


@pytest.mark.parametrize("name", FAMILY)
def test_outliers_and_idle_sensors_leave_states_finite_and_bounded(name: str) -> None:
    wrong, _, _, _ = learners_robust.endured(learners_robust.learners()[name], 20_000)
    assert not wrong
