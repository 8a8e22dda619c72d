"""Ranges of settings, stated once, with the setting: `ridge: Annotated[float, "above 0"]`.

A range is said in the words of the error: "above 0", "1 or more", "0 to 1", "above 0, at most 1", "in (0, 2)". It ends
before infinity where it states no upper end, and never holds NaN. A Literal states its choices.
"""

import functools
import types
import typing
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Literal, NamedTuple


class Range(NamedTuple):
    expected: str  # in words
    low: float
    high: float
    open_low: bool
    open_high: bool

    @classmethod
    def of(cls, words: str) -> "Range":
        """
        >>> Range.of("above 0")[1:], Range.of("in (0, 1]")[1:], Range.of("0 or more, below 1")[1:], Range.of("1 to 20")[1:]
        ((0.0, inf, True, True), (0.0, 1.0, True, False), (0.0, 1.0, False, True), (1.0, 20.0, False, False))
        """
        if words.startswith("in "):
            first, last = words[3:].split(", ")
            return cls(words, float(first[1:]), float(last[:-1]), first[0] == "(", last[-1] == ")")
        if " to " in words:
            low, high = words.split(" to ")
            return cls(words, float(low), float(high), False, False)
        lower, _, upper = words.partition(", ")
        low = lower.removeprefix("above ").removesuffix(" or more")
        high = upper.removeprefix("at most ").removeprefix("below ") or "inf"
        return cls(words, float(low), float(high), lower.startswith("above"), not upper.startswith("at most"))

    def holds(self, value: float) -> bool:
        """Stated in positive form, so that NaN fails."""
        enough = value > self.low if self.open_low else value >= self.low
        return enough and (value < self.high if self.open_high else value <= self.high)


class Stated(NamedTuple):
    expected: str  # in words
    holds: Callable[[Any], bool]
    optional: bool  # None is a value, too


@functools.cache
def ranges(cls: Hashable) -> dict[str, Stated]:
    """What the annotations of a class say of its settings, by name."""
    stated = {}
    for name, hint in typing.get_type_hints(cls, include_extras=True).items():
        several = typing.get_origin(hint) in (typing.Union, types.UnionType)
        options = [one for one in typing.get_args(hint) if one is not type(None)] if several else [hint]
        optional = several and type(None) in typing.get_args(hint)
        if hasattr(options[0], "__metadata__"):
            limits = Range.of(options[0].__metadata__[0])
            stated[name] = Stated(limits.expected, limits.holds, optional)
        elif all(typing.get_origin(one) is Literal for one in options):
            choices = [choice for one in options for choice in typing.get_args(one)]
            stated[name] = Stated(", ".join(map(repr, choices)), choices.__contains__, optional)
    return stated


def out_of_range(settings: Any) -> Iterator[tuple[str, str]]:
    """Name, and what is expected, of each setting of a dataclass with a value that its annotation refuses."""
    for name, stated in ranges(type(settings)).items():  # type: ignore[arg-type]
        value = getattr(settings, name)
        if not (value is None and stated.optional) and not stated.holds(value):
            yield name, stated.expected
