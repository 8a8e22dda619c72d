"""Parses JSON and MessagePack field by field: also paths into a record, times as text, categories, texts that are
numbers, and numbers that may be missing, which are NaN from here on.

What a record of one sample of plain fields gives is what `at_once` makes of it, to the bit.
"""

import operator
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.decoding import samples
from streamjobs.core.decoding.loading import Decode, Message, Paths, Read, decoder_of_paths, parser_of
from streamjobs.core.decoding.values import NAN, field_values, kind_of, reason_for, wrong_value
from streamjobs.settings.paths import ABSENT
from streamjobs.settings.sections import MirrorSection
from streamjobs.settings.source import SourceSection
from streamjobs.settings.times import EXCEL, NoZone, example_of, seconds_since_1970, zone_of
from streamjobs.settings.types import TIME_UNITS, UNIT_NAMES, number_in

_NUMBERS = {float, int}
_LABELS = {type(None), str, int, float, bool, list}


def path_parser(
    source: SourceSection, dim: int, mirror: MirrorSection | None = None, late: bool = False, decode: Decode | None = None
) -> samples.Parse:
    """A function that parses one record's value; it raises Problem and nothing else. late: as for `formats.parser`.

    decode: None: values are in [source] format. Raises ConfigError if two fields have the same name.
    """
    paths = Paths.of(source, mirror)
    return parser_of(decode or decoder_of_paths(source, paths), _Reader(source, dim, mirror, paths, late).read)


def message_reader(source: SourceSection, dim: int, late: bool = False) -> Read:
    """Samples of what is decoded already."""
    return _Reader(source, dim, None, Paths.of(source, None), late).read


class _Reader:
    """Samples of a decoded record."""

    def __init__(self, source: SourceSection, dim: int, mirror: MirrorSection | None, paths: Paths, late: bool) -> None:
        self.source, self.dim, self.late, self.mirror = source, dim, late, mirror
        self.named, self.names = source.fields is not None, [path.text for path in paths.x]
        self.find = [path.find for path in paths.x]
        names = [path.top for path in paths.x if path.flat]
        self.find_all = (
            operator.itemgetter(*names) if 1 < len(names) == len(paths.x) else None
        )  # at once, where all are there
        self.time, self.label = paths.time, paths.label
        self.find_time, self.find_label = (None if path is None else path.find for path in (paths.time, paths.label))
        self.pack = struct.Struct(f"{dim}d").pack
        self.side = paths.side
        columns, categories, of_columns = source.columns, source.categories_of, source.policies(dim)
        policies = dict(zip([field for _, field in columns], of_columns, strict=False))
        usual = source.missing if isinstance(source.missing, str) else "dlq"
        self.fields = field_values(source, categories, [(name, policies.get(name, usual)) for name in self.names])
        self.plain = not source.coded
        self.zone = None if source.time_zone is None else zone_of(source.time_zone)
        self.serial = source.time_format == EXCEL
        mirrored = mirror.columns if mirror is not None else []
        self.columns = [column for column, _ in columns]
        self.signs = [-1.0 if field in mirrored else 1.0 for _, field in columns]

    def read(self, message: Message) -> samples.Sample | samples.Frame | samples.LabelsAlone:
        """Raises Problem, and OverflowError or struct.error for a whole number that no float can hold."""
        values = self._values(message)
        label = self._label(message)
        alone = self.late and label is not None and all(value is ABSENT for value in values)
        if alone and self._times_field(message) is not ABSENT:
            return self._late(message, label)
        if not self.named:
            return self._x(values[0], message, label)
        kinds = set(map(type, values))
        if not kinds <= _NUMBERS:
            if list in kinds or bytes in kinds:
                return self._columns(values, message, label, self._mirrored(message))
            if self.source.may_miss and all(value is ABSENT for value in values):
                raise samples.Problem(
                    "missing_field", f"expected a number in field {self.names[0]!r} or another, got none at all"
                )
        if not self.plain or not kinds <= _NUMBERS:
            values = [number for field, value in zip(self.fields, values, strict=True) for number in field.numbers(value)]
        if self.mirror is not None and self._mirrored(message):
            values = list(map(operator.mul, values, self.signs))
        return self.pack(*values), self._time(message), label

    def _values(self, message: Message) -> Sequence[Any]:
        if self.find_all is not None:
            try:
                found: tuple[Any, ...] = self.find_all(message)
            except KeyError:
                pass
            else:
                return found
        return [find(message) for find in self.find]

    def _x(self, x: Any, message: Message, label: Any) -> samples.Sample | samples.Frame:
        """Of the one field that holds x."""
        name, most, number = self.names[0], self.source.max_samples, self.fields[0].number
        if type(x) is bytes and self.source.format == "msgpack":
            X = samples.rows_of(x, _dtype(message), self.dim, most)
        elif x is None and self.fields[0].may_miss:
            return self.pack(*[NAN] * self.dim), self._time(message), label
        elif type(x) is not list:
            raise wrong_value("a list", name, x)
        elif x and type(x[0]) is list:
            for row in x:
                if type(row) is not list:
                    raise wrong_value("a list for each sample", name, row)
            rows = _all_numbers(x)
            X = samples.rows_of([list(map(number, row)) for row in x] if rows is None else rows, "f4", self.dim, most)
        else:
            numbers = list(map(number, x))
            times = self._times_field(message)
            if type(times) is list and not numbers:
                raise samples.Problem("malformed", "expected at least one sample, got an empty frame")
            if len(numbers) != self.dim:
                raise samples.Problem("wrong_dimension", f"expected {self.dim} finite features, got {len(numbers)}")
            return self.pack(*numbers), self._time(message), label
        return self._frame(X, message, label)

    def _columns(self, values: Sequence[Any], message: Message, label: Any, mirrored: bool) -> samples.Frame:
        columns: list[Any] = []
        n = next(len(value) if type(value) is list else len(value) // 4 for value in values if type(value) in (list, bytes))
        if n > self.source.max_samples:
            raise samples.Problem("too_large", f"expected at most {self.source.max_samples} samples, got {n}")
        if self.plain and (numbers := _all_numbers(values)) is not None:
            samples.check_count(n, self.source.max_samples)
            X = numbers.T.copy()
            return self._frame(X * np.array(self.signs) if mirrored else X, message, label)
        for value, field in zip(values, self.fields, strict=True):
            if type(value) is bytes and self.source.format == "msgpack" and field.turn is None and not field.listed:
                columns.append(value)
            elif type(value) is list:
                rows = list(map(field.numbers, value))
                columns += [[row[place] for row in rows] for place in range(field.width)]
            elif field.may_miss and (value is None or value is ABSENT):
                columns += [[NAN] * n] * field.width
            else:
                what = f"expected a list in field {field.name!r} as in others, got {kind_of(value)}"
                raise samples.Problem(reason_for(value), what)
        X = samples.columns_of(columns, self.columns, self.source.max_samples)
        return self._frame(X * np.array(self.signs) if mirrored else X, message, label)

    def _frame(self, X: Array, message: Message, label: Any) -> samples.Frame:
        times = None
        if self.time is None:
            samples.require_one(len(X))
        else:
            stated = self._times_field(message)
            if type(stated) is list:
                if self.serial or not set(map(type, stated)) <= _NUMBERS:
                    stated = [self._moment(one) for one in stated]
            elif type(stated) is not bytes or self.source.format != "msgpack":
                stated = self._moment(stated)
            times = samples.times_of(stated, len(X), TIME_UNITS[self.source.time_unit])
        return samples.Frame(X, times, samples.labels_of(label, len(X)))

    def _late(self, message: Message, label: Any) -> samples.LabelsAlone:
        if type(label) is list and None in label:
            raise samples.Problem("bad_label", "expected a label for each time, got null")
        stated = self._times_field(message)
        time = [self._moment(one) for one in stated] if type(stated) is list else self._moment(stated)
        return samples.late_labels(time, label, TIME_UNITS[self.source.time_unit], self.source.max_samples)

    def _times_field(self, message: Message) -> Any:
        return None if self.find_time is None else self.find_time(message)

    def _time(self, message: Message) -> float | None:
        """Of a sample, in [source] time_unit; None: its record's."""
        return None if self.find_time is None else self._moment(self.find_time(message))

    def _moment(self, value: Any) -> float:
        if (type(value) is float or type(value) is int) and not self.serial:
            try:
                return float(value)
            except OverflowError:
                raise samples.Problem("bad_time", "expected a time that a float can hold, got a larger number") from None
        assert self.time is not None
        if type(value) is str or (self.serial and type(value) in _NUMBERS):
            return self._written(value, self.time.text)
        what = f"expected a number ({UNIT_NAMES[self.source.time_unit]} since 1970) or ISO 8601 in field {self.time.text!r}"
        raise samples.Problem("bad_time", f"{what}, got {kind_of(value)}")

    def _written(self, text: str | float, name: str) -> float:
        """A time that is a text, or counts days as spreadsheets do, in [source] time_unit."""
        form = self.source.time_format
        lenient = form is None and self.source.numbers == "lenient" and isinstance(text, str)
        if lenient and (number := number_in(str(text))) is not None:
            return number
        try:
            return seconds_since_1970(text, self.zone, form) * TIME_UNITS[self.source.time_unit]
        except NoZone:
            raise samples.Problem(
                "bad_time",
                f"expected a time with a zone, such as Z or +01:00, in field {name!r}, got one without; or set time_zone",
            ) from None
        except (ValueError, OverflowError):
            what = f"a number ({UNIT_NAMES[self.source.time_unit]} since 1970) or ISO 8601, such as 2026-11-22T20:30:00Z,"
            if form is not None:
                what = f"a time in [source] time_format, such as {example_of(form)},"
            raise samples.Problem("bad_time", f"expected {what} in field {name!r}, got another text") from None

    def _label(self, message: Message) -> Any:
        if self.find_label is None or self.label is None:
            return None
        label = self.find_label(message)
        if type(label) in _LABELS:
            return label
        if label is ABSENT:
            return None
        raise samples.Problem("bad_label", f"expected a label in field {self.label.text!r}, got {kind_of(label)}")

    def _mirrored(self, message: Message) -> bool:
        if self.mirror is None or self.side is None:
            return False
        value = self.side.find(message)
        if type(value) not in (str, int, float, bool):
            raise wrong_value("one value", self.side.text, value)
        return samples.is_side(value, self.mirror.when)


def _dtype(message: Message) -> str:
    dtype = message.get("dtype", "f4")
    return dtype if isinstance(dtype, str) else ""


def _all_numbers(lists: Sequence[Any]) -> Any:
    """Lists of numbers of one length as an array; None where they are anything else. A third of NumPy's time for lists."""
    if not all([type(one) is list for one in lists]):
        return None
    count = len(lists[0])
    pack = struct.Struct(f"{count}d").pack
    try:
        data = b"".join([pack(*one) for one in lists])
    except (struct.error, OverflowError):  # another length or type, or a number that no float can hold
        return None
    return np.frombuffer(data).reshape(len(lists), count)
