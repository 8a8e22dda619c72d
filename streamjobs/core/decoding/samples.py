"""What every format gives: one sample or a frame of n, and the sentence why not."""

from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array

DTYPES = {"f4": "<f4", "f8": "<f8"}
MAX_LABEL = 256  # characters of a class name
MAX_TARGETS = 1024  # numbers of one label


class Problem(Exception):
    """Why a value cannot be used: a reason of `streamjobs.errors.REASONS` and the sentence's end."""

    def __init__(self, reason: str, text: str) -> None:
        self.reason, self.text = reason, text
        super().__init__(text)


Sample = tuple[bytes, float | None, object]  # dim float64 numbers; time in [source] time_unit, None: the record's; label


class Singles(NamedTuple):
    """One sample of each of n records."""

    X: Array  # (n, dim)
    times: Array | None  # (n,) in [source] time_unit; None: the records' own
    labels: list[object]  # n: text or None


class Frame(NamedTuple):
    """n samples."""

    X: Array  # (n, dim)
    times: Array | None  # (n,) seconds; None: the record's own timestamp (n = 1)
    labels: list[object]  # n


class LateLabels(NamedTuple):
    """n labels that come without samples, for rows that wait for them."""

    times: Array  # (n,) seconds
    labels: list[object]  # n


def label_of(label: object) -> object:
    """A label as it may go on: None, text, a finite number, or finite numbers; raises Problem for anything else."""
    if label is None or isinstance(label, bool):
        return label
    if isinstance(label, str):
        if len(label) > MAX_LABEL:
            raise Problem("bad_label", f"expected a label of at most {MAX_LABEL} characters, got {len(label)}")
        return label
    if isinstance(label, list):
        if len(label) > MAX_TARGETS:
            raise Problem("bad_label", f"expected at most {MAX_TARGETS} numbers in a label, got {len(label)}")
        return [_number(value) for value in label]
    _number(label)
    return label


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) < 1e300:
        raise Problem("bad_label", "expected a label of text, a finite number or finite numbers")
    return float(value)


def labels_of(label: object, n: int) -> list[object]:
    """Labels of a frame of n samples; raises Problem."""
    if not isinstance(label, list):
        return [label_of(label)] * n
    if len(label) != n:
        raise Problem("bad_label", f"expected one label or {n} for a frame of {n} samples, got {len(label)}")
    return [label_of(one) for one in label]


def check_count(n: int, max_samples: int) -> None:
    """Raises Problem for an empty or too long frame."""
    if n == 0:
        raise Problem("malformed", "expected at least one sample, got an empty frame")
    if n > max_samples:
        raise Problem("too_large", f"expected at most {max_samples} samples, got {n}")


def doubles(numbers: object) -> Array:
    """As float64, a copy; a signaling NaN becomes an ordinary one without a warning, and is refused with the others."""
    with np.errstate(invalid="ignore"):
        return np.array(numbers, dtype=np.float64)


def numbers_of(value: bytes, dtype: str) -> Array:
    """Little-endian numbers (not yet float64); raises Problem."""
    kind = DTYPES.get(dtype)
    if kind is None:
        raise Problem("malformed", "expected dtype f4 or f8, got another")
    if len(value) % int(dtype[1]):
        raise Problem("malformed", f"expected bytes of whole {dtype} numbers, got {len(value)}")
    return np.frombuffer(value, kind)
