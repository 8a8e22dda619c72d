"""A stage that raises for a record: it becomes a dead letter, its key keeps the state from before it, the rest goes on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from algorithms.heads.rls import Rls
from streamjobs.core import careful
from streamjobs.core.advance import advance
from streamjobs.core.encode import Encoder
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.messages import Advanced, BatchRows, Report, Stored
from streamjobs.core.state.snapshot import LEAVES_OUT, VERSION
from streamjobs.errors import ConfigError
from streamjobs.replay.engine import Replay
from streamjobs.stages.late_labels import LateLabels
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.order import Order
from streamjobs.stages.windows import Windows
from tests.core.driving import same_bits
from tests.core.streams import TOPIC, Worker, record, samples, settings, values

MARK = 500.0  # a number of a row that fails
ROWS = {"window": None, "scaling": {"method": "none"}}  # every sample is a row
RECORDS = samples(600)
GUILTY = (100, 101, 250, 599)  # one is its key's last record


def with_guilty(records: list[Stored], guilty: tuple[int, ...] = GUILTY) -> list[Stored]:
    records = list(records)
    for at in guilty:
        body = json.loads(records[at].value)
        records[at] = records[at]._replace(value=json.dumps(body | {"ax": 100 * MARK}).encode())
    return records


@contextmanager
def raising(stage: type, monkeypatch: pytest.MonkeyPatch, which: str = "") -> Iterator[None]:
    """The stage takes the rows up to a marked one, and that one too; then it raises. which: the learner it holds."""
    real = stage.advance

    def advance(self, work, *columns):
        X = next(column for column in columns if getattr(column, "ndim", 1) == 2 or isinstance(column, tuple))
        X = X.X if isinstance(X, tuple) else X
        marked = np.flatnonzero((X >= MARK).any(axis=1))
        if not len(marked) or which not in type(getattr(self, "learner", None)).__name__:
            return real(self, work, *columns)
        if not isinstance(columns[0], tuple):
            real(self, work, *(column[: marked[0] + 1] for column in columns))
        raise IndexError(f"index {X[marked[0], 0]} is out of bounds")

    with monkeypatch.context() as patched:
        patched.setattr(stage, "advance", advance)
        yield


def run(
    job: Job, records: list[Stored], at_once: int, checkpoint_every: int = 10**9, *, pack: bool = False, **live
) -> tuple[list, dict, Report]:
    """pack: make small what is remembered before every call, as a worker does with its checkpoints."""
    worker, outputs, report = Worker(job, **live), [], Report()
    for at in range(0, len(records), at_once):
        if pack:
            worker.live.log.pack()
        made = advance(job, worker.live, records[at : at + at_once])
        outputs += made.outputs
        report.add(made.report)
        if at // checkpoint_every != (at + at_once) // checkpoint_every:
            worker.checkpoint()
    worker.checkpoint()
    return outputs, worker.store, report


def letters(outputs: list) -> list[dict]:
    return [dict(output.headers) for output in outputs if output.sink == "dlq"]


def by_sink(outputs: list) -> dict[str, list[tuple]]:
    sinks: dict[str, list[tuple]] = {}
    for value in values(outputs):
        sinks.setdefault(value[0], []).append(value)
    return sinks


@pytest.mark.parametrize("pack", [False, True])
@pytest.mark.parametrize(("at_once", "checkpoint_every"), [(600, 10**9), (50, 10**9), (50, 150), (7, 21), (1, 10**9)])
def test_the_record_is_a_dead_letter_and_all_else_is_as_without_it(at_once, checkpoint_every, pack, monkeypatch):
    job, records = Job.from_settings(settings(**ROWS)), with_guilty(RECORDS)
    wanted, states, _ = run(job, [one for one in records if one.offset not in GUILTY], 40)
    with raising(LearnerStage, monkeypatch, "Chain"):
        outputs, stored, report = run(job, records, at_once, checkpoint_every, pack=pack)
    assert [int(letter["streamjobs-error-offset"]) for letter in letters(outputs)] == list(GUILTY)
    sinks = by_sink(outputs)
    assert sinks.pop("dlq") and sinks == by_sink(wanted)
    assert stored == states
    assert report.dead_lettered == {"learner_failed": len(GUILTY)}
    assert (report.records, report.rows) == (600, 600 - len(GUILTY)) and report.keys_created == 3


def test_the_letter_says_what_failed_and_never_a_value(monkeypatch):
    job, records = Job.from_settings(settings(**ROWS)), with_guilty(RECORDS[:120], (100,))
    with raising(LearnerStage, monkeypatch, "Chain"):
        outputs, _, report = run(job, records, 30)
    (letter,) = letters(outputs)
    (output,) = [output for output in outputs if output.sink == "dlq"]
    assert (output.key, output.value) == (records[100].key, records[100].value)
    assert letter["streamjobs-error-reason"] == b"learner_failed" and letter["streamjobs-error-stage"] == b"learner"
    text = letter["streamjobs-error-message"].decode()
    assert text.startswith(
        "topic imu[0] offset 100: expected 'learner' of okfeb+rls to take row 33 of the key, got IndexError"
    )
    assert "test_careful.py:" in text and text.endswith("the key keeps its state from before the record.")
    assert "5000" not in text
    (failure,) = report.failures
    assert (failure.offset, failure.stage, failure.error) == (100, "learner", "IndexError")


def test_a_stage_that_begins_to_fail_for_all_records_is_named(monkeypatch):
    job = Job.from_settings(settings(**ROWS))
    worker = Worker(job)
    advance(job, worker.live, RECORDS[:100])

    def fails(self, *arguments):
        raise ZeroDivisionError("98765-secret")

    monkeypatch.setattr(LearnerStage, "advance", fails)
    with pytest.raises(
        careful.NotRepeatable, match=r"^learner raised ZeroDivisionError at test_careful.py:\d+ for rec"
    ) as caught:
        advance(job, worker.live, RECORDS[100:110])
    assert "restart" in str(caught.value) and "secret" not in str(caught.value)


@pytest.mark.parametrize("stage", ["order", "idle", "waiting", "learner", "drift", "books", "encode"])
def test_any_stage_may_fail(stage, monkeypatch):
    labels = {"labels": {"wait": "10s"}} if stage == "waiting" else {}
    job, records = Job.from_settings(settings(**ROWS, **labels)), with_guilty(RECORDS[:300], (100,))
    wanted, states, _ = run(job, [one for one in records if one.offset != 100], 40)
    owner = {"order": Order, "waiting": LateLabels, "encode": Encoder}.get(stage) or type(job.stages[stage])
    method = {"books": "number", "encode": "add"}.get(stage, "advance")
    real, calls = getattr(owner, method), []

    def fails_with_it(self, *arguments):
        came = real(self, *arguments)
        calls.append(1)
        if self is job.stages.get(stage, self) and holds(arguments):
            raise ZeroDivisionError
        return came

    current: list[Stored] = []
    decode = job.decode
    job = job._replace(decode=lambda some: current.__setitem__(slice(None), some) or decode(some))

    def holds(arguments) -> bool:
        return any(one.offset == 100 for one in current)

    monkeypatch.setattr(owner, method, fails_with_it)
    outputs, stored, _ = run(job, records, 40)
    (letter,) = letters(outputs)
    assert letter["streamjobs-error-stage"].decode() == stage
    if stage != "waiting":
        sinks = by_sink(outputs)
        assert sinks.pop("dlq") and sinks == by_sink(wanted)
        assert stored == states


def test_a_decoder_that_raises_is_no_end_either():
    job = Job.from_settings(settings(**ROWS))
    real, records = job.decode, RECORDS[:90]

    def decode(some):
        if any(one.offset == 40 for one in some):
            raise RecursionError
        return real(some)

    outputs, stored, _ = run(job._replace(decode=decode), records, 30)
    _, states, _ = run(job, [one for one in records if one.offset != 40], 30)
    assert [letter["streamjobs-error-stage"] for letter in letters(outputs)] == [b"decode"] and stored == states


def test_a_window_that_cannot_be_learned_costs_its_rows_and_the_key_goes_on(monkeypatch):
    """Its samples stay in the key's signal, so the next record would meet the same window again, and the next."""
    job = Job.from_settings(settings(scaling={"method": "none"}))
    records = with_guilty(RECORDS, (100,))
    wanted, _, _ = run(job, RECORDS, 50)
    with raising(LearnerStage, monkeypatch, "Chain"):
        results = [
            run(job, records, at_once, every) for at_once, every in ((50, 10**9), (50, 100), (1, 10**9), (600, 10**9))
        ]
    outputs, stored, report = results[0]
    assert all(by_sink(other[0]) == by_sink(outputs) and other[1] == stored for other in results[1:])
    told = letters(outputs)
    assert 1 <= len(told) <= 2  # windows of 1 s that begin every 0.5 s: a sample is in two
    assert b"the rows it completed are left out" in told[0]["streamjobs-error-message"]
    features = by_sink(outputs)["features"]
    assert len(features) == len(by_sink(wanted)["features"]) - len(told)
    assert report.dead_lettered["learner_failed"] == len(told)


def test_a_window_that_cannot_be_made_is_a_dead_letter(monkeypatch):
    job, records = Job.from_settings(settings()), with_guilty(RECORDS, (100,))
    _, states, _ = run(job, [one for one in records if one.offset != 100], 40)
    with raising(Windows, monkeypatch):
        outputs, stored, _ = run(job, records, 40)
    (letter,) = letters(outputs)
    assert letter["streamjobs-error-stage"] == b"windows" and stored == states


def test_more_keys_than_find_room_and_a_crash_in_between(monkeypatch):
    job, records = Job.from_settings(settings(**ROWS)), with_guilty(samples(900, keys=60))
    _, states, _ = run(job, [one for one in records if one.offset not in GUILTY], 40)
    with raising(LearnerStage, monkeypatch, "Chain"):
        _, stored, _ = run(job, records, 40, most_bytes=1)
        assert stored == states
        worker = Worker(job)
        for at in range(0, 900, 30):
            advance(job, worker.live, records[at : at + 30])
            if at % 90 == 0:
                worker.checkpoint()
            if at % 120 == 0:
                worker.crash()
                advance(job, worker.live, records[: at + 30])  # read again from the start
        worker.checkpoint()
    assert worker.store == states


def test_a_pooled_model_is_as_if_the_record_had_not_been(monkeypatch):
    job, records = Job.from_settings(settings(**ROWS)), with_guilty(RECORDS)
    for every in (10**9, 150):
        models = []
        for some, fails in ((records, True), ([one for one in records if one.offset not in GUILTY], False)):
            with raising(LearnerStage, monkeypatch, "Chain" if fails else "nobody"):
                worker = Worker(job, pooled=True)
                for at in range(0, len(some), 50):
                    advance(job, worker.live, some[at : at + 50])
                    if at % every == 0:
                        worker.checkpoint()
            models.append(worker.live.export())
        assert models[0] == models[1]


@pytest.mark.parametrize("pooled", [False, True])
def test_a_replay_does_what_a_worker_does(pooled, monkeypatch):
    sections = ROWS | {"state": {"checkpoint_bytes": 100_000}}  # it stores its states in between
    job, records = Job.from_settings(settings(**sections)), with_guilty(samples(3000), (100, 1500, 2999))
    good = [one for one in records if one.offset not in (100, 1500, 2999)]
    with raising(LearnerStage, monkeypatch, "Chain"):
        failing = Replay(job, pooled=pooled)
        tally = failing.run(iter(records), lambda output: None, lambda tally: None)
    without = Replay(job, pooled=pooled)
    without.run(iter(good), lambda output: None, lambda tally: None)
    assert tally.dead_lettered == {"learner_failed": 3} and tally.records == 3000
    assert dict(failing.snapshots()) == dict(without.snapshots())
    assert not pooled or failing.export() == without.export()


def test_a_key_whose_every_record_fails_leaves_the_others_alone(monkeypatch):
    job = Job.from_settings(settings(**ROWS))
    records = with_guilty(RECORDS, tuple(range(60, 600, 3)))
    calls = []
    real = careful.rewind
    monkeypatch.setattr(careful, "rewind", lambda *arguments: calls.append(1) or real(*arguments))
    _, states, _ = run(job, [one for one in records if one.offset < 60 or one.offset % 3], 40)
    with raising(LearnerStage, monkeypatch, "Chain"):
        outputs, stored, _ = run(job, records, 50)
    assert len(letters(outputs)) == 180 and stored == states
    assert len(calls) == 1  # the others were expected


@pytest.mark.parametrize("error", [MemoryError, OSError])
def test_an_error_that_no_record_can_cause_ends_the_worker(error, monkeypatch):
    job = Job.from_settings(settings(**ROWS))

    def advance_(*arguments):
        raise error

    monkeypatch.setattr(LearnerStage, "advance", advance_)
    with pytest.raises(error):
        advance(job, Live(job, lambda key: None), RECORDS[:3])


def test_what_is_remembered_ends_with_the_snapshots_and_counts_as_changed():
    job = Job.from_settings(settings(**ROWS))
    worker = Worker(job)
    assert isinstance(advance(job, worker.live, RECORDS[:50]), Advanced)
    size = sum(len(one.value) for one in RECORDS[:50])
    assert worker.live.log.bytes > size and worker.live.dirty_bytes > worker.live.log.bytes
    worker.checkpoint()
    assert worker.live.log.bytes == worker.live.dirty_bytes == 0 and not [*worker.live.log.of(None)]


def test_reports_add_up_to_that_of_one_batch():
    job = Job.from_settings(settings())
    whole = advance(job, Live(job, lambda key: None), RECORDS).report
    live, parts = Live(job, lambda key: None), Report()
    for at in range(0, 600, 60):
        parts.add(advance(job, live, RECORDS[at : at + 60]).report)
    np.testing.assert_equal(np.concatenate(parts.ls_errors), np.concatenate(whole.ls_errors))
    for name in set(Report.__slots__) - {"batches", "ls_errors"}:
        np.testing.assert_equal(getattr(parts, name), getattr(whole, name))
    for column in BatchRows._fields:
        mine, all_of_them = ([list(getattr(batch, column)) for batch in report.batches] for report in (parts, whole))
        np.testing.assert_equal([one for rows in mine for one in rows], [one for rows in all_of_them for one in rows])


def test_a_bad_record_is_refused_as_ever_while_others_fail(monkeypatch):
    job, records = Job.from_settings(settings(**ROWS)), with_guilty(RECORDS[:90], (30,))
    records[31] = record(31, b"p1", b"{")
    with raising(LearnerStage, monkeypatch, "Chain"):
        outputs, _, _ = run(job, records, 90)
    assert [letter["streamjobs-error-reason"] for letter in letters(outputs)] == [b"learner_failed", b"malformed"]


@pytest.mark.parametrize("labelled", [True, False])
def test_a_record_that_fails_leaves_heads_as_they_were(labelled, monkeypatch):
    """The failing row may bring the first label: its key then shares the head of new keys again."""
    one = {"name": "rls", "task": "classification", "classes": ["run", "sit"], "intercept": True}
    columns = {
        "topic": TOPIC,
        "fields": ["ax", "ay", "az", *[f"more{n}" for n in range(30)]],
        "time": "ts",
        "label": "activity",
    }
    job = Job.from_settings(settings(source=columns, learner=one, head=None, drift=None, **ROWS))
    records = []
    for at, made in enumerate(samples(300, labelled=labelled)):
        body = json.loads(made.value) | {f"more{n}": float((at * n) % 7) for n in range(30)}
        if made.key != b"p1" or at < 150:
            body.pop("activity", None)
        records.append(made._replace(value=json.dumps(body).encode()))
    bad = [at for at, made in enumerate(records) if made.key == b"p1"][50]  # the first that has its label
    results = []
    for job_of in (job, job._replace(untaught=None)):
        with raising(LearnerStage, monkeypatch, "Rls"):
            results.append(run(job_of, with_guilty(records, (bad,)), 40))
    (ours, states, report), (theirs, whole, _) = results
    assert values(ours) == values(theirs) and report.dead_lettered == {"learner_failed": 1}
    for key, data in states.items():
        assert same_bits(decode_snapshot(job, data)[0]["learner"], decode_snapshot(job, whole[key])[0]["learner"])
        assert data[2] == (VERSION if labelled and key == b"p1" else LEAVES_OUT)


def test_a_learner_that_raises_while_loops_compile_is_named(monkeypatch):
    job = Job.from_settings(settings(**ROWS))

    def fails(self, *arguments):
        raise ZeroDivisionError("division by zero\nand more")

    monkeypatch.setattr(Rls, "loop", fails)
    with pytest.raises(
        ConfigError,
        match=r"^stage 'learner' of okfeb\+rls: Rls raised ZeroDivisionError on a first row of zeros \(test_careful.py, "
        r"line \d+\): division by zero; correct the learner, which 'streamjobs check-learner' checks\.$",
    ):
        job.compile()
