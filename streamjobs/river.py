"""The learners as river models: `from streamjobs.river import OKFEB, RLS, SiSPEED, Conformal, ...`.

There is a class for each learner of the registry, as in streamjobs.sklearn: transformers, regressors, classifiers, and drift
detectors that watch one number. The names in the first row that is learned are the columns. A column that is absent later
counts as 0, as in river's linear models. A new column is ignored. `learn_many` gives the same bits as `learn_one` in a
fraction of the time. Needs the extra `river`.

If a learner follows its stream, the basis of its features changes as it learns. In a pipeline `OKFEB() | RLS()` the head
does not notice this. `Chain(extractor={"name": "okfeb"}, head={"name": "rls"})` transforms its weights, as a job does.

>>> model = RLS(intercept=True)
>>> for n in range(100):
...     model.learn_one({"a": n % 7, "b": n % 5}, 2.0 * (n % 7) - 3.0 * (n % 5))
>>> round(model.predict_one({"a": 3, "b": 1}), 2)
3.0
"""

import inspect
import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

try:
    from river import base
except ImportError as missing:
    from streamjobs import install_line

    raise ImportError(f"streamjobs.river needs river: {install_line('river')}") from missing

from algorithms.common.protocol import Array, Learner
from algorithms.drift.report import ALARM
from algorithms.online import Online
from streamjobs.estimators.catalogue import Entry, Extra, detectors, entries, make_class, make_learner, probabilities
from streamjobs.learner_reference import settings
from streamjobs.stages.class_counts import targets_of

if TYPE_CHECKING:
    import pandas

SEED = {"seed": Extra(0, "int", "Decides what the learner draws, where it draws.")}
CLASSES = {"max_classes": Extra(10, "int", "Most labels there will ever be; each has a column of targets (0 or 1).")}


class StreamModel(base.Estimator):  # type: ignore[misc]
    """The base class of all models; not a model itself."""

    _entry: Entry
    _online: Online | None = None  # None until the first row is learned
    _names: tuple[Hashable, ...] = ()  # columns, in order

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        """Values of the parameters without a default."""
        parts = {"extractor": {"name": "scaling"}, "head": {"name": "rls"}}
        yield {setting.name: parts.get(setting.name, 4) for setting in settings(cls._entry.learner) if setting.needed}

    @property
    def learner(self) -> Learner:
        """The learner of these settings. Raises SettingError for what it refuses."""
        given = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
        return make_learner(self._entry, given)

    @property
    def state(self) -> Any:
        """All that has been learned, a copy; None before the first row."""
        return None if self._online is None else self._online.state

    def _learn(self, given: Any, targets: int, Y: Callable[[], Any] = lambda: None) -> None:
        """given: a row, or a table; nothing is learned while none has had a name. Y: its targets."""
        names = getattr(given, "columns", given)
        if self._online is None and len(names):
            self._names = tuple(sorted(names, key=str))
            learner = self.learner
            state = learner.init(dim=len(self._names), targets=targets, seed=getattr(self, "seed", 0))
            self._online = Online(learner, state)
        if self._online is not None:
            self._online.run(self._rows(given), Y())

    def _rows(self, given: Any) -> Array:
        """Of a row, or of a table."""
        try:
            if hasattr(given, "columns"):
                return given.reindex(columns=list(self._names), fill_value=0.0).to_numpy(np.float64)  # type: ignore[no-any-return]
            return np.array([[float(given.get(name, 0.0)) for name in self._names]])
        except (AttributeError, TypeError, ValueError):
            title, rows = type(self).__name__, given.to_dict("records") if hasattr(given, "columns") else [given]
            if not all(isinstance(row, Mapping) for row in rows):
                raise TypeError(
                    f"{title}: expected a row as a dict of numbers by name, got {type(given).__name__}."
                ) from None
            for row, name in itertools.product(rows, self._names):
                _number(row.get(name, 0.0), f"{title}: column {name!r}")
            raise


class StreamTransformer(StreamModel, base.MiniBatchTransformer):  # type: ignore[misc]
    """Features of a stream; {} until the learner has any."""

    def learn_one(self, x: Mapping[Hashable, Any]) -> None:
        """Learn a row."""
        self._learn(x, 1)

    def learn_many(self, X: "pandas.DataFrame") -> None:
        """Learn the rows of a table, in order."""
        self._learn(X, 1)

    def transform_one(self, x: Mapping[Hashable, Any]) -> dict[str, float]:
        """Features of a row by name; nothing is learned."""
        if self._online is None:
            return {}
        features = self._online.transform(self._rows(x))[0]
        return dict(zip(self._outputs(len(features)), features.tolist(), strict=True)) if _known(features) else {}

    def transform_many(self, X: "pandas.DataFrame") -> "pandas.DataFrame":
        """Features of the rows of a table; nothing is learned."""
        import pandas

        rows = self._rows(X)
        features = np.zeros((len(X), 0)) if self._online is None else self._online.transform(rows)
        if not _known(features[np.isfinite(rows).all(axis=1)]):  # a row with NaN has none, others have
            features = features[:, :0]
        return pandas.DataFrame(features, index=X.index, columns=self._outputs(features.shape[1]))

    def _outputs(self, width: int) -> list[str]:
        return [f"{type(self).__name__.lower()}{n}" for n in range(width)]


class StreamRegressor(StreamModel, base.MiniBatchRegressor):  # type: ignore[misc]
    """Predicts a number; 0 until the learner has a prediction."""

    def learn_one(self, x: Mapping[Hashable, Any], y: float) -> None:
        """Learn a row and its number."""
        self._learn(x, 1, lambda: [[_number(y, f"{type(self).__name__}: y")]])

    def learn_many(self, X: "pandas.DataFrame", y: "pandas.Series") -> None:
        """Learn the rows of a table and their numbers, in order."""
        self._learn(X, 1, lambda: np.asarray(y, np.float64).reshape(-1, 1))

    def predict_one(self, x: Mapping[Hashable, Any]) -> float:
        """The number of a row; nothing is learned."""
        if self._online is None:
            return 0.0
        rows = self._rows(x)
        predicted = float(self._online.predict(rows)[0, 0])
        return predicted if math.isfinite(predicted) or not _known(rows) else 0.0

    def predict_many(self, X: "pandas.DataFrame") -> "pandas.Series":
        """The numbers of the rows of a table; nothing is learned."""
        import pandas

        if self._online is None:
            return pandas.Series(np.zeros(len(X)), index=X.index)
        rows = self._rows(X)
        predicted = self._online.predict(rows)[:, 0]
        predicted[~np.isfinite(predicted) & np.isfinite(rows).all(axis=1)] = 0.0
        return pandas.Series(predicted, index=X.index)


class StreamClassifier(StreamModel, base.MiniBatchClassifier):  # type: ignore[misc]
    """Predicts one of the labels that it has learned; None before the first."""

    _labels: tuple[Any, ...] = ()  # in the order they came

    @property
    def _multiclass(self) -> bool:
        return True

    def learn_one(self, x: Mapping[Hashable, Any], y: Any) -> None:
        """Learn a row and its label. Raises ValueError for more labels than max_classes."""
        self._learn(x, self.max_classes, lambda: self._targets([y]))

    def learn_many(self, X: "pandas.DataFrame", y: "pandas.Series") -> None:
        """Learn the rows of a table and their labels, in order."""
        self._learn(X, self.max_classes, lambda: self._targets([*y]))

    def scores_one(self, x: Mapping[Hashable, Any]) -> dict[Any, float]:
        """The score of each label that came; {} until the learner has any."""
        if self._online is None:
            return {}
        scores = self._online.predict(self._rows(x))[0, : len(self._labels)]
        return dict(zip(self._labels, scores.tolist(), strict=True)) if _known(scores) else {}

    def predict_proba_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> dict[Any, float]:
        """A share of each label, in the order of the scores; equal shares until the learner has any.

        Probabilities with a logistic loss, estimates of them with a squared loss. With another loss they order labels only.
        """
        scores = self.scores_one(x)
        if not scores or self._online is None:
            return dict.fromkeys(self._labels, 1.0 / max(1, len(self._labels)))
        shares = probabilities(self._online.learner, np.array([list(scores.values())]))[0]
        return dict(zip(scores, shares.tolist(), strict=True))

    def predict_one(self, x: Mapping[Hashable, Any], **kwargs: Any) -> Any:
        """The label with the largest score; nothing is learned."""
        scores = self.scores_one(x)
        return max(scores, key=scores.__getitem__) if scores else None

    def predict_many(self, X: "pandas.DataFrame") -> "pandas.Series":
        """The labels of the rows of a table; nothing is learned."""
        import pandas

        said: list[Any] = [None] * len(X)
        if self._online is not None and len(X):
            scores = self._online.predict(self._rows(X))[:, : len(self._labels)]
            if scores.size:
                best = np.where(np.isfinite(scores).all(axis=1), scores.argmax(axis=1), -1).tolist()
                said = [self._labels[at] if at >= 0 else None for at in best]
        return pandas.Series(said, index=X.index, dtype=object)

    def _targets(self, labels: list[Any]) -> Array:
        at = {label: number for number, label in enumerate(self._labels)}
        for label in labels:
            if label is None or _absent(label):
                raise ValueError(f"{type(self).__name__}: expected a label, got {label!r}; learn only rows with a label.")
            if label not in at and len(at) == self.max_classes:
                most = f"max_classes ({self.max_classes})"
                raise ValueError(f"{type(self).__name__}: the label {label!r} is one more than {most}; set it higher.")
            at.setdefault(label, len(at))
        self._labels = tuple(at)
        return targets_of(np.array([at[label] for label in labels], np.float64), self.max_classes)


class StreamDetector(base.DriftDetector):  # type: ignore[misc]
    """Watches one number, such as an error."""

    _entry: Entry
    _online: Online | None = None
    _drift_detected = False

    def update(self, x: float) -> None:
        """Watch the next number; `drift_detected` then says whether it raised an alarm."""
        if self._online is None:
            given = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}
            learner = make_learner(self._entry, given)
            self._online = Online(learner, learner.init(dim=1, targets=0, seed=0))
        self._drift_detected = bool(self._online.run([[_number(x, type(self).__name__)]]).features[0, ALARM] > 0)


def _number(value: Any, of: str) -> float:
    """
    >>> _number("1.5", "RLS: y"), _number(True, "RLS: y")
    (1.5, 1.0)
    >>> _number(None, "RLS: y")
    Traceback (most recent call last):
    ValueError: RLS: y: expected a number, got None.
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{of}: expected a number, got {value!r:.60}.") from None


def _absent(label: Any) -> bool:
    """Whether it is NaN, NaT, which differ from themselves, or pandas' NA, which has no truth value."""
    try:
        return bool(label != label)  # noqa: PLR0124
    except TypeError:
        return type(label).__name__ == "NAType"


def _known(numbers: Array) -> bool:
    return bool(np.isfinite(numbers).all())


KINDS: Mapping[str, tuple[type[Any], str, Mapping[str, Extra]]] = {
    "features": (StreamTransformer, "A transformer: `transform_one` gives features by name, {} until there are any.", SEED),
    "regression": (StreamRegressor, "A regressor; it predicts 0 until it has learned enough.", SEED),
    "classification": (StreamClassifier, "A classifier; it predicts None until it has learned enough.", SEED | CLASSES),
    "drift": (StreamDetector, "A drift detector: `update` takes a number, `drift_detected` says what it found.", {}),
}


MODELS: dict[str, type[Any]] = {entry.title: make_class(entry, *KINDS[entry.task]) for entry in (*entries(), *detectors())}
globals().update(MODELS)
__all__ = ["MODELS", *MODELS]  # noqa: PLE0604 - names of classes


def __getattr__(name: str) -> Any:
    """For type checkers, which do not see the generated classes; at run time it is called for unknown names only."""
    raise AttributeError(f"module {__name__!r} has no model {name!r}; there are {', '.join(MODELS)}")
