"""The population of the activity figures is the model a pooled replay of the same recordings makes."""

import json

import numpy as np

from algorithms import learner_from
from papers.late_labels import Model, population
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.core.messages import Stored
from streamjobs.fit.recordings import Stream
from streamjobs.settings.sections import Settings
from tests.core.driving import fresh
from tests.data import dataset

START = 1_700_000_000.0
FIELDS = ["ax", "ay", "az", "wx", "wy", "wz"]


def test_a_pooled_replay_of_raw_frames_gives_the_bits_of_the_population():
    data = dataset("seglearn_watch")
    names = [str(name) for name in data["y_labels"]]
    ids = data["key"].astype(int) * 1000 + data["seg"]
    chosen = np.random.default_rng(7).permutation(np.unique(ids))[:12]
    settings = Settings(
        source={"topic": "watch", "fields": FIELDS, "time": "ts", "label": "activity"},
        window={"length": "2s", "hop": "1s", "rate": 50.0},
        scaling={"method": "standard", "clip": 5.0},
        learner={"name": "rls", "intercept": True, "task": "classification", "classes": names},
    )
    job = Job.from_settings(settings)
    live = Live(job, lambda key: None, pooled=True)
    parts = []
    for number, one in enumerate(chosen):  # one recording after the other, an hour apart
        rows = np.flatnonzero(ids == one)
        times = START + 3600.0 * number + np.arange(len(rows)) / 50.0
        key, code = f"p{data['key'][rows[0]]}".encode(), int(data["y"][rows[0]])
        records = []
        for begin in range(0, len(rows), 50):
            part = slice(begin, begin + 50)
            body = dict(zip(FIELDS, data["X"][rows[part]].T.tolist(), strict=True))
            body |= {"ts": times[part].tolist(), "activity": names[code]}
            stamp = int((times[part][-1] + 1) * 1000)
            records.append(Stored("watch", 0, number * 100_000 + begin, stamp, key, json.dumps(body).encode()))
        report = advance(job, live, records).report
        assert not report.dead_lettered and not report.redelivered
        parts.append((data["X"][rows], code, report.rows))

    model = Model("linear", learner_from("rls", {"intercept": True}), warm=True)
    X = np.vstack([_windows(job, signal) for signal, _, _ in parts])
    activity = np.concatenate([np.full(count, code) for _, code, count in parts])
    states = population(model, Stream(X, activity, activity), len(names))
    pooled, labelled, _ = decode_snapshot(job, live.export())
    assert labelled == names and states.books.labelled.tolist() == pooled["books"].labelled.tolist()
    for mine, theirs in zip(states.learner, pooled["learner"], strict=True):
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()
    for mine, theirs in zip(states.scaling, pooled["scaling"], strict=True):
        assert np.asarray(mine).tobytes() == np.asarray(theirs).tobytes()


def _windows(job, signal):
    stage, n = job.stages["windows"], len(signal)
    start = fresh(stage, signal.shape[1], 1)
    work = stage.workspace(start)
    stage.load(work, 0, start)
    slots, unknown = np.zeros(n, np.int64), np.full((n, 1), np.nan)
    return stage.advance(work, slots, START + np.arange(n) / 50.0, signal, unknown, slots, np.full(n, 3, np.int8)).X
