"""The benchmark of states, short: at each pace every key has its state again after kill -9 and the loss of the disk."""

from pathlib import Path

import pytest

from streamjobs.kafka.devbroker.broker import Broker
from tests.bench.state import PACES, measure
from tests.bench.worker import Bench


@pytest.mark.parametrize("replay", [one if one == "10s" else pytest.param(one, marks=pytest.mark.long) for one in PACES])
def test_every_key_comes_back(broker: Broker, tmp_path: Path, replay: str) -> None:
    found = measure(Bench(broker, tmp_path, quick=True), replay, keys=40, seconds=1)
    assert found["back"] == 40
    assert (found["bytes"] > 0) == (replay == "0s")
