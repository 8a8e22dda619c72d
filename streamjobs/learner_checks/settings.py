"""Checks of a learner's settings and of what its file says about it."""

import dataclasses
import math
import re
import sys
import typing
from collections.abc import Mapping
from typing import Any, Literal

from algorithms import Learner, SettingError, learner_from
from algorithms.common.kernels import Kernel
from algorithms.common.settings import build
from algorithms.common.workspace import Composite
from streamjobs.learner_checks.case import Case

SECTIONS = ("Source:", "Symbols:", "Cost of a row:", "State:")


def check_settings_are_frozen(case: Case) -> None:
    learner = case.learner
    assert dataclasses.is_dataclass(learner), "settings are a dataclass"
    for base in type(learner).__mro__[1:-3]:  # between it and Learner, Stage, object: what a family shares, never a learner
        shared = base is Composite or issubclass(base, Learner)
        assert shared and "name" not in vars(base), f"inherits from {base.__name__}, a learner"
    assert type(learner).__mro__[-3] is Learner, f"inherits from {type(learner).__mro__[-3].__name__}, not from Learner"
    assert not hasattr(learner, "__dict__"), "settings have a __dict__: declare the dataclass with slots=True"
    for field in dataclasses.fields(learner):
        try:
            setattr(learner, field.name, None)
        except dataclasses.FrozenInstanceError:
            continue
        raise AssertionError(f"setting {field.name} can be changed")
    assert hash(learner) == hash(made(case, {})), "equal settings have different hashes"


def check_an_unknown_setting_is_one_clear_sentence(case: Case) -> None:
    learner: Any = case.learner
    names = [field.name for field in dataclasses.fields(learner)] or ["anything"]
    for name in names:
        wrong = name[:-1] + "xx"
        text = refusal(case, {wrong: 1})
        assert wrong in text and case.name in text and _one_sentence(text), f"not one clear sentence: {text!r}"


def check_a_setting_of_the_wrong_type_is_one_clear_sentence(case: Case) -> None:
    for name, hint in _hints(case.learner).items():
        for value in _wrong_types(hint):
            text = refusal(case, {name: value})
            clear = name in text and " must be " in text and "; got " in text and _one_sentence(text)
            assert clear, f"{name} = {value!r}: not one clear sentence: {text!r}"


def check_a_setting_out_of_range_is_one_clear_sentence(case: Case) -> None:
    """NaN is never a number that counts, and every number has a lower end (seeds aside)."""
    for name, hint in _hints(case.learner).items():
        options = _options(hint)
        values: list[Any] = []
        if float in options:
            values += [math.nan, -math.inf, -1e9]
        elif int in options and name != "seed":
            values += [-(10**9)]
        for value in values:
            text = refusal(case, {name: value})
            assert name in text and _one_sentence(text), f"{name} = {value!r}: not one clear sentence: {text!r}"


def check_the_file_says_what_the_learner_is(case: Case) -> None:
    """The header has its sections in order, the class says what it does and shows it."""
    module, cls = sys.modules[type(case.learner).__module__], type(case.learner)
    header = module.__doc__ or ""
    places = [header.find(section) for section in SECTIONS]
    for section, place in zip(SECTIONS, places, strict=True):
        assert place >= 0, f"the docstring of the module {module.__name__} has no {section!r}"
        text = header[place + len(section) :].split("\n")[0].strip()
        assert text, f"{section!r} in the header of {module.__name__} says nothing"
    assert places == sorted(places), f"the header of {module.__name__} has its sections in another order"
    assert ">>>" in (cls.__doc__ or ""), f"{cls.__name__} shows no example"
    assert not (cls.__doc__ or "").startswith(f"{cls.__name__}("), f"{cls.__name__} says nothing about itself"


def made(case: Case, changes: Mapping[str, Any]) -> Learner:
    """The case's learner with some settings changed, made as a job file makes it."""

    def nested(table: Mapping[str, Any]) -> Learner:
        return learner_from(table["name"], {key: value for key, value in table.items() if key != "name"})

    return build(case.name, type(case.learner), {**case.settings, **changes}, nested)


def refusal(case: Case, changes: Mapping[str, Any]) -> str:
    try:
        made(case, changes)
    except SettingError as problem:
        return str(problem)
    raise AssertionError(f"{case.name} was made with {dict(changes)}")


def _one_sentence(text: str) -> bool:
    return "\n" not in text and bool(re.search(r"[.?]$", text)) and len(text) <= 400


def _hints(learner: Learner) -> dict[str, Any]:
    hints = typing.get_type_hints(type(learner))
    return {field.name: hints[field.name] for field in dataclasses.fields(learner)}  # type: ignore[arg-type]


def _options(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) not in (None, Literal) else (hint,)


def _wrong_types(hint: Any) -> list[Any]:
    """Values of types that the setting does not take."""
    options = _options(hint)
    values: list[Any] = [["nonsense"] if Ellipsis in options else [1, 2]]
    if str not in options:
        values.append("nonsense")
    if bool not in options:
        values.append(True)
    if float not in options and int not in options:
        values.append(3)
    if float not in options:
        values.append(1.5)
    if type(None) not in options:
        values.append(None)
    if not any(option is Kernel or option is Learner for option in options):
        values.append({"name": "gaussian"})
    return values
