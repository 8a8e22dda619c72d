"""Speed of the statistics of a window: microseconds a window of six axes, and seconds to load the compiled loop.

    python -m tests.bench statistics

Windows of 100 samples (2 s at 50 Hz), and longer ones. Best of many short runs, in time of this process: other processes
slow it down less than wall time. Target: at most 60 us for the rich set at 100 samples.
"""

import sys
import time

import numpy as np

from streamjobs.stages import statistics

LENGTHS, AXES, RATE, RUNS = (100, 500, 2000), 6, 50.0, 200


def microseconds(kind: str, length: int) -> tuple[float, float]:
    """Best and median time of a window."""
    rng = np.random.default_rng(0)
    many = max(2, 10_000 // length)  # different ones: a sort of the same numbers again and again is guessed right
    windows = np.zeros((many, length + length // 2, AXES))
    windows[:, :length] = np.cumsum(rng.normal(size=(many, length, AXES)), axis=1)
    counts, out = np.full(many, length), np.empty((many, statistics.width(kind, AXES)))
    times = []
    for _ in range(RUNS):
        started = time.process_time()
        statistics.describe(kind, windows, counts, RATE, out)
        times.append((time.process_time() - started) / many * 1e6)
    return min(times), float(np.median(times))


def main(arguments: list[str] | None = None) -> int:
    print(f"{'statistics':12}{'numbers':>8}{'first run':>11}", *(f"{length:>7} samples (median)" for length in LENGTHS))
    for kind in statistics.KINDS:
        empty = np.empty((0, 150, AXES)), np.empty(0, np.int64), RATE, np.empty((0, statistics.width(kind, AXES)))
        started = time.process_time()
        statistics.describe(kind, *empty)
        first = time.process_time() - started
        line = f"{kind:12}{statistics.width(kind, AXES):8}{first:9.2f} s"
        for length in LENGTHS:
            line += "  {:10.1f} us {:9.1f}".format(*microseconds(kind, length))
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
