"""What a worker knows at its start of its group's commits, and what each of them must not count for."""

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import OffsetAndMetadata, TopicPartition

from streamjobs.core.job import Job
from streamjobs.errors import SetupError
from streamjobs.kafka import groups, layout, preflight, topic_id, topics
from streamjobs.settings.sections import Settings
from tests.core.streams import TOPIC, settings

JOB = Job.from_settings(settings())
CHANGELOG = topics.changelog(JOB.settings)


class Broker:
    """One that gives the answers a worker asks for before it consumes; `asked` has the questions for a group's offsets."""

    def __init__(self, patch: pytest.MonkeyPatch, partitions: int = 2) -> None:
        self.commits: dict[TopicPartition, OffsetAndMetadata] = {}
        self.ends = {number: 100 + number for number in range(partitions)}
        names = [TOPIC, CHANGELOG, *JOB.sinks.values()]
        counts, ids = dict.fromkeys(names, partitions), {TOPIC: "i1", CHANGELOG: "c1"}
        patch.setattr(topics, "connect", lambda *_: (self, counts))
        patch.setattr(topics, "is_mock", lambda admin: False)
        patch.setattr(topics, "limits", lambda *_: topics.NO_LIMITS)
        patch.setattr(preflight, "_obstacles", lambda *_: [])
        patch.setattr(topic_id, "topic_ids", lambda *_: ids)
        patch.setattr(groups, "commits", lambda *_: self.commits)

    def commit(self, number: int, offset: int, metadata: str = "", topic: str = TOPIC) -> None:
        self.commits[TopicPartition(topic, number)] = OffsetAndMetadata(offset, metadata)

    def list_offsets(self, wanted: Any, **_: Any) -> Any:
        answers: dict[Any, Future[Any]] = {place: Future() for place in wanted}
        for place, answer in answers.items():
            answer.set_result(SimpleNamespace(offset=self.ends[place.partition]))
        return answers


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> Broker:
    return Broker(monkeypatch)


def probe(*, drain: bool = False) -> preflight.InputTopic:
    return preflight.probe(JOB.settings, JOB, drain=drain)


def test_a_group_without_offsets_is_a_new_job(broker: Broker) -> None:
    known = probe()
    assert (known.left, known.growth, known.ends) == (-1, None, {0: 100, 1: 101})
    assert known.origin[:4] == (TOPIC, "i1", "c1", 2) and known.origin.life == ""
    assert preflight.passed(JOB.settings) == (None, 201)


def test_a_workers_start_goes_on_from_the_commits_of_its_input_alone(broker: Broker) -> None:
    """Not from a partition without an offset (-1), and not from another topic's. R counts as left, P as passed."""
    broker.commit(0, 60, "changelog=c1 partitions=2 progress=70 input-life=5f0c81d2")
    broker.commit(1, -1)
    broker.commit(0, 7, "changelog=c1 input-life=ffffffff", "other")
    broker.commit(1, 5, "changelog=c1 input-life=ffffffff", "other")
    assert preflight.commits_of(JOB.settings) == {0: layout.Commit(60, broker.commits[TopicPartition(TOPIC, 0)].metadata)}
    assert preflight.kept_life(JOB.settings) == "5f0c81d2"
    assert preflight.passed(JOB.settings) == (70, 201)
    broker.commits = {place: one for place, one in broker.commits.items() if place.topic == TOPIC}
    known = probe()
    assert known.left == 201 - 60 and known.origin.life == "5f0c81d2"


def test_commits_of_a_release_that_named_no_changelog_do_not_make_it_another_one(broker: Broker) -> None:
    broker.commit(0, 60)
    broker.commit(1, 41)
    assert probe().left == 100


@pytest.mark.parametrize("ask", [probe, lambda: preflight.obstacles(JOB.settings, JOB)])
def test_no_worker_starts_with_a_recreated_changelog(broker: Broker, monkeypatch: pytest.MonkeyPatch, ask: Any) -> None:
    """All keys would start over, and their outputs would go on at the committed offset."""
    broker.commit(0, 60, "changelog=former partitions=2")
    monkeypatch.setattr(topics, "size_problems", lambda *_: [])
    try:
        said = "\n".join(ask())
    except SetupError as error:
        said = str(error)
    assert f"topic {CHANGELOG}" in said and "streamjobs state restore" in said


def test_a_grown_input_stops_a_worker_unless_it_drains_the_partitions_that_states_are_laid_out_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = Broker(monkeypatch, 4)
    for number in (0, 1):
        broker.commit(number, 60, "changelog=c1 partitions=2")
    with pytest.raises(SetupError, match="state repartition"):
        probe()
    drained = probe(drain=True)
    assert drained.growth is not None and drained.growth.before == 2 and drained.origin.partitions == 2
    for number in range(4):
        broker.commit(number, 60, "changelog=c1 partitions=4")
    assert probe().origin.partitions == 4
    with pytest.raises(SetupError, match="nothing to drain"):
        probe(drain=True)


class LaterSettings(Settings):
    """Of a release that adds a setting."""

    added: int = 5


def test_a_setting_that_a_release_adds_does_not_change_what_a_job_is_known_by(broker: Broker) -> None:
    """Otherwise the first start of a release would report that the job has other settings."""
    known = preflight._hash_of(JOB.settings, JOB)
    source = JOB.settings.source
    later, lingering, late = (
        LaterSettings(**JOB.settings.model_dump(exclude_unset=True)),
        JOB.settings.model_copy(update={"source": source.model_copy(update={"linger": 0.5})}),
        JOB.settings.model_copy(update={"source": source.model_copy(update={"late": "drop"})}),
    )
    assert probe().origin.settings == known == preflight._hash_of(later, JOB) == preflight._hash_of(lingering, JOB)
    assert preflight._hash_of(late, JOB) != known
