"""The same bits whatever number of threads the process has given its BLAS."""

import os
import subprocess
import sys

import pytest

from algorithms.common import blas
from tests.layers.imports import CHECKOUT

# One eigh of 300 rows, when the map is made: there LAPACK splits its work among threads, and rounds differently.
PROGRAM = """
import hashlib
import numpy as np
from algorithms import learner_from
X = np.random.default_rng(3).normal(size=(310, 6))
learner = learner_from("speed", {"rank": 20, "map_size": 300})
state, out = learner.run(learner.init(dim=6, targets=0, seed=1), X)
print(hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in (*state, *out))).hexdigest())
"""
LAPACK = """
import numpy as np
import algorithms
from algorithms.common import blas, eigen
M = np.random.default_rng(3).normal(size=(300, 300))
for threads in (1, 2):
    blas._libraries()[0][1](threads)
    print(hash(eigen.symmetric(M + M.T, 300)[1].tobytes()))
"""


def printed(program: str, **variables: str) -> str:
    env = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    env |= {"PYTHONPATH": str(CHECKOUT), "PYTHONHASHSEED": "0", **variables}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=True).stdout.strip()


@pytest.mark.slow
def test_a_learner_gives_the_same_bits_with_any_number_of_blas_threads() -> None:
    bits = {printed(PROGRAM), printed(PROGRAM, OPENBLAS_NUM_THREADS="1"), printed(PROGRAM, OPENBLAS_NUM_THREADS="2")}
    assert len(bits) == 1
    # And the number matters here: what is not run by a learner differs.
    of_one, of_two = printed(LAPACK).split()
    assert of_one != of_two


def test_the_threads_of_numpy_and_scipy_are_one_inside_and_what_they_were_outside() -> None:
    libraries = blas._libraries()
    assert len(libraries) == 2
    before = [get() for get, _ in libraries]
    try:
        for _, put in libraries:
            put(2)
        with blas.ONE_THREAD:
            with blas.ONE_THREAD:
                assert [get() for get, _ in libraries] == [1, 1]
            assert [get() for get, _ in libraries] == [1, 1]
        assert [get() for get, _ in libraries] == [2, 2]
    finally:
        for (_, put), threads in zip(libraries, before, strict=True):
            put(threads)
