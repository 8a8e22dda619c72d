"""The benchmark of the worker, short: what it prints is counted, not guessed."""

from pathlib import Path

import pytest

from streamjobs.kafka.devbroker.broker import Broker
from tests.bench.worker import Bench

_LONG = [pytest.param(part, marks=pytest.mark.long) for part in ("faust", "full", "frames")]


@pytest.mark.parametrize("part", ["simple", *_LONG])
def test_a_backlog_is_answered_whole(broker: Broker, tmp_path: Path, part: str) -> None:
    bench = Bench(broker, tmp_path, quick=True)
    result = getattr(bench, part)()
    assert result["counted"] == result["expected"]


def test_every_record_of_a_steady_load_is_answered_and_timed(broker: Broker, tmp_path: Path) -> None:
    result = Bench(broker, tmp_path, quick=True).latency()
    assert all(pace["counted"] == pace["sent"] > 0 for pace in result.values())


@pytest.mark.long  # test_paces.py has a shorter one
def test_a_lost_disk_gives_every_key_back(broker: Broker, tmp_path: Path) -> None:
    result = Bench(broker, tmp_path, quick=True).recovery()
    assert result["keys"] >= result["held"] > 0  # a key may be written again by a later part of the changelog
