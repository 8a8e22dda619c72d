"""The population: its file, what a job refuses, and that what all keys share is never learned nor stored per key."""

import json
import struct
import tracemalloc
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from algorithms import learner_from
from algorithms.common.kernels import Kernel
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.state.population import Population, encode, learner_table
from streamjobs.core.state.population_reader import decode
from streamjobs.core.state.snapshot import flatten
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.composition import composition_of
from tests.core.driving import same_bits
from tests.core.people import FILE, NAMES, OTHERS, job_of_people, of_people, population_of
from tests.core.streams import Worker, samples, settings

RECORDS = samples(360)


@pytest.fixture(scope="module")
def population() -> Population:
    return population_of(of_people())


@pytest.fixture(scope="module")
def data(population) -> bytes:
    return encode(population)


@pytest.fixture(scope="module")
def job(data) -> Job:
    return Job.from_settings(of_people(), population=data)


def predictions(outputs) -> list[dict]:
    return [json.loads(o.value) for o in outputs if o.sink == "predictions"]


def test_a_population_comes_back_bit_for_bit_and_encodes_to_the_same_bytes(population, data):
    read = decode(data)
    assert encode(read) == data and read.fingerprint == population.fingerprint
    assert read[:2] == population[:2] and read.people == 4 and read.rows == population.labels.sum() > 50
    for ours, theirs in zip(population[5:8], read[5:8], strict=True):
        assert ours.learner == theirs.learner
        assert same_bits([np.asarray(a) for a in flatten(ours.state)], [np.asarray(a) for a in flatten(theirs.state)])


@given(st.data())
def test_any_changed_byte_or_truncation_is_noticed(data, chance):
    raw = bytearray(data)
    raw[chance.draw(st.integers(0, len(raw) - 1))] ^= chance.draw(st.integers(1, 255))
    for damaged in (bytes(raw), data[: chance.draw(st.integers(0, len(data) - 1))]):
        with pytest.raises(SnapshotError):
            decode(damaged)


def test_a_learners_table_makes_the_same_learner():
    for learner in (
        learner_from("ald", {"kernel": {"name": "laplacian", "bandwidth": 2.0}}),
        learner_from("chain", {"extractor": {"name": "okfeb", "rank": 5}, "head": {"name": "rls", "delta": 3.0}}),
    ):
        table = json.loads(json.dumps(learner_table(learner)))
        assert learner_from(table.pop("name"), table) == learner
    assert learner_table(learner_from("ald", {}))["kernel"] == {"name": "gaussian", "bandwidth": Kernel().bandwidth}


def test_parts_that_do_not_belong_together_make_no_population(population):
    parts, whole = composition_of(of_people()), population._asdict()
    given_ = {"names": NAMES, "labels": whole["labels"], "people": 4}
    states = {name: whole[name].state for name in ("scaling", "map", "head")}
    wide, _ = parts.teacher.run(parts.teacher.init(dim=7, targets=2, seed=0), np.zeros((1, 7)), np.zeros((1, 2)))
    for wrong in (
        {"names": ["run"]},
        {"names": ["run", "run"]},
        {"labels": np.array([1])},
        {"head": wide},
        {"head": states["head"]._replace(weights=states["head"].weights * np.nan)},
        {"head": states["head"]._replace(P=states["head"].P[1:])},
    ):
        with pytest.raises(ValueError):
            Population.from_composition(parts, **(given_ | states | wrong))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"window": {"length": "1s", "hop": "1s", "rate": 10.0}}, r"windows .*hop=0.5.*windows .*hop=1.0"),
        (
            {"learner": {"name": "ald", "above": 0.2, "budget": 20}},
            r"with map Ald\(above=0.1\); .* has map Ald\(above=0.2\)\.",
        ),
        ({"learner": {"name": "random_prototypes", "budget": 20}}, r"map Ald.*map RandomPrototypes"),
        ({"scaling": {"clip": 4.0}}, r"scaling .*clip=5.0.*clip=4.0"),
        ({"head": {"name": "rls", "delta": 3.0}}, r"head .*delta=3.0"),
        ({"head": {"name": "rls", "classes": ["sit", "run"]}}, r"classes"),
        (
            {"source": {"topic": "imu", "fields": ["ax", "az", "ay"], "time": "ts", "label": "activity"}},
            r"x ax,ay,az.*ax,az,ay",
        ),
        (
            {"source": {"topic": "imu", "fields": ["ax", "ay", "az", "wx"], "time": "ts", "label": "activity"}},
            r"with x without wx; this job has x with wx\.",
        ),
    ],
)
def test_a_population_of_another_job_is_refused_and_says_what_differs(data, changed, said):
    with pytest.raises(ConfigError, match=said) as refused:
        Job.from_settings(of_people(**changed), population=data)
    assert FILE in str(refused.value) and "streamjobs fit" in str(refused.value)


def test_head_settings_that_belong_to_the_person_may_change_without_a_new_fit(data):
    head = {"name": "gated_rls", "boost": 3.0, "gate": False, "smooth": 0.0, "rate": 0.1, "discount": 0.9}
    assert Job.from_settings(of_people(head=head), population=data).learner.boost == 3.0


def test_a_new_person_is_recognised_before_any_label(job):
    new = [r._replace(key=b"new") for r in samples(240, keys=1, seed=5, labelled=False)]
    said = predictions(Worker(job).apply(new))
    truth = ["run" if (i // 8) % 2 else "sit" for i in range(len(said))]  # 4 s each, a window every half
    right = [one["predicted_class"] == y for one, y in zip(said, truth, strict=True)]
    assert sum(right) / len(right) > 0.8
    assert said[0]["labelled"] == [] and said[0]["classes"] == 2 and said[0]["n_seen"] == job.population.rows
    assert said[0]["head"] == "frozen" and said[0]["share"] == 0.5 and said[0]["smoothed"] == said[0]["score"]


def test_predictions_say_which_head_weighs_more_and_what_was_labelled(job):
    swapped = {"run": "sit", "sit": "run"}
    stream = []
    for one in samples(900, keys=1, seed=6):
        body = json.loads(one.value)
        if "activity" in body:
            body["activity"] = swapped[body["activity"]]
        stream.append(one._replace(value=json.dumps(body).encode()))
    said = predictions(Worker(job).apply(stream))
    assert said[-1]["head"] == "adapted" and said[-1]["share"] > 0.9 and said[-1]["labelled"] == ["run", "sit"]
    late = said[len(said) // 2 :]
    assert sum(one["predicted_class"] == one["true_class"] for one in late) / len(late) > 0.6


def test_nothing_is_learned_by_what_all_keys_share(job, population):
    worker = Worker(job)
    worker.apply(RECORDS)
    for name, taught in (("scaling", population.scaling), ("map", population.map)):
        assert worker.live.shared[name].slots == 1 and name not in worker.live.work
        after = job.stages[name].save(worker.live.shared[name], 0, taught.state)
        assert same_bits([np.asarray(a) for a in after], [np.asarray(a) for a in taught.state])


def test_a_snapshot_holds_the_head_and_not_what_is_shared(job, population):
    worker = Worker(job)
    worker.apply(RECORDS)
    states, names, _ = decode_snapshot(job, dict(worker.live.snapshots())[b"p0"])
    own = {"order", "idle", "windows", "learner", "drift", "smoothing", "fallback", "books"}
    assert set(states) == own and names == NAMES
    assert states["learner"].frozen.tobytes() == population.head.state.weights.tobytes()


def test_the_fingerprint_of_the_population_is_in_every_snapshot(job, data):
    worker = Worker(job)
    worker.apply(RECORDS)
    worker.checkpoint()
    other = population_of(of_people(), OTHERS[:400])
    changed = Job.from_settings(of_people(), population=encode(other))
    live = Live(changed, worker.store.get)
    old, new = decode(data).fingerprint.hex(), other.fingerprint.hex()
    with pytest.raises(SnapshotError, match=rf"population {old}; .*population {new}.*replaces = .*state migrate"):
        advance(changed, live, RECORDS[:3])


def test_classes_of_a_persons_own_stand_behind_the_populations():
    job = job_of_people(head={"name": "rls", "max_classes": 3, "boost": 100.0})
    stream = [
        r._replace(value=r.value.replace(b'"run"', b'"hop"')) if i > 100 else r
        for i, r in enumerate(samples(900, keys=1, seed=7))
    ]
    worker = Worker(job)
    said = predictions(worker.apply(stream))
    assert worker.live.names[0] == (*NAMES, "hop") and said[-1]["classes"] == 3
    assert said[0]["classes"] == 2 and {one["predicted_class"] for one in said[-40:]} == {"hop", "sit"}


def test_a_linear_head_alone_begins_from_a_population():
    job = job_of_people(learner={"name": "rls", "gate": True, "smooth": 0.3}, head=None)
    assert "map" not in job.stages and job.task == "classification"
    said = predictions(Worker(job).apply(samples(240, keys=1, seed=5, labelled=False)))
    assert {one["predicted_class"] for one in said} == {"run", "sit"} and said[0]["share"] == 0.5


def test_rows_without_features_get_the_last_label():
    sections = {"head": {"name": "gated_rls", "fallback": "last_label"}, "drift": None}
    job = Job.from_settings(settings(learner={"name": "okfeb", "rank": 3, "budget": 5, "seed_size": 5}, **sections))
    said = predictions(Worker(job).apply(samples(120, keys=1)))
    assert said[0]["predicted_class"] is None
    first = next(i for i, one in enumerate(said) if one["true_class"] is not None)
    assert said[first + 1]["predicted_class"] == said[first]["true_class"] and said[first + 1]["score"] is None


def test_the_person_without_a_population_learns_cold_on_a_scale_that_never_freezes():
    linear = {"name": "rls", "intercept": True, "task": "classification", "smooth": 0.3}
    job = Job.from_settings(settings(learner=linear, head=None, drift=None))
    worker = Worker(job)
    said = predictions(worker.apply(samples(900, keys=1, seed=3)))
    assert said[0]["predicted_class"] is None and said[0]["labelled"] == []
    assert said[-1]["labelled"] == ["sit", "run"] and said[-1]["head"] is None
    late = said[len(said) // 2 :]
    assert sum(one["predicted_class"] == one["true_class"] for one in late) / len(late) > 0.8
    assert worker.live.states(0)["scaling"].seen == len(said)


def _saying(data: bytes, change) -> bytes:
    """The population's file with another description of itself, and the checksum that fits."""
    magic, length = data[:4], struct.unpack_from("<I", data, 4)[0]
    said = change(json.loads(data[8 : 8 + length]))
    said = said if isinstance(said, bytes) else json.dumps(said).encode()
    body = magic + struct.pack("<I", len(said)) + said + data[8 + length : -4]
    return body + struct.pack("<I", zlib.crc32(body))


@pytest.mark.parametrize("said", [b"[" * 60_000, b"9" * 5000, b'{"width": 1e999, "names": []}'])
def test_a_population_that_tells_nonsense_about_itself_is_refused(data, said):
    with pytest.raises(SnapshotError, match="damaged although its checksum fits"):
        decode(_saying(data, lambda _: said))


@pytest.mark.parametrize("change", [{"width": 10**9}, {"map": {"name": "rff", "features": 20_000}}])
def test_a_population_asks_for_no_more_memory_than_the_job_before_it_is_refused(data, change):
    tracemalloc.start()
    with pytest.raises(ConfigError, match="was learned with"):
        Job.from_settings(of_people(), population=_saying(data, lambda said: said | change))
    assert tracemalloc.get_traced_memory()[1] < 32 << 20
    tracemalloc.stop()


def test_arrays_of_another_length_or_without_numbers_make_no_population(population):
    taught = population.head
    for state in (
        taught.state._replace(weights=taught.state.weights[:-1]),
        taught.state._replace(bias=np.append(taught.state.bias, 0.0)),
        taught.state._replace(weights=taught.state.weights * np.inf),
    ):
        with np.errstate(invalid="ignore"), pytest.raises(SnapshotError):
            decode(encode(population._replace(head=taught._replace(state=state))))


@pytest.mark.parametrize("labels", [[2**63 - 1, 2**63 - 1], [2**62, 0], [-1, 5]])
def test_counts_of_labels_that_no_key_could_go_on_from_make_no_population(population, labels):
    with pytest.raises(SnapshotError, match="expected counts of labels"):
        decode(encode(population._replace(labels=np.array(labels))))


@pytest.mark.filterwarnings("error")
def test_a_boost_that_leaves_the_finite_numbers_is_refused(population):
    taught = population.head
    huge = population._replace(head=taught._replace(state=taught.state._replace(P=np.full_like(taught.state.P, 1e308))))
    with pytest.raises(ConfigError, match="boost = 10"):
        Job.from_settings(of_people(), population=encode(huge)).init(b"p1")
