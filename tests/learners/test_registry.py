"""The registry knows every learner by name and imports a learner when its class is asked for."""

import subprocess
import sys
import types

import pytest

import algorithms
from algorithms import FAMILIES, LEARNERS, Learner, Registry, SettingError, learner_from

LOOK = """
import sys
from algorithms import LEARNERS, learner_from
assert "okfeb" in LEARNERS and len(list(LEARNERS)) > 50 and LEARNERS.family("okfeb") == "subspace"
learner_from("lms", {{}})
print(*(name for name, family in {families}.items() if "algorithms." + family + "." + name in sys.modules))
"""


def test_names_are_sorted() -> None:
    assert list(LEARNERS) == sorted(LEARNERS)


def test_a_word_adds_a_learner() -> None:
    """The name of every learner is stated once in the registry's file, next to its family."""
    stated = [name for _, names in algorithms._LEARNERS for name in names.split()]
    assert list(FAMILIES) == list(LEARNERS) == sorted(stated)


def test_names_families_and_a_learner_of_one_module_import_no_other_learner() -> None:
    program = LOOK.format(families=FAMILIES)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["lms"]


def test_the_family_of_a_learner_is_its_folder() -> None:
    for name, cls in LEARNERS.items():
        folders = cls.__module__.split(".")[1:-1]
        assert LEARNERS.family(name) == (folders[0] if folders else "composition")


@pytest.mark.parametrize("state", [{}, {"Odd": 3}, {"Odd": int}, {"Odd": learner_from("lms", {}).__class__}])
def test_a_module_without_its_class_is_refused_with_one_sentence(state: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("algorithms.heads.odd")
    vars(module).update(state)
    monkeypatch.setitem(sys.modules, "algorithms.heads.odd", module)
    with pytest.raises(
        TypeError, match=r"^algorithms\.heads\.odd: expected a learner class Odd with name = 'odd'; got .*\.$"
    ):
        Registry({"odd": "heads"})["odd"]


def test_a_class_that_is_added_is_given_back() -> None:
    registry = Registry({"lms": "heads"})
    own = type("Own", (Learner,), {"__slots__": (), "name": "own", "persisted_name": "Own"})
    registry["own"] = own
    assert registry["own"] is own and list(registry) == ["lms", "own"] and registry.family("own") == "tests"


def test_an_unknown_name_is_reported_with_the_nearest_known_one() -> None:
    with pytest.raises(SettingError, match=r"^unknown learner 'okfeeb'; did you mean 'okfeb'\?$"):
        learner_from("okfeeb", {})
