"""Labels: classes and numbers, what they may be, and what a letter says of those that are not."""

import math

import pytest

from streamjobs.core.decoding.values import class_code, number_code
from streamjobs.errors import RecordError


def test_numbers_are_taken_and_none_is_no_label() -> None:
    assert number_code(2, 1) == (2.0,)
    assert number_code([1, 2.5], 2) == (1.0, 2.5)
    assert all(map(math.isnan, number_code(None, 2)))


@pytest.mark.parametrize(("label", "targets", "wanted"), [([1.0], 2, "2 finite numbers"), (math.inf, 1, "a finite number")])
def test_what_is_no_number_is_named(label: object, targets: int, wanted: str) -> None:
    with pytest.raises(RecordError, match=f"expected {wanted} as the label, got .*\\.$"):
        number_code(label, targets)


def test_a_text_leads_to_the_setting_for_classes() -> None:
    with pytest.raises(RecordError, match=r'expected a finite number as the label, got .walk.\..*task = "classification"'):
        number_code("walk", 1)


def test_a_boolean_is_a_class_with_its_name_in_json() -> None:
    names: list[str] = []
    assert [class_code(label, names, 3, False) for label in (True, False, "true", 1)] == [0.0, 1.0, 0.0, 2.0]
    assert names == ["true", "false", "1"]
    with pytest.raises(RecordError, match="an integer or a boolean, got "):
        class_code(0.5, names, 3, False)
