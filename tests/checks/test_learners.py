"""Every check over every registered learner."""

import pytest

from algorithms import LEARNERS
from tests.checks.case import Case
from tests.checks.examples import EXAMPLES, WITH_DEFAULTS, cases, examples
from tests.checks.suite import CHECKS

CASES = cases()


def _named(case: Case) -> str:
    settings = ",".join(f"{setting}={value}" for setting, value in case.settings.items())
    return f"{case.name}({settings})".replace(" ", "")[:60]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", CASES, ids=[_named(case) for case in CASES])
def test_learner(case: Case, check: str) -> None:
    CHECKS[check](case)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_registered_learner_is_checked(name: str) -> None:
    assert examples(name), f"{name} needs settings: give it an entry in tests/checks/examples.py"


def test_examples_are_of_registered_learners() -> None:
    assert {*EXAMPLES, *WITH_DEFAULTS} <= set(LEARNERS)
