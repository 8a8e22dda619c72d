"""Faults, short: nothing lost, none trained twice, per-key order kept, final states as in an undisturbed replay."""

from tests.brokers.bed import Bed
from tests.brokers.fixtures import MakeBed
from tests.brokers.load import SOURCE
from tests.brokers.truth import verify
from tests.faults.scenarios import frozen, joins, kills

JOB = {"source": SOURCE, "head": {"name": "rls"}, "drift": {"detector": "page_hinkley"}}


def fault_bed(make_bed: MakeBed, name: str, **sections: dict) -> Bed:
    return make_bed(name, **JOB, **sections)


def test_five_kills_at_random_moments_lose_nothing_and_train_nothing_twice(make_bed: MakeBed) -> None:
    bed = fault_bed(make_bed, "kill")
    deaths = kills(bed, 5, seed=11)
    assert len(deaths) == 5
    verify(bed, repeats=True)


def test_killed_workers_that_lose_their_disk_recover_from_the_changelog(make_bed: MakeBed) -> None:
    bed = fault_bed(make_bed, "wipe")
    assert len(kills(bed, 2, seed=12, wipe=True)) == 2
    verify(bed, repeats=True)


def test_a_second_worker_that_joins_and_leaves_repeats_not_even_an_output(make_bed: MakeBed) -> None:
    bed = fault_bed(make_bed, "join")
    assert len(joins(bed, 2, seed=13)) == 2
    verify(bed, repeats=False)


def test_kills_among_joins_and_leaves_lose_nothing_and_train_nothing_twice(make_bed: MakeBed) -> None:
    bed = fault_bed(make_bed, "mixed")
    assert len(joins(bed, 2, seed=14, kills_too=True)) == 2
    verify(bed, repeats=True)


def test_a_zombie_woken_after_the_other_has_finished_changes_nothing(make_bed: MakeBed) -> None:
    bed = fault_bed(make_bed, "zombie", state={"checkpoint": "3s"})
    frozen(bed, seed=15, until_finished=True)
    verify(bed, repeats=True)


def test_a_frozen_worker_woken_while_the_other_works_damages_nothing(make_bed: MakeBed) -> None:
    bed = fault_bed(make_bed, "frozen", state={"checkpoint": "3s"})
    frozen(bed, seed=16, until_finished=False)
    verify(bed, repeats=True)
