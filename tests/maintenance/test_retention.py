"""How long Kafka keeps a key's records, from a topic's settings."""

from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from streamjobs.core.job import Job
from streamjobs.errors import SetupError
from streamjobs.kafka.layout import Commit
from streamjobs.maintenance import changelog_edit, retention
from streamjobs.maintenance.retention import DAY, holding, require_passed
from tests.core.streams import samples, settings
from tests.maintenance.copying import copy_of, stored

NEWEST = 1_700_000_000_000


@pytest.mark.parametrize(
    ("role", "config", "until"),
    [
        ("input", {"cleanup.policy": "delete", "retention.ms": str(7 * DAY), "segment.ms": str(DAY)}, NEWEST + 8 * DAY),
        ("input", {"cleanup.policy": "delete", "retention.ms": "-1", "segment.ms": str(DAY)}, None),
        ("dlq", {"cleanup.policy": "compact,delete", "retention.ms": str(DAY), "segment.ms": str(DAY)}, NEWEST + 2 * DAY),
        ("features", {"cleanup.policy": "compact", "retention.ms": str(DAY), "segment.ms": str(DAY)}, None),
        ("state", {"cleanup.policy": "compact", "max.compaction.lag.ms": str(2**63 - 1), "segment.ms": str(DAY)}, None),
    ],
)
def test_records_are_held_until_their_segment_and_its_retention_are_over(role, config, until):
    found = holding("topic", role, 3, NEWEST, config)
    assert (found.until, found.records, found.policy) == (until, 3, config["cleanup.policy"])
    assert found.why


def test_compaction_with_a_bound_ends_the_older_snapshots_after_it(monkeypatch):
    monkeypatch.setattr("time.time", lambda: NEWEST / 1000)
    config = {"cleanup.policy": "compact", "max.compaction.lag.ms": str(3 * DAY), "segment.ms": str(DAY)}
    assert holding("topic", "state", None, 0, config).until == NEWEST + 3 * DAY


@pytest.mark.parametrize("commits", [{}, {0: Commit(58, "")}, {0: Commit(59, "")}])
def test_a_state_ahead_of_the_group_is_not_removed_because_its_records_would_be_learned_again(commits, monkeypatch):
    job = Job.from_settings(settings())
    entries = copy_of(job, stored(job, samples(60))).of("p1")  # it has applied offset 58
    monkeypatch.setattr(retention.preflight, "commits_of", lambda settings: commits)
    if commits and commits[0].offset > 58:
        require_passed(job.settings, entries)
        return
    with pytest.raises(SetupError, match="learn the records in between again"):
        require_passed(job.settings, entries)


class Refusing:
    """An admin client whose broker answers with an error."""

    def __init__(self, code: int) -> None:
        self.code = code

    def describe_configs(self, resources: list[Any]) -> dict[Any, Future[Any]]:
        answers: dict[Any, Future[Any]] = {}
        for resource in resources:
            answers[resource] = Future()
            answers[resource].set_exception(KafkaException(KafkaError(self.code)))
        return answers


@pytest.mark.parametrize(
    ("code", "expected"),
    [(KafkaError.TOPIC_AUTHORIZATION_FAILED, ["input", "features", "state"]), (KafkaError.UNKNOWN_TOPIC_OR_PART, [])],
)
def test_a_topic_that_may_not_be_read_is_listed_because_it_may_hold_the_key(code, expected, monkeypatch):
    monkeypatch.setattr(changelog_edit, "admin_of", lambda settings: Refusing(code))
    found = retention.holdings(settings(), {"features": "f"}, b"p1", [0], count=True)
    assert [one.role for one in found] == expected
    assert all(one.records is None and one.policy == "" and "the rights of this principal" in one.why for one in found)
