"""The demo's job with many people on a real Kafka: every second of each of them is answered."""

import pytest

from streamjobs.demo.show import _running, _stage, _stop
from tests.bench.crowd import Counter, Sender, followed


@pytest.mark.long
def test_every_window_of_many_people_comes_out() -> None:
    with _stage("40 people", kafka=True) as stage:
        sender = Sender(stage.servers, stage.job.settings.source.topic, people=40, seconds=6.0)
        counter = Counter(stage.servers, stage.job.sinks["predictions"])
        with _running(stage, sender, counter, browser=False) as worker:
            followed(worker, stage, sender, counter, expected=200)
            _stop(worker, stage.log)
    assert sender.samples == 12_000  # 50 a second
    assert counter.windows == 200  # of two seconds, a second apart
