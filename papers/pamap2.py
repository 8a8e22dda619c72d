"""PAMAP2, subject 1, as the OK-FEB paper prepares it, from a copy of the data set that the user has.

`load(folder)`: folder is the unpacked PAMAP2_Dataset (Protocol/subject101.dat in it). The file's sha256 is checked, so that
figures are of the file they claim.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
FILE = "Protocol/subject101.dat"
SHA256 = "80b3fffd089c236ae88098df3b906b8d3c67a858023fe4f75045d78612147266"
ACTIVITIES = (4, 5, 6, 7, 12, 13, 16, 24)  # the paper's eight
IMUS = (3, 20, 37)  # column of each unit's temperature; 12 follow: accelerometers (16 and 6 g), gyroscope, magnetometer
TRANSIENT = 1000  # rows dropped at each end of an activity


def load(folder: str | Path) -> tuple[Array, Array]:
    """Rows (n, 39) and activity codes (n,); the paper counts n = 129,200 (of this file alone fewer may remain)."""
    path = Path(folder) / FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing; give the folder that PAMAP2_Dataset.zip unpacks to.")
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while piece := stream.read(1 << 20):
            digest.update(piece)
    if digest.hexdigest() != SHA256:
        raise ValueError(f"{path} has sha256 {digest.hexdigest()}, expected {SHA256}: another or a damaged file.")
    return prepared(np.loadtxt(path))


def asked(folder: str | Path) -> tuple[Array, Array]:
    """The same for a script: what is wrong with the folder ends it with that sentence."""
    try:
        return load(folder)
    except (FileNotFoundError, ValueError) as wrong:
        raise SystemExit(str(wrong)) from None


def prepared(table: Array) -> tuple[Array, Array]:
    """From all columns of the file: 13 numbers of each unit, the eight activities, no transients, no missing entries."""
    codes = table[:, 1].astype(int)
    breaks = np.flatnonzero(np.diff(codes)) + 1
    keep = np.zeros(len(table), bool)
    for begin, end in zip([0, *breaks], [*breaks, len(codes)], strict=True):
        if codes[begin] in ACTIVITIES:
            keep[begin + TRANSIENT : max(end - TRANSIENT, begin + TRANSIENT)] = True
    X = np.hstack([table[:, first : first + 13] for first in IMUS])
    keep &= np.isfinite(X).all(axis=1)
    return X[keep], codes[keep]
