"""A family of inputs draws cases and runs one; every exception that is not a declared error is a finding."""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from streamjobs.errors import REASONS, RecordError


class Case(NamedTuple):
    which: int  # the job, or other kind within its family
    data: bytes  # what is decoded; the part that is made smaller where it is a finding
    around: tuple[Any, ...] = ()  # headers, key, times: the other inputs of the decoder


class Family(ABC):
    """Inputs of one decoder. Everything is drawn from the generator it is given: a case can be drawn again."""

    name: str

    @abstractmethod
    def draw(self, rnd: Random) -> Case: ...

    @abstractmethod
    def attempt(self, case: Case) -> str:
        """The outcome in a few words; raises for anything a decoder must not do."""


def chance(data: bytes) -> int:
    """A number by which some inputs have more done to them. Without the end: of what ends in its own checksum, crc32 is
    the same for all.
    """
    return zlib.crc32(data[:-4])


class Finding(AssertionError):
    """Decoded, and wrong: what an attempt says itself."""


def must(holds: bool, what: str) -> None:
    if not holds:
        raise Finding(what)


def outcome_of(errors: Sequence[tuple[int, RecordError]]) -> str:
    """The outcome of a record that was decoded; raises Finding for a reason that nobody declared."""
    if not errors:
        return "decoded"
    error = errors[0][1]
    must(error.reason in REASONS, f"unknown reason {error.reason}")
    str(error).encode()
    return f"RecordError {error.reason}"
