"""What `check --online` says of the states in a changelog."""

import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.state.held_stages import starting_over
from streamjobs.maintenance.readable import unreadable
from tests.core.streams import samples, settings
from tests.maintenance.copying import stored

FORECAST = {"ahead": [1, 3]}


@pytest.mark.parametrize(
    ("sections", "named"),
    [
        ({"forecast": FORECAST}, ""),
        ({"forecast": None}, ""),
        ({"forecast": FORECAST, "alarms": {"silent": "30s"}}, ""),
        ({"forecast": {"ahead": [1, 2]}}, "[forecast]: the states have other settings. With this job file it starts over"),
    ],
)
def test_a_section_with_other_settings_than_in_the_states_is_named(sections: dict, named: str) -> None:
    store = stored(Job.from_settings(settings(forecast=FORECAST)), samples(60))
    changelog = [Stored("changelog", 0, at, 0, key, state) for at, (key, state) in enumerate(store.items())]
    job = Job.from_settings(settings(**sections))
    found, read, state = unreadable(job, changelog)
    assert (found, read, state) == ({}, len(store), changelog[-1].value)
    over = starting_over(job.stages, state)
    assert over.startswith(named) and bool(over) == bool(named)
    assert unreadable(job, [])[2] == b""
    live = Live(job, store.get)  # as a worker, which logs this before its first batch
    assert live.meet(lambda after, most: [] if after else list(store.items())[:most]) == over
