"""Pytest plugin: every outcome as a line of JSON in the file that STREAMJOBS_TALLY names, for `python -m tests`.

Lines are written as things happen, so the reader can show progress and knows, after a crash, which test was running:
{"start": id}, {"test": id, "outcome": "passed" | "failed" | "skipped", "reason": text}, and at the end {"done": true}.
"""

import functools
import gc
import json
import os
from pathlib import Path
from typing import TextIO

import pytest

CAUSE_LENGTH = 200  # characters

_outcomes: dict[str, tuple[str, str]] = {}


@functools.cache
def _tally(path: str) -> TextIO:
    return Path(path).open("a", encoding="utf-8", buffering=1)


def _write(**line: object) -> None:
    path = os.environ.get("STREAMJOBS_TALLY")
    if path:
        _tally(path).write(json.dumps(line) + "\n")


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    if isinstance(report.longrepr, tuple):
        return report.longrepr[2].removeprefix("Skipped: ")
    return getattr(report, "wasxfail", "") or str(report.longrepr)


def _cause(report: pytest.TestReport) -> str:
    """The first line of the error, cut: the whole of it stands in the output of the part."""
    crash = getattr(report.longrepr, "reprcrash", None)
    lines = (crash.message if crash is not None else str(report.longrepr)).splitlines()
    return lines[0][:CAUSE_LENGTH] if lines else ""


def pytest_runtest_logstart(nodeid: str) -> None:
    _write(start=nodeid)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _outcomes[report.nodeid] = ("failed", _cause(report))
    elif report.skipped and report.nodeid not in _outcomes:
        _outcomes[report.nodeid] = ("skipped", _reason(report))
    elif report.when == "call":
        _outcomes.setdefault(report.nodeid, ("passed", ""))
    if report.when == "teardown":
        outcome, reason = _outcomes.pop(report.nodeid, ("failed", "no outcome"))
        _write(test=report.nodeid, outcome=outcome, reason=reason)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.failed:
        _write(test=report.nodeid, outcome="failed", reason="not collected")
    elif report.skipped:
        _write(test=report.nodeid, outcome="skipped", reason=_reason(report))


def pytest_sessionfinish() -> None:
    _write(done=True)
    gc.freeze()  # pytest looks through all objects five more times, to warn of errors that no test fails for
