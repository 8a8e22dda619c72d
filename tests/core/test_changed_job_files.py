"""What a changed job file does to states, as the table of deploy/states.md states it."""

import copy
import random
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from streamjobs.core.job import Job
from streamjobs.core.live.stored import decode_snapshot
from streamjobs.errors import ConfigError, ForeignStateError
from streamjobs.settings.sections import Settings
from tests.core.drawn_jobs import drawn

SOURCE = {"topic": "t", "fields": ["a", "b", "c"], "time": "ts", "label": "y"}
LEARNER = {"name": "okfeb", "rank": 2, "budget": 3}
BASE = {"job": {"name": "w"}, "source": SOURCE, "learner": LEARNER, "head": {"name": "rls"}}
EACH = {"a": {"fields": ["x"], "rate": 10}, "b": {"fields": ["z"], "rate": 5}}
SENSORS = {**BASE, "source": {"topic": "t", "time": "ts", "label": "y", "sensors": {"name": "n", "rate": 10, "each": EACH}}}
TABLE = re.search(
    r"\n## Changed job files\n.*?\n\n(\|.*?)\n\n", Path("deploy/states.md").read_text(encoding="utf-8"), re.DOTALL
)


def changed(table: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A copy with other settings: section__setting, and None to leave one out."""
    for path, value in changes.items():
        section, _, setting = path.partition("__")
        inner = changed(table.get(section, {}), **{setting: value}) if setting else value
        table = {name: old for name, old in (table | {section: inner}).items() if old is not None}
    return table


def read_by(table: dict[str, Any], **changes: Any) -> None:
    """Another job reads a state of this one."""
    before, now = (Job.from_settings(Settings(**one)) for one in (table, changed(table, **changes)))
    decode_snapshot(now, before.encode(before.init(b"k"), [], {}))


CODES = changed(BASE, source__categories={"c": ["u", "v"]}, source__categories_as="codes")
WINDOWS = changed(BASE, window={"length": "2s", "rate": 10})
DRIFT = changed(BASE, drift={"watch": "columns"})
LATE = changed(BASE, labels={"wait": "5s"})
REGRESSION = changed(BASE, head__task="regression", head__clip_target=10.0)

REFUSED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("`fields`", BASE, {"source__fields": ["b", "a", "c"]}),
    ("`label`", BASE, {"source__label": "z"}),
    ("`categories`", CODES, {"source__categories": {"c": ["v", "u"]}}),
    ("`categories_as`", CODES, {"source__categories_as": None}),
    ("`angles`", changed(BASE, source__angles={"a": 360}), {"source__angles": {"a": 24}}),
    ("`counters`", BASE, {"source__counters": ["a"]}),
    ("`dim`", changed(BASE, source__fields=None, source__dim=3), {"source__dim": 4}),
    ("`[source.sensors]`", SENSORS, {"source__sensors__each__a__rate": 20}),
    ("`wait`", SENSORS, {"source__sensors__wait": "20s"}),
    ("`lateness`", SENSORS, {"source__lateness": "1s"}),
    ("`[window]`", WINDOWS, {"window__hop": "1s"}),
    ("`[labels]`", LATE, {"labels__wait": "10s"}),
    ("`[scaling]`", BASE, {"scaling__clip": 3.0}),
    ("`[learner]`", BASE, {"learner__budget": 5}),
    ("`[head]`", BASE, {"head__smooth": 0.5}),
    ("`[drift]`", DRIFT, {"drift__watch": "ls_error"}),
]
CONTINUE: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("`gap`", SENSORS, {"source__sensors__each__a__gap": "20s"}),
    ("`between`", SENSORS, {"source__sensors__each__a__between": "hold"}),
    ("`other`", SENSORS, {"source__sensors__other": "skip"}),
    ("renamed", BASE, {"source__fields": ["n", "b", "c"], "source__renamed": {"n": "a"}}),
    ("`categories` added", CODES, {"source__categories": {"c": ["u", "v", "w"]}}),
    ("`x`", BASE, {"source__fields": None, "source__dim": 3}),
    ("`clip_target`", REGRESSION, {"head__clip_target": 5.0}),
    ("`[bouts]`", BASE, {"bouts__shortest": "5s"}),
    ("`[alarms]`", BASE, {"alarms__stuck": "20s"}),
    ("`[forecast]`", BASE, {"forecast__ahead": [1, 2]}),
    ("`[job] name`", BASE, {"job__name": "other"}),
    ("all other", BASE, {"source__missing": "hold"}),
    ("all other", BASE, {"source__max_abs": 1e6}),
    ("all other", BASE, {"source__lateness": "5s"}),
    ("all other", BASE, {"job__guarantee": "exactly_once"}),
    ("all other", BASE, {"state__ttl": "9d"}),
]


@pytest.mark.parametrize(("words", "table", "changes"), REFUSED, ids=lambda one: one if isinstance(one, str) else "")
def test_a_change_that_the_page_calls_refused_is_refused(words: str, table: dict[str, Any], changes: dict[str, Any]) -> None:
    assert words in stated("refused")
    with pytest.raises(ForeignStateError):
        read_by(table, **changes)


@pytest.mark.parametrize(("words", "table", "changes"), CONTINUE, ids=lambda one: one if isinstance(one, str) else "")
def test_a_change_with_which_states_continue_is_read(words: str, table: dict[str, Any], changes: dict[str, Any]) -> None:
    assert words.removesuffix(" added") in stated("continue|except")
    read_by(table, **changes)


def test_no_change_of_sections_makes_a_key_count_as_damaged() -> None:
    """A damaged key is set aside, and its records become dead letters: a change is read, or refused by its name."""
    refused = []
    for seed in range(20):
        before, now = drawn_pair(random.Random(seed))
        data = before.encode(before.init(b"k"), [], {})
        for drift_anew in (False, True):
            try:
                decode_snapshot(now, data, drift_anew=drift_anew)
            except ForeignStateError:
                refused.append(drift_anew)
    assert 0 < refused.count(True) + refused.count(False) < 20, "both are drawn"


def drawn_pair(rng: random.Random) -> tuple[Job, Job]:
    """A drawn job, and the same with sections of another one, or without them."""
    while True:
        table, other = drawn(rng), drawn(rng)
        changed = copy.deepcopy(table)
        for name in ("forecast", "alarms", "bouts", "drift", "missing", "late"):
            ours, theirs = (changed["source"], other["source"]) if name in ("missing", "late") else (changed, other)
            if (chosen := rng.random()) < 0.6:
                ours.pop(name, None)
            if 0.3 < chosen < 0.6 and name in theirs:
                ours[name] = theirs[name]
        if rng.random() < 0.3:
            changed.setdefault("sinks", {})["alarms"] = ""
        with suppress(ValueError, ConfigError):  # a drawn table may be refused
            return Job.from_settings(Settings(**table)), Job.from_settings(Settings(**changed))


def test_every_section_and_setting_of_the_table_has_a_case() -> None:
    assert TABLE is not None
    named = set(re.findall(r"`(\[?[a-z_.]+\]?)`", stated("refused|continue|except")))
    cases = {word for words, _, _ in REFUSED + CONTINUE for word in re.findall(r"`(.+?)`", words)}
    elsewhere = {"replaces", "[population]"}  # tests/core/test_population.py
    assert named - cases - elsewhere == set()


def stated(effects: str) -> str:
    """The rows of the table with this effect."""
    assert TABLE is not None
    rows = [row for row in TABLE[1].splitlines() if re.search(effects, row.split("|")[2])]
    return "\n".join(rows)
