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


@pytest.mark.parametrize("label", ["walk", True])
def test_a_class_leads_to_the_setting_for_classes(label: object) -> None:
    with pytest.raises(
        RecordError, match=r'expected a finite number as the label, got .*\. For classes set task = "classif'
    ):
        number_code(label, 1)


def test_a_number_leads_to_the_setting_for_numbers_and_a_class_to_a_declared_one() -> None:
    with pytest.raises(RecordError, match=r'got 0\.5\. For numbers set task = "regression"\.'):
        class_code(0.5, [], 3, False)
    with pytest.raises(RecordError, match=r"expected one of the 2 declared classes, such as 'True', got 'true'\."):
        class_code(True, ["True", "False"], 2, True)


def test_a_boolean_is_a_class_with_its_name_in_json() -> None:
    names: list[str] = []
    assert [class_code(label, names, 3, False) for label in (True, False, "true", 1)] == [0.0, 1.0, 0.0, 2.0]
    assert names == ["true", "false", "1"]
    with pytest.raises(RecordError, match="an integer or a boolean, got "):
        class_code(0.5, names, 3, False)
