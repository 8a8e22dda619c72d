"""Makes streamjobs/demo/recordings.npz, the recordings the demo plays.

    python -m tests.golden.make_demo_excerpt

Source: the watch data of the Python package seglearn 1.2.5 (BSD-3-Clause, (c) 2018 David Burns), as seglearn_watch.npz
in the folder STREAMJOBS_DATA names. Ten people do seven shoulder exercises, once with each arm; the excerpt has the
first 20 s of every recording, rounded to 0.001 g and 0.001 rad/s.
"""

from pathlib import Path

import numpy as np

from tests.data import data_folder

TARGET = Path(__file__).resolve().parents[2] / "streamjobs" / "demo" / "recordings.npz"
RATE = 50  # Hz
SECONDS = 20
STEPS_PER_UNIT = 1000
MOST_BYTES = 3_000_000


def main() -> None:
    with np.load(data_folder() / "seglearn_watch.npz", allow_pickle=False) as archive:
        data = {name: archive[name] for name in archive.files}
    firsts = [np.flatnonzero(data["seg"] == seg)[: RATE * SECONDS] for seg in dict.fromkeys(data["seg"].tolist())]
    rows = np.concatenate(firsts)
    steps = np.rint(data["X"][rows] * STEPS_PER_UNIT).astype(np.int16)
    begins = np.cumsum([0, *(len(first) for first in firsts)])
    changes = np.diff(steps, axis=0, prepend=np.int16(0)).T  # small numbers, a column after the other: they pack well
    np.savez_compressed(
        TARGET,
        changes=np.ascontiguousarray(changes),
        begins=begins.astype(np.int32),
        person=data["key"][rows[begins[:-1]]].astype(np.int8),
        exercise=data["y"][rows[begins[:-1]]].astype(np.int8),
        arm=data["side"][rows[begins[:-1]]].astype(np.int8),
        exercises=data["y_labels"],
        columns=data["columns"],
    )
    size = TARGET.stat().st_size
    assert size <= MOST_BYTES, f"{TARGET} has {size} bytes, at most {MOST_BYTES} may be shipped"
    print(f"{TARGET}: {len(firsts)} recordings, {len(rows)} samples, {size} bytes")


if __name__ == "__main__":
    main()
