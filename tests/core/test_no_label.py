"""[source] no_label: labels that mean that none is known, in samples, in frames and late."""

import json

import msgspec
import pytest

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from tests.commands.jobs import problems, table
from tests.core.streams import START, TOPIC
from tests.core.streams import settings as job_settings

NONE = {"no_label": ["null", "0", False, ""]}


def job(form="json", source=None, **sections):
    read = {"topic": TOPIC, "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity", "format": form}
    learner = {"name": "okfeb", "rank": 3, "budget": 5}
    sections = {"window": None, "drift": None, "learner": learner, "head": {"name": "rls"}, **sections}
    return Job.from_settings(job_settings(**sections, source={**read, **(source or {})}))


def record(offset, x, form="json", at=None, **more):
    """x: numbers of the fields; without any, they are absent."""
    body = {**dict(zip(["ax", "ay", "az"], x, strict=False)), "ts": START + offset if at is None else at, **more}
    encode = msgspec.msgpack.encode if form == "msgpack" else lambda one: json.dumps(one).encode()
    return Stored(TOPIC, 0, offset, int((START + offset) * 1000), b"p", encode(body))


def sent(made, records):
    outputs = advance(made, Live(made, lambda key: None), records).outputs
    return [(output.sink, output.key, output.value) for output in outputs]


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_such_a_label_is_as_if_absent(form):
    labels = ["sit", "null", "walk", 0, False, "sit", "Null", 0.0, "", 10, True]
    known = ["sit", None, "walk", None, None, "sit", "Null", None, None, 10, True]

    def singles(values):
        return [record(n, (n, 2.0, n % 3), form, activity=value) for n, value in enumerate(values)]

    def frame(values):
        n = len(values)
        times = [START + at for at in range(n)]
        return [record(0, ([float(at % 4) for at in range(n)], [1.0] * n, [2.0] * n), form, at=times, activity=values)]

    for several in (singles, frame):
        with_none = sent(job(form, NONE), several(labels))
        assert with_none == sent(job(form), several(known)) and len(with_none) == 2 * len(labels)
        assert with_none != sent(job(form), several(labels))


def test_a_late_one_changes_nothing():
    made = job(source=NONE, labels={"wait": "60s"})
    stream = [record(n, (n, 2.0, n % 3)) for n in range(4)]
    late = [record(4 + n, (), at=START + n, activity=label) for n, label in enumerate(["sit", "null", 0])]
    both = record(7, (), at=[START + 2, START + 3], activity=["null", "walk"])
    next_one = record(9, (5, 1.0, 1))
    walk = record(7, (), at=START + 3, activity="walk")
    assert sent(made, [*stream, *late, both, next_one]) == sent(made, [*stream, late[0], walk, next_one])
    assert sent(made, [*stream, late[1]]) == sent(made, stream)


def test_it_needs_a_label():
    tables = table(source=NONE)
    del tables["source"]["label"]
    assert any("no_label is for the values of `label`" in one for one in problems(tables))


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        ([], "no_label must be a list of 1 or more values; got []."),
        (["null", 1.5], "no_label[1] must be a text, or an integer, or true or false; got 1.5."),
    ],
)
def test_wrong_values_of_labels_are_named_with_all_that_may_be_there(labels, sentence):
    tables = table(source={"topic": TOPIC, "fields": ["a"], "label": "activity", "no_label": labels})
    assert any(sentence in one for one in problems(tables)), problems(tables)
