"""The benchmark of many keys, short: every record is answered, and every key comes back after its disk is wiped."""

from pathlib import Path

import pytest

from streamjobs.kafka.devbroker.broker import Broker
from tests.bench.keys import measure, misses


@pytest.mark.long
def test_every_record_is_answered_and_every_key_restored(broker: Broker, tmp_path: Path) -> None:
    assert measure(broker, tmp_path, 300, 1200) == {"sent": 1200, "answered": 1200, "restored": 300}


def test_states_that_are_not_live_are_met_in_turn() -> None:
    told = misses(keys=500, turns=1)
    assert set(told) == {"live", "not live", "a tenth not live"} and min(told.values()) > 0
