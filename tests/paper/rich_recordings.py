"""The two sets of recordings with rich statistics; the watch with one arm mirrored."""

import numpy as np

from streamjobs.core.windows import Windows
from tests.data import dataset
from tests.paper.recordings import Recordings

RICH = Windows(length=2.0, hop=1.0, rate=50.0, statistics="rich")
MIRRORED = (0, 4, 5)  # ax, wy, wz change their sign on one side


def watch(mirrored: bool = True) -> Recordings:
    """Wrist: acceleration and turning rate; 10 people, 7 exercises, each once per arm."""
    data = dataset("seglearn_watch")
    signal = data["X"].astype(float)
    if mirrored:
        signal[np.ix_(np.flatnonzero(data["side"] == 1), MIRRORED)] *= -1.0
    return _windows(signal, data)


def phone() -> Recordings:
    """Pocket: acceleration with gravity, and turning rate; 8 people, 6 activities."""
    data = dataset("motionsense_8")
    X, columns = data["X"].astype(float), [str(name) for name in data["columns"]]
    axes = {part: [i for i, name in enumerate(columns) if name.startswith(part)] for part in ("gravity", "rot", "user")}
    return _windows(np.hstack([X[:, axes["gravity"]] + X[:, axes["user"]], X[:, axes["rot"]]]), data)


def _windows(signal, data) -> Recordings:
    person, n = data["key"].astype(np.int64), len(signal)
    ids = person * 1000 + data["seg"]
    _, first, slots = np.unique(ids, return_index=True, return_inverse=True)
    start = RICH.init(signal.shape[1], 1)
    work = RICH.workspace(start, slots=len(first))
    for slot in range(len(first)):  # a recording is a key: its windows are its own
        RICH.load(work, slot, start)
    codes = data["y"].astype(float).reshape(n, 1)
    rows = RICH.advance(work, slots, data["t"], signal, codes, np.arange(n), np.full(n, 3, np.int8))
    names = [str(name) for name in data["y_labels"]]
    return Recordings(rows.X, rows.L[:, 0].astype(np.int64), person[rows.owner], ids[rows.owner], names)
