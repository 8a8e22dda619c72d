"""One value of a field to numbers: categories, angles, texts that are numbers, missing numbers, which are NaN."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from streamjobs.core.decoding.samples import Problem
from streamjobs.errors import RecordError
from streamjobs.settings.paths import ABSENT
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import number_in

NAN = float("nan")
_KINDS = ((bool, "true or false"), (int, "a number"), (float, "a number"), (str, "a text"), (bytes, "bytes"))
Code = tuple[float, ...]


def field_values(
    source: SourceSection, categories: Mapping[str, Sequence[str | int | bool]], policies: Sequence[tuple[str, str]]
) -> "list[FieldValues]":
    """For each field of these policies: (its name, what is done about missing numbers). categories: by field."""
    return [FieldValues(name, source, policy, categories.get(name)) for name, policy in policies]


class FieldValues:
    """One of [source] fields, or the one that holds x: its values to numbers."""

    __slots__ = ("categories", "codes", "lenient", "listed", "may_miss", "most", "name", "turn", "unseen", "width")

    def __init__(self, name: str, source: SourceSection, policy: str, listed: Sequence[str | int | bool] | None) -> None:
        """listed: categories of the field."""
        self.name, self.may_miss, self.lenient = name, policy != "dlq", source.numbers == "lenient"
        self.listed, one_hot = listed is not None, source.categories_as == "one_hot"
        self.turn, self.most = (source.angles or {}).get(name), source.max_abs
        codes = source.missing_values or ()
        self.codes = codes.get(name, ()) if isinstance(codes, dict) else codes
        self.width = len(listed) if listed is not None and one_hot else 1 if self.turn is None else 2
        self.categories: dict[tuple[bool, str | int | bool], list[float]] = {}
        for place, one in enumerate(listed or ()):
            row = [float(place == other) for other in range(len(listed or ()))] if one_hot else [float(place)]
            self.categories[type(one) is bool, one] = row  # true is not 1
        other = [0.0] * self.width if one_hot else [float(len(listed or ()))]
        self.unseen = {"other": other, "missing": [NAN] * self.width}.get(source.unseen)

    def numbers(self, value: Any) -> list[float]:
        """The columns of one value; raises Problem."""
        kind = type(value)
        if self.may_miss and (value is None or value is ABSENT):
            return [NAN] * self.width
        if not self.listed:
            number = self.number(value)
            return [number] if self.turn is None else self._on_circle(number, self.turn)
        row = self.categories.get((kind is bool, value)) if kind in (str, int, bool) else None
        if row is None and kind in (str, int, bool):
            row = self.unseen
        if row is None:
            got = "another" if kind in (str, int, bool) else kind_of(value)
            what = f"expected one of the {len(self.categories)} categories in field {self.name!r}, got {got}"
            raise Problem(reason_for(value), what)
        return row

    def _on_circle(self, number: float, turn: float) -> list[float]:
        """Cosine and sine; a number that is too large, or none, is judged later, as any other."""
        if number in self.codes:
            return [NAN, NAN]
        if not abs(number) <= self.most:
            return [number, number]
        angle = math.tau * (number / turn)
        return [math.cos(angle), math.sin(angle)]

    def number(self, value: Any) -> float:
        """Raises Problem."""
        kind = type(value)
        if kind is float or kind is int or kind is bool:
            return float(value)
        if self.may_miss and (value is None or value is ABSENT):
            return NAN
        if kind is str and self.lenient and (number := number_in(value)) is not None:
            if self.may_miss or not math.isnan(number):
                return number
            raise Problem("missing_field", f"expected a number in field {self.name!r}, got an empty text or NaN")
        raise wrong_value("a number", self.name, value)


def wrong_value(expected: str, field: str, value: Any) -> Problem:
    """Why a value that is absent, or of another type, cannot be used."""
    return Problem(reason_for(value), f"expected {expected} in field {field!r}, got {kind_of(value)}")


def reason_for(value: Any) -> str:
    """The reason of a dead letter for a value that is absent, or cannot be used."""
    return "missing_field" if value is ABSENT or value is None else "wrong_value"


def kind_of(value: Any) -> str:
    """What a value is, for a message that must not show it."""
    if value is ABSENT:
        return "nothing"
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return next((words for kind, words in _KINDS if isinstance(value, kind)), "something else")


def class_code(label: Any, names: list[str], most: int, declared: bool) -> float:
    """The column of a class label; a new class is appended to `names` unless the job declares its classes.

    None (no label) gives NaN. Raises RecordError `bad_label` or `too_many_classes`.
    """
    if label is None:
        return math.nan
    name = class_name(label)
    if name in names:
        return float(names.index(name))
    if declared:
        known = f"one of the {len(names)} declared classes, such as {names[0]!r:.60}"
        raise RecordError("bad_label", f"expected {known}, got {name[:60]!r}.", "label")
    if len(names) >= most:
        raise RecordError(
            "too_many_classes",
            f"expected at most {most} classes for a key, got one more: {name[:60]!r}. Raise max_classes.",
            "label",
        )
    names.append(name)
    return float(len(names) - 1)


def class_name(label: Any) -> str:
    """The name of the class that a label has; raises RecordError `bad_label`."""
    name = ""
    if isinstance(label, str):
        name = label
    elif isinstance(label, bool):
        name = "true" if label else "false"
    elif isinstance(label, int) or (isinstance(label, float) and label.is_integer()):
        name = str(int(label))
    if 0 < len(name) <= 200:
        return name
    wanted = "a class as a text of 1-200 characters, an integer or a boolean"
    hint = ' For numbers set task = "regression".' if isinstance(label, float) and math.isfinite(label) else ""
    raise RecordError("bad_label", f"expected {wanted}, got {label!r:.80}.{hint}", "label")


def number_code(label: Any, targets: int) -> Code:
    """The numbers of a regression label; None gives NaN. Raises RecordError `bad_label`."""
    if label is None:
        return (math.nan,) * targets
    numbers = label if isinstance(label, list) else [label]
    if len(numbers) == targets and all(_is_number(number) for number in numbers):
        return tuple(float(number) for number in numbers)
    wanted = "a finite number" if targets == 1 else f"{targets} finite numbers"
    hint = ' For classes set task = "classification".' if isinstance(label, (str, bool)) else ""
    raise RecordError("bad_label", f"expected {wanted} as the label, got {label!r:.80}.{hint}", "label")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
