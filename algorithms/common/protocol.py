"""The one shape of every learner: frozen settings, explicit state, one compiled loop over rows of many keys.

A state is a NamedTuple of arrays and numbers and holds all a key owns. A `Workspace` holds the states of many keys:
every field gets a leading slot axis, and the fields in `stored` (those with a row per stored sample) get room to grow
and a count per slot. `run` is `advance` over a workspace of one slot, so a worker that keeps thousands of keys and a
notebook that keeps one run the same instructions and get the same bits.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from algorithms.common.blas import ONE_THREAD
from algorithms.common.compiled import compiled_in_place
from algorithms.common.ranges import out_of_range
from algorithms.common.workspace import Slot, Workspace, packed, unpacked, zeros

Array = NDArray[Any]
State = Any  # a NamedTuple of arrays, ints, floats and nested states

PREDICT_ONLY = 0  # values of `learn`, a row each: the bits say which part learns
LEARN_EXTRACTOR = 1  # of a chain, only the extractor
LEARN_HEAD = 2  # of a chain, only the head (a label that came late)
LEARN = 3
AFTER_PAUSE = 8  # the row is the first after a pause: a forecast of the rows before says nothing of it


class SettingError(ValueError):
    """A setting is out of its range, unknown, or of the wrong type."""


class NumericsError(ArithmeticError):
    """A state holds non-finite numbers."""


def unknown(shape: tuple[int, ...]) -> Array:
    """An array of NaN; a fifth of the time of np.full, which counts where few rows come at a time."""
    array = np.empty(shape)
    array.fill(np.nan)
    return array


def plain(array: Array, dtype: Any) -> Array:
    """The array itself where compiled loops take it as it is, else a copy: another array type would be compiled again."""
    flags = array.flags
    if array.dtype == dtype and flags.c_contiguous and flags.writeable:
        return array
    return np.require(array, dtype, ("C", "W"))


def reject(owner: object, setting: str, expected: str, got: object) -> NoReturn:
    name = owner if isinstance(owner, str) else type(owner).__name__
    raise SettingError(f"{name}: {setting} must be {expected}; got {got!r}.")


def require(owner: object, setting: str, holds: bool, expected: str) -> None:
    """Check a setting, stated in positive form so that NaN fails: `require(self, "rank", self.rank >= 1, "1 or more")`."""
    if not holds:
        reject(owner, setting, expected, getattr(owner, setting))


class Outputs(NamedTuple):
    """What a run gives, a row per row of X. What does not apply or is not ready yet is NaN (or has no columns)."""

    features: Array  # (n, width) coordinates of phi(x) before x is learned
    prediction: Array  # (n, targets) before y is seen; NaN where it is out of range
    ls_error: Array  # (n,) squared distance of phi(x) to what the model spans, before x is learned
    loss: Array  # (n,) loss of the prediction, NaN where no target is known or the loss is out of range
    admitted: Array  # (n,) int8, x was stored
    evicted: Array  # (n,) int8, a stored sample left


class Basis(NamedTuple):
    """Changes of an extractor's basis, so that the head behind it can carry its weights over.

    If the features of an extractor turn when it learns, it writes row n's change after learning row n; the head applies it
    after learning row n: weights = transfer[n] @ weights. Without a listener both arrays are empty.
    """

    moved: Array  # (n,) int8, or (0,)
    transfer: Array  # (n, width, width), or (0, 0, 0)


NO_BASIS = Basis(np.zeros(0, np.int8), np.zeros((0, 0, 0)))


class Stage:
    """Something with a state per key: how that state enters and leaves a workspace. Learners and windows are stages."""

    __slots__ = ()
    persisted_name: ClassVar[str]  # what stored states call it; must never change, whatever the class is called
    stored: ClassVar[tuple[str, ...]] = ()  # state fields with a count as the leading axis; those of `aligned` if not stated
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = ()  # groups of them with as many rows as the group's first
    triangles: ClassVar[Mapping[str, str]] = {}  # stored field of m (m + 1) / 2 numbers, a triangle -> the one of m rows
    may_be_empty: ClassVar[tuple[str, ...]] = ()  # of those, what a state may leave out: none yet, or `derive` fills it

    def __init_subclass__(cls, abstract: bool = False) -> None:
        """Raises TypeError where a class has no persisted name, or states something of a field that is not stored."""
        if cls.__dict__.get("aligned") and "stored" not in cls.__dict__:
            cls.stored = tuple(field for group in cls.aligned for field in group)
        if abstract:
            return
        if not isinstance(getattr(cls, "persisted_name", None), str):
            raise TypeError(f"{cls.__name__}: expected persisted_name, its name in stored states; got none.")
        named = {*cls.triangles, *cls.triangles.values(), *cls.may_be_empty}.union(*cls.aligned)
        if named - set(cls.stored):
            unknown_fields = ", ".join(sorted(named - set(cls.stored)))
            raise TypeError(f"{cls.__name__}: aligned, triangles and may_be_empty name {unknown_fields}, not in `stored`.")

    def room(self, field: str) -> int | None:
        """Most rows the stored field ever holds between two statements; None = unbounded."""
        raise NotImplementedError(f"{type(self).__name__}: no room stated for {field}")

    def caches(self, state: State, rows: Mapping[str, int]) -> Mapping[str, Array]:
        """Zeroed arrays of one slot, by name, for what is derived from the state; `rows` = room of each stored field."""
        return {}

    def derive(self, own: Slot) -> None:
        """Fill the slot's caches from its state, bit for bit as the loop would have left them.

        `load` has checked what `aligned` and `triangles` state. Raises ValueError for any other state that cannot be.
        """

    def derive_slots(self, work: Any, slots: Array) -> Array:
        """`derive` of many slots (k,); gives (k,) bool, False where the state cannot be. Compiled where it costs much."""
        good = np.ones(len(slots), np.bool_)
        for at, slot in enumerate(slots.tolist()):
            try:
                self.derive(Slot(work, slot))
            except ValueError:
                good[at] = False
        return good

    def complete(self, own: Slot) -> None:
        """Fill the state fields of a slot that the loop does not keep, before the state is saved."""

    def squares(self, state: State) -> Mapping[str, int]:
        """Rows n of each symmetric matrix: the state holds its lower triangle, n (n + 1) / 2, a workspace the whole."""
        return {}

    def constant(self, state: State) -> tuple[str, ...]:
        """Fields that stay as they were of a new key, which snapshots leave out."""
        return ()

    @property
    def bounded(self) -> bool:
        return None not in map(self.room, self.stored)

    def rooms(self, state: State, extra: int) -> dict[str, int]:
        """Rows a workspace gives each stored field of states shaped like this one; extra: more where nothing bounds them."""
        held = {field: len(getattr(state, field)) for field in self.stored}
        for group in self.aligned:
            held |= dict.fromkeys(group, max(held[field] for field in group))  # `derive` fills what was left out
        rows = {}
        for field in self.stored:
            room = self.room(field)
            rows[field] = held[field] + extra + 1 if room is None else max(room, held[field])
        return rows | {field: rows[over] * (rows[over] + 1) // 2 for field, over in self.triangles.items()}

    def workspace(self, state: State, *, slots: int = 1, extra: int = 0) -> Workspace:
        """Arrays for `slots` states shaped like `state`; an unbounded stage gets room for `extra` more rows a slot."""
        rows = self.rooms(state, extra)
        squares = self._checked_squares(state)
        arrays: list[Array] = []
        for field, value in zip(state._fields, state, strict=True):
            one = np.asarray(value)
            shape = (rows[field], *one.shape[1:]) if field in rows else one.shape
            if field in squares:
                shape = (squares[field], squares[field])
            arrays.append(zeros((slots, *shape), one.dtype))
        arrays.append(np.zeros((slots, len(self.stored)), np.int64))
        caches = self.caches(state, rows)
        arrays.extend(zeros((slots, *cache.shape), cache.dtype) for cache in caches.values())
        return Workspace(tuple(arrays), (*state._fields, "counts", *caches), self.stored)

    def load(self, work: Any, slot: int, state: State) -> None:
        """Copy a state into a slot and derive its caches. Raises ValueError for a state that contradicts itself."""
        self.check_rows(state)
        squares = self._checked_squares(state)
        arrays = work.arrays
        counts = arrays[len(state)]
        for array, field, value in zip(arrays, state._fields, state, strict=False):
            if field in squares:
                array[slot] = unpacked(value, squares[field])
            elif field in self.stored:
                counts[slot, self.stored.index(field)] = len(value)
                array[slot, : len(value)] = value
            else:
                array[slot] = value
        if type(self).derive is not Stage.derive:
            with ONE_THREAD:
                self.derive(Slot(work, slot))

    def _checked_squares(self, state: State) -> Mapping[str, int]:
        squares = self.squares(state)
        for field, n in squares.items():
            got = getattr(state, field).shape
            if got != (n * (n + 1) // 2,):
                expected = f"{field} of {n * (n + 1) // 2} numbers ({n} inputs)"
                raise ValueError(f"{type(self).__name__}: expected {expected}, got shape {got}.")
        return squares

    def check_rows(self, state: State) -> None:
        """Raise ValueError unless stored fields that belong together have the same rows, and triangles their numbers."""
        wanted = [(field, group[0], "one for each row of") for group in self.aligned for field in group[1:]]
        wanted += [(field, over, "the lower triangle over the rows of") for field, over in self.triangles.items()]
        for field, first, relation in wanted:
            held, got = len(getattr(state, first)), len(getattr(state, field))
            expected = held * (held + 1) // 2 if field in self.triangles else held
            if got == expected or (got == 0 and field in self.may_be_empty):
                continue
            what = f"{expected} rows of {field}" if field not in self.triangles else f"{expected} numbers in {field}"
            empty = " (or none)" if field in self.may_be_empty else ""
            raise ValueError(
                f"{type(self).__name__}: the state holds {held} rows of {first}; "
                f"expected {what}{empty}, {relation} {first}, got {got}."
            )

    def save(self, work: Any, slot: int, like: State) -> State:
        """Copy a slot out as a state of its own, C-contiguous; `like` names the fields."""
        self.complete(Slot(work, slot))
        arrays, squares = work.arrays, self.squares(like)
        counts = arrays[len(like)]
        values: list[Any] = []
        for array, field in zip(arrays, like._fields, strict=False):
            if field in squares:
                values.append(packed(array[slot]))
            elif field in self.stored:
                values.append(array[slot, : counts[slot, self.stored.index(field)]].copy())
            elif array.ndim == 1:
                values.append(array[slot].item())
            else:
                values.append(array[slot].copy())
        return type(like)(*values)

    def bytes_of(self, state: State) -> int:
        """Upper bound of a state's size in bytes, with every stored field full."""
        rows = self.rooms(state, 0)
        total = 0
        for field, value in zip(state._fields, state, strict=True):
            one = np.asarray(value)
            total += rows[field] * int(np.prod(one.shape[1:])) * one.itemsize if field in rows else one.nbytes
        return total


class Learner(Stage, abstract=True):
    """A learner's settings. Subclasses are frozen dataclasses and leaves: nothing inherits from a learner.

    A learner defines `init` and `loop`; `width` where it gives features, `room` of its stored fields, and `dim` and
    `targets` where its state's first field and `weights` do not show them. The shared check-suite holds the rest. What a
    family shares may stand in a base class between this one and its learners, which has no settings and is not a learner
    itself (`abstract=True`).
    """

    __slots__ = ()
    name: ClassVar[str]  # in the registry, job files and populations; must never change
    kind: ClassVar[str] = "features"  # features | regression | classification | drift
    moves: ClassVar[bool] = False  # the basis of the features turns as it learns
    begins_from_population: ClassVar[bool] = False  # has `from_population(state)`: what other people's head taught
    falls_back: ClassVar[bool] = False  # meant to say the last label while a row has no scores
    foresees: ClassVar[bool] = False  # its features are errors of forecasts of x, in deviations, then the forecasts
    label_taught: ClassVar[bool] = False  # alone, a row without a label changes `seen` and nothing else; `seen` comes last

    def __init_subclass__(cls, abstract: bool = False) -> None:
        """The names are those of the class, OneVsRest and one_vs_rest; a class that is renamed states the former ones."""
        if not abstract:
            words = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in cls.__name__)
            cls.name = cls.__dict__.get("name", words.removeprefix("_"))
            cls.persisted_name = cls.__dict__.get("persisted_name", cls.__name__)
        super().__init_subclass__(abstract)

    def __post_init__(self) -> None:
        for setting, expected in out_of_range(self):
            reject(self, setting, expected, getattr(self, setting))
        self.check()

    def check(self) -> None:
        """Raise SettingError for what the annotations of the settings cannot state: limits that depend on other settings."""

    @property
    def headless(self) -> "Learner":
        """What it is as the extractor of a chain: a learner that brings a head of its own leaves it away."""
        return self

    @property
    def width(self) -> int:
        """Number of features of a row: as many as its `rank`, if it has one; 0 for what gives none."""
        return int(getattr(self, "rank", 0))

    def width_for(self, dim: int) -> int:
        """The same where it depends on the dimension of x."""
        return self.width

    def init(self, *, dim: int, targets: int, seed: int) -> State:
        raise NotImplementedError

    def targets(self, state: State) -> int:
        """How many columns a prediction has: as many as `weights`, or `w`. Extractors and detectors have none."""
        weights = getattr(state, "weights", getattr(state, "w", None))
        return 0 if weights is None else int(weights.shape[1])

    def dim(self, state: State) -> int:
        """Length of the x this state was made for: the columns of the first field, or its rows where nothing is stored."""
        return int(state[0].shape[1]) if self.stored else len(state[0])

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        """The compiled loop: row n belongs to the key in slots[n]; predict, then learn what learn[n] allows."""
        raise NotImplementedError

    def advance(
        self,
        work: Any,
        slots: Array,
        X: Array,
        Y: Array,
        out: Outputs,
        learn: Array | None = None,
        basis: Basis = NO_BASIS,
    ) -> None:
        """Rows of many keys, in order, through the loop; `out` is filled in place. `learn` None: learn every row."""
        if learn is None:
            learn = np.full(len(X), LEARN, np.int8)
        with ONE_THREAD:
            self.loop(work, slots, X, Y, learn, out, basis)
        _forget_infinite(out.prediction, out.loss)  # an error of 1e154 has no square

    def recent_error(self, state: State) -> tuple[float, str] | None:
        """The mean LS error that a state remembers, and of which rows; None where it remembers none."""
        return None

    def adapted_share(self, out: Outputs) -> Array | None:
        """Weight (n,) of the adapted head in each row's scores; None where there is one head."""
        return None

    def budget_used(self, work: Any, like: State, slots: Array) -> float:
        """Stored samples to their limit, mean over the slots; NaN without samples or slots."""
        if not self.stored or not len(slots):
            return float("nan")
        limit = getattr(self, "budget", 0) or self.room(self.stored[0])
        return float(work.arrays[len(like)][slots, 0].mean() / limit) if limit else float("nan")

    def outputs(self, n: int, dim: int, targets: int) -> Outputs:
        """Empty outputs for n rows: NaN, and nothing admitted or evicted."""
        return Outputs(
            features=unknown((n, self.width_for(dim))),
            prediction=unknown((n, targets)),
            ls_error=unknown((n,)),
            loss=unknown((n,)),
            admitted=np.zeros(n, np.int8),
            evicted=np.zeros(n, np.int8),
        )

    def run(self, state: State, X: ArrayLike, Y: ArrayLike | None = None) -> tuple[State, Outputs]:
        """Test-then-train over the rows of X, one by one; gives the new state and leaves the old one as it was.

        X (n, dim), Y (n, targets) with NaN where a target is unknown, None = all unknown.
        """
        return self._run(state, X, Y, LEARN)

    def state_after(self, X: Array, *, seed: int) -> State:
        """The state that `run` leaves after the rows of X (n, dim) from the start, without targets and outputs."""
        return self.run(self.init(dim=X.shape[1], targets=0, seed=seed), X)[0]

    def transform(self, state: State, X: ArrayLike) -> Array:
        """Features (n, width) of the rows of X with the state frozen."""
        return self._run(state, X, None, PREDICT_ONLY)[1].features

    def predict(self, state: State, X: ArrayLike) -> Array:
        """Predictions (n, targets) for the rows of X with the state frozen."""
        return self._run(state, X, None, PREDICT_ONLY)[1].prediction

    def _run(self, state: State, X: ArrayLike, Y: ArrayLike | None, learn: int) -> tuple[State, Outputs]:
        try:
            return self._run_checked(state, X, Y, learn)
        except Exception:
            self._check_dimensions(state)  # only here: a run that ends well pays nothing for it
            raise

    def _check_dimensions(self, state: State) -> None:
        """Raise ValueError where a field of the state has another number of dimensions than `init` gives it."""
        try:
            like = self.init(dim=self.dim(state), targets=self.targets(state), seed=0)
        except IndexError:  # what says the length of x has the wrong shape
            like = self.init(dim=1, targets=1, seed=0)
        for field, expected, value in zip(like._fields, like, state, strict=True):
            if not isinstance(expected, tuple) and np.ndim(expected) != np.ndim(value):
                raise ValueError(
                    f"{type(self).__name__}: expected {field} with {np.ndim(expected)} dimensions in the state, "
                    f"got shape {np.shape(value)}."
                )

    def _run_checked(self, state: State, X: ArrayLike, Y: ArrayLike | None, learn: int) -> tuple[State, Outputs]:
        dim, targets = self.dim(state), self.targets(state)
        rows = _matrix(type(self).__name__, "X", X, dim)
        n = len(rows)
        wanted = np.full((n, targets), np.nan) if Y is None else _matrix(type(self).__name__, "Y", Y, targets, n)
        work = self.workspace(state, slots=1, extra=n)
        self.load(work, 0, state)
        out = self.outputs(n, dim, targets)
        self.advance(work, np.zeros(n, np.int64), rows, wanted, out, np.full(n, learn, np.int8))
        return self.save(work, 0, state), out

    def state_bytes(self, dim: int, targets: int) -> int:
        """Upper bound of a state's size in bytes for x of length `dim`."""
        return self.bytes_of(self.init(dim=dim, targets=targets, seed=0))


@compiled_in_place
def _forget_infinite(prediction, loss):
    """NaN in place of infinite numbers."""
    for n in range(loss.size):
        if np.isinf(loss[n]):
            loss[n] = np.nan
        for i in range(prediction.shape[1]):
            if np.isinf(prediction[n, i]):
                prediction[n, i] = np.nan


def _matrix(owner: str, name: str, values: ArrayLike, columns: int, rows: int | None = None) -> Array:
    array = np.ascontiguousarray(values, dtype=np.float64)
    if not array.flags.writeable:
        array = array.copy()  # to numba a read-only array is another type: every loop would be compiled once more
    if columns == 0 and (array.size or array.ndim == 2) and name == "Y":
        array = np.zeros((len(array), 0))  # an extractor has no targets; labels given to it are ignored
    if array.size == 0 and array.ndim == 1:
        array = array.reshape(rows or 0, columns)
    if array.ndim != 2 or array.shape[1] != columns or (rows is not None and len(array) != rows):
        want = f"({'n' if rows is None else rows}, {columns})"
        raise ValueError(f"{owner}: expected {name} of shape {want}, got {array.shape}.")
    return array
