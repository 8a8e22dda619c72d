"""The marks of committed offsets: which partitions are new to a job, and what a worker says about them."""

import re

import pytest

from streamjobs.core.messages import Stored
from streamjobs.errors import SetupError
from streamjobs.kafka.layout import Commit, Growth, growth, mark, require_laid_out, require_same_count
from streamjobs.kafka.topics import behind_input, create, problems_of
from streamjobs.settings.sections import Settings

SETTINGS = Settings.model_validate(
    {"broker": {"url": "kafka://nowhere:1"}, "source": {"topic": "in", "dim": 1}, "learner": {"name": "okfeb"}}
)
CHANGELOG = "streamjobs-state-changelog"


@pytest.fixture(autouse=True)
def compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamjobs.kafka.topics.setting_of", lambda admin, topic, name: "compact")


def commits(**metadata: str) -> dict[int, Commit]:
    return {int(name[1:]): Commit(5, text) for name, text in metadata.items()}


def test_a_commit_for_fewer_partitions_holds_everything_back() -> None:
    assert growth(commits(p0=mark(2), p1=mark(2)), 4) == Growth(2, frozenset({0, 1}))


def test_a_move_that_was_interrupted_is_pending_for_the_partitions_it_did_not_reach() -> None:
    half = commits(p0=mark(4), p1=mark(2), p2=mark(4), p3=mark(4))
    assert growth(half, 4) == Growth(2, frozenset({1}))


def test_the_last_partition_that_is_marked_ends_the_growth() -> None:
    assert growth(commits(p0=mark(4), p1=mark(4), p2=mark(4), p3=mark(4)), 4) is None


def test_partitions_that_another_worker_has_not_committed_yet_are_no_growth() -> None:
    """Two workers start a new job together; one of them commits first."""
    assert growth(commits(p0=mark(4), p1=mark(4)), 4) is None
    assert growth({}, 4) is None


def test_commits_of_earlier_releases_tell_by_what_is_missing() -> None:
    assert growth(commits(p0="", p1=""), 4) == Growth(2, frozenset({0, 1}))
    assert growth(commits(p0="", p1="", p2="", p3=""), 4) is None
    assert growth(commits(p2=""), 4) is None  # a tool's: workers commit in every partition they take on


def test_a_pending_growth_names_the_commands() -> None:
    with pytest.raises(SetupError, match=r"4 partitions, .* laid out for 2; .*run JOB --drain.*state repartition JOB"):
        require_laid_out("in", growth(commits(p0=mark(2), p1=mark(2)), 4), 4)


def test_topics_with_fewer_partitions_than_the_input_give_one_sentence_that_destroys_nothing() -> None:
    sinks = {"features": "f", "dlq": "d"}
    counts = {"in": 4, "f": 2, "d": 4, CHANGELOG: 2}
    assert behind_input(SETTINGS, sinks, counts) == {"f": 2, CHANGELOG: 2}
    problems = problems_of(SETTINGS, sinks, None, {**counts, "d": 2}, "User:me")
    assert len(problems) == 1 and "recreate" not in problems[0]
    assert "topics grow JOB" in problems[0] and "state repartition JOB" in problems[0] and f"{CHANGELOG} 2" in problems[0]


def test_outputs_with_fewer_partitions_than_the_input_need_no_state_to_move() -> None:
    counts = {"in": 4, "f": 3, "d": 4, CHANGELOG: 4}
    (problem,) = problems_of(SETTINGS, {"features": "f", "dlq": "d"}, None, counts, "User:me")
    assert problem == (
        "topic f (features): expected 4 partitions like the input in, got 3; 'streamjobs topics grow JOB' adds partitions."
    )


def test_topics_create_names_the_commands_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamjobs.kafka.topics.connect", lambda broker: (None, {"in": 4, "d": 2, CHANGELOG: 2}))
    with pytest.raises(SetupError, match=r"in \(input\): it has 4 partitions, .*topics grow JOB"):
        create(SETTINGS, job_sinks={"dlq": "d"})


@pytest.mark.parametrize(("state", "command"), [(b"..\2\0in..", "topics grow"), (b"..\3\0win..", "[job] name")])
def test_a_changelog_that_alone_has_fewer_partitions_is_another_jobs_unless_it_has_learned_from_the_input(
    monkeypatch: pytest.MonkeyPatch, state: bytes, command: str
) -> None:
    states = [Stored(CHANGELOG, 0, n, 0, b"k", value, ()) for n, value in enumerate((None, state))]
    monkeypatch.setattr("streamjobs.kafka.reader.newest", lambda *_: iter(states))
    counts = {"in": 4, "d": 4, CHANGELOG: 2}
    (problem,) = problems_of(SETTINGS, {"dlq": "d"}, None, counts, "User:me")
    assert [one for one in ("topics grow", "[job] name") if one in problem] == [command]
    monkeypatch.setattr("streamjobs.kafka.topics.connect", lambda broker: (None, {"in": 4, CHANGELOG: 2}))
    with pytest.raises(SetupError, match=re.escape(command)):
        create(SETTINGS, job_sinks={"dlq": "d"})


def test_a_changelog_with_more_partitions_is_probably_another_jobs() -> None:
    (problem,) = problems_of(SETTINGS, {"dlq": "d"}, None, {"in": 2, "d": 2, CHANGELOG: 4}, "User:me")
    assert f"another job is also named {SETTINGS.job.name!r}, or the input was recreated; add partitions" in problem


def test_a_topic_with_more_partitions_than_the_input_is_not_to_be_recreated() -> None:
    (problem,) = problems_of(SETTINGS, {"dlq": "d"}, None, {"in": 4, "d": 8, CHANGELOG: 4}, "User:me")
    assert "Kafka removes none" in problem and "recreate" not in problem


@pytest.mark.parametrize(("policy", "problems"), [("compact", 0), ("delete", 1), ("compact,delete", 1)])
def test_a_changelog_with_a_retention_is_refused_before_it_deletes_states(
    policy: str, problems: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("streamjobs.kafka.topics.setting_of", lambda admin, topic, name: policy)
    found = problems_of(SETTINGS, {"dlq": "d"}, None, {"in": 4, "d": 4, CHANGELOG: 4}, "User:me")
    assert len(found) == problems and all(f"got {policy}, which would delete states" in one for one in found)


def test_of_several_growths_the_first_one_counts_and_a_partition_without_a_commit_waits_too() -> None:
    assert growth(commits(p0=mark(2), p1=mark(4)), 8) == Growth(2, frozenset({0, 1}))
    assert growth(commits(p0=mark(2)), 4) == Growth(2, frozenset({0, 1}))


def test_one_more_partition_ends_a_worker() -> None:
    for now in (None, 1, 2):
        require_same_count("in", 2, now)
    with pytest.raises(SetupError, match=r"2 before, 3 now.*topics grow JOB"):
        require_same_count("in", 2, 3)
