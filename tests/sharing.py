"""Pytest plugin: processes that run the same files share them. Each begins the next file that no other has begun.

STREAMJOBS_BEGUN names the folder that has an empty file for each file that a process has begun.
"""

import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest


def _mine(items: list[pytest.Item], begun: Path) -> Iterator[pytest.Item | None]:
    files: dict[str, list[pytest.Item]] = {}
    for item in items:  # pytest may have put another file's tests between those of a file
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    for file, tests in files.items():
        try:
            (begun / file.replace("/", "+")).touch(exist_ok=False)
        except FileExistsError:
            continue
        yield from tests
    yield None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """The loop of pytest, over the files of this process: fixtures end where its own next test does not need them."""
    begun = os.environ.get("STREAMJOBS_BEGUN")
    if begun is None:
        return None
    for item, following in pairwise(_mine(session.items, Path(begun))):
        assert item is not None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)
    return True
