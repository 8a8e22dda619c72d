"""Ranges that annotations of settings state."""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import pytest

from algorithms import LEARNERS, SettingError
from algorithms.common.protocol import Learner
from algorithms.common.ranges import Range, ranges
from streamjobs.learner_reference import settings

ENDS = {  # words: what is within, what is not
    "above 0": ((5e-324, 1e308), (0.0, -1.0, math.inf)),
    "1 or more": ((1, 10**18), (0, math.inf)),
    "0 or more, below 1": ((0.0, 0.999), (-5e-324, 1.0)),
    "above 0, at most 1e12": ((1e-9, 1e12), (0.0, 1.1e12, math.inf)),
    "1e-12 to 1e12": ((1e-12, 1e12), (9e-13, 1.1e12)),
    "in (0, 1]": ((5e-324, 1.0), (0.0, 1.0000001)),
    "in (0, 2)": ((5e-324, 1.999), (0.0, 2.0)),
    "in [0, 1]": ((0.0, 1.0), (-5e-324, 1.0000001)),
}


@pytest.mark.parametrize("words", ENDS)
def test_a_range_has_the_ends_that_its_words_say(words: str) -> None:
    within, outside = ENDS[words]
    limits = Range.of(words)
    assert all(limits.holds(value) for value in within)
    assert not any(limits.holds(value) for value in (*outside, math.nan))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample(Learner):
    persisted_name: ClassVar[str] = "Sample"

    share: Annotated[float, "in (0, 1]"] | None = None
    way: Literal["up", "down"] | None = "up"
    most: Annotated[int, "1 or more"] = 5


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"share": 0.0}, "Sample: share must be in (0, 1]; got 0.0."),
        ({"share": math.nan}, "Sample: share must be in (0, 1]; got nan."),
        ({"way": "left"}, "Sample: way must be 'up', 'down'; got 'left'."),
        ({"most": 0}, "Sample: most must be 1 or more; got 0."),
    ],
)
def test_a_value_outside_is_one_sentence(wrong: dict[str, object], sentence: str) -> None:
    with pytest.raises(SettingError) as problem:
        Sample(**wrong)  # type: ignore[arg-type]
    assert str(problem.value) == sentence


def test_what_may_be_left_out_may_be_none() -> None:
    assert (Sample(way=None).way, Sample(share=1.0).share) == (None, 1.0)


@pytest.mark.parametrize("name", LEARNERS)
def test_no_range_is_stated_beside_a_start_of_its_own(name: str) -> None:
    """A learner with a __post_init__ of its own would not be checked by its annotations."""
    cls = LEARNERS[name]
    checked = cls.__post_init__ is Learner.__post_init__
    assert checked or not any("__metadata__" in dir(hint) for hint in cls.__annotations__.values())


def test_users_read_the_ranges() -> None:
    of = {setting.name: setting.range for setting in settings("skegd")}
    assert (of["refresh_every"], of["sketch_blocks"], of["rebase"]) == (
        "1 or more",
        "1 to sketch_rows",
        "'projected', 'printed'",
    )
    assert ranges(LEARNERS["klms"])["step_size"].expected == "above 0"  # type: ignore[arg-type]
