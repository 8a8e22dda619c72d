"""Alarms of keys that alarm together: one alarm of the group, with the keys in it."""

import json
from itertools import pairwise

import pytest

from algorithms.common.protocol import SettingError
from streamjobs.core.live.live import Live
from streamjobs.core.live.silence import Group
from streamjobs.core.messages import Output, Stored
from streamjobs.core.sensor_alarms import open_now
from streamjobs.errors import ConfigError
from streamjobs.stages.events.silent import Grouped
from streamjobs.stages.events.stuck import LEAST
from tests.core.alarm_jobs import DRIFT, GROUP, OUTAGE, Fleet, alarms, around, hall, job, rows_of, site
from tests.core.streams import START


def groups(outputs: list[Output]) -> list[dict]:
    return [one for one in alarms(outputs) if one["watch"] == "group"]


def test_keys_that_alarm_together_are_one_group_alarm_with_the_keys_in_it() -> None:
    outputs = Fleet(job(alarms=GROUP)).apply(hall())
    first, ended, *more = groups(outputs)
    assert first["start"] == pytest.approx(START + 208 + LEAST - 1, abs=1), "with the fifth key"
    assert (first["open"], first["keys_alarmed"], first["keys"]) == (True, 5, [f"k{key:02}" for key in range(5)])
    assert (ended["id"], ended["open"], ended["outcome"]) == (first["id"], False, "recovered")
    assert ended["keys"] == [f"k{key:02}" for key in range(7)]
    assert ended["end"] == pytest.approx(START + 204 + LEAST - 1 + 40, abs=1), "when fewer than five are left"
    assert [(one["open"], one["keys_alarmed"]) for one in more] == [(True, 5), (False, 7)]
    assert {one["id"] for one in more} != {first["id"]}
    assert all("keys" not in one for one in alarms(outputs) if one["watch"] != "group")
    assert sum(one["open"] for one in alarms(outputs) if one["watch"] == "stuck") == 14


def _moved(keys: int) -> list[Stored]:
    """60 keys; from 300 s on a level of the first so many is six deviations higher."""
    records = []
    for one in hall(60, stops={0: []}):
        body = json.loads(one.value)
        body["ay"] += 6.0 * (int(one.key[1:]) < keys and body["ts"] >= START + 300)
        records.append(one._replace(value=json.dumps(body).encode()))
    return records


def test_keys_with_levels_that_move_at_once_are_one_group_alarm() -> None:
    """A tenth of 60 keys by [drift] alone; two keys are fewer."""
    one = job(drift=DRIFT, alarms=GROUP | {"stuck": False})
    outputs = Fleet(one).apply(_moved(6))
    (opened,) = [alarm for alarm in groups(outputs) if alarm["open"]]
    assert opened["keys_alarmed"] == 6 and sorted(opened["keys"]) == [f"k{key:02}" for key in range(6)]
    assert START + 300 < opened["start"] < START + 340
    raised = {alarm["key"] for alarm in alarms(outputs) if alarm["watch"] == "columns" and alarm["open"]}
    assert raised >= {*opened["keys"]}
    assert not groups(Fleet(one).apply(_moved(2)))


def test_a_site_that_falls_silent_is_one_group_alarm() -> None:
    one, records = job(alarms=OUTAGE), site()
    whole = Fleet(one)
    outputs = whole.apply(records)
    opened, ended = groups(outputs)
    assert (opened["keys_alarmed"], opened["keys"]) == (5, [f"k{key:02}" for key in range(5)])
    assert opened["start"] == pytest.approx(START + 9 + 60, abs=2)
    assert (ended["id"], ended["open"], ended["keys_alarmed"]) == (opened["id"], False, 8)
    assert sum(alarm["open"] for alarm in alarms(outputs) if alarm["watch"] == "silent") == 8
    worker, got = Fleet(one), []
    for at in range(0, len(records), 7):
        got += rows_of(worker.apply(records[at : at + 7]))
        worker.checkpoint()
        worker.crash()
    whole.checkpoint()
    assert got == rows_of(outputs) and worker.store == whole.store


def test_a_tenth_of_many_keys_is_more_than_five() -> None:
    assert not groups(Fleet(job(alarms=GROUP | {"group": 0.3})).apply(hall()))
    assert len(groups(Fleet(job(alarms=GROUP | {"group": 0.2})).apply(hall()))) == 4


def test_the_open_group_follows_from_the_stored_states() -> None:
    one = job(alarms=GROUP)
    records = hall(keys=18)
    whole = Fleet(one)
    expected = rows_of(outputs := whole.apply(records))
    whole.checkpoint()
    assert len(groups(outputs)) == 4
    worker, got, shown = Fleet(one), [], set[str]()
    # No sensor stops before 200 s.
    crashes = {*range(0, 18 * 200, 100), *range(18 * 200, len(records), 35), *around(expected, 2), len(records)}
    for at, until in pairwise(sorted(crashes)):
        got += rows_of(worker.apply(records[at:until]))
        worker.checkpoint()
        worker.crash()
        shown |= {alarm.id for alarm in open_now(one, worker.live, 100)[1] if alarm.watch == "group"}
    assert got == expected
    assert worker.store == whole.store
    assert shown == {alarm["id"] for alarm in groups(outputs)}


def test_a_group_goes_on_where_the_newest_stored_state_ends() -> None:
    """A key that is new makes the group too small. Its state alone is stored, and the records before it come again."""
    one = job(alarms=GROUP | {"group": 0.41})
    records = hall(12, 170, {key: [(110 + 2 * key, 160)] for key in range(5)})
    at = 12 * 155
    joins = records[at]._replace(key=b"new")
    records = [single._replace(offset=offset) for offset, single in enumerate([*records[:at], joins, *records[at:]])]
    expected = groups(Fleet(one).apply(records))
    assert [alarm["open"] for alarm in expected] == [True, False]
    worker = Fleet(one)
    worker.apply(records[: at - 20])
    worker.checkpoint()
    moment = worker.live.moment
    worker.apply(records[at - 20 : at + 1])
    worker.store |= dict(worker.live.snapshots([b"new"]))
    worker.live = Live(one, worker.store.get)
    worker.live.meet(lambda after, count: [] if after is not None else sorted(worker.store.items()), moment)
    assert not groups(worker.apply(records[at - 20 :])), "the end was sent before the new key's state was stored"
    worker.checkpoint()
    whole = Fleet(one)
    whole.apply(records)
    whole.checkpoint()
    assert worker.store == whole.store


def test_group_needs_silent() -> None:
    with pytest.raises(ConfigError, match="group needs silent"):
        job(alarms={"stuck": True, "group": 0.1})


def test_the_stage_of_a_group_names_what_it_takes() -> None:
    with pytest.raises(SettingError, match="share"):
        Grouped(share=0.0)


def test_all_states_are_written_only_where_a_group_depends_on_more_than_newest_alarms() -> None:
    def depends(*alarms: tuple[int, float]) -> list[bool]:
        group, of_each = Group(0.1, 40.0), list[bool]()
        for key, clock in alarms:
            group.tick(clock, 20)
            group.alarm(b"%d" % key, clock, START + clock, 20)
            of_each.append(group.depends)
            group.depends = False
        return of_each

    assert depends((0, 10), (1, 20), (0, 51)) == [False] * 3
    assert depends((0, 10), (0, 49)) == [False, True], "a crash before the second needs the first"
    five = [(key, 10.0 + key) for key in range(5)]
    assert depends(*five) == [False] * 4 + [True], "it opens"
    assert depends(*five, (5, 16), (6, 90)) == [False] * 4 + [True, True, False], "it grows; it has ended"
