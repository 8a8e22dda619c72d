"""The registry takes the learners that it imports, by the names they state."""

import ast
import inspect

import pytest

import algorithms
from algorithms import LEARNERS, Learner, SettingError, by_name, learner_from
from algorithms.heads.lms import Lms
from algorithms.heads.rls import Rls


def test_names_are_sorted() -> None:
    assert list(LEARNERS) == sorted(LEARNERS)


def test_one_line_adds_a_learner() -> None:
    """The class of every learner stands in one statement of the registry's file, its import."""
    statements = ast.parse(inspect.getsource(algorithms)).body
    for cls in LEARNERS.values():
        naming = [
            one for one in statements if cls.__name__ in {getattr(n, "id", getattr(n, "name", "")) for n in ast.walk(one)}
        ]
        assert len(naming) == 1 and isinstance(naming[0], ast.ImportFrom), f"{cls.__name__} is named {len(naming)} times"
        assert naming[0].lineno == naming[0].end_lineno and naming[0].module == cls.__module__


def test_only_learners_are_taken() -> None:
    assert by_name([Rls, Learner, "rls", 3, Lms, int]) == {"lms": Lms, "rls": Rls}


def test_a_name_that_another_learner_has_is_refused_with_one_sentence() -> None:
    other = type("Other", (Learner,), {"__slots__": (), "name": "lms", "persisted_name": "Other"})
    with pytest.raises(TypeError, match=r"^Other: expected a name that no other learner has; got 'lms'\.$"):
        by_name([Lms, other])


def test_a_learner_without_a_name_is_refused_with_one_sentence() -> None:
    nameless = type("Nameless", (Learner,), {"__slots__": (), "persisted_name": "Nameless"})
    with pytest.raises(TypeError, match=r"^Nameless: expected a name that no other learner has; got None\.$"):
        by_name([nameless])


def test_an_unknown_name_is_told_with_the_nearest_known_one() -> None:
    with pytest.raises(SettingError, match=r"^unknown learner 'okfeeb'; did you mean 'okfeb'\?$"):
        learner_from("okfeeb", {})
