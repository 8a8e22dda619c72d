"""Drawn jobs in several lives. On a real broker the same is `python -m tests.faults --drawn`, with half a minute a job."""

import random
from pathlib import Path

import pytest

from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.settings.load import settings_from
from streamjobs.worker.pace import Pace
from tests.faults.drawn_records import Stream, draw, writer
from tests.worker.lives import Lives

RECORDS = 600


def _run(seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Lives:
    rng = random.Random(seed)
    while (one := draw(rng)).form == "avro":
        pass
    one = one._replace(keys=rng.choice((3, 10, 30)))
    if one.population is not None:
        one.table["population"] = {"file": "population.state"}
    one.table["source"]["topic"] = "in"
    job = Job.from_settings(settings_from(one.table), population=one.population).on_partitions(1)
    sent = Stream(one, seed, writer(one, folder)).records(RECORDS)
    records = [Stored("in", 0, 2 * at, one.timestamp, one.key, one.value, tuple(one.headers)) for at, one in enumerate(sent)]
    lives = Lives(job, records, rng, exactly_once=one.table["job"]["guarantee"] == "exactly_once")
    lives.run(monkeypatch)
    return lives


@pytest.mark.long
def test_crashes_at_any_step_change_no_output_and_no_state_of_any_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sum(_run(seed, tmp_path, monkeypatch).removed for seed in range(60)) > 10


@pytest.mark.long
def test_a_planted_bug_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pace, "replay_from", property(lambda self: self._since.offset))
    with pytest.raises((AssertionError, KeyError)):
        for seed in range(10):
            _run(seed, tmp_path, monkeypatch)
