"""[state] ttl: an idle key begins anew by its own event times, and nobody sees whether its bytes were removed before."""

import json

import numpy as np
import pytest

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import last_event
from streamjobs.core.messages import Stored
from tests.core.streams import START, TOPIC, Worker, settings, values
from tests.sizes import first_fast

TTL = 3600.0
SMALL = {"window": None, "drift": None, "learner": {"name": "okfeb", "rank": 2, "budget": 3}}


def job(ttl: float | None = TTL, **source) -> Job:
    table = {"topic": TOPIC, "fields": ["ax", "ay", "az"], "time": "ts", "label": "activity"}
    return Job.from_settings(settings(source=table | source, state={"ttl": ttl}, **SMALL))


def sent(offset: int, key: str, time: float, x: object = (0.1, 0.2, 0.3), **more: object) -> Stored:
    body = dict(zip(("ax", "ay", "az"), x, strict=True), ts=START + time, **more)  # type: ignore[call-overload]
    return Stored(TOPIC, 0, offset, round((START + time) * 1000), key.encode(), json.dumps(body).encode())


def stream(n: int, seed: int, *, disorder: float = 0.0) -> list[Stored]:
    """Keys of very different zeal over some hours, a pause of everybody now and then; `disorder` seconds of it."""
    rng = np.random.default_rng(seed)
    keys, weights, time, records = [f"p{k}" for k in range(8)], 0.5 ** np.arange(1, 9), 0.0, []
    for offset in range(n):
        time += 7200.0 if rng.random() < 0.01 else rng.exponential(60.0)
        key = str(rng.choice(keys, p=weights / weights.sum()))
        label = {"activity": "run"} if rng.random() < 0.3 else {}
        records.append(sent(offset, key, time - rng.uniform(0, disorder), rng.normal(size=3).tolist(), **label))
    return records


@pytest.mark.parametrize("lateness", first_fast(["10m", "0s"]))
def test_batches_of_any_size_expire_the_same(lateness):
    made, records = job(lateness=lateness), stream(600, seed=1, disorder=1500.0)
    whole, singly = Live(made, lambda key: None), Live(made, lambda key: None)
    outputs, report = advance(made, whole, records)
    alone = [output for record in records for output in advance(made, singly, [record]).outputs]
    assert sorted(values(outputs)) == sorted(values(alone))
    assert whole.snapshots() == singly.snapshots() and report.keys_expired == singly.expired > 10


def test_whether_idle_states_were_removed_before_they_come_back_is_not_seen():
    made, records = job(), stream(800, seed=2)
    keeping, removing = Worker(made), Worker(made)
    removed, size = 0, 37
    for at in range(0, len(records), size):
        some = records[at : at + size]
        assert values(keeping.apply(some)) == values(removing.apply(some))
        keeping.checkpoint()
        removing.checkpoint()
        now = some[-1].timestamp / 1000
        for key, data in list(removing.store.items()):
            if now - last_event(made, data)[0] > TTL:
                del removing.store[key]
                assert not removing.live.busy(key, removing.live.now)
                removing.live.forget(key)
                removed += 1
    assert removed > 10 and removing.store.keys() <= keeping.store.keys()
    assert all(keeping.store[key] == data for key, data in removing.store.items())


def test_a_key_that_returns_is_a_new_key():
    made = job()
    before = [sent(n, "p", float(n), activity="run") for n in range(5)]
    back = [sent(n, "p", TTL + n, (1.0, n / 9, 0.5), activity="sit") for n in range(5, 9)]
    live, fresh = Live(made, lambda key: None), Live(made, lambda key: None)
    outputs, report = advance(made, live, before + back)
    assert values(outputs)[-len(back) :] == values(advance(made, fresh, back).outputs)[-len(back) :]
    assert (report.keys_expired, report.keys_created) == (1, 2)
    assert live.snapshots() == fresh.snapshots()


def test_exactly_ttl_later_it_is_still_the_same_key_and_without_ttl_it_always_is():
    for made, time in ((job(), TTL), (job(None), 100 * TTL)):
        report = advance(made, Live(made, lambda key: None), [sent(0, "p", 0.0), sent(1, "p", time)]).report
        assert (report.keys_expired, report.keys_created) == (0, 1)


def test_what_was_applied_before_is_not_applied_again_by_a_key_that_started_over():
    made = job()
    records = [sent(0, "p", 0.0), sent(1, "p", 2 * TTL)]
    live = Live(made, lambda key: None)
    advance(made, live, records)
    report = advance(made, live, records).report
    assert report.redelivered == 2 and report.keys_expired == 0
