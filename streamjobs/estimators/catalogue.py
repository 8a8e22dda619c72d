"""Which estimator classes the registry gives: their names, signatures and docstrings."""

import inspect
import math
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, get_args, get_type_hints

import numpy as np

from algorithms import LEARNERS, Learner, SettingError, learner_from
from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array
from algorithms.drift.report import watches_columns
from streamjobs.learner_reference import meaning, settings
from streamjobs.own_learners import load_own_learners

Task = Literal["features", "regression", "classification", "drift"]
ACRONYMS = "ald bogd bpas fogd ispeed klms knlms kogd krls lms nlms nogd norma okdl okfe okfeb pa qklms rbp rff rls speed"
SPELLED = {  # as the papers write it, where that is not the name of the class
    **{name: name.upper() for name in ACRONYMS.split()},
    "exkrls": "ExKRLS",
    "exrls": "ExRLS",
    "gated_rls": "GatedRLS",
    "okdl_discriminative": "DiscriminativeOKDL",
    "sispeed": "SiSPEED",
    "skegd": "SkeGD",
    "sparse_speed": "SparseSPEED",
}
# Their libraries have their own ways to the first two: one class against the rest, a bandwidth chosen from the first rows.
# Innovations are errors of forecasts from the rows before: `transform` takes rows in any order.
LEFT_OUT = ("auto_bandwidth", "one_vs_rest", "innovations")
SUFFIXES = {"features": "Features", "regression": "Regressor", "classification": "Classifier"}
WITHOUT_HEAD = {"head": "none"}  # of a learner that brings one, where only its features are wanted
# Defaults of regressors that differ from those in jobs: with them only BOGD may lose to the mean on standardised data.
DEFAULTS: dict[tuple[str, str], Any] = {("krls", "ald_above"): 0.1, ("pros_n_kons", "budget"): 40}
INTERCEPT = "intercept"  # True for all that predict
KERNELS = {"rbf": "gaussian", "poly": "polynomial"}  # of scikit-learn, with its parameters gamma and coef0
WIDTH = 80  # columns of a generated docstring


class Entry(NamedTuple):
    """An estimator class to be: what it is called, what it is made of, and what it is for."""

    title: str  # of the class
    learner: str  # name in the registry
    task: Task
    changes: Mapping[str, Any]  # defaults that differ from the learner's


def entries() -> Iterator[Entry]:
    """Every estimator class, the usual task of a learner first: it has the learner's bare name."""
    load_own_learners()
    for name, cls in LEARNERS.items():
        if name in LEFT_OUT or _kind(cls) == "drift":
            continue
        title = SPELLED.get(name, cls.__name__)
        for number, (task, changes) in enumerate(_tasks(name, cls)):
            yield Entry(title if number == 0 else title + SUFFIXES[task], name, task, changes)


def detectors() -> Iterator[Entry]:
    """Every detector that watches one number."""
    for name, cls in LEARNERS.items():
        if _kind(cls) == "drift" and not watches_columns(cls):  # type: ignore[arg-type]
            yield Entry(SPELLED.get(name, cls.__name__), name, "drift", {})


def _tasks(name: str, cls: type[Learner]) -> Iterator[tuple[Task, Mapping[str, Any]]]:
    kind, hints = _kind(cls), get_type_hints(cls)
    if kind == "features":
        yield "features", {}
        if "regress" in hints:
            yield "regression", {"regress": "nystrom"}
        return
    if kind == "classification":
        yield "classification", {}
        if "squared" in get_args(hints.get("loss")):
            yield "regression", {"loss": "squared"}
        return
    yield "regression", {}
    yield "classification", {"loss": "hinge"} if "hinge" in get_args(hints.get("loss")) else {}  # a column for each class
    if "none" in get_args(hints.get("head")):
        yield "features", WITHOUT_HEAD


def _kind(cls: type[Learner]) -> str:
    """With the settings it has by itself."""
    if isinstance(cls.kind, str):
        return cls.kind
    try:
        return cls().kind
    except TypeError:  # a setting without a default; such learners predict
        return "regression"


def parameters(entry: Entry) -> dict[str, inspect.Parameter]:
    """The learner's settings as parameters of `__init__`. A kernel is None by default, which is the learner's own."""
    made, hints = {}, get_type_hints(LEARNERS[entry.learner])
    for one in settings(entry.learner):
        usual = None if hints[one.name] is Kernel or isinstance(one.default, Mapping) else one.default
        if entry.task == "regression":
            usual = DEFAULTS.get((entry.learner, one.name), usual)
        if one.name == INTERCEPT and entry.task in ("regression", "classification"):
            usual = True
        default = inspect.Parameter.empty if one.needed else entry.changes.get(one.name, usual)
        made[one.name] = inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default)
    return made


class Extra(NamedTuple):
    """A parameter of an estimator that is not a setting of its learner."""

    default: Any
    type: str
    meaning: str


def constructor(entry: Entry, extras: Mapping[str, Extra]) -> Callable[..., None]:
    """An `__init__` with the learner's signature, and what its library adds, that only keeps what it is given."""
    known = parameters(entry)
    for name, extra in extras.items():
        known.setdefault(name, inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=extra.default))

    def __init__(self: Any, **given: Any) -> None:
        for name in given:
            if name not in known:
                raise TypeError(f"{entry.title}.__init__() got an unexpected keyword argument {name!r}")
        for name, parameter in known.items():
            value = given.get(name, parameter.default)
            if value is inspect.Parameter.empty:
                raise TypeError(f"{entry.title}.__init__() needs the keyword argument {name!r}")
            setattr(self, name, value)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    __init__.__signature__ = inspect.Signature([own, *known.values()])  # type: ignore[attr-defined]
    __init__.__qualname__ = f"{entry.title}.__init__"
    return __init__


def make_learner(entry: Entry, given: Mapping[str, Any]) -> Learner:
    """The learner with these settings; NumPy's numbers are taken as numbers, a kernel may be named by a text.

    Raises SettingError for what the learner refuses, and for settings that give it another task than the entry's.
    """
    names = {setting.name for setting in settings(entry.learner)}
    table = {name: _as_setting(value) for name, value in given.items() if name in names}
    hints = get_type_hints(LEARNERS[entry.learner])
    for name, hint in hints.items():
        if hint is Kernel and table.get(name) is None:
            table.pop(name, None)
        elif hint in (Kernel, Learner) and isinstance(table.get(name), str):
            table[name] = {"name": table[name]}
        if hint is Kernel and isinstance(table.get(name), Mapping):
            table[name] = _kernel(table[name])
    learner, task = learner_from(entry.learner, table), entry.task
    if learner.kind != task and not (task == "classification" and learner.kind == "regression"):
        raise SettingError(f"{entry.title}: with these settings the learner gives {learner.kind}, not {task}.")
    return learner


def make_class(entry: Entry, above: type[Any], what: str, extras: Mapping[str, Extra], more: str = "") -> type[Any]:
    """The class of an entry, of the module of `above`. what: a sentence about it; more: the end of its docstring."""
    body = {
        "__init__": constructor(entry, extras),
        "__doc__": docstring(entry, what, extras) + more,
        "__module__": above.__module__,
        "_entry": entry,
    }
    return type(entry.title, (above,), body)


def _kernel(table: Mapping[str, Any]) -> dict[str, Any]:
    """A kernel's table with scikit-learn's names replaced by ours.

    >>> _kernel({"name": "rbf", "gamma": 0.125}), _kernel({"name": "poly", "coef0": 0.5})
    ({'name': 'gaussian', 'bandwidth': 2.0}, {'name': 'polynomial', 'offset': 0.5, 'degree': 3})
    """
    changed = {setting: _as_setting(value) for setting, value in table.items()}
    given = changed.get("name", "gaussian")
    name = changed["name"] = KERNELS.get(given, given) if isinstance(given, str) else given
    gamma = changed.pop("gamma", None)
    if gamma is not None:
        if isinstance(gamma, bool) or not isinstance(gamma, (int, float)) or not 0 < gamma < math.inf:
            raise SettingError(f"kernel: gamma must be a number above 0; got {gamma!r}.")
        width = (2.0 * gamma) ** -0.5 if name == "gaussian" else 1.0 / gamma
        changed["scale" if name == "polynomial" else "bandwidth"] = width
    if "coef0" in changed:
        changed["offset"] = changed.pop("coef0")
    if given == "poly":
        changed.setdefault("degree", 3)  # scikit-learn's
    return changed


def is_probability(learner: Learner) -> bool:
    """Whether a classifier's scores are log-odds, which a logistic loss makes them."""
    return learner.name == "logistic" or getattr(learner, "loss", None) == "logistic"


def probabilities(learner: Learner, scores: Array) -> Array:
    """Shares of the classes (n, classes) in the order of their scores; probabilities where `is_probability`.

    Scores of a squared loss estimate the probability itself; those of a hinge loss only order the classes.
    """
    if learner.name == "logistic":
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    elif learner.kind == "regression" or getattr(learner, "loss", None) == "squared":
        shares = np.maximum(scores, 0.0)
        shares[shares.sum(axis=1) <= 0.0] = 1.0
    else:
        shares = 1.0 / (1.0 + np.exp(-np.clip(scores, -500.0, 500.0)))
    return shares / shares.sum(axis=1, keepdims=True)  # type: ignore[no-any-return]


def _as_setting(value: Any) -> Any:
    return value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value


def docstring(entry: Entry, what: str, extras: Mapping[str, Extra]) -> str:
    """What the learner's own file says, as a docstring with its parameters. what: a sentence about the estimator."""
    lines = [f"{meaning(entry.learner)}", "", what, "", "Parameters", "----------"]
    changed = parameters(entry)
    for one in settings(entry.learner):
        default = changed[one.name].default
        needed = "" if default is inspect.Parameter.empty else f", default={default!r}"
        kind = one.type.replace("table", "name, table or object")
        lines.append(f"{one.name} : {kind}{needed}")
        words = [one.meaning] if one.meaning else []
        if one.range and one.range not in one.meaning and " | " not in kind:  # a kind that lists all values
            words.append(f"Range: {one.range}")
        text = ". ".join(words)
        lines += textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")
    for name, extra in extras.items():
        if name not in changed:
            lines += [f"{name} : {extra.type}, default={extra.default!r}", f"    {extra.meaning}"]
    return "\n".join(lines) + "\n"
