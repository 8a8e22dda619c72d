"""No snapshot is written that cannot be read: the check before a write agrees with the reader."""

import numpy as np
import pytest

from streamjobs.core.live.forms import unwritable
from streamjobs.core.live.live import Live
from tests.fuzz.jobs import moments, stateful


@pytest.fixture
def live() -> Live:
    read = Live(stateful(0), dict.fromkeys([b"a", b"b", b"c"], moments("state", 0)[-1]).get)
    read.tick()
    read.enter([b"a", b"b", b"c"])
    return read


@pytest.mark.parametrize("together", [True, False], ids=["in columns", "one by one"])
def test_a_slot_that_no_reader_takes_is_named_with_the_readers_sentence(live, together):
    slots = [live.slot_of[key] for key in (b"a", b"b", b"c")]
    if not together:
        live.columns = None
    assert unwritable(live, slots) == {}
    live.work["learner"].arrays[0][slots[1]] = np.nan
    (wrong,) = unwritable(live, slots).items()
    assert wrong[0] == slots[1]
    assert "learner." in wrong[1] and "expected finite numbers" in wrong[1]
