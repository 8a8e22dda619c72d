"""Makes streamjobs/demo/population.state: what five people taught, with `streamjobs fit`.

    python -m tests.golden.make_demo_population

Source: the whole recordings of the people who are not played, from seglearn_watch.npz (see make_demo_excerpt).
"""

import tempfile
from pathlib import Path

import numpy as np

from streamjobs.cli import run
from streamjobs.demo.job import FILE
from streamjobs.demo.recordings import TEACHERS
from tests.data import data_folder

MOST_BYTES = 500_000

POPULATION = FILE.parent / "population.state"


def main() -> int:
    with np.load(data_folder() / "seglearn_watch.npz", allow_pickle=False) as archive:
        data = {name: archive[name] for name in archive.files}
    taught = np.isin(data["key"], TEACHERS)
    columns = {
        "X": data["X"][taught].astype(float),
        "person": data["key"][taught],
        "recording": data["seg"][taught],
        "arm": data["side"][taught],
        "ts": data["t"][taught],
        "exercise": data["y_labels"][data["y"][taught]],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "teachers.npz"
        np.savez(path, columns=data["columns"], **columns)
        code = run(
            [
                "fit",
                str(FILE),
                "--input",
                str(path),
                "--output",
                str(POPULATION),
                "--no-report",
                "--force",
            ]
        )
    assert code or POPULATION.stat().st_size <= MOST_BYTES
    return code


if __name__ == "__main__":
    raise SystemExit(main())
