"""A key moves to another population: its signal, offsets and waiting rows go on, its head begins anew."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from streamjobs.commands.state import _population_of
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.state import migration, snapshot
from streamjobs.core.state.held_stages import starting_over
from streamjobs.core.state.population import Population, Taught, begin_head, encode
from streamjobs.core.state.population_reader import decode
from streamjobs.errors import SnapshotError
from tests.core.driving import same_bits
from tests.core.people import FILE, OTHERS, job_of_people, late_labels, of_people, population_of
from tests.core.streams import START, Worker, samples

LABELS = {"wait": "20s"}
RECORDS = late_labels(samples(360), after=6.0)
CUT = 251  # in the middle of a window


def turned(population: Population) -> Population:
    """The same with its classes in the other order."""
    head = population.head.state
    state = head._replace(weights=head.weights[:, ::-1].copy(), bias=head.bias[::-1].copy())
    return population._replace(
        names=population.names[::-1], labels=population.labels[::-1].copy(), head=Taught(population.head.learner, state)
    )


@pytest.fixture(scope="module")
def old() -> Job:
    return job_of_people(labels=LABELS)


@pytest.fixture(scope="module")
def new(old) -> Job:
    """Another map, and its classes in another order."""
    sections = {"learner": {"name": "ald", "above": 0.1, "budget": 12}, "labels": LABELS}
    population = {"file": FILE, "replaces": [old.population.fingerprint.hex()]}
    chosen = of_people(population=population, **sections)
    return Job.from_settings(chosen, population=encode(turned(population_of(chosen, OTHERS[:480]))))


@pytest.fixture(scope="module")
def stored(old) -> dict[bytes, bytes]:
    worker = Worker(old)
    worker.apply(RECORDS[:CUT])
    worker.checkpoint()
    return worker.store


def test_what_a_key_keeps_and_what_starts_over(old, new, stored):
    for key, data in stored.items():
        before, names, offsets = decode_snapshot(old, data)
        after, renamed, kept = decode_snapshot(new, data)
        assert (names, renamed, kept) == (["run", "sit"], ["sit", "run"], offsets)
        for name, labels in (("order", "held_L"), ("windows", "L"), ("waiting", "L")):
            theirs, ours = before[name]._asdict(), after[name]._asdict()
            codes, moved = theirs.pop(labels), ours.pop(labels)
            theirs.pop("said", None), ours.pop("said", None)
            assert same_bits([np.asarray(a) for a in theirs.values()], [np.asarray(a) for a in ours.values()])
            assert np.array_equal(moved, 1.0 - codes, equal_nan=True)
        assert after["waiting"].said.tolist() == [1 - one for one in before["waiting"].said.tolist()]
        assert key == b"p0" or len(before["waiting"].said) > 3
        start = begin_head(new.population, new.learner, 2)
        assert same_bits([np.asarray(a) for a in start], [np.asarray(a) for a in after["learner"]])
        assert after["books"].rows == before["books"].rows > 5 and after["books"].labelled.tolist() == [0, 0]
        assert after["books"].seen == new.population.rows
    assert np.isfinite(decode_snapshot(old, stored[b"p0"])[0]["windows"].L).any()


@pytest.mark.parametrize("without", [False, True], ids=["of this release", "of before corrections"])
def test_a_filter_of_late_labels_keeps_rows_and_bouts(without):
    """The stage that corrects the filter is the last of a snapshot, behind all that a key keeps."""
    sections = {
        "labels": LABELS,
        "head": {"name": "rls", "filter": "hmm", "fallback": "last_label"},
        "bouts": {"shortest": "1s"},
    }
    old = job_of_people(**sections)
    replaces = {"file": FILE, "replaces": [old.population.fingerprint.hex()]}
    chosen = of_people(population=replaces, learner={"name": "ald", "above": 0.1, "budget": 12}, **sections)
    new = Job.from_settings(chosen, population=encode(turned(population_of(chosen, OTHERS[:480]))))
    assert list(old.own)[-3:] == ["bouts", "refuted", "elapsed"]
    worker = Worker(old)
    worker.apply(RECORDS[:CUT])
    worker.checkpoint()
    for data in worker.store.values():
        before, held = decode_snapshot(old, data)[0], snapshot.decode(data)
        if without:  # as releases before this stage wrote it
            described = snapshot.table_of(held.description)
            described = {name: text for name, text in described.items() if name not in ("refuted", "elapsed")}
            held = held._replace(arrays=held.arrays[:-3], description=json.dumps(described), fingerprint=bytes(16))
            data = snapshot.encode(held)
            today = decode_snapshot(old, data)[0]
            assert today["elapsed"].newest == -np.inf
            assert same_bits([np.asarray(a) for a in today["smoothing"]], [np.asarray(a) for a in before["smoothing"]])
        assert before["elapsed"].newest > START
        after = decode_snapshot(new, data)[0]
        assert after["books"].rows == before["books"].rows > 5
        assert after["bouts"].bouts == before["bouts"].bouts and after["bouts"].newest == before["bouts"].newest > START
        assert (after["refuted"].latest, after["refuted"].run, after["elapsed"].newest) == (-1, 0, -np.inf)


SECTIONS = {
    "bouts": {"shortest": "1s"},
    "alarms": {"stuck": "5s", "silent": "1m"},
    "forecast": {"ahead": [2]},
}
OF_SECTIONS = {"bouts", "stuck", "silent", "forecasts"}


@pytest.mark.parametrize("left", [{}, {"bouts": {"shortest": "2s"}}, SECTIONS], ids=["left out", "changed", "kept"])
@pytest.mark.parametrize("had", [{}, SECTIONS], ids=["added", "had"])
def test_sections_that_need_a_state_of_their_own_may_change_with_the_population(had, left):
    """Otherwise each key would count as damaged, and its records be set aside."""
    old = job_of_people(labels=LABELS, **had)
    population = {"file": FILE, "replaces": [old.population.fingerprint.hex()]}
    chosen = of_people(population=population, learner={"name": "ald", "above": 0.1, "budget": 12}, labels=LABELS, **left)
    new = Job.from_settings(chosen, population=encode(turned(population_of(chosen, OTHERS[:480]))))
    worker = Worker(old)
    worker.apply(RECORDS[:CUT])
    worker.checkpoint()
    for key, data in worker.store.items():
        before, after = decode_snapshot(old, data)[0], decode_snapshot(new, data)[0]
        assert after["books"].rows == before["books"].rows > 5
        assert np.array_equal(before["windows"].X, after["windows"].X, equal_nan=True)
        assert after["waiting"].said.tolist() == [1 - one for one in before["waiting"].said.tolist()]
        fresh = new.init(key)
        for name in OF_SECTIONS & after.keys():
            same = name in before and old.described[name] == new.described[name]
            expected = before[name] if same else fresh[name]
            assert (name == "bouts" and same) or same_bits(snapshot.flatten(after[name]), snapshot.flatten(expected))
        if had and left == SECTIONS:  # a bout has a class, in another column now
            assert after["bouts"].newest == before["bouts"].newest > START
        assert "models continue" not in starting_over(new.stages, new.described, data), "the head starts over"


@pytest.mark.parametrize("has", [{}, SECTIONS, {"bouts": {"shortest": "2s"}}], ids=["left out", "the same", "changed"])
def test_keys_of_the_same_population_do_not_move_if_sections_change(has):
    """They were counted as keys of a population to be replaced, this one, that would start a new head."""
    old, now = job_of_people(labels=LABELS, **SECTIONS), job_of_people(labels=LABELS, **has)
    data = old.encode(old.init(b"p1"), list(old.population.names), {})
    assert decode_snapshot(now, data)[0].keys() == now.own.keys()
    assert _population_of(now, data) == "here"
    assert ("models continue" in starting_over(now.stages, now.described, data)) == (has != SECTIONS)
    unwatched = job_of_people(labels=LABELS, drift=None)
    assert _population_of(unwatched, data) == "other"


def test_the_stream_goes_on_without_a_gap_and_labels_meet_rows_of_before(old, new, stored):
    straight, moved = Worker(old), Worker(new, dict(stored))
    straight.apply(RECORDS[:CUT])
    a = advance(old, straight.live, RECORDS[CUT:])
    b = advance(new, moved.live, RECORDS[CUT - 40 :])
    assert b.report.redelivered == 40 and b.report.labels == a.report.labels > 5 and not b.report.dead_lettered
    ours, theirs = ([json.loads(o.value) for o in one.outputs if o.sink == "predictions"] for one in (a, b))
    said = [
        [(o["key"], o["ts"], o["seq"], o["true_class"]) for o in one if (o["ts"] - START) % 4 != 0.5]
        for one in (ours, theirs)
    ]
    assert (
        said[0] == said[1] and len(ours) == len(theirs) > len(said[0]) > 20
    )  # at 0.5 activities tie: the first column wins
    moved.checkpoint()
    for key in stored:
        assert decode_snapshot(new, moved.store[key])[0]["books"].rows > 10
        with pytest.raises(SnapshotError, match="state migrate"):
            decode_snapshot(old, moved.store[key])


def test_a_crash_while_keys_move_gives_the_same_states(new, stored):
    whole, broken = Worker(new, dict(stored)), Worker(new, dict(stored))
    whole.apply(RECORDS[CUT:])
    whole.checkpoint()
    for one in RECORDS[CUT:]:
        broken.apply([one])
        if one.offset % 3:
            broken.checkpoint()
        broken.crash()
        broken.apply(RECORDS[CUT : one.offset + 1])
        broken.checkpoint()
    assert broken.store == whole.store


def test_other_settings_are_no_reason_to_move(old, stored):
    """Those that hinder are named alone: the population, its map and sections may differ, and need not be restored."""
    sections = {"labels": LABELS, "window": {"length": "2s", "hop": "500ms", "rate": 10.0}, "bouts": {"shortest": "1s"}}
    sections["learner"] = {"name": "ald", "above": 0.1, "budget": 12}
    chosen = of_people(population={"file": FILE, "replaces": [old.population.fingerprint.hex()]}, **sections)
    other = Job.from_settings(chosen, population=encode(population_of(chosen)))
    live = Live(other, stored.get)
    with pytest.raises(SnapshotError, match=r"^snapshot was written with windows=.*length=1\.0.*length=2\.0") as refused:
        advance(other, live, RECORDS[CUT : CUT + 3])
    assert not any(f"{name}=" in str(refused.value) for name in ("population", "map", "bouts"))


@pytest.mark.parametrize(
    ("had", "has", "moves"),
    [
        ({"learner": "Ald(budget=20)"}, {"learner": "Ald(budget=12)"}, True),
        ({"bouts": "Bouts()"}, {"forecasts": "Forecasts()"}, True),
        ({"population": "third"}, {}, False),
        ({"dim": "3"}, {"dim": "4"}, False),
        ({}, {"mirror": "Mirror()"}, False),
        ({"order": "Order(lateness=3.0)"}, {"order": "Order()"}, False),
        ({"idle": "Idle(after=3)"}, {}, False),
        ({}, {"idle": "Idle(after=3)"}, False),
        ({"sensors": "Sensors()"}, {}, False),
        ({"counters": "Counters()"}, {}, False),
    ],
)
def test_a_key_moves_only_with_the_signal_that_it_has(had, has, moves):
    """What a stage of its own code describes counts also where no job of this process has loaded that code."""
    assert migration.survives({"population": "first", **had}, {"population": "second", **has}, ["first"]) == moves


def test_a_waiting_label_of_any_class_is_a_class_of_the_key():
    stages = {"waiting": SimpleNamespace(label_codes=("L",)), "order": SimpleNamespace(label_codes=())}
    states = {"waiting": SimpleNamespace(L=np.array([[0.0], [np.nan], [2.0]])), "order": SimpleNamespace()}
    assert sorted(migration._codes(stages, states)) == [0.0, 2.0]


def test_a_class_of_a_persons_own_moves_with_the_rows_that_carry_it(old):
    three = job_of_people(labels={"delay": "60s"}, head={"name": "rls", "max_classes": 3})
    worker = Worker(three)
    stream = [r._replace(value=r.value.replace(b'"run"', b'"hop"')) for r in samples(200, keys=1)]
    worker.apply(stream)
    worker.checkpoint()
    replaces = [decode(encode(three.population)).fingerprint.hex()]
    for most, fits in ((3, True), (2, False)):
        head = {"name": "rls", "max_classes": most}
        chosen = of_people(labels={"delay": "60s"}, head=head, population={"file": FILE, "replaces": replaces})
        other = Job.from_settings(chosen, population=encode(turned(population_of(chosen))))
        if fits:
            states, names, _ = decode_snapshot(other, worker.store[b"p0"])
            assert names == ["sit", "run", "hop"] and set(states["waiting"].L.ravel()) == {0.0, 2.0}
        else:
            with pytest.raises(SnapshotError, match=r"hop.*max_classes"):
                decode_snapshot(other, worker.store[b"p0"])
