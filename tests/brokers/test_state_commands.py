"""State operations and dead letters on a real broker: what commands change between two workers, the second one applies.

One scenario per store: a worker learns, stops, and its commits are set back as a crash leaves them; then keys are reset,
forgotten, relearned and given another's model, dead letters are sent back, and a second worker goes on.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.errors import SetupError
from streamjobs.kafka import client, topics
from streamjobs.kafka.devbroker.broker import Broker
from streamjobs.maintenance import changelog_edit
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.renew import exported_model, relearned_snapshot, reset_snapshot, snapshot_from_model
from streamjobs.worker.changelog import Changelog
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import PARTITIONS, KafkaJob, Sent
from tests.brokers.workers import Worker, running_worker
from tests.commands.jobs import output_of

KEYS, FIRST, SECOND, BACK = 6, 30, 10, 3
START = 1_700_000_000_000
LONG = 50 * 365 * 86_400_000  # retention of the features, milliseconds
WATCHED = {  # of the rows that a key has had when the commands come, all are its reference
    "drift": {"watch": "columns", "reference": "first 60 rows", "false_alarms": "1 per 1000 rows"},
    "sinks": {"drift": "", "alarms": ""},
}
HEADERS = (("trace", b"\x00\xff"),)


def records(begin: int, count: int) -> list[Sent]:
    """Rows begin to begin + count of every key, keys in turn; k0 and k4 share partition 0, k1 and k5 partition 1."""
    rows = [(n, k) for n in range(begin, begin + count) for k in range(KEYS)]
    return [
        Sent(b"k%d" % k, json.dumps({"x": [n % 7, (n * k) % 5, n / 9]}).encode(), k % PARTITIONS, START + n) for n, k in rows
    ]


def bad(count: int) -> list[Sent]:
    return [Sent(b"k2", b"{broken %d" % n, 2, START + n, HEADERS) for n in range(count)]


class Scenario(NamedTuple):
    job: KafkaJob
    before: dict[tuple[int, bytes], bytes]  # the changelog when the first worker has stopped
    committed: dict[int, int]  # where the second one begins
    found: dict[str, Any]  # what the commands said
    after: dict[tuple[int, bytes], bytes]


@pytest.fixture(scope="module")
def fork_server(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkServer]:
    folder = tmp_path_factory.mktemp("fork_server")
    job = KafkaJob(broker.bootstrap, folder, "ops", make=False, source={"dim": 3}, **WATCHED)
    with ForkServer(folder, job.path) as started:
        yield started


@pytest.fixture(scope="module", params=["rocksdb", pytest.param("memory", marks=pytest.mark.long)])
def scenario(
    request: pytest.FixtureRequest, broker: Broker, fork_server: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Scenario:
    folder = tmp_path_factory.mktemp(request.param)
    name, state = f"ops-{request.param}", {"store": request.param}
    job = KafkaJob(broker.bootstrap, folder, name, source={"dim": 3}, state=state, **WATCHED)
    job.alter(job.core.sinks["features"], "retention.ms", str(LONG))
    job.produce([*records(0, FIRST), *bad(2)])
    with running_worker(job, fork_server=fork_server) as worker:
        job.wait_until_done([worker])
        assert worker.stop() == 0
    before = job.snapshots()
    found = _read_and_forget(job, folder)
    _rewind_commits(job)
    committed = job.committed()
    found |= _operate(job, folder)
    with running_worker(job, fork_server=fork_server) as worker:
        found |= _while_running(job, worker)
        job.produce(records(FIRST, SECOND))
        job.wait_until_done([worker])
        assert worker.stop() == 0
    return Scenario(job, before, committed, found, job.snapshots())


def _rewind_commits(job: KafkaJob) -> None:
    """As a crash between the changelog and the commit leaves the group: behind its states."""
    job.set_commits({number: end - BACK for number, end in job.ends().items()})


def _read_and_forget(job: KafkaJob, folder: Path) -> dict[str, Any]:
    runs = {
        "list": ("state", "list", job.path, "--json"),
        "verify": ("state", "verify", job.path, "--json"),
        "export": ("state", "export", job.path, "--all", "-o", folder / "copy"),
        "forget": ("state", "forget", job.path, "k1", "--json"),
    }
    return {name: output_of(*words) for name, words in runs.items()}


def _operate(job: KafkaJob, folder: Path) -> dict[str, Any]:
    copy, model, other = folder / "copy", folder / "model", folder / "other.toml"
    other.write_text(job.path.read_text().replace("budget = 5", "budget = 6"))
    runs = {
        "others reset": ("state", "reset", other, "k0"),
        "others import": ("state", "import", other, copy, "--key", "new", "--from", "k3", "--partition", "3"),
        "verify ahead": ("state", "verify", job.path, "--json"),
        "ahead": ("state", "forget", job.path, "k3"),
        "reset": ("state", "reset", job.path, "k0"),
        "relearn": ("drift", "relearn", job.path, "k4", "k5"),
        "neither": ("drift", "relearn", job.path),
        "nobody": ("drift", "relearn", job.path, "k5", "k99"),
        "model": ("state", "export", job.path, "k3", "-o", model),
        "import": ("state", "import", job.path, model, "--key", "k2"),
        "foreign": ("state", "import", job.path, job.path, "--key", "k2"),
        "new": ("state", "import", job.path, copy, "--key", "twin", "--from", "k3"),
        "placed": ("state", "import", job.path, copy, "--key", "twin", "--from", "k3", "--partition", "3"),
        "fallen": ("state", "verify", job.path, "--against", copy),
        "letters": ("dlq", "list", job.path, "--json"),
        "letter": ("dlq", "show", job.path, "2:0"),
        "dry": ("dlq", "redrive", job.path, "--all", "--dry-run", "--json"),
        "sent": ("dlq", "redrive", job.path, "--reason", "malformed", "--json"),
        "again": ("dlq", "redrive", job.path, "--all", "--json"),
        "strange": ("dlq", "redrive", job.path, "--offset", "0:99"),
    }
    return {name: output_of(*words) for name, words in runs.items()}


def _while_running(job: KafkaJob, worker: Worker) -> dict[str, Any]:
    job.wait_until_done([worker])  # with the input that is read again, and the dead letters
    job.wait_for_markers(job.changelog)
    held = job.ends(job.changelog, committed_only=False)
    commands = ("state", "reset"), ("state", "forget"), ("drift", "relearn")
    refused = [output_of(*words, job.path, "k3") for words in commands]
    assert job.ends(job.changelog, committed_only=False) == held
    worker.assert_running()
    return {"refused": refused, "beside": output_of("state", "list", job.path)}


def rows_of(job: KafkaJob, snapshots: dict[tuple[int, bytes], bytes]) -> dict[str, tuple[int, int]]:
    """(rows, rows seen by the learner) of every key."""
    found = {}
    for (_, key), data in snapshots.items():
        books = decode_snapshot(job.core, data)[0]["books"]
        found[key.decode()] = books.rows, books.rows + books.seen
    return found


def test_list_and_verify_tell_what_the_worker_has_learned(scenario: Scenario) -> None:
    code, text = scenario.found["list"]
    states = json.loads(text)["states"]
    assert code == 0 and {one["key"]: one["rows"] for one in states} == {f"k{k}": FIRST for k in range(KEYS)}
    assert {(one["partition"], one["key"].encode()): one["bytes"] for one in states} == {
        place: len(data) for place, data in scenario.before.items()
    }
    for name, keys, ahead in (("verify", KEYS, 0), ("verify ahead", KEYS - 1, KEYS - 1)):  # in between, k1 is forgotten
        code, text = scenario.found[name]
        assert code == 0, text
        assert json.loads(text) == {"keys": keys, "ahead": ahead, "problems": []}


def test_a_job_file_with_other_settings_changes_no_state_of_one_key(scenario: Scenario) -> None:
    for name in ("others reset", "others import"):
        code, text = scenario.found[name]
        assert code == 1 and len(text.splitlines()) == 1 and "budget" in text, text


def test_reset_forget_and_import_are_applied_by_the_next_worker(scenario: Scenario) -> None:
    for name in ("reset", "forget", "model", "import", "placed"):
        assert scenario.found[name][0] == 0, scenario.found[name]
    rows = rows_of(scenario.job, scenario.after)
    assert rows["k0"] == (SECOND, SECOND)  # nothing of what it had learned before, although some input was read again
    assert rows["k2"] == (SECOND, FIRST + SECOND)
    reread = sum(record.key == b"k1" for record in scenario.job.inputs(scenario.committed)) - SECOND
    assert 0 < reread < BACK and rows["k1"] == (SECOND + reread, SECOND + reread)
    assert json.loads(scenario.found["forget"][1])["waiting"] == 0
    code, text = scenario.found["ahead"]
    assert code == 3 and "a worker would learn the records in between again. Nothing was changed" in text
    assert rows["twin"] == (FIRST, FIRST) and all(rows[key] == (FIRST + SECOND,) * 2 for key in ("k3", "k4", "k5"))


def test_relearned_keys_begin_their_reference_again_and_keep_everything_else(scenario: Scenario) -> None:
    code, text = scenario.found["relearn"]
    assert code == 0, text
    assert "2 keys: drift detection begins again; the first 60 rows to come are normal" in text
    core = scenario.job.core
    of_reference = {
        key.decode(): decode_snapshot(core, data)[0]["reference"].rows for (_, key), data in scenario.after.items()
    }
    assert (of_reference["k3"], of_reference["k4"], of_reference["k5"]) == (FIRST + SECOND, SECOND, SECOND)
    assert [scenario.found[name][0] for name in ("neither", "nobody")] == [2, 2]
    assert "give either KEY, one or more, or --all" in scenario.found["neither"][1]
    assert "key 'k99': no state" in scenario.found["nobody"][1]


def test_the_states_are_to_the_bit_what_the_core_makes_of_the_changed_ones(scenario: Scenario) -> None:
    job, core = scenario.job, scenario.job.core

    def entry(key: bytes, partition: int) -> Entry:
        return Entry(partition, key, scenario.before[partition, key], 0, 0)

    changed = dict(scenario.before)
    del changed[1, b"k1"]
    changed[0, b"k0"] = reset_snapshot(core, entry(b"k0", 0)) or b""
    for key, partition in ((b"k4", 0), (b"k5", 1)):
        changed[partition, key] = relearned_snapshot(core, entry(key, partition))
    changed[2, b"k2"] = snapshot_from_model(core, exported_model(core, entry(b"k3", 3)), b"k2", entry(b"k2", 2))
    for number in range(PARTITIONS):
        live = Live(core, lambda key, number=number: changed.get((number, key)))  # type: ignore[misc]
        advance(core, live, [record for record in job.inputs(scenario.committed) if record.partition == number])
        changed.update({(number, key): data for key, data in live.snapshots()})
    after = dict(scenario.after)
    assert after.pop((3, b"twin")) and after == changed


def test_forgetting_says_what_kafka_still_holds(scenario: Scenario) -> None:
    found = json.loads(scenario.found["forget"][1])
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


def test_mistakes_are_sentences_with_exit_codes(scenario: Scenario) -> None:
    assert scenario.found["new"][0] == 2 and "--partition (0 to 3)" in scenario.found["new"][1]
    code, text = scenario.found["foreign"]
    assert code == 1 and text.endswith(
        "Import a file that 'streamjobs state export' wrote for a job with the same settings.\n"
    ), text
    code, text = scenario.found["fallen"]
    assert code == 4 and len(text.strip().splitlines()) == 1 and "'k1'[1]" in text and "forgotten since?" in text
    assert scenario.found["strange"][0] == 2 and "no dead letter at '0:99'" in scenario.found["strange"][1]


def test_writing_is_refused_while_a_worker_runs_and_reading_is_not(scenario: Scenario) -> None:
    for code, text in scenario.found["refused"]:
        assert code == 3 and "1 worker is running" in text and len(text.strip().splitlines()) == 1
    code, text = scenario.found["beside"]
    assert code == 0 and "listed as last written: a worker that runs writes each change within 4 minutes" in text


def test_dead_letters_go_back_once_and_count_their_attempts(scenario: Scenario) -> None:
    job, found = scenario.job, scenario.found
    code, text = found["letters"]
    assert code == 0 and json.loads(text)["reasons"] == {"malformed": 2}
    assert "{broken 0" in found["letter"][1] and "trace: \\x00\\xff" in found["letter"][1]
    counts = [json.loads(found[name][1]) for name in ("dry", "sent", "again")]
    assert [(one["sent"], one["would_send"], one["sent_before"]) for one in counts] == [(0, 2, 0), (2, 2, 0), (0, 0, 2)]
    sent = [record for record in job.inputs() if dict(record.headers).get("streamjobs-attempt")]
    assert [(one.partition, one.key, one.value, one.timestamp) for one in sent] == [
        (one.partition, one.key, one.value, one.timestamp) for one in bad(2)
    ]
    assert all(one.headers[:1] == HEADERS for one in sent)
    attempts = [dict(one.headers())["streamjobs-error-attempt"] for one in job.sink("dlq")]
    assert attempts[-2:] == [b"2", b"2"] and set(attempts[:-2]) == {b"1"}


def test_a_worker_that_starts_while_a_command_writes_wins(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    job = scenario.job
    look = changelog_edit._require_unchanged

    async def taken_over() -> None:
        rival = Changelog(client.for_aiokafka(job.settings.broker), job.name, job.changelog, 0)
        await rival.open()
        await rival.close()

    def looked(*words: Any) -> None:
        look(*words)
        asyncio.run(taken_over())  # as a worker does that starts right now

    monkeypatch.setattr(changelog_edit, "_require_unchanged", looked)
    code, text = output_of("state", "reset", job.path, "k4")
    assert code == 1 and "a worker started meanwhile" in text and "nothing was written" in text
    assert job.snapshots() == scenario.after
    monkeypatch.undo()
    before = {number: end - 1 for number, end in job.ends(job.changelog, committed_only=False).items()}
    with pytest.raises(SetupError, match="it grew while it was read"):
        changelog_edit.write(job.settings, {0: [(b"k4", None)]}, before)
    assert job.snapshots() == scenario.after


def test_a_transaction_that_a_killed_process_left_open_does_not_refuse_a_command(scenario: Scenario) -> None:
    job = scenario.job
    dead = Producer({"bootstrap.servers": job.bootstrap, "transactional.id": topics.writer_of(job.name, 0), "log_level": 0})
    dead.init_transactions()
    dead.begin_transaction()
    dead.produce(job.changelog, key=b"k4", value=b"half of a state", partition=0)
    assert dead.flush(10) == 0
    assert job.ends(job.changelog) != job.ends(job.changelog, committed_only=False)
    code, text = output_of("state", "reset", job.path, "k0")
    assert code == 0, text
    assert job.snapshots().keys() == scenario.after.keys()
