"""Real recordings for the tests: npz files in the folder that STREAMJOBS_DATA names.

Without the variable the folder is `../shared/data` beside the checkout. Where it does not exist the asking test is
skipped and says so; where the folder exists, a file missing from it is a failure.
"""

import functools
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
NO_RECORDINGS = "no recordings"  # how the reason of such a skip begins


def data_folder() -> Path:
    """Where the recordings are looked for."""
    return Path(os.environ.get("STREAMJOBS_DATA") or CHECKOUT.parent / "shared" / "data")


def dataset(name: str) -> Mapping[str, np.ndarray]:
    """The arrays of `name`, e.g. dataset("seglearn_watch"), read-only; skips the test where there is no data folder."""
    folder = data_folder()
    if not folder.is_dir():
        pytest.skip(f"{NO_RECORDINGS}: there is no folder {folder}; set STREAMJOBS_DATA")
    path = folder / f"{name}.npz"
    if not path.is_file():
        raise FileNotFoundError(
            f"{path} is missing; the folder has {', '.join(sorted(p.stem for p in folder.glob('*.npz')))}"
        )
    return _arrays(path)


@functools.lru_cache(maxsize=4)
def _arrays(path: Path) -> Mapping[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {field: archive[field] for field in archive.files}
    for array in arrays.values():
        array.setflags(write=False)
    return arrays
