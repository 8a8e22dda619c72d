"""Parses records of several sensors: each sample names its sensor, and has numbers for that sensor's columns alone.

A record is a sample, or holds a list of them. In X the columns of all other sensors are NaN. A sample may itself be a frame,
with n numbers in each of its sensor's fields and n times.
"""

import math
import struct
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.decoding.by_path import message_reader
from streamjobs.core.decoding.loading import Decode, Message, Read, decoder_of_fields, parser_of
from streamjobs.core.decoding.samples import Frame, LabelsAlone, Parse, Problem, Sample, label_of
from streamjobs.core.decoding.values import kind_of, reason_for, wrong_value
from streamjobs.settings.paths import ABSENT, FieldPath, event_path, path_of
from streamjobs.settings.source import SourceSection, sensors_of
from streamjobs.settings.times import EXCEL
from streamjobs.settings.types import TIME_UNITS

OTHER, MISSING = "other_sensor", "missing"  # why samples are left out
_NAN = struct.pack("d", math.nan)
_NUMBERS = {float, int}


class _Sensor(NamedTuple):
    name: str
    find: list[Callable[[Message], Any]]  # its numbers
    pack: Callable[..., bytes]
    read: Read  # anything but plain numbers
    before: bytes  # the columns of the sensors before it, all NaN
    after: bytes
    columns: slice
    fields: list[str]


class Samples(NamedTuple):
    """What a list of samples has given so far."""

    rows: list[bytes]  # of X
    times: list[float]  # in [source] time_unit
    labels: list[object]
    skipped: Counter[str]


def sensor_parser(source: SourceSection, dim: int, late: bool = False, decode: Decode | None = None) -> Parse:
    """A function that parses one record's value; it raises Problem and nothing else. late, decode: as for `path_parser`."""
    return parser_of(
        decode or decoder_of_fields(source.format, sensor_fields(source), source.may_miss), _Reader(source, dim, late).read
    )


def sensor_fields(source: SourceSection) -> dict[str, Any]:
    """The fields of a record itself that are read; empty without [source.sensors]. The others are skipped."""
    section, find = source.sensors, _finding(source)
    if section is None:
        return {}
    fields = (field for one in section.each.values() for field in one.fields)
    names = filter(None, (section.samples, section.name, source.time, source.label, *fields))
    return {name: Any for path in map(find, names) for name in (path.top, path.literal) if name is not None}


def _finding(source: SourceSection) -> Callable[[str], FieldPath]:
    """Samples in a list have no attributes of the event."""
    enveloped = source.envelope == "cloudevents" and (source.sensors is None or source.sensors.samples is None)
    return event_path if enveloped else path_of


class _Reader:
    """Samples of a decoded record."""

    def __init__(self, source: SourceSection, dim: int, late: bool) -> None:
        section, find = source.sensors, _finding(source)
        assert section is not None and source.time is not None
        self.source, self.dim, self.skips_others = source, dim, section.other == "skip"
        self.scale = TIME_UNITS[source.time_unit]
        self.name, self.find_name = section.name, find(section.name).find
        self.list = None if section.samples is None else path_of(section.samples)
        self.find_time = find(source.time).find
        self.find_label = None if source.label is None else find(source.label).find
        self.sensors: dict[str | int, _Sensor] = {}  # one that is called 3 by both
        sensors = sensors_of(section)
        of_one: dict[str, Any] = {"sensors": None, "dim": None, **({} if find is event_path else {"envelope": "none"})}
        for one in sensors:
            fields, width = one.section.fields, len(one.columns)
            own = source.model_copy(update={**of_one, "fields": fields})
            self.sensors[one.name] = _Sensor(
                one.name,
                [find(field).find for field in fields],
                struct.Struct(f"{width}d").pack,
                message_reader(own, width),
                _NAN * one.first,
                _NAN * (dim - one.first - width),
                slice(one.first, one.first + width),
                fields,
            )
            if one.name.isascii() and one.name.isdecimal() and str(int(one.name)) == one.name:
                self.sensors[int(one.name)] = self.sensors[one.name]
        self.of_names = set(map(type, self.sensors))
        # JSON has no NaN; times as spreadsheets have them are numbers, but not those of [source] time_unit
        self.checks_numbers = source.may_miss or source.format != "json" or source.time_format == EXCEL
        every = list(dict.fromkeys(field for one in sensors for field in one.section.fields))
        alone = source.model_copy(update={**of_one, "fields": every})
        self.read_label = message_reader(alone, len(every), late=True) if late else None

    def read(self, message: Message) -> Sample | Frame | LabelsAlone:
        """Raises Problem, and OverflowError or struct.error for a whole number that no float can hold."""
        listed: Any = [message]
        if self.list is not None:
            listed = self.list.find(message)
            if listed is ABSENT and self.read_label is not None:
                return self._label_alone(message, self.list.text, "a list of samples")
            if type(listed) is not list:
                raise wrong_value("a list of samples", self.list.text, listed)
            if not listed:
                raise Problem("malformed", f"expected at least one sample in field {self.list.text!r}, got an empty list")
            if len(listed) > self.source.max_samples:
                what = f"expected at most {self.source.max_samples} samples in field {self.list.text!r}, got {len(listed)}"
                raise Problem("too_large", what)
        elif self.read_label is not None and self.find_name(message) is ABSENT:
            return self._label_alone(message, self.name, "the name of a sensor")
        found = Samples([], [], [], Counter())
        for one in listed:
            self._add(one, found)
        if len(found.rows) > self.source.max_samples:
            raise Problem("too_large", f"expected at most {self.source.max_samples} samples, got {len(found.rows)}")
        if self.list is not None and self.find_label is not None and None in found.labels:
            label = self.find_label(message)
            usual = None if label is ABSENT else label
            found.labels[:] = [usual if one is None else one for one in found.labels]
        if len(found.rows) == 1 and not found.skipped:
            return found.rows[0], found.times[0], found.labels[0]
        n, times = len(found.rows), np.array(found.times, np.float64) / self.scale
        X = np.frombuffer(bytearray().join(found.rows), np.float64).reshape(n, self.dim) if n else np.empty((0, self.dim))
        return Frame(X, times, list(map(label_of, found.labels)), found.skipped)

    def _add(self, one: Any, found: Samples) -> None:
        if type(one) is not dict:
            where = "the record" if self.list is None else f"each place of field {self.list.text!r}"
            raise Problem(reason_for(one), f"expected an object in {where}, got {kind_of(one)}")
        name = self.find_name(one)
        sensor = self.sensors.get(name) if type(name) in self.of_names else None
        if sensor is None:
            if type(name) not in self.of_names:
                raise wrong_value("the name of a sensor", self.name, name)
            if not self.skips_others:
                known = ", ".join(repr(one) for one in self.sensors if type(one) is str)
                what = f"expected one of the sensors {known:.200} in field {self.name!r}, got another"
                raise Problem("unknown_sensor", f"{what}; [source.sensors] other = 'skip' leaves its samples out")
            found.skipped[OTHER] += 1
            return
        values, time = [find(one) for find in sensor.find], self.find_time(one)
        if type(time) in _NUMBERS and _NUMBERS.issuperset(map(type, values)) and not self.checks_numbers:
            found.rows.append(sensor.before + sensor.pack(*values) + sensor.after)
            found.times.append(float(time))
            label = None if self.find_label is None else self.find_label(one)
            found.labels.append(None if label is ABSENT else label)
            return
        try:
            read = sensor.read(one)
        except Problem as problem:
            raise Problem(problem.reason, f"{problem.text} (sensor {sensor.name!r})") from None
        if isinstance(read, Frame):
            assert read.times is not None
            whole = ~np.isnan(read.X).any(axis=1)
            if not whole.all():
                self._leave_out(read.X[~whole], sensor, found)
            X = np.full((len(read.X), self.dim), np.nan)
            X[:, sensor.columns] = read.X
            for row in np.flatnonzero(whole).tolist():
                found.rows.append(X[row].tobytes())
                found.times.append(float(read.times[row] * self.scale))
                found.labels.append(read.labels[row])
            return
        assert not isinstance(read, LabelsAlone)
        numbers, time, label = read
        if self.checks_numbers and np.isnan(np.frombuffer(numbers)).any():
            self._leave_out(np.frombuffer(numbers).reshape(1, -1), sensor, found)
            return
        found.rows.append(sensor.before + numbers + sensor.after)
        found.times.append(time)  # type: ignore[arg-type]
        found.labels.append(label)

    def _leave_out(self, X: Array, sensor: _Sensor, found: Samples) -> None:
        """Samples that lack a number."""
        if not self.source.may_miss:
            field = sensor.fields[int(np.flatnonzero(np.isnan(X).any(axis=0))[0])]
            raise Problem("not_finite", f"expected a finite number in field {field!r}, got NaN (sensor {sensor.name!r})")
        found.skipped[MISSING] += len(X)

    def _label_alone(self, message: Message, field: str, what: str) -> LabelsAlone:
        """A late label: a record with time and label and nothing of a sensor."""
        assert self.read_label is not None
        read = self.read_label(message) if self.find_label and self.find_label(message) is not ABSENT else None
        if not isinstance(read, LabelsAlone):
            raise Problem("missing_field", f"expected {what} in field {field!r}, got nothing")
        return read
