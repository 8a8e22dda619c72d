"""End offsets after a leader has changed: librdkafka's admin client keeps the former leader's epoch until metadata comes."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamjobs.kafka import preflight
from streamjobs.maintenance import changelog_edit
from streamjobs.settings.sections import Settings

SETTINGS = Settings(source={"topic": "in", "dim": 1}, learner={"name": "okfeb"})


class _Admin:
    """As librdkafka's, measured on a node that was killed and started again; its leader changes with the first question."""

    def __init__(self) -> None:
        self.known, self.epoch, self.asked = 0, 0, 0

    def list_topics(self, *_: Any, **__: Any) -> Any:
        self.known = self.epoch
        return SimpleNamespace(topics={"in": SimpleNamespace(partitions={0: None})})

    def list_offsets(self, wanted: Any, **_: Any) -> Any:
        self.epoch, self.asked = 1, self.asked + 1
        answer: Future[Any] = Future()
        if self.known < self.epoch:
            answer.set_exception(KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH)))
        else:
            answer.set_result(SimpleNamespace(offset=7))
        return dict.fromkeys(wanted, answer)


@pytest.mark.parametrize("by", ["worker", "command"])
def test_a_leader_that_has_just_changed_is_asked_with_its_new_epoch(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    admin: Any = _Admin()
    admin.list_topics()
    monkeypatch.setattr(preflight, "RETRY_EVERY", 0.0)
    monkeypatch.setattr(preflight, "ENDS_WITHIN", 0.2)
    monkeypatch.setattr(changelog_edit, "RETRY_WITHIN", 0.2)
    monkeypatch.setattr(changelog_edit, "admin_of", lambda settings: admin)
    if by == "worker":
        assert preflight._ends(admin, SETTINGS, 1) == {0: 7}
    else:
        assert changelog_edit.first_offsets(SETTINGS, "in") == {0: 7}
    assert admin.asked == 2
