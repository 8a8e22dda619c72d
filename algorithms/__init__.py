"""The registry: every learner by its name, and `learner_from` to make one from a table of settings.

A word adds a learner: its name, next to its family. A learner is imported when it is first asked for: a job needs few.

>>> learner = learner_from("lms", {"step_size": 0.5})
>>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0]], [[2.0]])
>>> state.weights
array([[1.]])
"""

import importlib
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from algorithms.common.protocol import Array, Basis, Learner, NumericsError, Outputs, SettingError, Stage
from algorithms.common.settings import build, suggestion
from algorithms.common.workspace import Workspace

COMPOSITION = "composition"  # the family of learners made of other learners, which have no folder
_LEARNERS = (  # a family, the folder of its files, with names of its learners
    ("adaptive", "exkrls klms knlms krls qklms"),
    ("budgeted", "bogd bpas forgetron kogd norma perceptron projectron projectron_pp rbp"),
    ("composition", "auto_bandwidth chain one_vs_rest scaling"),
    ("dictionary", "okdl okdl_discriminative"),
    ("drift", "adwin column_chart column_charts conformal glr_chart innovations page_hinkley reference_chart"),
    ("drift", "reference_level row_tail window_ratio"),
    ("heads", "exrls gated_rls lms logistic nlms pa pegasos rls"),
    ("maps", "gauss_quadrature rff taylor"),
    ("prototypes", "ald block_greedy coherence generalised_coherence online_greedy random_prototypes"),
    ("prototypes", "sieve_streaming stream_greedy"),
    ("sketching", "fogd nogd pros_n_kons skegd"),
    ("spectral", "ispeed sispeed sparse_speed speed"),
    ("subspace", "last_points okfe okfeb running_mean wrkpca"),
)
FAMILIES = dict(sorted((name, family) for family, names in _LEARNERS for name in names.split()))


class Registry(MutableMapping[str, type[Learner]]):
    """Classes of learners by name, each imported when it is first asked for.

    families: name -> family. The file has the learner's name, and the class the same name in CamelCase.
    """

    def __init__(self, families: Mapping[str, str]) -> None:
        self._families = families
        self._classes: dict[str, type[Learner] | None] = dict.fromkeys(families)

    def __getitem__(self, name: str) -> type[Learner]:
        cls = self._classes[name]
        if cls is None:
            cls = self._classes[name] = self._imported(name)
        return cls

    def __setitem__(self, name: str, cls: type[Learner]) -> None:
        self._classes[name] = cls

    def __delitem__(self, name: str) -> None:
        del self._classes[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._classes)

    def __len__(self) -> int:
        return len(self._classes)

    def __contains__(self, name: object) -> bool:
        return name in self._classes

    def family(self, name: str) -> str:
        """The family of a learner; of a learner of another package that package. Raises KeyError for an unknown name."""
        if name in self._families:
            return self._families[name]
        return self[name].__module__.split(".")[0]

    def _imported(self, name: str) -> type[Learner]:
        family = self._families[name]
        module = importlib.import_module(".".join([__name__, *([] if family == COMPOSITION else [family]), name]))
        title = "".join(word.capitalize() for word in name.split("_"))
        cls = getattr(module, title, None)
        if not (isinstance(cls, type) and issubclass(cls, Learner) and getattr(cls, "name", None) == name):
            raise TypeError(f"{module.__name__}: expected a learner class {title} with name = {name!r}; got {cls!r}.")
        return cls


LEARNERS = Registry(FAMILIES)

__all__ = [
    "LEARNERS",
    "Array",
    "Basis",
    "Learner",
    "NumericsError",
    "Outputs",
    "SettingError",
    "Stage",
    "Workspace",
    "learner_from",
]


def learner_from(name: str, settings: Mapping[str, Any]) -> Learner:
    """The learner `name` with these settings; nested learners are tables with `name` and their settings.

    Raises SettingError with one sentence: the unknown name or setting (and the nearest known one), or the wrong value.
    """
    if name not in LEARNERS:
        raise SettingError(f"unknown learner {name!r}{suggestion(name, LEARNERS)}")

    def made(own: Mapping[str, Any]) -> Learner:
        return build(name, LEARNERS[name], own, _nested)

    if not any(_names_bandwidth(table) for table in (settings, settings.get("learner"))):
        return made(settings)
    from algorithms.auto_bandwidth import with_chosen_width

    return with_chosen_width(settings, made)


def _names_bandwidth(table: object) -> bool:
    """Whether the kernel of this table has a text, "auto", as its bandwidth."""
    kernel = table.get("kernel") if isinstance(table, Mapping) else None
    return isinstance(kernel, Mapping) and isinstance(kernel.get("bandwidth"), str)


def _nested(table: Mapping[str, Any]) -> Learner:
    name = table.get("name")
    if not isinstance(name, str):
        raise SettingError(f"a nested learner needs a 'name', a text; got {dict(table)!r:.200}.")
    return learner_from(name, {k: v for k, v in table.items() if k != "name"})
