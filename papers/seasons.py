"""Forecasts of public series with a season 1, 3 and 12 rows ahead, beside statsforecast's AutoETS.

    pip install -e '.[dev]' 'statsforecast>=2' && python -m papers seasons [--quick]

Monthly series that statsmodels carries, which statsforecast installs: carbon dioxide at Mauna Loa (means of its weeks,
missing months filled linearly) and the sea surface temperature of El Nino; a season has 12 rows. No series chose anything.
Errors are over those of the last value, on rows from JUDGED_FROM on, so that all have five seasons to begin with. AutoETS is
fitted again for each judged row, on all rows before.
It is not part of the project: install it into an environment of its own.

An hourly series that was tried too, river's WaterFlow, is not in the table: with a season of 24 ours was worse than the last
value there, 1.016 / 1.113 / 1.057 (1,268 rows); cautious, 1.003 / 1.032 / 1.061.
"""

import time
import warnings
from importlib.util import find_spec

import numpy as np

from algorithms.common.protocol import Array
from algorithms.forecast.forecast import Forecast
from algorithms.forecast.table import VALUE
from papers.common import line, options

SEASON, JUDGED_FROM = 12, 60
AHEAD = (1, 3, 12)


def series() -> dict[str, Array]:
    from statsmodels.datasets import co2, elnino

    weeks = co2.load_pandas().data["co2"]
    months = weeks.resample("MS").mean().interpolate().to_numpy(float)
    years = elnino.load_pandas().data.drop(columns="YEAR").to_numpy(float)
    return {"carbon dioxide": months, "El Nino": years.ravel()}


def ours(values: Array, season: int) -> Array:
    """Forecasts (n, horizons) made at each row."""
    learner = Forecast(ahead=AHEAD, season=season)
    _, out = learner.run(learner.init(dim=1, targets=0, seed=0), values[:, None])
    return learner.table(out.features, 1)[:, 0, :, VALUE]


def seasonal_naive(values: Array) -> Array:
    made = np.full((len(values), len(AHEAD)), np.nan)
    for k, ahead in enumerate(AHEAD):
        made[SEASON - ahead :, k] = values[: len(values) - SEASON + ahead]
    return made


def auto_ets(values: Array, every: int) -> Array:
    """Forecasts made at rows JUDGED_FROM, JUDGED_FROM + every, ..; NaN elsewhere."""
    from statsforecast.models import AutoETS

    made = np.full((len(values), len(AHEAD)), np.nan)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in range(JUDGED_FROM, len(values), every):
            path = AutoETS(season_length=SEASON).forecast(y=values[: row + 1], h=AHEAD[-1])["mean"]
            made[row] = [path[ahead - 1] for ahead in AHEAD]
    return made


def over_naive(made: Array, values: Array, rows: Array) -> Array:
    """Errors over those of the last value, of forecasts (n, horizons) made at these rows."""
    found = []
    for k, ahead in enumerate(AHEAD):
        at = rows[rows + ahead < len(values)]
        plain = np.abs(values[at + ahead] - values[at]).mean()
        found.append(np.abs(made[at, k] - values[at + ahead]).mean() / plain)
    return np.array(found)


def main(arguments: list[str] | None = None) -> int:
    given = options("seasons", __doc__, arguments, quick="AutoETS at every eleventh row, judged there")
    if not (find_spec("statsmodels") and find_spec("statsforecast")):
        print("seasons: not run; it needs statsforecast: pip install 'statsforecast>=2', in an environment of its own.")
        return 0
    every = SEASON - 1 if given.quick else 1  # not always the same month
    for name, values in series().items():
        rows, begun = np.arange(JUDGED_FROM, len(values), every), time.process_time()
        ets, took = auto_ets(values, every), time.process_time() - begun
        ways = {
            "with its season": ours(values, SEASON),
            "without a season": ours(values, 0),
            "seasonal naive": seasonal_naive(values),
            f"AutoETS, {took:.0f} s of processor": ets,
        }
        for way, made in ways.items():
            errors = over_naive(made, values, rows)
            line(f"{name}, {way}, 1 / 3 / 12 ahead", " ".join(f"{error:.3f}" for error in errors))
    return 0
