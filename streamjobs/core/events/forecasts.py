"""Forecasts as records, and how good they were."""

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from algorithms.forecast.table import DUE, FIRST_INTERVAL, HIGH, LOW, NAIVE, RATIO, VALUE
from streamjobs.core.job import Job
from streamjobs.core.messages import Output, Record, Report
from streamjobs.core.output_records import Ahead, Forecast, Interval, encoded, output_headers
from streamjobs.stages.events.forecasts import JUDGED, ForecastsState
from streamjobs.stages.rows import Modelled, Rows

MOST_SHOWN = 120  # rows before, and rows to come, of an outlook
MOST_COLUMNS = 6  # of it


def encoded_forecasts(
    job: Job, records: Sequence[Record], texts: Sequence[str], rows: Rows, made: Modelled, report: Report
) -> list[Output]:
    """A record for each row; counts in the report what was forecast for these rows."""
    stage, table = job.steps.forecasts, made.forecasts
    assert stage is not None and table is not None
    assert job.forecast_plan is not None
    columns, aheads, coverage = job.forecast_plan
    _count(columns, aheads, stage.judged(table), report)
    forecasts = []
    for time, of_row in zip(rows.times.tolist(), table.tolist(), strict=True):
        of_columns = []
        for column, of_column in zip(columns, of_row, strict=True):
            for ahead, one in zip(aheads, of_column, strict=True):
                bounds = [
                    Interval(share, one[at + LOW], one[at + HIGH])
                    for share, at in zip(coverage, range(FIRST_INTERVAL, len(one), 3), strict=True)
                ]
                due = time + ahead * stage.every if stage.every else None
                of_columns.append(Ahead(column, ahead, due, one[VALUE], one[NAIVE], one[RATIO], one[DUE], bounds))
        forecasts.append(of_columns)
    values = encoded(Forecast, texts, rows.times.tolist(), made.seq.tolist(), forecasts)
    keys = [records[owner].key for owner in rows.owner.tolist()]
    stamps = np.rint(rows.times * 1000.0).astype(np.int64).tolist()
    headers = output_headers("forecasts", made.ids)
    return list(map(Output, repeat("forecasts"), keys, values, stamps, headers))


def outlook(job: Job, state: ForecastsState) -> dict[str, Any]:
    """What a key's state foresees: by column its newest values and the rows to come, for JSON; NaN where there is none.

    At most MOST_COLUMNS, of the `fields` that are forecast.
    """
    stage, plan = job.steps.forecasts, job.forecast_plan
    assert stage is not None and plan is not None
    columns, _, coverage = plan
    values, rows, table = stage.learner.outlook(state.learner, MOST_SHOWN)
    return {
        "every": stage.every or None,
        "newest": state.clock.newest if stage.every else None,
        "fields": len(columns),
        "coverage": list(coverage),
        "rows": rows.tolist(),
        "columns": [
            {
                "column": column,
                "values": values[at].tolist(),
                "forecast": table[at, :, 0].tolist(),
                "low": table[at, :, 1::2].T.tolist(),
                "high": table[at, :, 2::2].T.tolist(),
            }
            for at, column in enumerate(columns[:MOST_COLUMNS])
        ],
    }


def _count(columns: Sequence[str], aheads: Sequence[int], sums: Array, report: Report) -> None:
    for column, of_column in zip(columns, sums.tolist(), strict=True):
        for ahead, figures in zip(aheads, of_column, strict=True):
            if figures[JUDGED]:
                name = f"{column} {ahead}"
                before = report.forecasts.get(name)
                report.forecasts[name] = [a + b for a, b in zip(before, figures, strict=True)] if before else figures
