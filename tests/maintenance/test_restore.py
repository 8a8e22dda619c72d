"""`state restore --from-local`: what a local store gives back."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamjobs.core.job import Job
from streamjobs.core.state import snapshot
from streamjobs.errors import ConfigError, ForeignStateError, SetupError
from streamjobs.kafka import preflight
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.topic_id import Origin
from streamjobs.maintenance import changelog_edit, restore, scan
from streamjobs.maintenance.copies import Copy, Entry
from tests.core.streams import samples, settings
from tests.maintenance.copying import stored
from tests.worker.faust_store import FaustStore, RocksStore

JOB = Job.from_settings(settings())


def ignored(done: str, partition: int, states: int) -> None:
    """No progress is printed."""


def local(states: dict[bytes, bytes]) -> Any:
    return SimpleNamespace(path="a.db", marks={"replay": "120"}, reached=0, items=lambda: iter(sorted(states.items())))


def test_a_key_with_a_damaged_state_keeps_no_other_key_from_being_restored() -> None:
    states = stored(JOB, samples(120, keys=4))
    damaged = states | {b"p1": states[b"p1"][:-1]}
    source = restore._source(JOB, 0, local(damaged), ignored)
    assert source.damaged == [b"p1"] and source.keys == 4
    assert source.next_offset == 1 + max(max(snapshot.decode(data).offsets.values()) for data in states.values()) == 120
    assert dict(restore._states(source.copy, 0, {}, ignored)) == damaged


def test_states_that_only_a_recovery_has_written_are_as_of_the_first_ones_offset() -> None:
    """Where states have a pace, the committed offset may lie between those of two keys, which lack different records."""
    states = stored(JOB, samples(120, keys=4)) | {b"p1": stored(JOB, samples(40, keys=4))[b"p1"]}
    first = 1 + min(max(snapshot.decode(data).offsets.values()) for data in states.values())
    recovered = local(states)
    recovered.marks = {}
    assert restore._source(JOB, 0, recovered, ignored).next_offset == first < 50
    assert restore._source(JOB, 0, local(states), ignored).next_offset == 120
    at_once = Job.from_settings(settings(state={"replay": "0s"}))
    assert restore._source(at_once, 0, recovered, ignored).next_offset == 120


def test_records_that_changed_no_state_need_not_be_read_again() -> None:
    """Such as dead letters, or the last record of a key with a damaged state: the mark says what the states have applied."""
    states = stored(JOB, samples(118, keys=4))
    assert restore._source(JOB, 0, local(states), ignored).next_offset == 120
    last = max(states, key=lambda key: max(snapshot.decode(states[key]).offsets.values()))
    assert restore._source(JOB, 0, local(states | {last: b""}), ignored).next_offset == 120


def test_a_store_with_states_of_another_topic_is_refused_also_without_a_mark_of_it() -> None:
    other = Job.from_settings(settings(source=JOB.settings.source.model_dump(exclude_unset=True) | {"topic": "arm"}))
    states = stored(other, [record._replace(topic="arm") for record in samples(30)])
    with pytest.raises(ConfigError, match="arm"):
        restore._source(JOB, 0, local(states), ignored)


def test_of_two_stores_with_a_key_the_one_that_is_further_counts(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder, reached in zip(folders, (7, 9, 8), strict=True):
        store = RocksStore(FaustStore(folder / JOB.settings.job.name))
        store.write(0, [(b"p1", b"state %d" % reached)], reached)
    copy = restore.of_local_stores(JOB.settings, folders, "p1")
    assert copy.entries == {(0, b"p1"): Entry(0, b"p1", b"state 9", 9, 0)}


def test_a_key_from_a_local_store_comes_with_the_input_that_it_learned_from(tmp_path: Path) -> None:
    """Its offsets could also be those of a recreated input, whose records would be skipped then."""
    store = RocksStore(FaustStore(tmp_path / JOB.settings.job.name))
    store.write(0, [(b"p1", b"state")], 7, marks={"source": "former"})
    store.write(1, [(b"p2", b"state")], 7, marks={"source": "other"})
    copy = restore.of_local_stores(JOB.settings, [tmp_path], "p1")
    assert [*copy.entries] == [(0, b"p1")] and {n: one.input_id for n, one in copy.inputs.items()} == {0: "former"}


def test_a_state_of_another_release_is_refused() -> None:
    states = stored(JOB, samples(30))
    later = snapshot.encode(snapshot.decode(states[b"p1"]))
    body = later[:2] + b"\x09" + later[3:-4]
    states[b"p1"] = body + snapshot.CRC.pack(snapshot.zlib.crc32(body))
    with pytest.raises(ForeignStateError, match=r"key 'p1'.*version 9"):
        restore._source(JOB, 0, local(states), ignored)


def test_states_need_not_be_given_up_where_the_input_has_deleted_records_that_they_lack() -> None:
    source = restore.Source(local({}), 4, 120)
    assert restore._problem(0, source, 30, 120, reread=True, accept=False) is None
    refused = restore._problem(0, source, 30, 140, reread=True, accept=False)
    assert refused is not None and "deleted 20 of them" in refused and "add --accept" in refused
    assert restore._problem(0, source, 30, 140, reread=True, accept=True) is None
    assert restore._problem(0, source, 30, 120, reread=False, accept=True) is not None


@pytest.mark.parametrize(("end", "clock"), [(120, "9.5,2.5"), (60, "")])
def test_the_clock_of_a_commit_stays_where_its_offset_stays(end: int, clock: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another offset on, the clock there is not known."""
    written: dict[int, tuple[int, int, str, int | None]] = {}

    async def write(settings: Any, changes: Any, read_at: Any, commits: Any, origins: Any, piece_bytes: int) -> None:
        written.update(commits)

    monkeypatch.setattr(changelog_edit, "_write", write)
    monkeypatch.setattr(changelog_edit, "require_no_workers", lambda settings: None)
    monkeypatch.setattr(restore, "_is_former", lambda *_: True)
    commits = {0: Commit(120, "changelog=former progress=130 clock=9.5,2.5 leader-epoch=3")}
    situation = restore._Situation(Origin("imu", "", "now"), {0: 0}, commits, {0: 0})
    copy = local(stored(JOB, samples(end, keys=4)))
    copy.marks = {"changelog": "former", "replay": str(end)}
    restore._written_back(JOB, situation, {}, {0: [copy]}, True, False, ignored)
    assert written == {0: (end, 130, clock, 3)}


class Broker:
    """What a broker reports of a job whose changelog was recreated or has lost states, and what is written to it."""

    def __init__(self, patch: pytest.MonkeyPatch, commits: dict[int, Commit], ends: dict[int, int]) -> None:
        self.writes: list[Any] = []

        async def write(settings: Any, changes: Any, read_at: Any, commits: Any, origins: Any, piece_bytes: int) -> None:
            of_partitions = {number: list(some) for number, some in changes.items()}
            self.writes.append((of_partitions, read_at, commits, origins, piece_bytes))

        patch.setattr(changelog_edit, "_write", write)
        patch.setattr(changelog_edit, "require_no_workers", lambda settings: None)
        patch.setattr(changelog_edit, "admin_of", lambda settings: None)
        patch.setattr(changelog_edit, "settled_ends", lambda settings: ends)
        patch.setattr(changelog_edit, "first_offsets", lambda settings, topic: dict.fromkeys(ends, 7))
        patch.setattr(preflight, "origin_of", lambda settings, admin: Origin("imu", "i1", "now"))
        patch.setattr(preflight, "commits_of", lambda settings: commits)


def test_an_accepted_changelog_is_committed_with_its_id_at_the_offsets_that_outputs_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise no worker would start, or one would start elsewhere; and local stores ahead would keep what was lost."""
    commits = {
        0: Commit(120, "changelog=former progress=130 clock=9.5,2.5 partitions=4"),
        1: Commit(90, "changelog=now states=50 partitions=4"),
        3: Commit(60, "changelog=now states=40 partitions=4"),
    }
    ends = {0: 40, 1: 48, 2: 5, 3: 40}
    broker = Broker(monkeypatch, commits, ends)
    entries = {(number, key): Entry(number, key, b"state", 3, 0) for number, key in ((0, b"a"), (1, b"b"), (3, b"c"))}
    monkeypatch.setattr(scan, "newest_snapshots", lambda *_: Copy("", "", "", 0, {}, entries))
    restored = restore.accept(JOB)
    done = {0: restore.Done(1, 120, 0), 1: restore.Done(1, 90, 0), 2: restore.Done(0, 7, 0)}
    assert restored == restore.Restored(done, [3], [])
    now = Origin("imu", "i1", "now", partitions=4)
    ((changes, read_at, offsets, origins, _),) = broker.writes
    assert changes == {0: [], 1: [changelog_edit.OF_NO_KEY] * 2 + [(b"b", b"state")], 2: []} and read_at == ends
    assert offsets == {0: (120, 130, "9.5,2.5", None), 1: (90, 90, "", None), 2: (7, 7, "", None)}
    assert origins == {0: now, 1: now, 2: now._replace(partitions=0)}


def test_local_stores_are_written_back_in_pieces_that_a_broker_takes(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It aborts a transaction that stays open for minutes."""
    states = stored(JOB, samples(120, keys=4))
    store = RocksStore(FaustStore(tmp_path / JOB.settings.job.name))
    store.write(0, sorted(states.items()), 7, marks={"changelog": "former", "replay": "120", "topic": "imu"})
    broker = Broker(monkeypatch, {0: Commit(120, "changelog=former")}, {0: 0})
    monkeypatch.setattr(scan, "changelog_records", lambda settings: [])
    assert restore.from_local(JOB, [tmp_path], on_state=ignored).done == {0: restore.Done(4, 120, 0, [])}
    ((changes, *_, piece_bytes),) = broker.writes
    assert changes == {0: sorted(states.items())} and piece_bytes == restore.PIECE_BYTES


def test_a_changelog_with_fewer_partitions_than_the_job_has_states_for_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(monkeypatch, {0: Commit(1, ""), 5: Commit(1, "")}, dict.fromkeys(range(4), 0))
    with pytest.raises(SetupError, match="it has 4 partitions, and this job has states in partition 5 too"):
        restore.accept(JOB)
    assert not broker.writes


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[int, list[Any]]:
    """The changes that a restore writes, by partition."""
    found: dict[int, list[Any]] = {}

    async def write(settings: Any, changes: Any, read_at: Any, commits: Any, origins: Any, piece_bytes: int) -> None:
        found.update({number: list(of_partition) for number, of_partition in changes.items()})

    monkeypatch.setattr(changelog_edit, "_write", write)
    monkeypatch.setattr(changelog_edit, "require_no_workers", lambda settings: None)
    return found


def test_the_furthest_of_several_stores_counts_and_states_that_were_ended_since_stay_ended(
    written: dict[int, list[Any]],
) -> None:
    copies = []
    for end in (60, 120, 90):
        copies.append(local(stored(JOB, samples(end, keys=4))))
        copies[-1].marks = {"changelog": "former", "replay": str(end)}
    situation = restore._Situation(Origin("imu", "", "now"), {0: 0}, {0: Commit(120, "changelog=former")}, {0: 0})
    restored = restore._written_back(JOB, situation, {(0, b"p1"): None}, {0: copies}, False, False, ignored)
    assert written == {0: [(key, data) for key, data in copies[1].items() if key != b"p1"]}
    assert restored.done == {0: restore.Done(4, 120, 0, [])}


def test_a_partition_is_settled_by_a_commit_with_this_changelog_that_has_what_was_written() -> None:
    texts = ["changelog=now states=40", "changelog=now states=41", "changelog=former states=40", "", "changelog=now"]
    commits = {number: Commit(120, text) for number, text in enumerate(texts)}
    situation = restore._Situation(Origin("imu", "", "now"), dict.fromkeys(range(6), 40), commits, {})
    assert (situation.settled, situation.unsettled) == ([0, 4], [1, 2, 3, 5])


def test_states_are_written_behind_what_the_changelog_has_lost(written: dict[int, list[Any]]) -> None:
    """Else a local store ahead of it would go on behind them, with states that others have replaced."""
    states = stored(JOB, samples(120, keys=4))
    commits, now = (
        {0: Commit(120, "changelog=now states=50"), 1: Commit(120, "changelog=now states=40")},
        Origin("imu", "", "now"),
    )
    situation = restore._Situation(now, {0: 40, 1: 40}, commits, {0: 0, 1: 0})
    copies = {0: [local(states)], 1: [local(states)]}
    for (copy,), reached, changelog in ((copies[0], 47, "now"), (copies[1], 90, "former")):
        copy.reached, copy.marks = reached, {"changelog": changelog, "replay": "120"}
    restored = restore._written_back(JOB, situation, {}, copies, False, False, ignored)
    assert written == {0: [changelog_edit.OF_NO_KEY] * 10 + sorted(states.items())} and restored.settled == [1]


@pytest.mark.parametrize(("reached", "lost"), [(38, None), (39, None), (40, 1), (49, 10), (55, 16)])
def test_a_store_is_ahead_of_the_changelog_from_the_first_offset_that_the_changelog_lacks(
    reached: int, lost: int | None, written: dict[int, list[Any]]
) -> None:
    states, now = stored(JOB, samples(120, keys=4)), Origin("imu", "", "now")
    copy = local(states)
    copy.reached, copy.marks = reached, {"changelog": "now", "replay": "120"}
    situation = restore._Situation(now, {0: 40}, {0: Commit(120, "changelog=now states=40")}, {0: 0})
    restored = restore._written_back(JOB, situation, {}, {0: [copy]}, False, False, ignored)
    assert restored.settled == ([0] if lost is None else [])
    assert written == ({} if lost is None else {0: [changelog_edit.OF_NO_KEY] * lost + sorted(states.items())})


def test_a_store_without_the_states_that_the_changelog_has_lost_settles_nothing() -> None:
    """Such as one that a worker filled from the changelog afterwards: no worker would start."""
    commits, now = {0: Commit(120, "changelog=now states=234")}, Origin("imu", "", "now")
    copy = local(stored(JOB, samples(120, keys=4)))
    copy.reached, copy.marks = 50, {"changelog": "now"}
    situation = restore._Situation(now, {0: 51}, commits, {0: 0})
    restored = restore._written_back(JOB, situation, {}, {0: [copy]}, False, False, ignored)
    assert restored.done == {} and restored.settled == []
    assert (
        "written up to offset 234, the changelog ends at 51" in restored.problems[0] and "--accept" in restored.problems[0]
    )
