"""Two sets of recordings of people doing things, as windows: what the activity figures are measured on."""

import numpy as np

from streamjobs.fit.recordings import Recordings
from streamjobs.stages.windows import Windows
from tests.core.driving import fresh
from tests.data import dataset

MIRRORED = (0, 4, 5)  # ax, wy, wz change their sign on one arm


def watch(
    statistics: str = "simple", mirrored: bool = False, turned: bool = False, even: bool = False, convolutions: int = 0
) -> Recordings:
    """Wrist: acceleration and turning rate; 10 people, 7 exercises, each once per arm.

    mirrored: one arm as the other; turned: every person wears the sensor turned round by chance; even: as of `phone`.
    """
    data = dataset("seglearn_watch")
    X = data["X"].astype(float)
    if mirrored:
        X[np.ix_(data["side"] == 1, MIRRORED)] *= -1.0
    if turned:
        _turn(X, data["key"])
    t = _times(data, even)
    return _windows(X, t, data["y"], data["key"], data["seg"], data["y_labels"], statistics, convolutions=convolutions)


def phone(statistics: str = "simple", turned: bool = False, even: bool = False, convolutions: int = 0) -> Recordings:
    """Pocket: acceleration with gravity, and turning rate; 8 people, 6 activities.

    even: every recording's times begin at 0. The set's own are rounded so that in a few windows a sample at the edge
    falls to the window before.
    """
    data = dataset("motionsense_8")
    signal = phone_signal(data)
    if turned:
        _turn(signal, data["key"])
    t = _times(data, even)
    return _windows(signal, t, data["y"], data["key"], data["seg"], data["y_labels"], statistics, convolutions=convolutions)


def daily(statistics: str = "rich", convolutions: int = 0) -> Recordings:
    """Another watch at 20 Hz: 8 people and 18 activities of the day, one recording each, cut into parts of 60 s."""
    data = dataset("wisdm51_watch")
    t, person, y = data["t"].astype(float), data["key"].astype(np.int64), data["y"].astype(np.int64)
    cut = np.r_[True, (np.diff(person) != 0) | (np.diff(y) != 0) | (np.abs(np.diff(t)) > 10)]
    begins = np.maximum.accumulate(np.where(cut, np.arange(len(y)), 0))
    cut |= (np.arange(len(y)) - begins) % 1200 == 0
    names, codes = np.unique(y, return_inverse=True)
    X = data["X"].astype(float)
    return _windows(X, t, codes, person, np.cumsum(cut) - 1, names, statistics, rate=20.0, convolutions=convolutions)


def _times(data, even: bool) -> np.ndarray:
    """The set's own, or those of samples at 50 Hz from the beginning of each recording, which stand together."""
    if not even:
        return data["t"]
    ids = data["key"].astype(np.int64) * 1000 + data["seg"]
    begins = np.flatnonzero(np.r_[True, np.diff(ids) != 0])
    return (np.arange(len(ids)) - np.repeat(begins, np.diff(np.r_[begins, len(ids)]))) / 50.0


def phone_signal(data) -> np.ndarray:
    """The phone's acceleration with gravity, and its turning rate (n, 6)."""
    X, columns = data["X"].astype(float), list(data["columns"])
    axes = {part: [i for i, name in enumerate(columns) if name.startswith(part)] for part in ("gravity", "rot", "user")}
    return np.hstack([X[:, axes["gravity"]] + X[:, axes["user"]], X[:, axes["rot"]]])


def _turn(X, person) -> None:
    """Both sensors of a person by the same rotation, drawn from the person's number."""
    for one in np.unique(person):
        q, r = np.linalg.qr(np.random.default_rng([2, int(one)]).normal(size=(3, 3)))
        q *= np.sign(np.diag(r))
        q *= np.linalg.det(q)
        mine = person == one
        X[mine] = np.hstack([X[mine, :3] @ q, X[mine, 3:] @ q])


def _windows(X, t, y, person, part, names, statistics, rate=50.0, convolutions=0) -> Recordings:
    """convolutions: above 0, windows have their samples behind the statistics, as a job's have before `fit`."""
    ids = person.astype(np.int64) * 1000 + part
    _, first, slots = np.unique(ids, return_index=True, return_inverse=True)
    stage, n = Windows(length=2.0, hop=1.0, rate=rate, statistics=statistics, convolutions=convolutions), len(X)
    start = fresh(stage, X.shape[1], 1)
    work = stage.workspace(start, slots=len(first))
    for slot in range(len(first)):  # a recording is a key: its windows are its own
        stage.load(work, slot, start)
    codes = y.astype(float).reshape(n, 1)
    rows = stage.advance(work, slots, t, X, codes, np.arange(n), np.full(n, 3, np.int8))
    owner = rows.owner
    return Recordings(
        rows.X, rows.L[:, 0].astype(np.int64), person[owner].astype(np.int64), ids[owner], [str(x) for x in names]
    )
