"""Every state that a stage, a learner or a detector leaves can be written and read, on hostile, long and shifting streams.

The check before a write (`core.live.forms`) and both readers agree on every state, also on those of planted errors.
"""

from random import Random

import numpy as np
import pytest

from algorithms import learner_from
from algorithms.drift.column_chart import ColumnChart
from algorithms.drift.conformal import Conformal
from algorithms.drift.ranked import OLDEST
from algorithms.heads.rls import Rls
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.forms import unwritable
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import load_snapshot
from streamjobs.errors import ForeignStateError, SnapshotError
from streamjobs.stages.class_counts import ClassCounts, Fallback
from tests.checks.examples import cases
from tests.core.hostile import OneKey, hostile_records, streams
from tests.core.streams import TOPIC, Worker, samples, settings
from tests.fuzz.jobs import STANDS_ON, moments, stateful
from tests.fuzz.mutation import mutate_stages

CASES = [case for case in cases() if case.learner.bounded]
LEARNERS = [case for case in CASES if case.learner.kind != "drift"]
DETECTORS = [case for case in CASES if case.learner.kind == "drift"]
FIRST = [case for at, case in enumerate(LEARNERS) if case.name not in {other.name for other in LEARNERS[:at]}]


def named(case):
    return f"{case.name}-{CASES.index(case)}"


def goes_through(case, rows, every):
    key = OneKey(case.learner, case.dim, case.targets if case.kind != "drift" else 0)
    for part, (X, Y) in enumerate(streams(case.learner, case.dim, key.learner.targets(key.fresh), rows)):
        for begin in range(0, rows, every):
            key.advance(X[begin : begin + every], Y[begin : begin + every])
            verdicts = key.verdicts()
            assert verdicts.agree, (part, begin, verdicts)
            assert verdicts.writable, (part, begin, verdicts)


@pytest.mark.parametrize("case", FIRST, ids=named)
def test_a_learners_states_are_read_on_a_hostile_stream(case):
    goes_through(case, 40, 20)


@pytest.mark.parametrize("case", DETECTORS, ids=named)
def test_a_detectors_states_are_read_on_a_hostile_stream(case):
    goes_through(case, 400, 50)


@pytest.mark.long
@pytest.mark.parametrize("case", LEARNERS, ids=named)
def test_a_learners_states_are_read_on_a_long_hostile_stream(case):
    goes_through(case, 1_000, 100)


@pytest.mark.slow
@pytest.mark.parametrize("case", DETECTORS, ids=named)
def test_a_detectors_states_are_read_on_a_long_hostile_stream(case):
    goes_through(case, 10_000, 500)


CHARTS = ("conformal", "column_chart", "column_charts", "reference_level", "reference_chart", "glr_chart")


@pytest.mark.parametrize("settings", [{}, {"hold": 20_000}], ids=["default", "held open"])
@pytest.mark.parametrize("name", CHARTS)
def test_an_alarm_open_for_10000_rows_leaves_states_that_are_read(name, settings):
    if name.startswith("reference"):
        settings = {}
    learner = learner_from(name, settings)
    key, random = OneKey(learner, 1 if name in ("conformal", "reference_level") else 3, 0), np.random.default_rng(5)
    for at in range(0, 12_000, 500):
        X = random.normal(size=(500, learner.dim(key.fresh))) + 9.0 * (at >= 2_000)
        key.advance(X, np.zeros((500, 0)))
        verdicts = key.verdicts()
        assert verdicts.agree and verdicts.writable, (at, verdicts)
    if settings:
        assert key.work["opened"][0] > 9_000 or name == "glr_chart"


def a_job_goes_through(which, parts=6, rows=20):
    """Records of shifting numbers through all stages of a job; each snapshot is checked, read and written again."""
    job = stateful(which)
    live, step = Live(job, {}.get), 0
    for part in range(parts):
        advance(job, live, hostile_records(job, step, step + rows, part))
        step += rows
        slots = sorted(live.slot_of.values())
        assert unwritable(live, slots) == {}, part
        for data in live.encode(slots):
            assert job.encode(*load_snapshot(job, data)) == data


@pytest.mark.parametrize("which", range(STANDS_ON + 1))
def test_the_states_of_all_stages_of_a_job_are_read(which):
    a_job_goes_through(which)


@pytest.mark.long
@pytest.mark.parametrize("which", range(STANDS_ON + 1))
def test_the_states_of_all_stages_of_a_job_are_read_after_thousands_of_records(which):
    a_job_goes_through(which, 60, 100)


@pytest.mark.parametrize("which", range(STANDS_ON + 1))
def test_the_check_before_a_write_and_the_reader_agree_on_states_that_no_stage_left(which):
    """But for what only `derive` of a learner finds: then the sentence names no field."""
    job, rnd = stateful(which), Random(which)
    states = [load_snapshot(job, data) for data in moments("state", which)]
    drawn = [mutate_stages(job, states, rnd) for _ in range(80)]
    live = Live(job, {}.get)
    slots = live._take([b"%d" % at for at in range(len(drawn))])
    live.work["order"]["newest"].fill(1.0)  # stays so in a slot that is not filled
    read = live.columns.decode(drawn, slots, live.offsets, live.names, job.most_names, job.given_names)
    known = [len(live.names[slot]) for slot in slots] if job.most_names is not None else None
    filled = [live.work["order"]["newest"][slot] != 1.0 for slot in slots]
    assert sum(filled) > 30
    for slot, data, good, can, there in zip(slots, drawn, read, live.columns.writable(slots, known), filled, strict=True):
        if there and can and not good:
            with pytest.raises(SnapshotError, match=r"^the stored state contradicts itself"):
                load_snapshot(job, data)
        elif there:
            assert can == good, slot
    assert not all(read)


def learner_of(name):
    return next(case for case in CASES if case.name == name)


PLANTED = {  # the class with the error, its method, what the error does to the arrays of a slot, and where it shows
    "evidence without a bound": (
        Conformal,
        "advance",
        "scores",
        np.inf,
        lambda: goes_through(learner_of("conformal"), 60, 20),
    ),
    "a weight that is NaN": (Rls, "advance", "weights", np.nan, lambda: goes_through(learner_of("rls"), 60, 20)),
    "a place outside a ring": (
        ColumnChart,
        "advance",
        "marks",
        OLDEST + 600,
        lambda: goes_through(learner_of("column_chart"), 60, 20),
    ),
    "a count below 0": (ClassCounts, "number", "labelled", -1, lambda: a_job_goes_through(0)),
    "a class beyond the classes": (Fallback, "advance", "latest", 99, lambda: a_job_goes_through(STANDS_ON)),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_error_that_leaves_unreadable_states_is_found(what, monkeypatch):
    owner, method, field, value, run = PLANTED[what]
    right = getattr(owner, method)

    def wrong(self, work, *rest, **more):
        made = right(self, work, *rest, **more)
        work[field][0] = value
        return made

    run()  # without the error all is well
    monkeypatch.setattr(owner, method, wrong)
    with pytest.raises(AssertionError):
        run()


def test_samples_that_wait_in_a_job_without_lateness_are_named_and_a_short_one_lets_them_go_on() -> None:
    def job_of(lateness: str) -> Job:
        source = {"topic": TOPIC, "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity", "lateness": lateness}
        return Job.from_settings(settings(source=source))

    records = samples(360)
    before = Worker(job_of("3s"))
    before.apply(records[:180])
    before.checkpoint()
    with pytest.raises(ForeignStateError, match="30 samples of a key wait"):
        Worker(job_of("0s"), dict(before.store)).apply(records[180:])
    after, whole = Worker(job_of("1ms"), dict(before.store)), Worker(job_of("1ms"))
    after.apply(records[180:])
    whole.apply(records)
    after.checkpoint()
    whole.checkpoint()
    assert after.store == whole.store
