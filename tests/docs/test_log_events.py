"""Log events are stable phrases: what a test looks for in a log is an event that the code writes."""

import re

from tests.faults.case import READ_AGAIN
from tests.parts import CHECKOUT

WRITTEN = re.compile(r"log\.(?:debug|info|warning|error)\(\s*\"([^\"]+)\"")
LOOKED_FOR = re.compile(r"\.events\(\"([^\"]+)\"\)")


def _found(folder: str, pattern: re.Pattern[str]) -> set[str]:
    return {event for path in (CHECKOUT / folder).rglob("*.py") for event in pattern.findall(path.read_text())}


def test_every_event_that_a_test_looks_for_is_written() -> None:
    written, looked_for = _found("streamjobs", WRITTEN), {*_found("tests", LOOKED_FOR), *READ_AGAIN}
    assert len(written) > 15 and len(looked_for) > 5
    assert not looked_for - written
