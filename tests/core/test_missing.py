"""[source] missing: what becomes of samples that lack a number, in frames, in windows, after a crash."""

import json
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot, last_event
from streamjobs.core.messages import Stored
from streamjobs.errors import SnapshotError
from streamjobs.stages.fill import Fill
from streamjobs.stages.names import FILL
from tests.commands.jobs import problems, table
from tests.core.driving import fresh, in_parts, same_bits
from tests.core.streams import START, TOPIC, Worker, values
from tests.core.streams import settings as job_settings
from tests.sizes import examples

NAMES = ["ax", "ay", "az"]
SAMPLES = {"window": None, "drift": None, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}


def job(missing="hold", form="json", source=None, **sections) -> Job:
    source = {"topic": TOPIC, "fields": NAMES, "time": "ts", "label": "activity", "format": form, **(source or {})}
    return Job.from_settings(job_settings(**{**SAMPLES, **sections, "source": {**source, "missing": missing}}))


def record(offset, x, form="json", key=b"p", at=None, **more):
    """x: numbers of the fields; None null, ... absent."""
    body = {name: number for name, number in zip(NAMES, x, strict=True) if number is not ...}
    body |= {"ts": START + offset if at is None else at, **more}
    encode = msgspec.msgpack.encode if form == "msgpack" else lambda one: json.dumps(one).encode()
    return Stored(TOPIC, 0, offset, int((START + offset) * 1000), key, encode(body))


def run(made: Job, records):
    live = Live(made, lambda key: None)
    return advance(made, live, records), live


def rows_seen(made: Job, records) -> list[list[float]]:
    """The samples with their numbers filled, as they wait to be put in order."""
    source = made.settings.source.model_copy(update={"lateness": 99.0})
    waiting = Job.from_settings(made.settings.model_copy(update={"source": source}))
    _, live = run(waiting, records)
    return decode_snapshot(waiting, dict(live.snapshots())[b"p"])[0]["order"].held_X.tolist()


def test_each_policy_does_what_it_says():
    stream = [record(n, x) for n, x in enumerate([(1, 10, 5), (2, None, 5), (6, 20, None), (None, 30, ...), (9, 60, 7)])]
    assert rows_seen(job("hold"), stream) == [[1, 10, 5], [2, 10, 5], [6, 20, 5], [6, 30, 5], [9, 60, 7]]
    assert rows_seen(job("mean"), stream) == [[1, 10, 5], [2, 10, 5], [6, 20, 5], [3, 30, 5], [9, 60, 7]]
    assert rows_seen(job("skip"), stream) == [[1, 10, 5], [9, 60, 7]]
    assert rows_seen(job({"ax": "mean", "ay": "hold", "az": "skip"}), stream) == [[1, 10, 5], [2, 10, 5], [9, 60, 7]]
    (made, _), (plain, _) = run(job("dlq"), stream), run(job({"ax": "hold"}), stream)
    assert made.report.dead_lettered == {"missing_field": 3} and plain.report.dead_lettered == {"missing_field": 3}
    letters = [one for one in plain.outputs if one.sink == "dlq"]
    assert b"expected a number in field 'ay', got null" in dict(letters[0].headers)["streamjobs-error-message"]
    assert b"expected a number in field 'az', got nothing" in dict(letters[2].headers)["streamjobs-error-message"]


def test_what_is_too_old_or_was_never_there_is_not_filled():
    young = job("hold", source={"hold_for": "2s"})
    stream = [record(0, (None, 1, 1)), record(1, (4, 1, 1)), record(3, (None, 1, 1)), record(4, (None, 1, 1))]
    made, _ = run(young, stream)
    assert made.report.skipped == {"unfilled": 2} and made.report.filled == 1 and made.report.rows == 2
    made, _ = run(job("mean"), stream)
    assert made.report.skipped == {"unfilled": 1} and made.report.filled == 2 and made.report.rows == 3


def test_a_record_with_none_of_the_fields_is_no_sample():
    made, _ = run(job("hold"), [record(0, (1, 1, 1)), record(1, (..., ..., ...)), record(2, (None, None, None))])
    assert made.report.dead_lettered == {"missing_field": 1} and made.report.filled == 3 and made.report.rows == 2


@pytest.mark.parametrize("sink", ["features", "predictions"])
def test_outputs_say_how_many_were_filled_and_a_job_without_the_setting_says_nothing(sink):
    stream = [record(n, x) for n, x in enumerate([(1, 1, 1), (None, 2, None), (3, 3, 3), (4, None, 4)])]
    made, _ = run(job("hold"), stream)
    assert [json.loads(one.value)["filled"] for one in made.outputs if one.sink == sink] == [0, 2, 0, 1]
    whole = [record(n, (n, 1, 1)) for n in range(5)]
    (before, _), (after, _) = run(job("dlq"), whole), run(job("hold"), whole)
    one, other = ([json.loads(out.value) for out in made.outputs if out.sink == sink] for made in (before, after))
    assert all("filled" not in row for row in one) and [row | {"filled": 0} for row in one] == other


def test_a_batch_of_more_keys_than_fit_counts_all_samples_that_lacked_a_number():
    made = job()
    records = [record(n, (1.0, 2.0, 3.0 if n < 40 else None), key=b"p%d" % (n % 40)) for n in range(80)]
    live = Live(made, {}.get, most_bytes=1)
    assert live.most_slots < 40
    report = advance(made, live, records).report
    assert (report.lacking, report.filled) == ({"az": 40}, 40)


def test_a_window_says_how_many_of_its_keys_numbers_were_filled_since_the_one_before():
    made = job("hold", window={"length": "1s", "hop": "500ms", "rate": 10.0}, drift={"detector": "page_hinkley"})
    gaps = {3, 4, 12, 19}
    stream = [record(n, (n % 3, None if n in gaps else 1, n % 5), at=START + n / 10) for n in range(40)]
    out, live = run(made, stream)
    for sink in ("features", "predictions", "drift"):
        rows = [json.loads(one.value) for one in out.outputs if one.sink == sink]
        assert sum(row["filled"] for row in rows) == len(gaps) == out.report.filled and rows[0]["filled"] == 2
    state = decode_snapshot(made, dict(live.snapshots())[b"p"])[0][FILL]
    assert (state.filled, state.in_rows) == (4, 4)


def naive(policies, hold_for, times, X):
    """The definition, for one key."""
    history: list[list[tuple[float, float]]] = [[] for _ in policies]
    rows, verdicts = [], []
    for at, x in zip(times, X, strict=True):
        row, verdict = list(x), 0
        for j, policy in enumerate(policies):
            if not math.isnan(x[j]):
                continue
            known = history[j]
            if policy in ("skip", "dlq"):
                verdict = 1
            elif not known or (policy == "hold" and abs(at - known[-1][0]) > hold_for):
                verdict = verdict or 2
            else:
                row[j] = known[-1][1] if policy == "hold" else np.mean([number for _, number in known])
        for j, number in enumerate(x):
            if not math.isnan(number):
                history[j].append((at, number))
        rows.append(row)
        verdicts.append(verdict)
    return rows, verdicts


@settings(derandomize=True, deadline=None, max_examples=examples(60))
@given(seed=st.integers(0, 10**6), cut=st.integers(0, 30))
def test_the_stage_is_its_definition_in_any_batches_and_after_a_restart(seed, cut):
    rng = np.random.default_rng(seed)
    policies = tuple(rng.choice(["skip", "hold", "mean"], p=[0.1, 0.5, 0.4], size=3))
    stage, n = Fill(policies=policies, hold_for=3.0), 30
    X = np.where(rng.random((n, 3)) < 0.3, np.nan, rng.normal(size=(n, 3)))
    times, slots = 1e9 + np.cumsum(rng.integers(-1, 4, n)).astype(float), rng.integers(0, 2, n)
    start = fresh(stage, 3, 1)

    filled, verdict, total = whole = in_parts(stage, start, [], slots, times, X)
    assert same_bits(whole, in_parts(stage, start, [cut], slots, times, X))
    for slot in range(2):
        mine = slots == slot
        rows, verdicts = naive(policies, 3.0, times[mine], X[mine])
        assert verdict[mine].tolist() == verdicts
        taken = verdict[mine] == 0
        assert np.allclose(filled[mine][taken], np.array(rows).reshape(-1, 3)[taken], rtol=1e-12)
        counts = np.where(taken, np.isnan(X[mine]).sum(axis=1), 0)
        assert total[mine].tolist() == np.cumsum(counts).tolist()


def gappy(n=240, form="json", keys=2):
    rng = np.random.default_rng(3)
    records = []
    for offset in range(n):
        x = [None if rng.random() < 0.1 else ... if rng.random() < 0.1 else number for number in rng.normal(size=3).tolist()]
        more = {"activity": "run" if offset // 60 % 2 else "sit"} if offset % 3 else {}
        records.append(record(offset, x, form, b"p%d" % (offset % keys), START + offset / 20, **more))
    return records


@pytest.mark.parametrize("policy", ["skip", "hold", "mean", {"ax": "hold", "az": "mean"}])
def test_every_way_to_the_same_records_gives_the_same_bits(policy):
    """All at once, one by one with a crash and redelivery after each checkpoint, and as MessagePack."""
    how = {"window": {"length": "1s", "hop": "500ms", "rate": 10.0}, "drift": {"detector": "page_hinkley"}}
    made, packed = job(policy, **how), job(policy, form="msgpack", **how)
    whole, crashing, other = Worker(made), Worker(made), Worker(packed)
    expected = values(whole.apply(gappy()))
    assert any(one[0] == "predictions" for one in expected)
    got = []
    for at, one in enumerate(gappy()):
        got += values(crashing.apply([one]))
        if at % 40 == 39:
            crashing.checkpoint()
            crashing.apply(gappy()[at + 1 : at + 6])  # not stored
            crashing.crash()
            assert {output.sink for output in crashing.apply(gappy()[at - 3 : at + 1])} <= {"dlq"}
    for sink in ("features", "predictions", "drift", "dlq"):
        assert [one for one in got if one[0] == sink] == [one for one in expected if one[0] == sink]
    packed_values = values(other.apply(gappy(form="msgpack")))
    assert [one for one in packed_values if one[0] != "dlq"] == [one for one in expected if one[0] != "dlq"]
    for worker in (whole, crashing, other):
        worker.checkpoint()
    assert whole.store == crashing.store == other.store


@pytest.mark.parametrize("form", ["json", "msgpack", "raw"])
def test_a_frame_is_filled_sample_by_sample(form):
    X = np.array([[1, 2, 3], [np.nan, 4, 5], [6, np.nan, 9.0]])
    whole, frame = job("hold", form=form if form != "raw" else "json"), None
    if form == "raw":
        raw = {"topic": TOPIC, "format": "raw", "dim": 3, "missing": "hold"}
        whole = Job.from_settings(job_settings(**{**SAMPLES, "source": raw}))
        told = {"shape": "3,3", "dtype": "f8", "time": f"{START}", "rate": "1"}
        headers = [(f"streamjobs-{name}", text.encode()) for name, text in told.items()]
        frame = Stored(TOPIC, 0, 0, int(START * 1000), b"p", X.tobytes(), headers)
    else:
        columns = [[None if math.isnan(number) else number for number in column] for column in X.T.tolist()]
        frame = record(0, columns, form, at=[START, START + 1, START + 2])
    assert rows_seen(whole, [frame]) == [[1, 2, 3], [1, 4, 5], [6, 4, 9]]
    if form != "raw":
        lost = record(1, (None, ..., [7, 8]), form, at=[START + 3, START + 4])
        assert rows_seen(whole, [frame, lost])[3:] == [[6, 4, 7], [6, 4, 8]]


def test_x_as_a_list_may_lack_numbers_too():
    made = Job.from_settings(
        job_settings(**{**SAMPLES, "source": {"topic": TOPIC, "dim": 3, "time": "ts", "missing": "mean"}})
    )
    bodies = [{"x": [1, 2, 3]}, {"x": [None, 4, 5]}, {"x": None}, {}]
    stream = [Stored(TOPIC, 0, n, 0, b"p", json.dumps({**body, "ts": START + n}).encode()) for n, body in enumerate(bodies)]
    stream = [one._replace(timestamp=int((START + one.offset) * 1000)) for one in stream]
    assert rows_seen(made, stream) == [[1, 2, 3], [1, 4, 5], [1, 3, 4]]
    assert run(made, stream)[0].report.dead_lettered == {"missing_field": 1}


def test_states_are_taken_over_where_the_setting_comes_changes_and_goes():
    plain, hold, mean = (job(policy) for policy in ("dlq", "hold", "mean"))
    assert hold.fingerprint == mean.fingerprint != plain.fingerprint
    whole = [record(n, (n, 1.0, n % 3)) for n in range(30)]
    stores = {}
    for made in (plain, hold):
        worker = Worker(made)
        worker.apply(whole)
        worker.checkpoint()
        stores[made.fingerprint] = worker.store
    for before, after in ((plain, hold), (hold, plain), (hold, mean)):
        store = dict(stores[before.fingerprint])
        worker = Worker(after, store)
        worker.apply([record(30, (1, 2, 3)), record(31, (1, None, 3))])
        worker.checkpoint()
        states, _, offsets = decode_snapshot(after, store[b"p"])
        assert states["learner"] and list(offsets.values()) == [31 if after is not plain else 30]
        for reader in (plain, hold):
            newest, _ = last_event(reader, store[b"p"])
            assert newest == START + (31 if after is not plain else 30)


@pytest.mark.parametrize(("field", "value"), [("seen", np.array([-1, 3, 3])), ("in_rows", 9)])
def test_a_state_that_cannot_be_is_refused(field, value):
    made = job("hold")
    worker = Worker(made)
    worker.apply([record(n, (n, 1.0, 2.0)) for n in range(3)])
    ((key, stored),) = worker.live.snapshots()
    states, names, offsets = decode_snapshot(made, stored)
    states[FILL] = states[FILL]._replace(**{field: value})
    with pytest.raises(SnapshotError, match=rf"fill\.{field}"):
        decode_snapshot(made, made.encode(states, names, offsets))
    assert key == b"p"


def test_what_cannot_be_meant_is_reported():
    (one,) = problems(table(source={"missing": "fill"}))
    assert "missing must be 'dlq', 'skip', 'hold' or 'mean', or a table of them by field" in one
    (one,) = problems(table(source={"missing": {"aw": "hold"}}))
    assert "missing: 'aw' is not one of fields" in one
    (one,) = problems(table(source={"missing": "mean", "hold_for": "5s"}))
    assert "hold_for has no meaning without missing = 'hold'" in one


@pytest.mark.parametrize("form", ["json", "msgpack"])
def test_numbers_that_stand_for_a_missing_one_are_missing(form):
    numbers = [(1, 10, 5), (2, -200, 5), (6, 20, -200), (-200, 30, 255), (9, 60, 7)]
    null = [(1, 10, 5), (2, None, 5), (6, 20, None), (None, 30, 255), (9, 60, 7)]
    coded, plain = ([record(n, x, form) for n, x in enumerate(rows)] for rows in (numbers, null))
    for missing in ("hold", "mean", "skip"):
        every = job(missing, form, source={"missing_values": [-200, -999]})
        assert rows_seen(every, coded) == rows_seen(job(missing, form), plain)
    assert rows_seen(job("hold", form), coded)[1] == [2, -200, 5]  # without the setting it is a number
    one = job("hold", form, source={"missing_values": {"az": [-200, 255]}})
    assert rows_seen(one, coded) == [[1, 10, 5], [2, -200, 5], [6, 20, 5], [-200, 30, 5], [9, 60, 7]]
    (strict, _) = run(job("dlq", form, source={"missing_values": [-200]}), coded)
    assert strict.report.dead_lettered == {"not_finite": 3}


def test_missing_values_of_other_fields_are_refused():
    (one,) = problems(table(source={"missing_values": {"axx": [-1]}}))
    assert "missing_values: 'axx' is not one of fields with numbers" in one
