"""Every check over every registered learner."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pytest

from algorithms import LEARNERS
from streamjobs.learner_checks.case import Case
from streamjobs.learner_checks.suite import CHECKS
from tests.checks.examples import EXAMPLES, WITH_DEFAULTS, cases, examples

# Their defaults take seconds (an admission of ispeed 30 ms): their settings of examples.py go through every check instead.
LONG = {"ispeed", "sispeed", "random_prototypes", "sieve_streaming"}


def _named(case: Case) -> str:
    settings = ",".join(f"{setting}={value}" for setting, value in case.settings.items())
    return f"{case.name}({settings})".replace(" ", "")[:60]


def parameters() -> Iterator[Any]:
    """Every case. The fast part has one of each learner: the first one with settings, which are small.

    The defaults of LONG are checked with `python -m pytest tests/checks -m "long or not long"`.
    """
    by_learner: dict[str, list[Case]] = defaultdict(list)
    for case in cases():
        by_learner[case.name].append(case)
    for mine in by_learner.values():
        chosen = next((case for case in mine if case.settings), mine[0])
        for case in mine:
            rare = pytest.mark.slow if case.settings or case.name not in LONG else pytest.mark.long
            yield pytest.param(case, id=_named(case), marks=() if case is chosen else rare)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("case", list(parameters()))
def test_learner(case: Case, check: str) -> None:
    CHECKS[check](case)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_registered_learner_is_checked(name: str) -> None:
    assert examples(name), f"{name} needs settings: give it an entry in tests/checks/examples.py"


def test_examples_are_of_registered_learners() -> None:
    assert {*EXAMPLES, *WITH_DEFAULTS} <= set(LEARNERS)
