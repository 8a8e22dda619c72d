"""What a replay came to: its figures, and sentences about results that should not be trusted."""

from collections.abc import Iterator
from typing import Any

from streamjobs.core.job import Job
from streamjobs.replay.engine import Tally
from streamjobs.replay.progress import rmse

KEYS_OF_ONE = 20  # records; where as many have a key each of its own, the key is probably a mistake


def summary_of(task: str, tally: Tally, seconds: float) -> dict[str, Any]:
    """The result, ready for JSON; `rmse` is None for a classification, `wrong` for a regression."""
    regression = task == "regression"
    return {
        "records": tally.records,
        "samples": tally.samples,
        "rows": tally.rows,
        "keys": tally.keys,
        "ls_error": tally.ls_error_sum / tally.ls_errors if tally.ls_errors else None,
        "labels": tally.labels,
        "wrong": None if regression else tally.wrong,
        "rmse": rmse(tally.squared, tally.measured) if regression and tally.measured else None,
        "unknown": None if regression else tally.unknown,
        "numbers_filled": tally.filled,
        "lacking": dict(tally.taken.lacking.most_common()),
        "targets_clipped": tally.targets_clipped if regression else None,
        "drift_events": tally.drift_events,
        "dead_lettered": dict(tally.dead_lettered),
        "skipped": dict(tally.skipped),
        "seconds": round(seconds, 3),
        "samples_per_second": round(tally.samples / max(seconds, 1e-9)),
    }


def nothing_learned(job: Job, tally: Tally, errors: list[str]) -> str | None:
    """A sentence where records came and no row was made; None otherwise."""
    taken = tally.taken
    if taken.rows or not taken.records:
        return None
    if sentence := taken.nothing_learned(errors[0] if errors else ""):
        return sentence
    windows = job.composition.windows
    if windows is None:
        return f"nothing was learned: {taken.samples:,} samples still wait to be sorted by time; check [source] lateness."
    return (
        f"nothing was learned: {taken.samples:,} samples of {tally.keys:,} keys filled no window. A key needs 80 % of "
        f"{windows.nominal} samples within {windows.length:g} s; check which column is the key and which the time, and "
        "[window] length and rate."
    )


def cautions(tally: Tally, errors: list[str]) -> Iterator[str]:
    """What a result that was learned from should not be trusted for."""
    taken = tally.taken
    if taken.mostly_dead and taken.rows:
        dead = taken.dead_lettered.total()
        yield f"{dead:,} of {taken.records:,} records became dead letters, more than half. The first: {errors[0]}"
    for one in taken.much_skipped() if taken.rows else ():
        yield f"{one.percent:g} % of the {one.unit} are skipped as {one.reason}: {one.advice}."
    if tally.keys == taken.samples >= KEYS_OF_ONE and taken.rows:
        yield f"each of the {taken.samples:,} samples has a key of its own, so no key learned a second row; check the key."
