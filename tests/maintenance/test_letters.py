"""Dead letters become again what they were, and attempts are counted."""

from contextlib import nullcontext
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.errors import GroupAuthorizationFailedError, UnknownError
from hypothesis import given
from hypothesis import strategies as st

from streamjobs.core.advance import advance
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Output, Stored
from streamjobs.errors import SetupError
from streamjobs.kafka.send import FULL
from streamjobs.maintenance import redrive
from streamjobs.maintenance.redrive import letter_id, letter_ids, original_headers, parse_letter, redriven, when_late
from streamjobs.worker.failures import DeliveryError
from tests.commands.jobs import command
from tests.core.streams import settings

HEADERS = (
    ("trace", b"\x00\xff"),
    ("streamjobs-id", b"other-0-7"),
    ("streamjobs-error-reason", b"of another job"),
    ("trace", b""),
)
BROKEN = Stored("imu", 2, 41, 1_700_000_000_123, b"p1", b"{broken", HEADERS)
TOPIC = "imu.dlq"
WINDOW = {"length": "1s", "hop": "500ms", "rate": 10.0}


JOB = Job.from_settings(settings())


@cache
def failed(record: Stored) -> Output:
    (output,) = advance(JOB, Live(JOB, {}.get), [record]).outputs
    assert output.sink == "dlq"
    return output


def lying(output: Output, offset: int) -> Stored:
    """The letter as the broker holds it."""
    return Stored(TOPIC, 2, offset, output.timestamp, output.key, output.value, tuple(output.headers))


def test_a_letter_says_what_it_was_and_gives_the_record_back():
    found = parse_letter(lying(failed(BROKEN), 5))
    assert found is not None
    assert (found.reason, found.source, found.attempt, found.name) == ("malformed", ("imu", 2, 41), 1, "2:5")
    assert tuple(original_headers(found)) == HEADERS
    back = redriven(found, TOPIC)
    assert back[:6] == ("imu", 2, -1, BROKEN.timestamp, b"p1", b"{broken")
    assert back.headers == (*HEADERS, ("streamjobs-attempt", b"2"), ("streamjobs-redriven", b"imu.dlq-2-5"))
    assert letter_ids([back]) == {letter_id(TOPIC, found.place)}
    assert redriven(found._replace(moved=3), TOPIC) == back._replace(partition=3)  # the input has more partitions now
    unstamped = parse_letter(lying(failed(BROKEN), 5)._replace(timestamp=-1))  # its topic refused the record's timestamp
    assert unstamped is not None and redriven(unstamped, TOPIC) == back


def test_each_failure_after_a_redrive_counts_one_attempt_more():
    record = BROKEN
    for attempt in range(1, 4):
        found = parse_letter(lying(failed(record), attempt))
        assert found is not None and found.attempt == attempt
        record = redriven(found, TOPIC)._replace(offset=41 + attempt)
    assert record.headers == (*HEADERS, ("streamjobs-attempt", b"4"), ("streamjobs-redriven", b"imu.dlq-2-3"))


def test_an_attempt_header_that_is_no_number_counts_as_none():
    for text in (b"", b"-3", b"9" * 40, b"two", b"0"):
        found = parse_letter(lying(failed(BROKEN._replace(headers=(("streamjobs-attempt", text),))), 0))
        assert found is not None and found.attempt == 1


def test_what_is_no_letter_is_none():
    assert parse_letter(BROKEN) is None and parse_letter(BROKEN._replace(headers=())) is None


def test_a_dry_run_of_many_letters_prints_the_first_and_how_many_more(monkeypatch, tmp_path, capsys):
    letters = [parse_letter(lying(failed(BROKEN), offset)) for offset in range(45)]
    monkeypatch.setattr(redrive, "read_letters", lambda settings, topic: (letters, 0))
    monkeypatch.setattr(redrive.preflight, "kept_life", lambda settings: "")
    monkeypatch.setattr(redrive, "with_present_partitions", lambda settings, chosen: chosen)
    for name in ("sent_before", "older_than_input"):
        monkeypatch.setattr(redrive, name, lambda settings, chosen, offsets: set())
    job = tmp_path / "job.toml"
    job.write_text('[source]\ntopic = "imu"\nfields = ["a"]\n\n[learner]\nname = "okfeb"\nrole = "track"\n')
    assert command("dlq", "redrive", job, "--all", "--dry-run") == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 20 + 2 and lines[20].startswith("2:19 ")
    assert lines[21:] == ["... and 25 more", "45 of 45 dead letters would go back to imu"]


def test_the_input_shows_no_redrive_of_letters_older_than_its_first_record(monkeypatch):
    """Retention may have deleted the record that was sent back, and a key would learn from the next one again."""
    records = [BROKEN._replace(offset=offset) for offset in (39, 40, 50)]
    found = [parse_letter(lying(failed(record), at)) for at, record in enumerate(records)]
    former = found[2]._replace(life="5f0c81d2", offset=3)
    monkeypatch.setattr(redrive.preflight, "kept_life", lambda settings: "")
    monkeypatch.setattr(redrive.changelog_edit, "first_offsets", lambda settings, topic: {2: 41})
    monkeypatch.setattr(redrive.changelog_edit, "admin_of", lambda settings: None)
    policies = iter(["delete", None, "compact,delete"])
    monkeypatch.setattr(redrive.topics, "setting_of", lambda admin, topic, name: next(policies))
    job = Job.from_settings(settings())
    letters = [*found, former]
    offsets = redrive.offsets_after(job.settings, letters)
    for _ in range(2):
        assert redrive.older_than_input(job.settings, letters, offsets) == {(2, 0), (2, 3)}
    assert redrive.older_than_input(job.settings, letters, offsets) == {one.place for one in letters}, "a compacted input"
    for first in (0, 1):  # a moved key's letter was sent back to a partition that may have deleted it
        monkeypatch.setattr(redrive.topics, "setting_of", lambda *_: "delete")
        monkeypatch.setattr(redrive.changelog_edit, "first_offsets", lambda settings, topic, at=first: {2: 0, 3: at})
        assert len(redrive.older_than_input(job.settings, [found[1]._replace(moved=3)], offsets)) == first


@pytest.mark.parametrize(
    ("late", "window", "says", "ends"),
    [
        ("learn", None, "", (1, 0, 0)),
        ("predict_only", None, "are not learned", (1, 0, 0)),  # it gives a row, which is only predicted
        ("drop", None, "are skipped as late", (0, 1, 0)),
        ("dlq", None, "become dead letters again", (0, 1, 1)),
        ("learn", WINDOW, "are skipped as late", (0, 1, 0)),
        ("predict_only", WINDOW, "are skipped as late", (0, 1, 0)),
        ("dlq", WINDOW, "become dead letters again", (0, 1, 1)),
    ],
)
def test_what_becomes_of_letters_of_keys_that_went_on(late: str, window: Any, says: str, ends: tuple[int, ...]) -> None:
    """The second sample is older than the first by far. ends: its rows, samples skipped as late, and letters."""
    source = {"topic": "imu", "fields": ["x"], "time": "ts", "late": late}
    made = settings(source=source, window=window, head=None, drift=None)
    job = Job.from_settings(made)
    live = Live(job, {}.get)
    for offset, ts in enumerate((1_700_000_100, 1_700_000_000)):
        value = b'{"x":1.0,"ts":%d}' % ts
        report = advance(job, live, [Stored("imu", 0, offset, 1000 * ts, b"p1", value, ())]).report
    assert (report.rows, report.skipped.get("late", 0), report.dead_lettered.get("late", 0)) == ends
    assert when_late(made).endswith(f"newest sample of their key {says}" if says else "")
    assert bool(when_late(made)) is bool(says)


@given(st.lists(st.tuples(st.sampled_from([40, 41, 42, 60]), st.sampled_from([None, 3]), st.booleans()), max_size=6))
def test_a_redrive_that_was_killed_and_is_repeated_sends_what_it_has_not_sent(letters: list[Any]) -> None:
    """letters: offset of the record, where its key has moved, and whether it was sent back before the kill."""
    made, topic = settings(), dict[tuple[int, int], Stored]()
    chosen = []
    for at, (offset, moved, sent) in enumerate(letters):
        letter = parse_letter(lying(failed(BROKEN._replace(offset=offset)), at))
        assert letter is not None
        chosen.append(letter._replace(moved=moved))
        if sent:
            back = redriven(chosen[-1], TOPIC)
            place = back.partition, max([offset, *(one for number, one in topic if number == back.partition)]) + 1
            topic[place if moved is None else (3, at)] = back

    def records_of(broker: Any, name: str, setting: str, start: dict[int, int]) -> list[Stored]:
        return [one for (number, at), one in topic.items() if number in start and at >= start[number]]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redrive.preflight, "kept_life", lambda settings: "")
        patch.setattr(redrive, "records_of", records_of)
        before = redrive.sent_before(made, chosen, redrive.offsets_after(made, chosen))
    assert before == {letter_id(TOPIC, one.place) for one, (*_, sent) in zip(chosen, letters, strict=True) if sent}


@pytest.mark.parametrize(("held", "moved"), [([3], 3), ([2], None), ([], None), ([2, 3], None), ([0, 3], None)])
def test_a_letter_goes_where_its_key_has_its_only_state(held: list[int], moved: int | None, monkeypatch: Any) -> None:
    letter = parse_letter(lying(failed(BROKEN), 5))
    assert letter is not None
    other = letter._replace(key=b"other", source=("another", 0, 1))
    states = [Stored("log", number, 0, 0, key, b"state", ()) for number in held for key in (b"p1", b"other")]
    monkeypatch.setattr(redrive.topics, "connect", lambda broker, wanted: (None, {"imu": 4}))
    monkeypatch.setattr(redrive, "changelog_records", lambda settings: states)
    assert redrive.with_present_partitions(settings(), [letter, other]) == [letter._replace(moved=moved), other]


@pytest.mark.parametrize(
    ("silent_after", "refused", "says"),
    [
        (5, False, None),
        (4, False, r"1 of 5 records not sent \(no answer within 0 s\)"),
        (0, False, r"5 of 5 records not sent \(no answer within 0 s\)"),  # while its queue is full
        (5, True, r"5 of 5 records not sent \(no right\)"),
    ],
)
def test_records_are_sent_back_whole_and_none_is_lost_without_a_word(
    silent_after: int, refused: bool, says: str | None, monkeypatch: Any
) -> None:
    """Also if there are more than fit into the queue of the client, here three, and slowly as long as answers come."""
    sent, asked, now = list[Any](), list[Any](), [100.0]

    class Producer:
        def __init__(self, options: Any) -> None:
            assert options["enable.idempotence"] is True, "none twice, none out of order"

        def produce(self, topic: str, *, on_delivery: Any, **record: Any) -> None:
            if len(asked) == 3:
                raise BufferError
            sent.append((topic, record))
            asked.append(on_delivery)

        def poll(self, within: float) -> None:
            now[0] += within
            if within and asked and len(sent) - len(asked) < silent_after:
                asked.pop(0)(SimpleNamespace(str=lambda: "no right.") if refused else None, None)

        def flush(self, within: float) -> int:
            self.poll(within)
            return len(asked)

    monkeypatch.setattr(redrive, "Producer", Producer)
    monkeypatch.setattr(redrive, "ANSWER_WITHIN", 2.5 * FULL)
    monkeypatch.setattr(redrive, "time", SimpleNamespace(monotonic=lambda: now[0]))
    records = [Stored("imu", number, -1, 1_000 + number, b"k", b"v%d" % number, HEADERS) for number in range(5)]
    with pytest.raises(DeliveryError, match=says) if says else nullcontext():
        redrive.send_back(settings(), records)
    assert now[0] > 100.0 + 2.5 * FULL
    wanted = [(one.partition, one.timestamp, one.key, one.value, [*one.headers]) for one in records]
    order = ("partition", "timestamp", "key", "value", "headers")
    of_all = [(topic, *(record[name] for name in order)) for topic, record in sent]
    assert of_all == [("imu", *one) for one in wanted][: 3 + silent_after]


@pytest.fixture
def without_offsets(monkeypatch):
    """A group whose offsets cannot be read: the errors to come."""
    errors = []

    def refuse(*_):
        raise errors.pop()

    preflight = redrive.preflight
    monkeypatch.setattr(preflight.groups, "commits", refuse)
    monkeypatch.setattr(preflight.topics, "connect", lambda broker, names: (None, {"imu": 4}))
    monkeypatch.setattr(preflight.topics, "is_mock", lambda admin: False)
    monkeypatch.setattr(preflight.client, "verify", lambda broker: [])
    return errors


@pytest.mark.parametrize("error", [GroupAuthorizationFailedError("group imu-job"), UnknownError()])
def test_a_redrive_is_refused_if_the_group_does_not_tell_whether_the_input_was_recreated(error, without_offsets):
    """It would look for what was sent back behind offsets of the former topic, and send it again."""
    without_offsets.append(error)
    with pytest.raises(SetupError, match="rights of this principal"):
        redrive.offsets_after(settings(), [parse_letter(lying(failed(BROKEN), 0))])


def test_a_replay_needs_no_right_to_see_the_group_and_takes_no_other_error_for_that(without_offsets):
    without_offsets += [UnknownError(), GroupAuthorizationFailedError("group imu-job")]
    assert redrive.preflight.kept_life(settings(), hidden={}) == ""
    with pytest.raises(SetupError):
        redrive.preflight.kept_life(settings(), hidden={})
