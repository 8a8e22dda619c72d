"""The learners as scikit-learn estimators: `from streamjobs.sklearn import OKFEB, RLS, SiSPEED, ...`.

There is a class for each learner of the registry, with its settings as parameters. Extractors are transformers. Learners
that predict are regressors or classifiers. If a learner has a second task, there is a second class (`RLSClassifier`,
`BOGDRegressor`, `SiSPEEDFeatures`). `fit` starts from a new state and passes over the rows once, in their order.
`partial_fit` continues from the present state. `transform` and `predict` do not change it. Needs the extra `sklearn`.

>>> import numpy as np
>>> X = np.random.default_rng(0).normal(size=(200, 3))
>>> model = RLS(intercept=True).fit(X, X @ [1.0, 2.0, 3.0] + 4.0)
>>> model.predict([[1.0, 1.0, 1.0]]).round(2)
array([10.])
"""

import inspect
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    from sklearn.base import (
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.utils import check_random_state
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as missing:
    from streamjobs import install_line

    raise ImportError(f"streamjobs.sklearn needs scikit-learn: {install_line('sklearn')}") from missing

from algorithms.common.protocol import Array, Learner
from algorithms.online import Online
from streamjobs.estimators import catalogue
from streamjobs.stages.class_counts import targets_of

SEED = "random_state"
EXTRAS = {SEED: catalogue.Extra(0, "int or RandomState", "Decides what the learner draws, where it draws.")}
LARGEST_SEED = 2**31 - 1


class StreamEstimator(BaseEstimator):  # type: ignore[misc]
    """What all have in common; no estimator by itself.

    Attributes
    ----------
    n_features_in_ : int
        Columns of X.
    n_seen_ : int
        Rows learned since the last `fit`.
    ls_error_ : ndarray (n,)
        Of the last call of `fit` or `partial_fit`, for each row before it was learned: the squared distance of phi(x) to
        what the model spans; NaN where the learner has none.
    state_ : NamedTuple of arrays
        All that has been learned, a copy.
    """

    _entry: catalogue.Entry

    def set_params(self, **params: Any) -> Self:
        """As of every estimator. Raises ValueError for a part of a table, such as kernel__bandwidth."""
        for name, _, part in (one.partition("__") for one in params):
            if part and hasattr(self, name) and not hasattr(getattr(self, name), "set_params"):
                raise ValueError(
                    f"{type(self).__name__}: {name}__{part} cannot be set alone; expected {name} as a whole, such as "
                    f"{name} = {{.., {part!r}: ..}}, also among the values of a grid."
                )
        return super().set_params(**params)  # type: ignore[no-any-return]

    def _learner(self) -> Learner:
        return catalogue.make_learner(self._entry, self.get_params(deep=False))

    def _learn(self, X: Array, Y: Array | None, targets: int, *, first: bool) -> Self:
        """first: from a new state."""
        if first:
            seed = self.random_state if SEED in vars(self) else getattr(self, "seed", 0)
            if not isinstance(seed, (int, np.integer)):
                seed = check_random_state(seed).randint(LARGEST_SEED)
            learner = self._learner()
            self._online = Online(learner, learner.init(dim=X.shape[1], targets=targets, seed=int(seed)))
            self.n_seen_ = 0
        self.ls_error_ = self._online.run(X, Y).ls_error
        self.n_seen_ += len(X)
        return self

    def _checked(self, X: ArrayLike) -> Array:
        check_is_fitted(self)
        return self._validated(X, reset=False)

    def _validated(self, X: ArrayLike, *, reset: bool) -> Array:
        if not reset and self._is_plain(X):
            return X  # type: ignore[return-value]
        return validate_data(self, X, dtype=np.float64, reset=reset)  # type: ignore[no-any-return]

    def _is_plain(self, X: Any) -> bool:
        """Whether scikit-learn would find nothing to say of X and return it as it is: its own checks of a single row take
        several times as long as learning it."""
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and len(X) > 0
            and X.shape[1] == getattr(self, "n_features_in_", None)
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X).all())
        )

    def _require_ready(self, numbers: Array, X: Array, what: str) -> None:
        """After `fit`: some learners wait for their first rows, and a fitted estimator that says nothing is none."""
        if not np.isfinite(numbers).all():
            raise ValueError(
                f"{type(self).__name__}: n_samples={len(X)} rows are too few for {what} with these settings; give more "
                "rows, or lower what it waits for (seed_size, map_size, budget, reference)."
            )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_online")

    @property
    def state_(self) -> Any:
        if not hasattr(self, "_online"):
            raise AttributeError(f"this {type(self).__name__} is not fitted yet")
        return self._online.state


class StreamTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, StreamEstimator):  # type: ignore[misc]
    """Features of a stream."""

    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the rows of X (n, columns), in order, from a new state. Raises ValueError where they are too few."""
        rows: Array = validate_data(self, X, dtype=np.float64)
        self._learn(rows, None, 1, first=True)
        self._require_ready(self._online.transform(rows[-1:]), rows, "features")
        return self

    def partial_fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the rows of X (n, columns), in order, beyond what has been learned."""
        first = not self.__sklearn_is_fitted__()
        return self._learn(self._validated(X, reset=first), None, 1, first=first)

    def transform(self, X: ArrayLike) -> Array:
        """Features (n, width) of the rows of X; NaN while the learner still waits for its first rows."""
        X = self._checked(X)
        return self._online.transform(X)

    @property
    def _n_features_out(self) -> int:
        return self._online.learner.width_for(self.n_features_in_)


class StreamRegressor(RegressorMixin, StreamEstimator):  # type: ignore[misc]
    """Predicts one number or several."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the rows of X (n, columns) with y (n,) or (n, targets), in order, from a new state.

        Raises ValueError where they are too few for a prediction.
        """
        X, Y = self._pair(X, y, reset=True)
        self._learn(X, Y, Y.shape[1], first=True)
        self._require_ready(self._online.predict(X[-1:]), X, "a prediction")
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the rows of X with y, in order, beyond what has been learned. Raises ValueError for another number of
        targets."""
        first = not self.__sklearn_is_fitted__()
        X, Y = self._pair(X, y, reset=first)
        return self._learn(X, Y, Y.shape[1], first=first)

    def predict(self, X: ArrayLike) -> Array:
        """Predictions (n,), or (n, targets) where y had two dimensions; NaN where there is none yet."""
        X = self._checked(X)
        predicted = self._online.predict(X)
        return predicted[:, 0] if self._flat else predicted

    def _pair(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[Array, Array]:
        if not reset and self._is_plain(X) and _is_plain_target(X, y, "f") and np.isfinite(y).all():
            return X, np.reshape(y, (len(X), -1))  # type: ignore[return-value,arg-type]
        rows, given = validate_data(self, X, y, dtype=np.float64, reset=reset, multi_output=True, y_numeric=True)
        try:
            numbers = np.asarray(given, np.float64)
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: expected numbers in y; labels need a classifier ({error}).") from None
        if reset:
            self._flat = numbers.ndim == 1
        return rows, numbers.reshape(len(numbers), -1)


class StreamClassifier(ClassifierMixin, StreamEstimator):  # type: ignore[misc]
    """Predicts a class: that of the largest score, of one column of targets (0 or 1) for each class."""

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn the rows of X (n, columns) with classes y (n,), in order, from a new state.

        Raises ValueError for a single class, and where the rows are too few for a prediction.
        """
        X, y = self._pair(X, y, reset=True)
        self.classes_ = np.unique(y)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__}: expected samples of at least 2 classes, got one class.")
        self._learn(X, self._targets(y), len(self.classes_), first=True)
        self._require_ready(self._online.predict(X[-1:]), X, "a prediction")
        return self

    def partial_fit(self, X: ArrayLike, y: ArrayLike, classes: ArrayLike | None = None) -> Self:
        """Learn the rows of X with classes y, in order, beyond what has been learned.

        classes: all there will ever be; needed in the first call. Raises ValueError for a label that is none of them, and
        for other classes in a later call.
        """
        first = not self.__sklearn_is_fitted__()
        X, y = self._pair(X, y, reset=first)
        if first:
            if classes is None:
                raise ValueError("classes must be passed on the first call to partial_fit.")
            self.classes_ = np.unique(np.asarray(classes))
        elif classes is not None and not np.array_equal(self.classes_, np.unique(np.asarray(classes))):
            raise ValueError(f"classes={classes!r} is not the same as on the last call to partial_fit: {self.classes_!r}")
        return self._learn(X, self._targets(y), len(self.classes_), first=first)

    def scores(self, X: ArrayLike) -> Array:
        """A score for each class (n, classes), in the order of `classes_`."""
        X = self._checked(X)
        return self._online.predict(X)

    def decision_function(self, X: ArrayLike) -> Array:
        """Scores (n, classes); of two classes (n,), how much more the second has than the first."""
        scores = self.scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    @available_if(lambda self: catalogue.is_probability(self._learner()))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Array:
        """Probabilities (n, classes), in the order of `classes_`; of learners with a logistic loss."""
        scores = self.scores(X)
        return catalogue.probabilities(self._online.learner, scores)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The class (n,) with the largest score."""
        decided = self.decision_function(X)
        at = (decided > 0).astype(np.int64) if decided.ndim == 1 else decided.argmax(axis=1)
        said: NDArray[Any] = self.classes_[at]
        return said

    def _pair(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[Array, Array]:
        if not reset and self._is_plain(X) and _is_plain_target(X, y, "biuU") and np.ndim(y) == 1:
            return X, y  # type: ignore[return-value]
        rows, given = validate_data(self, X, y, dtype=np.float64, reset=reset)
        check_classification_targets(given)
        return rows, np.asarray(given)

    def _targets(self, y: Array) -> Array:
        at = np.searchsorted(self.classes_, y)
        known = self.classes_[np.minimum(at, len(self.classes_) - 1)] == y
        if not known.all():
            raise ValueError(f"y has a label that is none of the classes {self.classes_!r}: {y[~known][0]!r}")
        return targets_of(at.astype(np.float64), len(self.classes_))


def _is_plain_target(X: Any, y: Any, kinds: str) -> bool:
    """Whether y is an array of these kinds of numbers with a value, or a row of values, for each row of X."""
    kind = type(y) is np.ndarray and y.dtype.kind in kinds and (kinds != "f" or y.dtype == np.float64)
    return kind and y.ndim in (1, 2) and len(y) == len(X) and y.size > 0


KINDS: Mapping[str, tuple[type[StreamEstimator], str]] = {
    "features": (StreamTransformer, "A transformer: `transform` gives features (n, width)."),
    "regression": (StreamRegressor, "A regressor, of one target or several."),
    "classification": (
        StreamClassifier,
        "A classifier: a column of targets (0 or 1) for each class; the largest score wins.",
    ),
}


ATTRIBUTES = (inspect.getdoc(StreamEstimator) or "").partition("itself.\n")[2] + "\n"
ESTIMATORS: dict[str, type[StreamEstimator]] = {
    entry.title: catalogue.make_class(entry, *KINDS[entry.task], EXTRAS, ATTRIBUTES) for entry in catalogue.entries()
}
globals().update(ESTIMATORS)
__all__ = ["ESTIMATORS", *ESTIMATORS]  # noqa: PLE0604 - names of classes


def __getattr__(name: str) -> Any:
    """For type checkers, to which the generated classes are unknown; at run time only for names that are none."""
    raise AttributeError(f"module {__name__!r} has no estimator {name!r}; there are {', '.join(ESTIMATORS)}")
