"""LAPACK's routines reach compiled loops without `scipy.linalg`, which stays what it is for others."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
from streamjobs import process
process.load_lapack()
from algorithms.common.eigen import symmetric
values, vectors = symmetric(np.diag([1.0, 3.0]), 2)
assert values.tolist() == [3.0, 1.0], values
assert "scipy.linalg" not in sys.modules
import scipy.linalg
assert scipy.linalg.eigvalsh(np.diag([1.0, 3.0])).tolist() == [1.0, 3.0]
process.load_lapack()
assert hasattr(sys.modules["scipy.linalg"], "eigh") and scipy.linalg.eigh
"""


@pytest.mark.slow
def test_loops_reach_lapack_without_its_package_which_can_be_imported_afterwards() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
