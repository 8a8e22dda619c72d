"""Alarms of [alarms] as records: what is said of a key's sensor itself, next to what detectors say of its rows.

The id of an alarm is a hash of the topic, the key, the kind of the alarm, its number and its time. All of them are in the
state, so a record that is applied again raises the same alarm.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b

import msgspec
import numpy as np

from streamjobs.core import alarms
from streamjobs.core.decoding.keys import place_of_key
from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.live.silence import Change, Group, Silence, Turn
from streamjobs.core.messages import MOST_SHOWN, Advanced, Output, Record, Report, ShownAlarm, place_of, topic_of_life
from streamjobs.core.output_records import ID, Alarm, Moved, output_headers
from streamjobs.stages.alarms import RECOVERED
from streamjobs.stages.events.silent import Alarmed, Heard
from streamjobs.stages.events.stuck import Stuck
from streamjobs.stages.names import GROUP, SILENT, STUCK
from streamjobs.stages.rows import Rows

MISSING = "missing"  # the kind of alarm of a key that is expected and never came
MOST_KEYS = 100  # in the record of a group
FEW = 12  # states, that are written one by one
MOST_NAMED = 16  # columns in the record of a sensor that is stuck
Sent = tuple[int, Output]  # with the place of the record that caused it


def watch_stuck(job: Job, live: Live, records: Sequence[Record], rows: Rows, report: Report) -> list[Sent]:
    """Samples in their order through the stage; gives the records of alarms that they raise and end."""
    stage = job.steps.stuck
    assert stage is not None
    sent = []
    for event in stage.advance(live.work[STUCK], rows.slots, rows.times, rows.X, rows.learn):
        owner, time = int(rows.owner[event.row]), float(rows.times[event.row])
        alarm = _stuck(job, live.text_of[event.slot], event, time if event.ended else None)
        sent.append((owner, _output(job, records[owner], alarm, records[owner].key, time)))
        _report(report, alarm)
    return sent


def watch_silence(job: Job, live: Live, records: Sequence[Record], advanced: Advanced) -> Advanced:
    """What was made of the records, with the alarms of keys that fall silent or come back with them.

    It runs when all records are applied, so a stage that raised has changed nothing here. Then all of the records' keys get
    what is known of them, because their states may have been made again from stored ones (`undo.rewind`).
    """
    silence, report = live.silence, advanced.report
    assert silence is not None
    sent: list[Output] = []
    missing: dict[bytes, Heard] = {}
    if silence.absent is None and records[0].offset >= silence.progress:
        silence.expect(_expected(job, records[0].partition))
    grouped = silence.group is not None and job.steps.group is not None
    raised = _raised(job, records, advanced.outputs) if grouped else {}
    heard, group = report.heard, None
    if raised or report.redelivered:
        alarmed = [(record, -math.inf, False) for record in records if record.offset in raised]
        heard = sorted([*heard, *alarmed], key=lambda one: one[0].offset)
    for record, time, applied in heard:
        if grouped and group is None:
            group = silence.group_at(record)
        turns: list[Turn] = []
        for change in silence.hear(record.key or b"", time, applied) if time > -math.inf else ():
            alarm = _silent(job, silence, change)
            sent.append(_output(job, record, alarm, change.key, silence.time))
            if change.missing:
                missing[change.key] = change.heard
            elif group is not None and not change.back:  # before it continues, all stored states have the alarm
                turns += _turns(silence, group, change.key)
            report.write_all |= not change.back and (change.missing or grouped)
            _report(report, alarm)
        if time == -math.inf:
            turns += _turns(silence, group, record.key or b"")
        elif group is not None and group.start:
            turns += _turns(silence, group, None)
        for turn in turns:
            alarm = _grouped(job, silence, turn)
            sent.append(_output(job, record, alarm, b"", silence.time))
            _report(report, alarm)
    report.heard.clear()
    keys = dict.fromkeys(record.key for record in records if record.key is not None)
    _keep(live, SILENT, silence.heard, keys)
    _keep(live, SILENT, missing, [key for key in missing if key not in silence.heard])
    if silence.group is not None:
        report.write_all, silence.group.depends = report.write_all or silence.group.depends, False
        _keep(live, GROUP, silence.group.alarmed, keys | silence.group.changed)
        silence.group.changed.clear()
    return advanced._replace(outputs=_by_record(job, advanced.outputs, sent, records[0])) if sent else advanced


def _expected(job: Job, partition: int) -> Iterator[bytes]:
    for key in map(str.encode, job.settings.alarms.expected if job.settings.alarms is not None else ()):
        if job.partitions == 1 or place_of_key(job.settings.source, key, job.partitions) == partition:
            yield key


def _raised(job: Job, records: Sequence[Record], outputs: Sequence[Output]) -> set[int]:
    """Offsets of the records that raised an alarm of their key."""
    alarms_of_rows = [one for one in outputs if one.sink == "alarms" and b'"open":true' in (one.value or b"")]
    return {_offset(job, records[0], one) for one in alarms_of_rows}


def _turns(silence: Silence, group: Group | None, key: bytes | None) -> list[Turn]:
    """What becomes of the group with the alarm of this key; None: with a sample."""
    known = len(silence.heard)
    if group is None:
        if key is not None and silence.group is not None:
            silence.alarm_again(key)
        return []
    if key is None:
        turn = group.tick(silence.clock, known)
    else:
        turn = group.alarm(key, silence.clock, silence.time, known)
    return [] if turn is None else [turn]


def open_now(job: Job, live: Live, most: int) -> tuple[int, list[ShownAlarm]]:
    """As `alarms.open_now`, with the open alarms of sensors."""
    away = dict(live.away)
    unread = sum(not some for some in away.values())
    opened = [*open_of_live(job, live), *alarms.away_alarms(away.values())]
    if live.silence is not None:
        fallen = [*live.silence.quiet.items(), *live.silence.missing.items()]
        opened += [_shown(_silent(job, live.silence, Change(key, heard, False))) for key, heard in fallen]
        group = live.silence.group
        if group is not None and group.start:
            opened.append(_shown(_grouped(job, live.silence, Turn(group.start, False, group.keys()))))
    opened.sort(key=lambda one: -one.time)
    return len({one.key for one in opened}) + unread, opened[:most]


def open_of_live(job: Job, live: Live) -> list[ShownAlarm]:
    """Of rows and stuck sensors, of live keys alone."""
    _, opened = alarms.open_of_live(job, live, live.keys * len(job.watches))
    stage = job.steps.stuck
    if stage is not None:
        work, slots = live.work[STUCK], live.live_slots()
        slots = slots[slots < len(work["opened"])]
        events = [(slot, stage.open_alarm(work, slot)) for slot in slots[work["opened"][slots] > 0].tolist()]
        opened += [_shown(_stuck(job, live.text_of[slot], event, None)) for slot, event in events if event is not None]
    return opened


def _keep(live: Live, name: str, known: Mapping[bytes, Heard | Alarmed], keys: Iterable[bytes]) -> None:
    """The states of these keys get what is known of them."""
    keys = [key for key in keys if key in known]
    if live.aside.verdicts:
        keys = [key for key in keys if key not in live.aside]
    slots = list(map(live.slot_of.get, keys))
    gone = [key for key, slot in zip(keys, slots, strict=True) if slot is None] if None in slots else ()
    here = keys if not gone else [key for key in keys if key in live.slot_of]
    _put(live, name, [slot for slot in slots if slot is not None], [known[key] for key in here])
    for key in gone:
        if not live.room():
            live.tick()
        if (slot := live.slot(key)) is not None:
            _put(live, name, [slot], [known[key]])


def _put(live: Live, name: str, slots: list[int], known: Sequence[Heard | Alarmed]) -> None:
    if not slots:
        return
    live.touch(slots)
    at, fields = np.array(slots), known[0]._fields
    if len(slots) < FEW:
        arrays = [live.work[name][field] for field in fields]
        for slot, one in zip(slots, known, strict=True):
            for array, number in zip(arrays, one, strict=True):
                if array[slot] != number:
                    array[slot] = number
                    live.dirty.add(slot)
        return
    numbers = np.fromiter(itertools.chain.from_iterable(known), np.float64, len(known) * len(fields)).reshape(
        -1, len(fields)
    )
    for field, column in zip(fields, numbers.T, strict=True):
        array = live.work[name][field]
        live.dirty.update(at[array[at] != column].tolist())
        array[at] = column


def _by_record(job: Job, outputs: Sequence[Output], sent: Sequence[Output], first: Record) -> list[Output]:
    """Alarms in the order of the records that caused them, whatever the batches; of one record those of rows first."""
    alarms_of_rows = [one for one in outputs if one.sink == "alarms"]
    ordered = sorted([*alarms_of_rows, *sent], key=lambda one: _offset(job, first, one))
    return [*(one for one in outputs if one.sink != "alarms"), *ordered]


def _offset(job: Job, first: Record, output: Output) -> int:
    """Of the record that caused an output; first: one of its partition."""
    place = f"{topic_of_life(first.topic, job.life)}-{first.partition}-"
    return int(dict(output.headers)[ID].decode().removeprefix(place).partition("-")[0])


def _grouped(job: Job, silence: Silence, turn: Turn) -> Alarm:
    alarm = _alarm(job, "", GROUP, (0, turn.start), (turn.start, silence.time if turn.over else None), turn.start)
    alarm.keys = [key.decode("utf-8", "backslashreplace") for key in turn.keys[:MOST_KEYS]]
    alarm.keys_alarmed = len(turn.keys)
    return alarm


def _silent(job: Job, silence: Silence, change: Change) -> Alarm:
    heard, key = change.heard, change.key.decode("utf-8", "backslashreplace")
    if change.missing:
        return _alarm(job, key, MISSING, (0, heard.time), (heard.time, silence.time if change.back else None), None)
    start, end = heard.time + silence.after, silence.time if change.back else None
    return _alarm(job, key, SILENT, (0, heard.newest), (start, end), heard.newest)


def _stuck(job: Job, key: str, event: Stuck, end: float | None) -> Alarm:
    names = job.settings.source.column_names(job.dim)
    columns = [Moved(names[column], 0.0, value, value) for column, value in event.columns[:MOST_NAMED]]
    alarm = _alarm(job, key, STUCK, (event.number, event.raised), (event.raised, end), event.since)
    alarm.rows, alarm.columns, alarm.rows_learned = event.rows, columns, event.samples
    return alarm


def _alarm(
    job: Job, key: str, kind: str, identity: tuple[int, float], span: tuple[float, float | None], since: float | None
) -> Alarm:
    """identity: what tells the key's alarms of this kind apart; span: event times of start and end."""
    start, end = span
    return Alarm(
        id=_id(job, key, kind, *identity),
        key=key,
        start=start,
        open=end is None,
        end=end,
        outcome=None if end is None else RECOVERED,
        since=since,
        rows=None,
        columns=[],
        watch=kind,
        extractor="samples",
        detector=kind,
        chart=None,
        before=None,
        after=None,
        size=None,
        evidence=1.0,
        false_alarms=None,
        reference=None,
        warm_up=None,
        rows_learned=0,
        model=job.model,
    )


def _id(job: Job, key: str, kind: str, number: int, time: float) -> str:
    text = f"{job.settings.source.topic} {kind} {number} {time!r} {key}"
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=alarms.ID_BYTES).hexdigest()


def _output(job: Job, record: Record, alarm: Alarm, key: bytes | None, time: float) -> Output:
    """record: the one that caused it; key: of the alarm."""
    identity = f"{place_of(record, job.life)}-{alarm.watch}-{alarm.id}{'' if alarm.open else '-end'}"
    (headers,) = output_headers("alarms", [identity.encode()])
    return Output("alarms", key, msgspec.json.encode(alarm), int(np.rint(time * 1000.0)), headers)


def _report(report: Report, alarm: Alarm) -> None:
    if alarm.open:
        report.watch_events[alarm.watch] = report.watch_events.get(alarm.watch, 0) + 1
    if len(report.alarms) < 2 * MOST_SHOWN:
        report.alarms.append(_shown(alarm))


def _shown(alarm: Alarm) -> ShownAlarm:
    columns = [(one.column, one.deviations, one.before, one.after) for one in alarm.columns]
    figures = alarm.detector, alarm.watch, math.nan, math.nan, math.nan
    end = math.nan if alarm.end is None else alarm.end
    key = alarm.key if alarm.watch != GROUP else f"{alarm.keys_alarmed:,} keys: {', '.join(alarm.keys[:3])} .."
    return ShownAlarm(key, alarm.start, *figures, columns, alarm.id, alarm.since or math.nan, end, alarm.outcome)
