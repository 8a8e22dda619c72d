"""What exactly_once costs beside at_least_once: a backlog, and latency for a reader of committed records, in one run."""

from typing import Any

RUN = ("-m", "streamjobs", "run")
RATE = 2000  # records a second, for latency
PAUSES = ("1s", "100ms")  # between checkpoints


def both_guarantees(bench: Any) -> dict:
    """bench: a `tests.bench.worker.Bench`. Backlogs are timed by committed input, as outputs count from then on."""
    from tests.bench.worker import FULL, singles

    count, results = bench.count(300_000), {}
    for guarantee in ("at_least_once", "exactly_once"):
        sections = {**FULL, "job": {"guarantee": guarantee}}
        results[guarantee] = bench.backlog(guarantee, singles(count), count, RUN, by_commits=True, **sections)
    ratio = results["exactly_once"]["records/s"] / results["at_least_once"]["records/s"]
    print(f"exactly once: {100 * ratio:.0f} % of the records a second of at least once", flush=True)
    seconds = 3 if bench.quick else 15
    for guarantee, pauses in (("at_least_once", PAUSES[:1]), ("exactly_once", PAUSES)):
        for pause in pauses:
            sections = {"job": {"guarantee": guarantee}, "state": {"checkpoint": pause}}
            pace = f"{guarantee}, a checkpoint every {pause}"
            results[f"{guarantee} {pause}"] = bench.aged(pace, RATE, seconds, linger=5, **sections)
    return results
