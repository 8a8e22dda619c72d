"""State operations and dead letters on a real broker: what commands change between two workers, the second one applies.

One story per store: a worker learns, stops, and its commits are set back as a crash leaves them; then keys are reset,
forgotten and given another's model, dead letters are sent back, and a second worker goes on.
"""

import asyncio
import contextlib
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

from streamjobs.core.advance import advance
from streamjobs.core.state.live import Live
from streamjobs.errors import SetupError
from streamjobs.kafka import client
from streamjobs.kafka.devbroker.broker import Broker
from streamjobs.maintenance import changelog_edit
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import begun, emptied, exported
from streamjobs.worker.changelog import Changelog
from tests.brokers.bed import PARTITIONS, Bed, Sent
from tests.brokers.nursery import Nursery
from tests.brokers.workers import Worker, working
from tests.cli.jobs import command

KEYS, FIRST, SECOND, BACK = 6, 30, 10, 3
START = 1_700_000_000_000
LONG = 50 * 365 * 86_400_000  # retention of the features, milliseconds
HEADERS = (("trace", b"\x00\xff"),)


def records(begin: int, count: int) -> list[Sent]:
    """Rows begin to begin + count of every key, keys in turn; k0 and k4 share partition 0, k1 and k5 partition 1."""
    rows = [(n, k) for n in range(begin, begin + count) for k in range(KEYS)]
    return [
        Sent(b"k%d" % k, json.dumps({"x": [n % 7, (n * k) % 5, n / 9]}).encode(), k % PARTITIONS, START + n) for n, k in rows
    ]


def bad(count: int) -> list[Sent]:
    return [Sent(b"k2", b"{broken %d" % n, 2, START + n, HEADERS) for n in range(count)]


class Story(NamedTuple):
    bed: Bed
    before: dict[tuple[int, bytes], bytes]  # the changelog when the first worker has stopped
    committed: dict[int, int]  # where the second one begins
    found: dict[str, Any]  # what the commands said
    after: dict[tuple[int, bytes], bytes]


@pytest.fixture(scope="module")
def nursery(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    folder = tmp_path_factory.mktemp("nursery")
    bed = Bed(broker.bootstrap, folder, "ops", make=False, source={"dim": 3})
    with Nursery(folder, bed.path) as started:
        yield started


@pytest.fixture(scope="module", params=["rocksdb", "memory"])
def story(
    request: pytest.FixtureRequest, broker: Broker, nursery: Nursery, tmp_path_factory: pytest.TempPathFactory
) -> Story:
    folder = tmp_path_factory.mktemp(request.param)
    bed = Bed(broker.bootstrap, folder, f"ops-{request.param}", source={"dim": 3}, state={"store": request.param})
    bed.alter(bed.job.sinks["features"], "retention.ms", str(LONG))
    bed.produce([*records(0, FIRST), *bad(2)])
    with working(bed, nursery=nursery) as worker:
        bed.until_done([worker])
        assert worker.stop() == 0
    before = bed.snapshots()
    _set_back(bed)
    committed = bed.committed()
    found = _operate(bed, folder)
    with working(bed, nursery=nursery) as worker:
        found |= _while_running(bed, worker)
        bed.produce(records(FIRST, SECOND))
        bed.until_done([worker])
        assert worker.stop() == 0
    return Story(bed, before, committed, found, bed.snapshots())


def _set_back(bed: Bed) -> None:
    """As a crash between the changelog and the commit leaves the group: behind its states."""
    back = [TopicPartition(bed.input, number, end - BACK) for number, end in bed.ends().items()]
    (answer,) = bed.admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(bed.name, back)]).values()
    answer.result(10)


def _said(*words: object) -> tuple[int, str]:
    """Exit code of a command and what it printed, errors included."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        code = command(*words)
    return code, text.getvalue()


def _operate(bed: Bed, folder: Path) -> dict[str, Any]:
    copy, model = folder / "copy", folder / "model"
    runs = {
        "list": ("state", "list", bed.path, "--json"),
        "verify": ("state", "verify", bed.path, "--json"),
        "export": ("state", "export", bed.path, "--all", "-o", copy),
        "reset": ("state", "reset", bed.path, "k0"),
        "forget": ("state", "forget", bed.path, "k1", "--json"),
        "model": ("state", "export", bed.path, "k3", "-o", model),
        "import": ("state", "import", bed.path, model, "--key", "k2"),
        "foreign": ("state", "import", bed.path, bed.path, "--key", "k2"),
        "new": ("state", "import", bed.path, copy, "--key", "twin", "--from", "k3"),
        "placed": ("state", "import", bed.path, copy, "--key", "twin", "--from", "k3", "--partition", "3"),
        "fallen": ("state", "verify", bed.path, "--against", copy),
        "letters": ("dlq", "list", bed.path, "--json"),
        "letter": ("dlq", "show", bed.path, "2:0"),
        "dry": ("dlq", "redrive", bed.path, "--all", "--dry-run", "--json"),
        "sent": ("dlq", "redrive", bed.path, "--reason", "malformed", "--json"),
        "again": ("dlq", "redrive", bed.path, "--all", "--json"),
        "strange": ("dlq", "redrive", bed.path, "--offset", "0:99"),
    }
    return {name: _said(*words) for name, words in runs.items()}


def _while_running(bed: Bed, worker: Worker) -> dict[str, Any]:
    bed.until_done([worker])  # with the input that is read again, and the dead letters
    held = bed.ends(bed.changelog, committed_only=False)
    refused = [_said("state", *words) for words in (("reset", bed.path, "k3"), ("forget", bed.path, "k3"))]
    assert bed.ends(bed.changelog, committed_only=False) == held
    worker.must_live()
    return {"refused": refused, "beside": _said("state", "list", bed.path, "--json")}


def rows_of(bed: Bed, snapshots: dict[tuple[int, bytes], bytes]) -> dict[str, tuple[int, int]]:
    """(rows, rows seen by the learner) of every key."""
    found = {}
    for (_, key), data in snapshots.items():
        books = bed.job.decode_snapshot(data)[0]["books"]
        found[key.decode()] = books.rows, books.rows + books.seen
    return found


def test_list_and_verify_tell_what_the_worker_has_learned(story: Story) -> None:
    code, text = story.found["list"]
    states = json.loads(text)["states"]
    assert code == 0 and {one["key"]: one["rows"] for one in states} == {f"k{k}": FIRST for k in range(KEYS)}
    assert {(one["partition"], one["key"].encode()): one["bytes"] for one in states} == {
        place: len(data) for place, data in story.before.items()
    }
    code, text = story.found["verify"]
    assert code == 0, text
    assert json.loads(text) == {"keys": KEYS, "ahead": KEYS, "problems": []}


def test_reset_forget_and_import_are_applied_by_the_next_worker(story: Story) -> None:
    for name in ("reset", "forget", "model", "import", "placed"):
        assert story.found[name][0] == 0, story.found[name]
    rows = rows_of(story.bed, story.after)
    assert rows["k0"] == (SECOND, SECOND)  # nothing of what it had learned before, although some input was read again
    assert rows["k2"] == (SECOND, FIRST + SECOND)
    reread = json.loads(story.found["forget"][1])["waiting"]
    assert 0 < reread < BACK and rows["k1"] == (SECOND + reread, SECOND + reread)
    assert rows["twin"] == (FIRST, FIRST) and all(rows[key] == (FIRST + SECOND,) * 2 for key in ("k3", "k4", "k5"))


def test_the_states_are_to_the_bit_what_the_core_makes_of_the_changed_ones(story: Story) -> None:
    bed, job = story.bed, story.bed.job

    def entry(key: bytes, partition: int) -> Entry:
        return Entry(partition, key, story.before[partition, key], 0, 0)

    changed = dict(story.before)
    del changed[1, b"k1"]
    changed[0, b"k0"] = emptied(job, entry(b"k0", 0)) or b""
    changed[2, b"k2"] = begun(job, exported(job, entry(b"k3", 3)), b"k2", entry(b"k2", 2))
    for number in range(PARTITIONS):
        live = Live(job, lambda key, number=number: changed.get((number, key)))  # type: ignore[misc]
        advance(job, live, [record for record in bed.inputs(story.committed) if record.partition == number])
        changed.update({(number, key): data for key, data in live.snapshots()})
    after = dict(story.after)
    assert after.pop((3, b"twin")) and after == changed


def test_forgetting_says_what_kafka_still_holds(story: Story) -> None:
    found = json.loads(story.found["forget"][1])
    held = {one["role"]: one for one in found["held"]}
    assert found["forgotten"] == [1]
    assert {role: one["records"] for role, one in held.items() if role != "state"} == {
        "input": FIRST,
        "features": FIRST,
        "dlq": 0,
    }
    assert held["state"]["records"] >= 1 and held["state"]["policy"] == "compact"
    assert held["input"]["until"] is None and "unlimited" in held["input"]["why"]  # so this broker is set
    assert held["features"]["until"] == START + FIRST - 1 + LONG + 7 * 86_400_000  # and Kafka's default of segment.ms


def test_mistakes_are_sentences_with_exit_codes(story: Story) -> None:
    assert story.found["new"][0] == 2 and "--partition (0 to 3)" in story.found["new"][1]
    code, text = story.found["foreign"]
    assert code == 1 and text.endswith("Import what 'streamjobs state export' wrote for a job of the same settings.\n"), text
    code, text = story.found["fallen"]
    assert code == 4 and len(text.strip().splitlines()) == 1 and "'k1'[1]" in text and "forgotten since?" in text
    assert story.found["strange"][0] == 2 and "no dead letter at '0:99'" in story.found["strange"][1]


def test_writing_is_refused_while_a_worker_runs_and_reading_is_not(story: Story) -> None:
    for code, text in story.found["refused"]:
        assert code == 3 and "1 worker is running" in text and len(text.strip().splitlines()) == 1
    assert story.found["beside"][0] == 0


def test_dead_letters_go_back_once_and_count_their_attempts(story: Story) -> None:
    bed, found = story.bed, story.found
    code, text = found["letters"]
    assert code == 0 and json.loads(text)["reasons"] == {"malformed": 2}
    assert "{broken 0" in found["letter"][1] and "trace: \\x00\\xff" in found["letter"][1]
    counts = [json.loads(found[name][1]) for name in ("dry", "sent", "again")]
    assert [(one["sent"], one["would_send"], one["sent_before"]) for one in counts] == [(0, 2, 0), (2, 2, 0), (0, 0, 2)]
    sent = [record for record in bed.inputs() if dict(record.headers).get("streamjobs-attempt")]
    assert [(one.partition, one.key, one.value, one.timestamp) for one in sent] == [
        (one.partition, one.key, one.value, one.timestamp) for one in bad(2)
    ]
    assert all(one.headers[:1] == HEADERS for one in sent)
    attempts = [dict(one.headers())["streamjobs-error-attempt"] for one in bed.sink("dlq")]
    assert attempts[-2:] == [b"2", b"2"] and set(attempts[:-2]) == {b"1"}


def test_a_worker_that_starts_while_a_command_writes_wins(story: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    bed = story.bed
    look = changelog_edit._unchanged

    async def taken_over() -> None:
        rival = Changelog(client.for_aiokafka(bed.settings.broker), bed.name, bed.changelog, 0)
        await rival.open()
        await rival.close()

    def looked(*words: Any) -> None:
        look(*words)
        asyncio.run(taken_over())  # as a worker does that starts right now

    monkeypatch.setattr(changelog_edit, "_unchanged", looked)
    code, text = _said("state", "reset", bed.path, "k4")
    assert code == 1 and "a worker started meanwhile" in text and "nothing was written" in text
    assert bed.snapshots() == story.after
    monkeypatch.undo()
    before = {number: end - 1 for number, end in bed.ends(bed.changelog, committed_only=False).items()}
    with pytest.raises(SetupError, match="it grew while it was read"):
        changelog_edit.write(bed.settings, {0: [(b"k4", None)]}, before)
    assert bed.snapshots() == story.after
