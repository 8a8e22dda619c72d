"""Labels of a sample are refused as a worker refuses them."""

import json

import pytest

from streamjobs.core.decoding.values import class_name
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.errors import RecordError
from streamjobs.replay.first_rows import decoded_with_labels
from streamjobs.settings.sections import Settings

SETTINGS = {
    "job": {"name": "labels"},
    "source": {"topic": "in", "x": "x", "dim": 1, "time": "ts", "label": "y"},
    "learner": {"name": "okfeb", "role": "head", "rank": 2, "budget": 4},
    "head": {"name": "rls", "max_classes": 2},
}


def frame(offset: int, *labels: object) -> Stored:
    """A record of as many samples as labels."""
    value = {"ts": [10.0 * offset + at for at in range(len(labels))], "x": [[1.0]] * len(labels), "y": list(labels)}
    return Stored("in", 0, offset, offset, b"p", json.dumps(value).encode(), ())


def test_a_refused_record_adds_no_class():
    job = Job.from_settings(Settings.model_validate(SETTINGS))
    decoded = decoded_with_labels(job, [frame(0, "a", "b", "c"), frame(1, "c", "d"), frame(2, "a")])
    assert [(index, error.reason) for index, error in decoded.errors] == [(0, "too_many_classes"), (2, "too_many_classes")]
    assert decoded.labels == ["c", "d"]


@pytest.mark.parametrize("label", ["a" * 201, "", 1e300, 10**200, 1.5])
def test_a_class_has_at_most_200_characters(label):
    with pytest.raises(RecordError, match="1-200 characters"):
        class_name(label)
    assert class_name(10**199) == "1" + "0" * 199
