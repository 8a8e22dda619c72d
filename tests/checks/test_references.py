"""Every learner agrees with a slow reference, and none is without one."""

import typing

import numpy as np
import pytest

from algorithms import LEARNERS, Learner, learner_from
from algorithms.drift.report import watches_columns
from streamjobs.learner_checks.case import Case
from tests.reference import references

REFERENCES = references()
ROWS = 80


def is_composite(cls: type[Learner]) -> bool:
    """It is made of other learners, whose references stand for it."""
    return Learner in typing.get_type_hints(cls).values()


SINGLE = [name for name, cls in LEARNERS.items() if not is_composite(cls)]


@pytest.mark.parametrize("name", SINGLE)
def test_a_learner_has_a_slow_reference(name: str) -> None:
    assert name in REFERENCES, f"write tests/reference/{name}.py with a function under @slow_reference({name!r})"


@pytest.mark.parametrize("name", sorted(set(SINGLE) & set(REFERENCES)))
def test_a_learner_agrees_with_its_slow_reference(name: str) -> None:
    settings, outputs = REFERENCES[name]
    learner = learner_from(name, settings)
    dim = 1 if learner.kind == "drift" and not watches_columns(learner) else 3
    case = Case(name, learner, settings, dim, 0 if learner.kind == "drift" else 1)
    X, Y = case.stream(ROWS)
    _, out = learner.run(case.init(), X, Y)
    expected = outputs(X, Y, **settings)
    assert expected, "the reference gives no output"
    for field, values in expected.items():
        assert np.isfinite(values).any(), f"the reference's {field} is never a number"
        np.testing.assert_allclose(getattr(out, field), values, rtol=1e-6, atol=1e-7, err_msg=field)


def test_every_reference_is_of_a_registered_learner() -> None:
    assert set(REFERENCES) <= set(LEARNERS)
