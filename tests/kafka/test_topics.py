"""Topics as nodes report them: one that was just created is waited for before it counts as missing."""

from types import SimpleNamespace
from typing import Any

import pytest

from streamjobs.kafka import topics
from streamjobs.settings.broker import BrokerSection

BROKER = BrokerSection(url="kafka://nowhere:1")


class Admin:
    """Answers from one node after the other; the last one's goes on."""

    def __init__(self, answers: list[dict[str, int]]) -> None:
        self.answers = answers
        self.asked = 0

    def list_topics(self, timeout: float) -> Any:
        self.asked += 1
        found = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=range(count)) for name, count in found.items()})


def connected(monkeypatch: pytest.MonkeyPatch, answers: list[dict[str, int]], wanted: list[str]) -> tuple[Admin, Any]:
    admin = Admin(answers)
    monkeypatch.setattr(topics, "AdminClient", lambda settings: admin)
    monkeypatch.setattr(topics.time, "sleep", lambda seconds: None)
    return admin, topics.connect(BROKER, wanted)[1]


def test_a_new_topic_is_asked_after_until_the_node_knows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    admin, found = connected(monkeypatch, [{}, {"in": 4}, {"in": 4, "out": 4}], ["in", "out"])
    assert found == {"in": 4, "out": 4} and admin.asked == 3


def test_a_topic_that_no_node_reports_is_missing_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "KNOWN_WITHIN", 0.01)
    admin, found = connected(monkeypatch, [{"in": 4}], ["in", "out"])
    assert found == {"in": 4} and admin.asked > 1


def test_nothing_is_asked_twice_where_nothing_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    admin, found = connected(monkeypatch, [{"other": 1}, {}], [])
    assert found == {"other": 1} and admin.asked == 1
