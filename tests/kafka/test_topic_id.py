"""Which topics states belong to: what is kept with them, and the sentences where they differ."""

from concurrent.futures import Future
from typing import Any

import pytest
from aiokafka.structs import OffsetAndMetadata, TopicPartition
from confluent_kafka import KafkaError, KafkaException

from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.core.state import snapshot
from streamjobs.core.state.snapshot import Snapshot
from streamjobs.errors import SetupError
from streamjobs.kafka import preflight, topic_id
from streamjobs.kafka.preflight import changelog_problems
from streamjobs.kafka.topic_id import (
    MISSING,
    Origin,
    added_sections,
    changelog_of,
    life_of,
    newest_input,
    progress_of,
    require_same_changelog,
    require_same_input,
    sections_of,
    settings_of,
    text_of_sections,
)
from streamjobs.settings.load import settings_from


def test_an_offsets_metadata_gives_the_changelogs_id_back() -> None:
    assert changelog_of(Origin("in", "i1", "c1").metadata) == "c1"
    assert [changelog_of(text) for text in (None, "", "of another tool")] == [""] * 3
    assert Origin("in", "i1").metadata == ""


def test_a_records_headers_give_the_input_back() -> None:
    first, second = Origin("in", "i1").headers, Origin("in", "i2").headers
    assert newest_input([first, [], second, []]) == Origin("in", "i2")
    assert newest_input([[], [("trace", b"1")]]) is None and Origin("in").headers == []


def test_only_a_recreated_input_has_a_life_in_metadata_headers_and_marks() -> None:
    never, again = Origin("in", "i1", "c1", 4), Origin("in", "i2", "c1", 4, life="5f0c81d2")
    assert never.metadata == "changelog=c1 partitions=4"
    assert never.headers == [("streamjobs-input", b"i1"), ("streamjobs-input-topic", b"in")]
    assert never.marks == {"topic": "in", "source": "i1", "changelog": "c1"}
    assert life_of([never.metadata, None]) == "" and life_of(["", again.metadata]) == "5f0c81d2"
    assert newest_input([never.headers, again.headers]) == Origin("in", "i2", life="5f0c81d2")
    assert Origin.of({name: text or "" for name, text in again.marks.items()}).life == "5f0c81d2"


def test_a_header_without_a_life_keeps_that_of_the_same_input_only() -> None:
    """An earlier release, to which a job was put back, writes none."""
    known = Origin("in", "i2", life="5f0c81d2")
    assert newest_input([Origin("in", "i2").headers], known) == known
    assert newest_input([Origin("in", "i3").headers], known) == Origin("in", "i3")


def test_an_older_releases_header_without_a_name_keeps_that_of_the_same_input_only() -> None:
    (unnamed,) = Origin("", "i1").headers
    assert newest_input([[unnamed]], Origin("in", "i1")) == Origin("in", "i1")
    assert newest_input([[unnamed]], Origin("other", "i2")) == Origin("", "i1")


@pytest.mark.parametrize("known", [Origin(), Origin("in"), Origin("in", "i1"), Origin("", "i1")])
def test_the_same_input_or_one_nothing_is_known_of_is_accepted(known: Origin) -> None:
    require_same_input("wrist", Origin("in", "i1"), known)


def test_another_inputs_sentence_never_advises_to_forget_offsets() -> None:
    with pytest.raises(SetupError) as raised:
        require_same_input("wrist", Origin("in2", "i2"), Origin("in", "i1"))
    assert str(raised.value) == (
        "job wrist: its states have learned from topic in, but [source] topic is in2, and states must not mix two topics. "
        "Give this job another [job] name, or set [source] topic back to in."
    )


def state_of(topic: str) -> bytes:
    return snapshot.encode(Snapshot(bytes(16), "{}", {(topic, 0): 4}, [], []))


@pytest.mark.parametrize(
    ("offset", "upto", "states", "refused"),
    [
        (0, 0, [state_of("in")], False),
        (1, 1, [state_of("in")], True),
        (1, 1, [None, state_of("in")], True),
        (1, 1, [], False),  # all records were dead letters
        (1, 1, [state_of("in.by-key"), state_of("in")], False),
        (0, 1, [], True),  # the state is not written yet
        (0, 1, [state_of("in.by-key")], False),
    ],
)
def test_a_job_without_states_is_free_to_read_a_rekeyed_topic(
    offset: int, upto: int, states: list[bytes | None], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [Stored("c", 0, at, 0, b"k", value) for at, value in enumerate(states)]
    monkeypatch.setattr(preflight, "topic_records", lambda broker, topic: iter(records))
    settings = settings_from(
        {"source": {"topic": "in", "fields": ["x"], "key": "id", "rekeyed": True}, "learner": {"name": "lms"}}
    )
    present = Origin("in.by-key", "i2", "c1")
    commits = {TopicPartition("in", 0): OffsetAndMetadata(offset, Origin("in", "i1", "c1").metadata_of(offset, upto))}
    problems = changelog_problems(settings, present, commits)
    assert bool(problems) == refused and all("have learned from topic in, but" in one for one in problems)


@pytest.mark.parametrize("waits", [False, True])
def test_the_topic_that_states_have_learned_from_is_found_beside_commits_that_gave_dead_letters(
    waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of another topic, or of another partition of the topic; waits: its states are not written yet."""
    records = [] if waits else [Stored("c", 0, 0, 0, b"k", state_of("in"))]
    monkeypatch.setattr(preflight, "topic_records", lambda broker, topic: iter(records))
    origin = Origin("in", "i1", "c1")
    commits = {
        TopicPartition("bad", 0): OffsetAndMetadata(5, origin.metadata_of(5, 5)),
        TopicPartition("in", 0): OffsetAndMetadata(5, origin.metadata_of(5, 5)),
        TopicPartition("in", 1): OffsetAndMetadata(0, origin.metadata_of(0, 9 if waits else 0)),
        TopicPartition("in", 2): OffsetAndMetadata(5, origin.metadata_of(5, 5)),
    }
    settings = settings_from({"source": {"topic": "other", "fields": ["x"]}, "learner": {"name": "lms"}})
    (problem,) = changelog_problems(settings, Origin("other", "i2", "c1"), commits)
    assert "have learned from topic in, but [source] topic is other" in problem


@pytest.mark.parametrize(("known", "present"), [("", "c1"), ("c1", ""), ("c1", "c1"), ("", MISSING)])
def test_the_same_changelog_or_one_nothing_is_known_of_is_accepted(known: str, present: str) -> None:
    require_same_changelog("wrist-state-changelog", known, present)


@pytest.mark.parametrize("present", ["c2", MISSING])
def test_another_or_no_changelog_names_the_command(present: str) -> None:
    with pytest.raises(SetupError, match=r"^topic wrist-state-changelog: it was deleted.*state restore JOB --from-local"):
        require_same_changelog("wrist-state-changelog", "c1", present)


def test_a_header_of_the_changelog_that_another_program_wrote_is_no_error() -> None:
    found = newest_input([[("streamjobs-input", b"i1")], [("streamjobs-input", None)], [("streamjobs-input-life", b"\xff")]])
    assert found == Origin("", "i1")
    spoiled = newest_input([[("streamjobs-input", b"\xff\xfe")]])
    assert spoiled is not None and spoiled.input_id == "\ufffd\ufffd"


def test_a_commit_has_a_hash_of_the_settings_that_decide_what_becomes_of_a_record() -> None:
    def hash_of(**sections: dict[str, Any]) -> str:
        source = {"topic": "in", "fields": ["x"], **sections.pop("source", {})}
        settings = settings_from({"source": source, "learner": {"name": "lms"}, **sections})
        return preflight._hash_of(settings, Job.from_settings(settings))

    same = hash_of()
    assert same == hash_of(
        broker={"url": "kafka://b:9092"}, metrics={"port": 0}, state={"replay": 1.0}, source={"linger": 1}
    )
    assert len({same, hash_of(source={"max_abs": 7.0}), hash_of(source={"future": 7.0}), hash_of(drift={})}) == 4
    assert settings_of(Origin("in", settings=same).metadata_of(3, 9)) == same


def test_a_commit_has_the_sections_of_the_job_while_states_lack_records() -> None:
    base = {"source": {"topic": "in", "fields": ["x"]}, "learner": {"name": "lms"}}
    drift = {"watch": "columns", "false_alarms": "1 per 1000 rows"}

    def sections(**added: dict[str, Any]) -> str:
        return text_of_sections(Job.from_settings(settings_from({**base, **added})).sections)

    former = sections()
    assert former == "-" and Origin("in", sections=former).metadata_of(9, 9) == ""
    metadata = Origin("in", sections=former).metadata_of(3, 9)
    assert (progress_of(3, metadata), sections_of(metadata)) == (9, former)
    several = sections(alarms={"stuck": True}, drift=drift, sinks={"alarms": "in.alarms"})
    assert added_sections(several, former) == {"stuck", "drift", "alarms"}
    other = sections(
        alarms={"stuck": True}, drift={**drift, "false_alarms": "1 per 900 rows"}, sinks={"alarms": "in.alarms"}
    )
    assert added_sections(other, several) == {"drift"} and not added_sections(former, several)


def test_what_is_not_known_refuses_nothing_and_what_is_lost_refuses_all() -> None:
    present = Origin("in", "i1", "c1")
    topic_id.require_same_input("job", present._replace(input_id=""), Origin("in", "i0"))
    with pytest.raises(SetupError, match="expected id i0, got i1"):
        topic_id.require_same_input("job", present, Origin("in", "i0"))
    topic_id.require_same_fields(("in", 0), "progress=9", "abc")
    with pytest.raises(SetupError, match="expected hash xyz, got abc"):
        topic_id.require_same_fields(("in", 0), "fields=xyz", "abc")
    topic_id.require_same_changelog("log", "", topic_id.MISSING)
    with pytest.raises(SetupError, match="it was deleted, and this job's states with it"):
        topic_id.require_same_changelog("log", "c1", topic_id.MISSING)
    assert topic_id.deleted_states("log", {0: 0}) == []
    assert "[1] before offset 1)" in topic_id.deleted_states("log", {0: 0, 1: 1})[0]


def test_words_of_a_commit_are_read_whole_and_the_first_leader_epoch_is_one() -> None:
    assert topic_id.life_of(["former-input-life=5f0c81d2"]) == ""
    assert topic_id.epoch_of(Origin("in").metadata_of(5, 5, epoch=0)) == 0


@pytest.mark.parametrize(
    ("code", "known"), [("UNKNOWN_TOPIC_OR_PART", topic_id.MISSING), ("TOPIC_AUTHORIZATION_FAILED", "")]
)
def test_only_a_topic_that_the_broker_does_not_know_is_missing(code: str, known: str) -> None:
    answer: Future[Any] = Future()
    answer.set_exception(KafkaException(KafkaError(getattr(KafkaError, code))))
    assert topic_id._id(answer) == known
