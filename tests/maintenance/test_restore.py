"""`state restore --from-local`: what a local store gives back."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamjobs.core.job import Job
from streamjobs.core.state import snapshot
from streamjobs.errors import ForeignStateError
from streamjobs.kafka.layout import Commit
from streamjobs.kafka.topic_id import Origin
from streamjobs.maintenance import changelog_edit, restore
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
