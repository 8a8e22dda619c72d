"""Units: columns in another power of two give the same alarms, and the same forecasts in that unit, bit for bit."""

from typing import Any

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.common.protocol import Array
from algorithms.drift.report import ALARM, FIRST_COLUMN, OF_COLUMN, SPREAD, USUAL
from algorithms.forecast.forecast import Forecast
from algorithms.forecast.table import DUE, DUE_NAIVE, FIRST_INTERVAL, INSIDE, NAIVE, RATIO, VALUE

POWERS = (-100, 100)


def stream(n: int = 1300) -> Array:
    """Two columns that change, the second quantised."""
    X = 5.0 + np.random.default_rng(0).normal(size=(n, 2))
    X[900:, 0] += 6.0
    X[:, 1] = np.round(2.0 * X[:, 1]) / 2.0
    return X


def features(name: str, settings: dict[str, Any], X: Array) -> Array:
    learner = learner_from(name, settings)
    return learner.run(learner.init(dim=X.shape[1], targets=0, seed=1), X)[1].features


@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("column_chart", {"learn": 300}),
        ("column_charts", {"learn": 300}),
        ("reference_chart", {"rows": 400}),
        ("glr_chart", {}),
        ("innovations", {}),
        ("scaling", {}),
    ],
)
def test_alarms_and_scaled_rows_do_not_depend_on_units(name: str, settings: dict[str, Any], power: int) -> None:
    X = stream()
    plain, other = (features(name, settings, np.ldexp(X, p)) for p in (0, power))
    in_units = [name == "innovations" and column >= 2 for column in range(plain.shape[1])]
    if plain.shape[1] > FIRST_COLUMN:
        assert (plain[900:, ALARM] == 1).any()
        at = range(FIRST_COLUMN, plain.shape[1], OF_COLUMN)
        in_units = [
            column in {place + field for place in at for field in (USUAL, SPREAD)} for column in range(plain.shape[1])
        ]
    other[:, in_units] = np.ldexp(other[:, in_units], -power)
    np.testing.assert_array_equal(other, plain)


@pytest.mark.parametrize("power", POWERS)
def test_forecasts_are_those_of_other_units(power: int) -> None:
    learner, X = Forecast(), stream(500)[:, :1]
    tables = []
    for p in (0, power):
        _, out = learner.run(learner.init(dim=1, targets=0, seed=0), np.ldexp(X, p))
        table = learner.table(out.features, 1)
        without_unit = [RATIO, *range(FIRST_INTERVAL + INSIDE, table.shape[3], 3)]
        in_unit = [field for field in range(table.shape[3]) if field not in without_unit]
        table[..., in_unit] = np.ldexp(table[..., in_unit], -p)
        tables.append(table)
    assert np.isfinite(tables[0][-1, 0, 0, [VALUE, NAIVE, DUE, DUE_NAIVE]]).all()
    np.testing.assert_array_equal(*tables)
