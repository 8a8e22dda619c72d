"""Labels of records to numbers: the column of a class, or the targets of a regression."""

import math
from typing import Any

from streamjobs.errors import RecordError

Code = tuple[float, ...]


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
        raise RecordError("bad_label", f"expected one of the {len(names)} declared classes, got {name[:60]!r}.", "label")
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
    raise RecordError(
        "bad_label", f"expected a class as a text of 1-200 characters, an integer or a boolean, got {label!r:.80}.", "label"
    )


def number_code(label: Any, targets: int) -> Code:
    """The numbers of a regression label; None gives NaN. Raises RecordError `bad_label`."""
    if label is None:
        return (math.nan,) * targets
    numbers = label if isinstance(label, list) else [label]
    if len(numbers) == targets and all(_is_number(number) for number in numbers):
        return tuple(float(number) for number in numbers)
    wanted = "a finite number" if targets == 1 else f"{targets} finite numbers"
    hint = ' For classes set task = "classification".' if isinstance(label, str) else ""
    raise RecordError("bad_label", f"expected {wanted} as the label, got {label!r:.80}.{hint}", "label")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
