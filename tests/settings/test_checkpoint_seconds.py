"""How often a worker takes a checkpoint where a job file does not say."""

import pytest

from streamjobs.settings.load import settings_from
from streamjobs.settings.notes import notes

SECTIONS = {"source": {"topic": "in", "dim": 2}, "learner": {"name": "okfeb", "rank": 3, "budget": 5}}


@pytest.mark.parametrize(
    ("guarantee", "state", "expected"),
    [
        ("at_least_once", {}, 1.0),
        ("exactly_once", {}, 0.075),
        ("exactly_once", {"replay": "0s"}, 1.0),  # each checkpoint writes all changed states
        ("exactly_once", {"checkpoint": "3s"}, 3.0),
        ("at_least_once", {"checkpoint": "200ms"}, 0.2),
    ],
)
def test_with_exactly_once_outputs_do_not_wait_a_second(guarantee: str, state: dict, expected: float) -> None:
    assert settings_from({**SECTIONS, "job": {"guarantee": guarantee}, "state": state}).checkpoint == expected


@pytest.mark.parametrize(("state", "advised"), [({}, False), ({"checkpoint": "1s"}, True), ({"replay": "0s"}, False)])
def test_a_shorter_checkpoint_is_advised_only_where_it_is_cheap(state: dict, advised: bool) -> None:
    settings = settings_from({**SECTIONS, "job": {"guarantee": "exactly_once"}, "state": state})
    (sentence,) = [text for text in notes(settings) if "become visible at checkpoints" in text]
    assert ("75ms" in sentence) == advised and f"every {settings.checkpoint:g} s" in sentence
