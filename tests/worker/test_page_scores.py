"""A worker's accuracy next to controls is what `replay` prints of the same records, however labels come and looks fall."""

import json
import subprocess
import sys
import tracemalloc
from typing import Any, NamedTuple

import numpy as np
import pytest
from confluent_kafka import Producer

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.messages import BatchRows
from streamjobs.demo.mock import PARTITIONS, MockBroker
from streamjobs.job_files import job_of
from streamjobs.kafka.topics import changelog
from streamjobs.replay.engine import Replay
from streamjobs.replay.scoring import Scored
from streamjobs.worker.page import people
from streamjobs.worker.page.people import Scores
from tests.commands.jobs import START, command, job_file
from tests.core.streams import record
from tests.replay.streams import RINGS

NUMBERS = RINGS.replace('task = "classification"\nloss = "hinge"', 'task = "regression"')
WINDOWS = RINGS.replace("[learner]", '[window]\nlength = "4s"\nhop = "2s"\nrate = 1\n[learner]')
WAIT, DELAY = '[labels]\nwait = "30s"\n', '[labels]\ndelay = "9s"\n'

WITHIN = 150  # seconds; a cold compile cache on a busy machine included


class Counted(NamedTuple):
    rows: int
    model: float
    last: float
    majority: float | None


def records(job: Job, seed: int, keys: int = 3, n: int = 60) -> list[Any]:
    """Of several keys: a third of the labels never comes; with [labels] wait each comes up to 35 s late, in no order."""
    random, events = np.random.default_rng(seed), []
    for number in range(n * keys):
        at, key, outer = number // keys, f"p{number % keys}", bool(random.random() < 0.3)
        angle, far = random.uniform(0, 2 * np.pi), (3.0 if outer else 1.0) + 0.1 * random.standard_normal()
        sample = {"ts": START + at, "x": far * np.cos(angle), "y": far * np.sin(angle)}
        label: Any = ("outer" if outer else "inner") if job.task == "classification" else sample["x"] + at / 50
        if random.random() < 0.33:
            label = None
        elif job.settings.labels.wait:
            within = job.composition.waiting.within if job.composition.waiting else 0.0
            moment = START + at + (random.uniform(-within, within) if within else 0.0)
            events.append((at + random.uniform(0, 35), key, {"ts": moment, "ring": label}))
            label = None
        events.append((at, key, {**sample, **({} if label is None else {"ring": label})}))
    events.sort(key=lambda one: one[0])
    return [record(number, key.encode(), value) for number, (_, key, value) in enumerate(events)]


def replayed(job: Job, stream: list[Any]) -> Counted:
    run = Replay(job)
    scored = Scored(run)
    scored.is_late = True  # also judge labels that come in time
    run.run(stream, scored.take, lambda tally: None)
    return counted(job, scored.figures())


def counted(job: Job, figures: dict[str, Any]) -> Counted:
    judged, without = figures["controls"]["judged"], figures["controls"]
    if job.task == "regression":
        return Counted(judged, figures["rmse"], without["rmse_last_label"], None)
    assert figures["labels"] - figures["unpredicted"] == judged, "another row than those with a known label was predicted"
    wrong = figures["wrong"], without["wrong_last_label"], without["wrong_majority"]
    return Counted(judged, *(round(1 - one / judged, 4) for one in wrong))


def watched(job: Job, stream: list[Any], seed: int) -> Scores:
    """As the page sees it: in calls of any size, and looks that fall between the labels and the rows of a call too."""
    random, live, at = np.random.default_rng(seed), Replay(job).live(("in", 0)), 0
    scores = Scores(job.settings.labels.wait, job.settings.labels.delay)
    batches: list[Any] = []
    late: list[Any] = []
    while at < len(stream):
        size = int(random.choice([1, 2, 7, 40]))
        report = advance(job, live, stream[at : at + size]).report
        at, late = at + size, late + report.late
        if random.random() < 0.3:
            scores.take(batches, late)
            batches, late = [], []
        batches += report.batches
        if random.random() < 0.3:
            scores.take(batches, late)
            batches, late = [], []
    scores.take(batches, late)
    return scores


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("labels", ["", WAIT, DELAY])
@pytest.mark.parametrize("text", [RINGS, NUMBERS, WINDOWS])
def test_labels_are_scored_as_replay_scores_them(tmp_path, text, labels, seed):
    job = job_of(job_file(tmp_path, text + labels))
    stream = records(job, seed)
    expected, found = replayed(job, stream), watched(job, stream, seed).summary()
    (kind,) = found
    assert expected.rows > 20 and kind == ("rmse" if expected.majority is None else "accuracy")
    one = found[kind]
    assert list(one) == ["rows", "model", "last_label", "majority"][: len(one)]
    assert list(one.values()) == pytest.approx([value for value in expected if value is not None], rel=1e-5)


def test_what_waits_is_bounded_and_rows_before_the_bound_are_still_scored(tmp_path, monkeypatch):
    job = job_of(job_file(tmp_path, RINGS + WAIT))
    stream = records(job, 1, n=200)
    whole = watched(job, stream, 1)
    monkeypatch.setattr(people, "MOST_WAITING", 5)
    few = watched(job, stream, 1)
    assert len(few._waiting) <= 5 < len(whole._waiting) and 20 < few.rows < whole.rows
    job = job_of(job_file(tmp_path, RINGS + DELAY))
    few = watched(job, records(job, 1, keys=2), 1)
    assert (
        sum(len(known.waiting or ()) for known in few._keys.values()) <= 5
        and few.rows < replayed(job, records(job, 1, keys=2)).rows
    )


def test_a_key_without_waiting_labels_takes_less_than_600_bytes():
    keys, scores = [f"key-{number}" for number in range(1000)], Scores()
    batch = BatchRows(keys, np.zeros(len(keys)), np.zeros(len(keys)), ["up"] * len(keys), ["up"] * len(keys))
    tracemalloc.start()
    try:
        scores.take([batch, batch])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (scores.rows, scores.right) == (len(keys), len(keys))
    assert held < 600 * len(keys)


@pytest.mark.slow
def test_the_last_line_of_a_worker_has_the_figures_that_replay_prints_of_the_topic(tmp_path, monkeypatch, capsys):
    with MockBroker() as mock:
        monkeypatch.setenv("STREAMJOBS_BROKER__URL", mock.url)
        monkeypatch.setenv("STREAMJOBS_STATE__DIRECTORY", str(tmp_path / "state"))
        monkeypatch.setenv("STREAMJOBS_METRICS__PORT", "0")
        file = job_file(tmp_path, RINGS + WAIT)
        job = job_of(file)
        mock.create(["in", *job.sinks.values(), changelog(job.settings)])
        producer = Producer({"bootstrap.servers": mock.url.removeprefix("kafka://"), "log_level": 0})
        for one in records(job, 5):
            producer.produce("in", one.value, key=one.key, partition=one.key[-1] % PARTITIONS, timestamp=one.timestamp)
        assert producer.flush(20) == 0
        words = [sys.executable, "-m", "streamjobs", "run", str(file), "--once"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=WITHIN, check=False)
        events = {event["event"]: event for event in map(json.loads, filter(None, done.stderr.splitlines()))}
        assert done.returncode == 0
        assert command("replay", file, "--input", "topic", "--json") == 0
        figures = json.loads(capsys.readouterr().out)
        assert events["stopped"]["accuracy"] == dict(
            zip(("rows", "model", "last_label", "majority"), counted(job, figures), strict=True)
        )
