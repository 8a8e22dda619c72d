"""The alarm in deploy/alarms.md, which a person paged at night compares with theirs, is a record as jobs write it."""

import json
import re
from pathlib import Path

import msgspec

from streamjobs.core.output_records import Alarm

PAGE = (Path(__file__).parents[2] / "deploy" / "alarms.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("\n## Alarms\n")[2].partition("\n## ")[0]


def test_the_record_has_the_fields_and_types_of_today():
    (text,) = re.findall(r"```json\n(.*?)```", SECTION, re.DOTALL)
    record = json.loads(text)
    assert list(record) == [field.name for field in msgspec.structs.fields(Alarm) if field.required]
    alarm = msgspec.convert(record, Alarm)
    assert re.fullmatch(r"[0-9a-f]{14}", alarm.id)
    assert alarm.since is not None and alarm.since <= alarm.start
    assert alarm.size == alarm.after / alarm.before


def test_every_question_is_answered_from_a_field_of_it():
    told = set(re.findall(r"`(\w+)`", SECTION.partition("| question | answer |")[2].partition("\n\n")[0]))
    fields = {field.name for field in msgspec.structs.fields(Alarm)}
    assert {"key", "start", "since", "columns", "size", "false_alarms", "evidence", "reference", "warm_up", "open"} <= told
    assert told <= fields
