"""What `check --online` says of the states in a changelog."""

import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.state.held_stages import starting_over
from streamjobs.maintenance import verify
from streamjobs.maintenance.verify import unreadable
from tests.core.streams import samples, settings
from tests.maintenance.copying import stored

FORECAST = {"ahead": [1, 3]}


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"forecast": FORECAST}, ""),
        ({"forecast": None}, "[forecast]: in the states, but not in this job file. The state of each key drops this part"),
        ({"forecast": FORECAST, "alarms": {"silent": "30s"}}, ""),
        ({"forecast": {"ahead": [1, 2]}}, "[forecast]: the states have other settings. With this job file it starts over"),
    ],
)
def test_a_section_that_the_states_have_otherwise_or_alone_is_named(sections: dict, named: str) -> None:
    store = stored(Job.from_settings(settings(forecast=FORECAST)), samples(60))
    changelog = [Stored("changelog", 0, at, 0, key, state) for at, (key, state) in enumerate(store.items())]
    job = Job.from_settings(settings(**sections))
    found, read, state = unreadable(job, changelog)
    assert (found, read, state) == ({}, len(store), changelog[-1].value)
    over = starting_over(job.stages, job.described, state)
    assert over.startswith(named) and bool(over) == bool(named)
    assert unreadable(job, [])[2] == b""
    live = Live(job, store.get)  # as a worker, which logs this before its first batch
    assert live.meet(lambda after, most: [] if after else list(store.items())[:most]) == over


@pytest.mark.parametrize("at_once", [1, 500])
def test_the_newest_state_of_a_key_alone_counts(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "AT_ONCE", at_once)
    job = Job.from_settings(settings())
    good = stored(job, samples(60))[b"p1"]
    for states, bad in (((good[:-1], good), []), ((good, good[:-1]), [(0, b"p1")])):
        records = [Stored("changelog", 0, offset, 0, b"p1", state) for offset, state in enumerate(states)]
        assert list(unreadable(job, records)[0]) == bad


def test_a_removed_section_leaves_the_state_of_a_key_with_its_next_write() -> None:
    with_forecast, without = (Job.from_settings(settings(forecast=one)) for one in (FORECAST, None))
    records = samples(60)
    store = stored(with_forecast, records)
    key, state = next(iter(store.items()))
    assert starting_over(without.stages, without.described, state)
    again = records[-1]._replace(offset=1_000, key=key)
    assert not starting_over(without.stages, without.described, stored(without, [again], store)[key])


def test_a_removed_kind_of_alarm_is_named_where_others_stay() -> None:
    before = Job.from_settings(settings(alarms={"stuck": True, "silent": "30s"}))
    job = Job.from_settings(settings(alarms={"silent": "30s"}))
    over = starting_over(job.stages, job.described, next(iter(stored(before, samples(60)).values())))
    assert over.startswith("[alarms] stuck: in the states, but not in this job file.")
