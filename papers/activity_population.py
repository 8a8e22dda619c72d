"""Activities of an unknown person with a shared, frozen map and a gated head of the person's own, labels 20 s late.

    python -m papers activity_population [--quick]

The protocol of `activity` (one person left out, recordings shuffled, 3 shuffles) on rich statistics, one arm mirrored.
Scale, map and the population's head learn from everybody else and stand still; a person's state is the head alone.
Prints every way beside its controls, the bars each figure is measured against, the state a person takes and the time.
"""

from collections.abc import Callable
from functools import partial

import numpy as np

from papers import recordings
from papers.common import options
from papers.gated_streams import HEAD, MAPS, costs, way
from streamjobs.fit.evaluation import Runs, by_person, leave_one_out, table
from streamjobs.fit.learning import Way
from streamjobs.fit.recordings import Recordings

SETS: dict[str, Callable[[], Recordings]] = {
    "watch": partial(recordings.watch, "rich", mirrored=True),
    "phone": partial(recordings.phone, "rich"),
}
COLD = way("linear, cold, population's scale", "linear", "cold", smooth=0.0)
FROZEN, GATED = way("ald 300, frozen", "ald 300", "frozen"), way("ald 300, gated", "ald 300")
SMALL = way("ald 100, gated", "ald 100")
OKFEB = way("okfeb r 50 B 100, frozen", "okfeb r 50 B 100", "frozen")
QUICK = [COLD, FROZEN, GATED]
ALL = [
    COLD,
    way("linear, frozen", "linear", "frozen"),
    way("linear, gated", "linear"),
    way("ald 300, frozen, not smoothed", "ald 300", "frozen", smooth=0.0),
    FROZEN,
    way("ald 300, adapted without gate", "ald 300", "adapted"),
    GATED,
    way("ald 100, frozen", "ald 100", "frozen"),
    SMALL,
    way("random 300, frozen", "random 300", "frozen"),
    way("random 300, gated", "random 300"),
    OKFEB,
    way("okfeb r 50 B 100, gated", "okfeb r 50 B 100"),
]
# What is said, of which way, which figure, its bar on the watch and on the phone.
BARS: list[tuple[str, Way, str, float, float]] = [
    ("all", GATED, "all", 0.895, 0.945),
    ("second half", GATED, "half", 0.885, 0.955),
    ("macro F1", GATED, "f1", 0.90, 0.94),
    ("fresh, second half", GATED, "fresh_half", 0.88, 0.915),
    ("worst person, second half", GATED, "worst", 0.74, 0.85),
    ("over the frozen map, second half", GATED, "over", -0.015, 0.045),
    ("cold, population's scale, all", COLD, "all", 0.59, 0.86),
    ("cold, population's scale, second half", COLD, "half", 0.71, 0.92),
    ("budget 100, all", SMALL, "all", 0.875, 0.94),
    ("okfeb head r 50 B 100 frozen, all", OKFEB, "all", 0.87, 0.865),
]


def figure(runs: Runs, way: Way, what: str) -> float:
    """Mean of the people, or the worst of them, or what adaptation adds to the frozen map."""
    if what == "worst":
        return float(by_person(runs, way.name, "half").min())
    if what == "over":
        return float(by_person(runs, way.name, "half").mean() - by_person(runs, FROZEN.name, "half").mean())
    return float(np.nanmean(by_person(runs, way.name, what)))


def bars(title: str, runs: Runs) -> str:
    """Every bar beside what was measured."""
    lines = [f"{title}: bars"]
    for said, one, what, on_watch, on_phone in BARS:
        if one.name not in runs:
            continue
        bar, got = on_phone if title == "phone" else on_watch, figure(runs, one, what)
        lines.append(f"  {said:38} at least {bar:6.3f}   got {got:6.3f}   {'holds' if got >= bar else 'MISSED'}")
    return "\n".join(lines)


def sizes(data: Recordings, names: list[str]) -> str:
    """State of a person, of the population that all share, and the time each takes."""
    lines = ["state of a person; shared by all; time"]
    dim, classes = data.X.shape[1], len(data.names)
    for name in names:
        mapping = MAPS[name]
        width = dim if mapping is None else mapping.width
        own = HEAD.state_bytes(width, classes)
        frozen = 8 * (width + 1) * classes
        shared = 0 if mapping is None else mapping.state_bytes(dim, 0)
        part = f"({frozen / 1024:.0f} of it the population's weights)"
        lines.append(f"  {name:18} {own / 1024:6.0f} KiB {part}; {shared / 1024:.0f} KiB")
    lines += [f"  {what:54} {taken:7.1f} us" for what, taken in costs(data, names).items()]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    given = options("activity_population", __doc__, arguments, quick="the watch only, fewer ways")
    for title, load in SETS.items():
        if given.quick and title != "watch":
            continue
        data = load()
        runs = leave_one_out(data, QUICK if given.quick else ALL)
        maps = ["linear", "ald 300"] if given.quick else list(MAPS)
        print(table(title, data, runs), bars(title, runs), sizes(data, maps), sep="\n", flush=True)
    return 0
