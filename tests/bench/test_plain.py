"""The benchmark beside plain C: both loops do the same work, so their times may be compared."""

import shutil
from pathlib import Path

import pytest

from tests.bench.plain import library, measured


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_plain_loops_predict_the_same(tmp_path: Path) -> None:
    ours, plain, apart = measured(library(str(tmp_path)), keys=200, runs=1)
    assert apart < 1e-9 and min(ours, plain) > 0
