"""Jobs drawn from all sections together, on streams of every kind: a crash, a cut, or a section added changes no bit.

Tests of a stage know its neighbours only; these test combinations of all stages.
"""

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from algorithms import SettingError
from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import ConfigError
from streamjobs.settings.load import settings_from
from tests.core.drawn_jobs import drawn, widened

START, RECORDS = 1_700_000_000.0, 250
ADDED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("forecast", {"ahead": [1, 2]}),
    ("alarms", {"stuck": True}),
    ("alarms", {"silent": "20s"}),
    ("bouts", {"shortest": "5s"}),
)
Kept = dict[tuple[str, object], tuple[Any, ...]]  # outputs by sink and id


def stream(rng: random.Random, dim: int, task: str) -> list[Stored]:
    """Noise, walks, waves, counts, levels, numbers of any size and none; gaps, repeats, disorder, frames, late labels."""
    random_ = np.random.default_rng(rng.randrange(1 << 30))
    keys = rng.choice((1, 3, 8))
    kinds = [[rng.randrange(8) for _ in range(dim)] for _ in range(keys)]
    last, now = np.zeros((keys, dim)), [START] * keys
    records = []
    for offset in range(RECORDS):
        key, step = offset % keys if rng.random() < 0.5 else rng.randrange(keys), offset // keys
        z = random_.normal(size=dim)
        last[key] += z
        values = np.array([z, last[key], np.sin(step / 7) + 0.1 * z, np.round(np.abs(z)), 5.0 + 0 * z, step // 50 * 10 + z])
        values = np.vstack([values, 1e8 * z, z * 10.0 ** random_.integers(-8, 8)])
        x = [float(values[kind, i]) for i, kind in enumerate(kinds[key])]
        now[key] += rng.choices((0.1, 0.0, -0.15, rng.uniform(1, 90), 400), (95, 2, 2, 1, 0.3))[0]
        at, label = round(now[key], 3), "ab"[step // 40 % 2] if task == "classification" else 2 * x[0]
        body: dict[str, Any] = {f"f{i}": value for i, value in enumerate(x)} | {"ts": at}
        what = rng.random()
        if what < 0.6:
            body["y"] = label
        if what < 0.03:
            body["f0"] = rng.choice((None, 1e300))
        elif what < 0.05:
            body = {"ts": round(at - rng.uniform(0, 3), 1), "y": label}
        elif what > 0.95:
            body = {name: [value] * 4 for name, value in body.items() if name != "ts"}
            body["ts"] = [round(at + 0.1 * i, 3) for i in range(4)]
            now[key] += 0.3
        value = b"{" if 0.94 < what < 0.95 else json.dumps(body).encode()
        records.append(Stored("in", 0, offset, int(at * 1000), b"k%d" % key, value))
    return records


def with_category(record: Stored, field: str, rng: random.Random) -> Stored:
    """The record with one of "a", "b", true, and seldom another text, in place of the field's numbers."""
    try:
        body = json.loads(record.value or b"")
    except ValueError:
        return record
    if field not in body:
        return record
    drawn_ = [rng.choices(("a", "b", True, "c"), (30, 30, 30, 1))[0] for _ in range(4)]
    body[field] = drawn_ if isinstance(body[field], list) else drawn_[0]
    return record._replace(value=json.dumps(body).encode())


def begun(job: Job, store: dict[bytes, bytes], **how: Any) -> Live:
    live = Live(job, store.get, **how)
    live.meet(lambda after, most: [(key, store[key]) for key in sorted(store) if after is None or key > after][:most])
    return live


def keep(kept: Kept, outputs: list[Output]) -> None:
    """A repeated output must be the same."""
    for one in outputs:
        place = one.sink, dict(one.headers).get("streamjobs-id", one.value)
        assert kept.setdefault(place, tuple(one)) == tuple(one), place


def run(job: Job, records: list[Stored], sizes: tuple[int, ...], rng: random.Random, how: str) -> tuple[Kept, Any]:
    """how: whole; crashes: at random, after the last checkpoint; paced: only some states are written at a time."""
    store: dict[bytes, bytes] = {}
    kept, at, written = Kept(), 0, 0
    unwritten: dict[bytes | None, int] = {}  # keys with a record that no snapshot has, and the first of these
    room = {"most_bytes": rng.choice((1, 1 << 30))} if how == "paced" else {}
    live = begun(job, store, **room)
    while at < len(records):
        part = records[at : at + rng.choice(sizes)]
        made = advance(job, live, part)
        assert not made.report.failures and not made.report.set_aside
        keep(kept, made.outputs)
        at += len(part)
        for record in part:
            unwritten.setdefault(record.key, record.offset)
        if how == "crashes" and rng.random() < 0.3:
            if rng.random() < 0.5:
                store.update(live.snapshots())
                written = at
            else:
                live, at = begun(job, store), written
        if how == "paced" and rng.random() < 0.5:
            if rng.random() < 0.8:
                store.update(live.snapshots([key for key in live.changed() if rng.random() < 0.5]))
                behind = {*live.changed(), *live.parked}
                unwritten = {key: first for key, first in unwritten.items() if key in behind}
            else:
                live, at, unwritten = begun(job, store, **room), min(unwritten.values(), default=at), {}
    store.update(live.snapshots())
    assert not live.owed().outputs, "every state can be written"
    return kept, store


def changed(table: dict[str, Any], rng: random.Random) -> Job | None:
    """The job with sections of ADDED that it has not, or without those it has; None where that cannot be."""
    other = copy.deepcopy(table)
    for name, section in ADDED:
        if rng.random() < 0.5 and other.pop(name, None) is None:
            other[name] = section
    try:
        return Job.from_settings(settings_from(other))
    except ConfigError:
        return None


def drawn_job(rng: random.Random, draw: Callable[[random.Random], dict[str, Any]]) -> tuple[Job, dict[str, Any]]:
    """The next job that the settings take, with its table."""
    while True:
        table = draw(rng)
        try:
            return Job.from_settings(settings_from(table)).on_partitions(1), table
        except (ConfigError, SettingError):
            continue


def same_after_crashes(
    job: Job, table: dict[str, Any], records: list[Stored], rng: random.Random
) -> tuple[Kept, dict[bytes, bytes]]:
    """What one run in large batches gives: every other one must give the same."""
    whole, store = run(job, records, (1, 7, 300), rng, "whole")
    assert run(job, records, (1, 3, 20, 100), rng, "crashes") == (whole, store), table
    if job.steps.silent is None:  # needs all states as of one record
        assert run(job, records, (1, 4, 30), rng, "paced") == (whole, store), table
    return whole, store


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(20), *[pytest.param(seed, marks=pytest.mark.long) for seed in range(20, 2000)]])
def test_a_crash_changes_no_bit_of_a_job_with_any_learner(seed: int) -> None:
    rng = random.Random(seed)
    job, table = drawn_job(rng, widened)
    records = stream(rng, len(table["source"]["fields"]), job.task)
    if categories := table["source"].get("categories"):
        records = [with_category(one, *categories, rng) for one in records]
    same_after_crashes(job, table, records, rng)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(60), *[pytest.param(seed, marks=pytest.mark.long) for seed in range(60, 1000)]])
def test_a_crash_a_cut_or_a_section_more_changes_no_bit(seed: int) -> None:
    rng = random.Random(seed)
    job, table = drawn_job(rng, drawn)
    records = stream(rng, len(table["source"]["fields"]), job.task)
    whole, _ = same_after_crashes(job, table, records, rng)
    other = changed(table, rng)
    if other is not None:
        cut, kept, held = rng.randrange(1, RECORDS), Kept(), dict[bytes, bytes]()
        for one, part in ((job, records[:cut]), (other, records[cut:])):
            live = begun(one, held)
            made = advance(one, live, part)
            keep(kept, made.outputs)
            held |= live.snapshots()
        same = ("predictions", "features", "dlq")
        expected = {place: one for place, one in whole.items() if place[0] in same}
        assert {place: one for place, one in kept.items() if place[0] in same} == expected, table
