"""Run by test_adding_a_stage.py beside a copy of the code that has the stage of streamjobs/README.md."""

import json

import numpy as np
from streamjobs.stages.tare import Tare

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, starting_from
from streamjobs.core.messages import Stored
from streamjobs.errors import SnapshotError
from streamjobs.settings.load import settings_from
from streamjobs.stages.stage import Shape

JOB = {
    "source": {"topic": "in", "fields": ["x", "y"], "time": "ts"},
    "scaling": {"method": "none"},
    "learner": {"name": "scaling", "method": "none"},
    "sinks": {"features": "out"},
}


def records(n: int, first: int = 0) -> list[Stored]:
    values = [{"x": 5.0 + at, "y": -float(at), "ts": 1000.0 + at} for at in range(first, first + n)]
    return [Stored("in", 0, first + at, 1_000_000, b"k", json.dumps(value).encode()) for at, value in enumerate(values)]


def main() -> None:
    job = Job.from_settings(settings_from(JOB))
    assert list(job.stages)[:2] == ["order", "tare"], job.stages
    assert job.described["tare"] == "Tare()"
    job.compile()
    live = Live(job, lambda key: None)
    features = [json.loads(output.value)["z"] for output in advance(job, live, records(3)).outputs]
    assert features == [[0.0, 0.0], [1.0, -1.0], [2.0, -2.0]], features
    ((key, data),) = live.snapshots()

    # Stored, read back, carried on.
    again = Live(job, lambda asked: data)
    (output,) = advance(job, again, records(1, first=3)).outputs
    assert json.loads(output.value)["z"] == [3.0, -3.0]
    states, names, offsets = decode_snapshot(job, data)
    assert states["tare"].first.tolist() == [5.0, 0.0] and states["tare"].seen == 3

    # Nonsense is refused, and a model that is exported has no tare.
    wild = states | {"tare": states["tare"]._replace(first=np.array([np.nan, 0.0]))}
    try:
        decode_snapshot(job, job.encode(wild, names, offsets))
    except SnapshotError as error:
        assert "tare.first" in str(error), error
    else:
        raise AssertionError("a sample that is no number was taken")
    started = starting_from(job, live.export(key))
    assert started.init(b"other")["tare"].seen == 0
    assert Tare().begin(Shape(dim=2, width=2, label_width=1, targets=0), 0).first.shape == (2,)


if __name__ == "__main__":
    main()
