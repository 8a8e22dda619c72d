"""The check-suite is checked: each fault is caught by the check that is there for it, and no fault gives no alarm."""

from typing import Any, ClassVar

import numpy as np
import pytest

from algorithms import Learner
from streamjobs.learner_checks import settings
from streamjobs.learner_checks.case import Case
from streamjobs.learner_checks.suite import CHECKS
from tests.checks.broken import FAULTS, AlarmsInTime
from tests.checks.steady import Steady

PAIRS = [(check, broken) for check, learners in FAULTS.items() for broken in learners]


def _case(cls: type[Learner]) -> Case:
    learner = cls()
    return Case("steady", learner, dim=1, targets=0) if learner.kind == "drift" else Case("steady", learner, targets=2)


@pytest.mark.parametrize("check", CHECKS)
def test_a_learner_without_faults_passes(check: str) -> None:
    CHECKS[check](_case(Steady))


@pytest.mark.parametrize(("check", "broken"), PAIRS, ids=[f"{broken.__name__}-{check}" for check, broken in PAIRS])
def test_a_fault_is_caught(check: str, broken: type[Learner]) -> None:
    with pytest.raises(AssertionError):
        CHECKS[check](_case(broken))


class WithoutKind(Steady):
    kind: ClassVar[str] = "features"  # what a class has that does not state it


class WithoutLoss(Steady):
    def loop(self, work: Any, slots: Any, X: Any, Y: Any, learn: Any, out: Any, basis: Any) -> None:
        super().loop(work, slots, X, Y, learn, out, basis)
        out.loss[:] = np.nan


@pytest.mark.parametrize(
    ("learner", "check", "advice"),
    [
        (WithoutKind(), "check_a_new_state_fits", "a learner that predicts states kind: ClassVar"),
        (WithoutLoss(), "check_the_error_falls_on_an_easy_stream", "only 0 of 600 rows have an error; fill out.loss"),
    ],
)
def test_what_authors_forget_first_is_named(learner: Learner, check: str, advice: str) -> None:
    with pytest.raises(AssertionError, match=advice):
        CHECKS[check](Case("steady", learner, targets=2))


def test_a_detector_that_alarms_in_time_passes() -> None:
    CHECKS["check_the_error_falls_on_an_easy_stream"](_case(AlarmsInTime))


@pytest.mark.parametrize(
    "check",
    ["check_an_unknown_setting_is_one_clear_sentence", "check_a_setting_of_the_wrong_type_is_one_clear_sentence"],
)
def test_settings_taken_without_a_look_are_caught(check: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(owner: str, cls: type[Learner], table: dict[str, Any], nested: object) -> Learner:
        return Steady()

    monkeypatch.setattr(settings, "build", careless)
    with pytest.raises(AssertionError, match="was made with"):
        CHECKS[check](_case(Steady))


def test_every_check_has_a_fault_that_it_catches() -> None:
    by_builder = {
        "check_an_unknown_setting_is_one_clear_sentence",
        "check_a_setting_of_the_wrong_type_is_one_clear_sentence",
    }
    assert set(FAULTS) | by_builder == set(CHECKS)
