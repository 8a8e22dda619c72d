"""Compiled loops that check every index: what is written past an array is found and not met later, elsewhere."""

import os
from pathlib import Path


def check_bounds() -> None:
    """Before anything imports numba; loops with checks are other loops, and have a cache of their own."""
    os.environ["NUMBA_BOUNDSCHECK"] = "1"
    cache = Path(os.environ.get("STREAMJOBS_CACHE") or Path.home() / ".cache" / "streamjobs")
    os.environ["STREAMJOBS_CACHE"] = str(cache / "bounds-checked")
