"""An input that has grown: whatever a kill leaves, each key has one state that counts, and a repetition ends the move."""

import itertools
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamjobs.core.partitioners import murmur2
from streamjobs.errors import ConfigError, SetupError
from streamjobs.kafka.layout import Commit, marked
from streamjobs.kafka.topic_id import Origin
from streamjobs.maintenance import grow, repartition
from tests.maintenance.cluster import CHANGELOG, MOMENT, ORIGIN, SETTINGS, SINKS, Cluster, Crash, state


def grown(
    patch: pytest.MonkeyPatch, before: int = 2, partitions: int = 4, keys: int = 12, *, by_hand: bool = False
) -> Cluster:
    """by_hand: the topics of a job whose commits have no marks, as an earlier release left them."""
    cluster = Cluster(before, keys, patch, marked=not by_hand)
    cluster.grow(partitions)
    if by_hand:
        cluster.counts |= dict.fromkeys(cluster.counts, partitions)
        cluster.changelog |= {number: [] for number in range(before, partitions)}
    else:
        grow.grow(SETTINGS, grow.plan(SETTINGS, SINKS))
    cluster.steps.clear()
    return cluster


def move(**options: Any) -> repartition.Plan | None:
    return repartition.repartition(SETTINGS, partitioner="murmur2", **options)


def verify_moved(cluster: Cluster) -> None:
    assert cluster.counted() == cluster.states() == cluster.wanted()
    for number in range(cluster.partitions):
        offset = len(cluster.input[number]) if number < cluster.before else 0
        origin = ORIGIN._replace(partitions=cluster.partitions)
        if number < cluster.before:
            assert cluster.commits[number] == Commit(offset, origin.metadata_of(offset, offset, *MOMENT))
        else:
            assert cluster.commits[number] == Commit(0, origin._replace(time_unit="", settings="", fields="").metadata)
    assert move() is None


@given(st.sampled_from([(1, 2), (1, 3), (2, 4), (2, 6)]), st.integers(0, 9), st.data())
def test_a_killed_repartition_that_is_repeated_moves_every_state_once(
    counts: tuple[int, int], keys: int, data: st.DataObject
) -> None:
    """Between two attempts, workers with --drain learn, and keys are forgotten, where states have not left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repartition, "CHUNK_BYTES", 200)  # one to two states
        cluster = grown(patch, *counts, keys)
        for _ in range(data.draw(st.integers(0, 3))):
            cluster.left = data.draw(st.integers(0, 30))
            with suppress(Crash):
                move()
            cluster.left = -1
            assert cluster.counted() == cluster.wanted()
            for key in data.draw(st.lists(st.sampled_from(sorted(cluster.truth) or [b""]), max_size=3, unique=True)):
                if key and marked(cluster.commits[murmur2(key, cluster.before)].metadata) == cluster.before:
                    data.draw(st.sampled_from([cluster.learn, cluster.forget]))(key)
            assert cluster.counted() == cluster.wanted()
        move()
        verify_moved(cluster)


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("late", [False, True])
def test_a_repartition_killed_at_any_step_leaves_what_a_repetition_finishes(
    late: bool, by_hand: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in itertools.count():
        cluster = grown(monkeypatch, by_hand=by_hand)
        cluster.left, cluster.markers_late = step, late
        try:
            move()
            break
        except Crash:
            cluster.left = -1
        assert cluster.counted() == cluster.wanted()
        move()
        verify_moved(cluster)
    assert step == len(cluster.steps) > 12


def test_a_growth_killed_at_any_step_lets_no_worker_process_new_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    for step in itertools.count():
        cluster = Cluster(2, 5, monkeypatch, marked=False)  # an earlier release left no marks
        former = {number: commit.offset for number, commit in cluster.commits.items()}
        cluster.grow(4)
        cluster.left = step
        try:
            grow.grow(SETTINGS, grow.plan(SETTINGS, SINKS))
            break
        except Crash:
            cluster.left = -1
        grown_topics = [name for name, count in cluster.counts.items() if count == 4]
        assert grown_topics == ["imu"] or {marked(one.metadata) for one in cluster.commits.values()} == {2}
        grow.grow(SETTINGS, grow.plan(SETTINGS, SINKS))
        assert {number: commit.offset for number, commit in cluster.commits.items()} == former
        move()
        verify_moved(cluster)
    assert [one for one in cluster.steps if one.startswith("grow")][-1] == f"grow {CHANGELOG}" and step == len(cluster.steps)


def test_a_growth_is_repeated_after_states_have_moved_and_changes_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = grown(monkeypatch)
    move()
    commits = dict(cluster.commits)
    cluster.counts["imu.features"] = 2
    todo = grow.plan(SETTINGS, SINKS)
    assert todo.before is None
    grow.grow(SETTINGS, todo._replace(before=2))  # planned before the states moved
    assert cluster.commits == commits and set(cluster.counts.values()) == {4, 2}


def test_a_job_that_has_learned_nothing_grows_without_a_move(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(2, 0, monkeypatch)
    cluster.commits.clear()
    cluster.grow(4)
    grow.grow(SETTINGS, grow.plan(SETTINGS, SINKS))
    assert cluster.commits == {} and cluster.counts[CHANGELOG] == 4 and move() is None


def test_records_of_moving_keys_in_old_partitions_are_applied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those that come while states are copied: their partition is left only when they are applied."""
    cluster = grown(monkeypatch)
    key = next(key for key in cluster.truth if murmur2(key, 4) >= 2)
    number, stays = murmur2(key, 2), next(key for key in cluster.truth if murmur2(key, 4) < 2)
    cluster.input[murmur2(stays, 2)].append(stays)  # no matter: it is applied where it is
    before = cluster.states()

    def late(name: str) -> None:
        if name == "commit 3":
            cluster.input[number].append(key)

    cluster.on_step = late
    with pytest.raises(SetupError, match="1 records of 1 keys that move are in their old partitions"):
        move()
    assert cluster.counted().items() >= {(n, one): data for (n, one), data in before.items() if n == number}.items()
    cluster.on_step = lambda name: None
    cluster.steps.clear()
    with pytest.raises(SetupError, match="not applied yet"):
        move()
    assert not any(step.startswith(("send", "commit")) for step in cluster.steps)


@pytest.mark.parametrize("before", [2, 3])
def test_keys_start_over_only_where_that_is_asked_for_and_nothing_was_copied(
    before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = grown(monkeypatch, before)
    if before == 3:
        with pytest.raises(ConfigError, match="not a multiple"):
            move()
    states = cluster.states()
    assert move(dry_run=True, start_over=True) is not None and cluster.steps == []
    plan = move(start_over=True)
    assert plan is not None and plan.moving > 0 and cluster.states() == states and move() is None
    other = grown(monkeypatch)
    other.changelog[3].append((b"k1", state(1, {})))
    with pytest.raises(ConfigError, match="has copied 1 states, so keys cannot start over"):
        move(start_over=True)


def test_states_that_have_learned_in_new_partitions_are_never_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = grown(monkeypatch)
    cluster.changelog[3].append((b"k1", state(9, {("imu", 3): 5})))
    with pytest.raises(SetupError, match="1 states in partitions from 2 on have learned"):
        move()
    assert not any(step.startswith("send") for step in cluster.steps)


def test_producers_that_place_keys_otherwise_are_noticed_in_the_new_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = grown(monkeypatch)
    cluster.input[2], cluster.input[3] = cluster.input[3], cluster.input[2]
    with pytest.raises(ConfigError, match="no partitioner explains"):
        move()


def test_a_changelog_with_fewer_partitions_is_grown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = grown(monkeypatch)
    cluster.counts[CHANGELOG] = 2
    with pytest.raises(SetupError, match="topics grow"):
        move()


def test_keys_that_are_not_where_the_partitioner_puts_them_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = grown(monkeypatch, keys=300)
    key = next(key for key in cluster.truth if murmur2(key, 2) == 0 and murmur2(key, 4) == 2)
    data = state(7, {("imu", 1): 0})
    cluster.changelog[1].append((key, data))
    move()
    assert {number for number, one in cluster.states() if one == key} == {1, 2} and cluster.states()[1, key] == data


def test_progress_of_a_commit_stays_with_a_new_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = grown(monkeypatch)
    offset = cluster.commits[0].offset
    cluster.commits[0] = Commit(offset, Origin("imu", partitions=2).metadata_of(offset, offset + 3))
    move()
    assert cluster.commits[0] == Commit(offset, Origin("imu", partitions=4).metadata_of(offset, offset + 3))
