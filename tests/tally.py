"""Pytest plugin: every outcome as a line of JSON in the file that STREAMJOBS_TALLY names, for `python -m tests`.

Lines are written as things happen, so the reader can show progress and knows, after a crash, which test was running:
{"start": id}, {"test": id, "outcome": "passed" | "failed" | "skipped", "reason": text}, and at the end {"done": true}. The
reason of a failure has the first line of the error, and below it where it was raised and what the test had printed.
"""

import functools
import gc
import json
import os
from pathlib import Path
from typing import TextIO

import pytest

CAUSE_LENGTH = 200  # characters of a line
ERROR_LINES, PRINTED_LINES = 9, 5  # of a failure, below its first line

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
    """The first line of the error, then the frame that raised it and the last lines printed: the cause is often there."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = report.longreprtext.splitlines()
    lines = (crash.message if crash is not None else str(report.longrepr)).splitlines()[:1]
    at = next((number for number, line in enumerate(text) if line.startswith("E ")), 0)
    while at and text[at - 1].startswith("    "):  # the source lines above the error, and the place above them
        at -= 1
    lines += text[max(at - 1, 0) :][:ERROR_LINES]
    printed = [line for _, section in report.sections for line in section.splitlines() if line.strip()]
    return "\n".join(line[:CAUSE_LENGTH] for line in (*lines, *printed[-PRINTED_LINES:]))


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
