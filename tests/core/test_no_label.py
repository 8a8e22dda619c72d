"""[source] no_label: labels that mean that none is known, in samples, in frames and late."""

import pytest

from tests.commands.jobs import problems, table
from tests.core.streams import START
from tests.core.test_missing import job, record, run

NONE = {"no_label": ["null", "0", False, ""]}
HEAD = {"head": {"name": "rls"}}


def sent(made, records):
    return [(output.sink, output.key, output.value) for output in run(made, records)[0].outputs]


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
        with_none = sent(job("dlq", form, NONE, **HEAD), several(labels))
        assert with_none == sent(job("dlq", form, **HEAD), several(known)) and len(with_none) == 2 * len(labels)
        assert with_none != sent(job("dlq", form, **HEAD), several(labels))


def test_a_late_one_changes_nothing():
    made = job("dlq", source=NONE, labels={"wait": "60s"}, **HEAD)
    stream = [record(n, (n, 2.0, n % 3)) for n in range(4)]
    late = [record(4 + n, (...,) * 3, at=START + n, activity=label) for n, label in enumerate(["sit", "null", 0])]
    both = record(7, (...,) * 3, at=[START + 2, START + 3], activity=["null", "walk"])
    next_one = record(9, (5, 1.0, 1))
    walk = record(7, (...,) * 3, at=START + 3, activity="walk")
    assert sent(made, [*stream, *late, both, next_one]) == sent(made, [*stream, late[0], walk, next_one])
    assert sent(made, [*stream, late[1]]) == sent(made, stream)


def test_it_needs_a_label():
    tables = table(source=NONE)
    del tables["source"]["label"]
    assert any("no_label is for the values of `label`" in one for one in problems(tables))
