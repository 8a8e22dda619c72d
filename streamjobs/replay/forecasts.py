"""How good the forecasts of a replay were, by column and rows ahead."""

from collections.abc import Iterator
from typing import Any

from streamjobs.core.events.forecasts import BOUNDED, ERROR, FIRST_INSIDE, JUDGED, NAIVE_ERROR
from streamjobs.core.job import Job
from streamjobs.replay.engine import Tally


def forecasts_judged(job: Job, tally: Tally) -> list[dict[str, Any]]:
    """Of all keys: rows that were judged, their error over the naive one's (None: that is 0), shares inside intervals."""
    stage = job.steps.forecasts
    assert stage is not None
    judged = []
    for name, figures in tally.forecasts.items():
        column, _, ahead = name.rpartition(" ")
        inside = [count / figures[BOUNDED] if figures[BOUNDED] else None for count in figures[FIRST_INSIDE:]]
        ratio = figures[ERROR] / figures[NAIVE_ERROR] if figures[NAIVE_ERROR] else None
        judged.append(
            {
                "column": column,
                "ahead": int(ahead),
                "rows": int(figures[JUDGED]),
                "error_over_naive": ratio,
                "inside": {f"{share:g}": one for share, one in zip(stage.learner.coverage, inside, strict=True)},
            }
        )
    return judged


def sentences(judged: list[dict[str, Any]]) -> Iterator[str]:
    """A line for each column and number of rows ahead."""
    for one in judged:
        rows = "1 row" if one["ahead"] == 1 else f"{one['ahead']:,} rows"
        naive = "the last value has no error"
        if one["error_over_naive"] is not None:
            naive = f"error {one['error_over_naive']:.3f} of the last value's"
        inside = [f"{share:.1%} inside {float(name):.0%}" for name, share in one["inside"].items() if share is not None]
        yield f"forecasts of {one['column']} {rows} ahead: {one['rows']:,} judged, {', '.join([naive, *inside])}"
