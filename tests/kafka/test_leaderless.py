"""Partitions without a leader, as `check --online` names them."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamjobs.errors import SetupError
from streamjobs.job_files import core_from
from streamjobs.kafka import preflight, topics
from streamjobs.settings.load import composition_from

JOB = {
    "job": {"name": "a"},
    "source": {"topic": "in", "fields": ["x"]},
    "learner": {"name": "okfeb", "rank": 3, "budget": 6},
}


class Admin:
    """Gives the leaders of topics as they are at each look; the last ones stay. {}: no broker answers."""

    def __init__(self, *looks: dict[str, list[int]]) -> None:
        self._looks = list(looks)

    def list_topics(self, timeout: float) -> Any:
        now = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        if not now:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        partitions = {
            name: {number: SimpleNamespace(leader=leader) for number, leader in enumerate(leaders)}
            for name, leaders in now.items()
        }
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=some) for name, some in partitions.items()})


def said(monkeypatch: pytest.MonkeyPatch, *looks: dict[str, list[int]]) -> list[str]:
    monkeypatch.setattr(preflight, "RETRY_EVERY", 0.01)
    monkeypatch.setattr(preflight, "ENDS_WITHIN", 0.1)
    monkeypatch.setattr(topics, "connect", lambda broker: (Admin(*looks), {}))
    core = core_from(composition_from(JOB, {}, "job.toml"))
    return preflight.leaderless(core.job.settings, core.job)


def test_topics_of_the_job_and_of_kafka_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"in": [1, -1, 2, -1], "others": [-1], "__transaction_state": [-1] * 50, "__consumer_offsets": [1] * 50}
    first, second = said(monkeypatch, now)
    assert first.startswith("topic in: 2 partitions (1, 3) without a leader: ")
    assert second.startswith("topic __transaction_state: 50 partitions (0, 1, 2, 3, 4, ..) without a leader: ")
    assert "so transactions of states cannot end" in second


def test_an_election_under_way_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert said(monkeypatch, {"in": [-1]}, {"in": [-1]}, {"in": [1]}) == []


def test_brokers_that_vanish_meanwhile_are_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="broker"):
        said(monkeypatch, {"in": [-1]}, {})
