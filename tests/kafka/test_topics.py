"""Topics as nodes report them: one that was just created is waited for before it counts as missing."""

from types import SimpleNamespace
from typing import Any

import pytest

from streamjobs.errors import SetupError
from streamjobs.kafka import topics
from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.sections import Settings

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


WRIST = Settings.model_validate({"job": {"name": "wrist"}, "source": {"topic": "in", "dim": 1}, "learner": {"name": "lms"}})


def test_a_changelog_keeps_every_keys_newest_state_and_its_tombstones_for_a_month() -> None:
    config = topics.plan(WRIST, {"predictions": "out"}, 4, 9_000_000)[-1].config
    assert config == {
        "cleanup.policy": "compact",
        "segment.bytes": "67108864",
        "min.cleanable.dirty.ratio": "0.3",
        "delete.retention.ms": "2592000000",
        "max.message.bytes": "9065536",
        "unclean.leader.election.enable": "false",
    }


@pytest.mark.parametrize(
    ("policy", "lag", "doubtful"),
    [
        ("delete", "0", False),
        ("compact", "0", True),
        ("compact,delete", "86399999", True),
        ("compact", "86400000", False),
        ("compact", None, True),  # this client may not ask
        (None, None, False),
    ],
)
def test_an_input_that_is_compacted_is_named_unless_its_records_stay_for_a_day(
    monkeypatch: pytest.MonkeyPatch, policy: str | None, lag: str | None, doubtful: bool
) -> None:
    monkeypatch.setattr(topics, "setting_of", lambda admin, topic, name: policy if name == "cleanup.policy" else lag)
    assert (topics.compacting(WRIST, None) is not None) == doubtful


def test_a_timestamp_is_refused_on_both_sides_of_the_clock() -> None:
    span = topics.Span(behind=60, ahead=30)
    assert [span.accepts(at, 1_000) for at in (939, 940, 1_000, 1_030, 1_031)] == [False, True, True, True, False]


def test_topics_are_waited_for_until_all_their_partitions_have_leaders(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[dict[str, list[int]]] = [{}, {"in": [1]}, {"in": [1, -1]}, {"in": [1, 0]}]

    def list_topics(timeout: float) -> Any:
        found = looks.pop(0) if len(looks) > 1 else looks[0]
        partitions = {
            name: dict(enumerate(SimpleNamespace(leader=one) for one in leaders)) for name, leaders in found.items()
        }
        return SimpleNamespace(topics={name: SimpleNamespace(partitions=some) for name, some in partitions.items()})

    admin = SimpleNamespace(list_topics=list_topics)
    monkeypatch.setattr(topics.time, "sleep", lambda seconds: None)
    topics.await_leaders(admin, {"in": 2}, "created, but")
    assert looks == [{"in": [1, 0]}]
    monkeypatch.setattr(topics, "USABLE_WITHIN", 0.0)
    with pytest.raises(SetupError, match="topic in: created, but without a leader after 0 s"):
        topics.await_leaders(admin, {"in": 3}, "created, but")


@pytest.mark.parametrize(
    ("changed", "state_bytes", "said"),
    [
        ({}, 900_000, []),
        ({"wrist-state-changelog": None}, 5_000_000, []),  # this client may not ask
        ({"wrist-state-changelog": "2000000"}, 1_999_000, []),
        (
            {"wrist-state-changelog": "1048588"},
            2_000_000,
            [
                "wrist-state-changelog (state): its max.message.bytes is 1,048,588",
                "state may have 2,000,512 bytes",
                "=2065536'",
            ],
        ),
        ({"wrist-state-changelog": "1999512"}, 1_999_000, []),
        ({"wrist-state-changelog": "1999511"}, 1_999_000, ["1,999,511, and a key's largest state may have 1,999,512"]),
        ({"wrist-state-changelog": "500000"}, 1_000, []),  # batches are smaller then
        ({"wrist-state-changelog": "500000"}, 600_000, ["500,000, and a key's largest state may have 600,512", "=1048588'"]),
        ({"in": "3000000"}, 0, ["topic letters (dlq)", "a record of in may have 3,000,000 bytes", "=3000000'"]),
    ],
)
def test_a_limit_below_what_a_worker_sends_is_a_problem_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, str | None], state_bytes: int, said: list[str]
) -> None:
    settings = Settings.model_validate(
        {"job": {"name": "wrist"}, "source": {"topic": "in", "dim": 1, "max_bytes": 1_000_000}, "learner": {"name": "lms"}}
    )
    limits = dict.fromkeys(("in", "out", "letters", "wrist-state-changelog"), "1048588") | changed
    monkeypatch.setattr(topics, "setting_of", lambda admin, topic, name: limits[topic])
    problems = topics.size_problems(settings, {"predictions": "out", "dlq": "letters"}, None, state_bytes)
    assert len(problems) == bool(said) and all(text in problems[0] for text in said), problems


def test_limits_are_those_of_the_topics_and_where_no_one_tells_them_kafkas(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, most = WRIST, topics.ANY
    known = {
        "in": (1_048_588, most, 7_200_000, most),
        "out": (500_000, most, most, most),
        "old": (2_000_000, 60_000, most, most),
        "letters": (1_048_588, most, 3_600_000, most),
    }
    monkeypatch.setattr(topics, "settings_of", lambda admin, names, wanted: known)
    sinks = {"predictions": "out", "drift": "old", "dlq": "letters", "features": "secret"}
    limits = topics.limits(settings, sinks, None)
    assert limits.batch_bytes == 500_000
    assert limits.spans == dict.fromkeys(("letters", "secret"), (most - 300_000, 3_300_000)) | {
        "old": (30_000, most - 300_000)
    }
    known["in"] = (1_048_588, 60_000, 3_600_000, most)
    assert topics.limits(settings, sinks, None).spans == {}
    assert limits.tombstones == topics.TOMBSTONES / 1000
    known[topics.changelog(settings)] = (1_048_588, most, most, 86_400_000)
    assert topics.limits(settings, sinks, None).tombstones == 86_400
    of_source = settings.source.model_copy(update={"time": "t", "future": 7_200.0})
    far = settings.model_copy(update={"source": of_source})  # the outputs of a new job take such times
    assert topics.limits(far, sinks, None).spans.keys() == {"letters"}
