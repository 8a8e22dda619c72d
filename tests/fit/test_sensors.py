"""`fit` reads recordings of several sensors as a worker does."""

import json

import numpy as np

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.fit.inputs import Columns, inputs_of
from streamjobs.fit.reading import read
from streamjobs.settings.load import settings_from
from tests.core.phones import JOB, SOURCE, pushes

PASSING = {
    "scaling": {"method": "none"},
    "learner": {"name": "scaling", "method": "none"},
    "sinks": {"features": "z"},
}


def test_windows_are_to_the_bit_those_of_a_worker(tmp_path):
    messages = [json.loads(record.value or b"") for record in pushes(14, keys=2)]
    for number, body in enumerate(messages):
        body["activity"] = "row" if number < len(messages) / 2 else "press"
    path = tmp_path / "pushed.jsonl"
    path.write_text("".join(json.dumps(body) + "\n" for body in messages))
    source = {**SOURCE, "label": "activity"}
    made = settings_from({**JOB, "source": source, "learner": {"name": "rls", "task": "classification"}})
    chosen = Columns(key="deviceId", time=None, recording=None, by_pauses=False)
    inputs = inputs_of(made, [str(path)], chosen)
    found = read(made, inputs.sources, pause=60.0, column=None)
    assert found.data.names == ["press", "row"] and found.data.people == ["", "phone-0", "phone-1"]

    job = Job.from_settings(settings_from({**JOB, "source": source, **PASSING}))
    records = list(inputs_of(made, [str(path)], chosen).sources[0])
    outputs = advance(job, Live(job), records).outputs
    for person, key in list(enumerate(found.data.people))[1:]:
        z = [json.loads(one.value or b"")["z"] for one in outputs if one.sink == "features" and one.key == key.encode()]
        assert len(z) >= 24 and np.array_equal(found.data.X[found.data.person == person], np.array(z))
