"""A width for the kernel from a key's first rows: they wait until it is chosen, then the learner learns them in order.

Source: ours; the choice is by kernel alignment (`alignment.py`), as the SkeGD paper chooses its kernels.
Symbols: b = bandwidth.
Cost of a row: the learner's, and O(d); the row that completes the choice costs O(rows^2 (d + 13 exponentials)) once.
State: the learner's, the chosen width, and until then at most `rows` rows with their targets.
Readings: gaussian and laplacian kernels see x only as |x - z| / b, so the learner has a width of 1 and its rows are x / b.
What it stores is in these units, and so are settings that are distances, such as `quantum` and `novelty`. Those rows count
that the learner may learn from, labelled or not, with finite numbers. Until the choice features and predictions are
NaN, as of any learner that waits for its first rows; a head behind does not learn from them. Labels are used where they come
along: of ten or more rows, if not all are alike. The width never changes again.
"""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.alignment import KNOWN, choose
from algorithms.chain import Around
from algorithms.common.compiled import compiled
from algorithms.common.kernels import Kernel
from algorithms.common.linalg import missing, put
from algorithms.common.protocol import (
    LEARN_EXTRACTOR,
    LEARN_HEAD,
    NO_BASIS,
    Array,
    Basis,
    Learner,
    Outputs,
    Stage,
    State,
    reject,
    require,
    unknown,
)
from algorithms.common.workspace import Composite, Slot

AUTO = "auto"
ROWS = 100
MOST_ROWS = 1000
ROWS_SETTING = "bandwidth_rows"  # of a kernel table with bandwidth = "auto"
CHUNK_NUMBERS = 1 << 18  # most numbers of the rows that go on together while keys wait, 2 MB


class ChoiceState(NamedTuple):
    samples: Array  # (m, dim) rows that wait, oldest first; none once the width is chosen
    labels: Array  # (m, targets) of them, 0 where unknown
    marks: Array  # (m,) int64, which parts may learn from a row; 4: its label is known
    bandwidth: float  # 0 until it is chosen


class AutoBandwidthState(NamedTuple):
    choice: ChoiceState
    learner: State


@dataclass(frozen=True, slots=True, kw_only=True)
class BandwidthChoice(Stage):
    """The rows that wait for the width, and the width."""

    persisted_name: ClassVar[str] = "BandwidthChoice"  # never stored: its learner's is
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("samples", "labels", "marks"),)

    rows: int

    def room(self, field: str) -> int | None:
        return self.rows

    def derive(self, own: Slot) -> None:
        bandwidth, held = float(own["bandwidth"]), own.rows("samples")
        if not 0.0 <= bandwidth < np.inf:
            raise ValueError(f"BandwidthChoice: expected a bandwidth of 0 or more, got {bandwidth}.")
        if held >= (self.rows if bandwidth == 0.0 else 1):
            expected = f"fewer than {self.rows} rows" if bandwidth == 0.0 else "no rows with a chosen bandwidth"
            raise ValueError(f"BandwidthChoice: expected {expected} in samples, got {held}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class AutoBandwidth(Around):
    """The learner that it contains, with a kernel width from each key's first rows; `bandwidth = "auto"` makes it.

    Raises SettingError for a learner without a gaussian or laplacian kernel, or with a width that is set.

    >>> from algorithms import learner_from
    >>> learner = learner_from("klms", {"budget": 50, "kernel": {"bandwidth": "auto", "bandwidth_rows": 20}})
    >>> X = np.linspace(0.0, 10.0, 60)[:, None]
    >>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), X, np.sin(X))
    >>> round(state.choice.bandwidth, 3), int(np.isnan(out.prediction).sum())
    (0.36, 20)
    """

    learner: Learner  # one with a gaussian or laplacian kernel without a bandwidth
    rows: int = ROWS  # of a key, from which the width is chosen

    def __post_init__(self) -> None:
        require(self, "rows", 2 <= self.rows <= MOST_ROWS, f"2 to {MOST_ROWS}")
        object.__setattr__(self, "learner", _of_width_one(self, self.learner))

    @property
    def choice(self) -> BandwidthChoice:
        return BandwidthChoice(rows=self.rows)

    @property
    def moves(self) -> bool:  # type: ignore[override]
        return self.learner.moves

    @property
    def headless(self) -> Learner:
        without = self.learner.headless
        return self if without is self.learner else dataclasses.replace(self, learner=without)

    def init(self, *, dim: int, targets: int, seed: int) -> AutoBandwidthState:
        waiting = ChoiceState(np.empty((0, dim)), np.empty((0, targets)), np.empty(0, np.int64), 0.0)
        return AutoBandwidthState(waiting, self.learner.init(dim=dim, targets=targets, seed=seed))

    def workspace(self, state: AutoBandwidthState, *, slots: int = 1, extra: int = 0) -> Any:
        learns = extra + self.rows if extra else 0  # the rows that waited are learned together
        return Composite.workspace(self, state, slots=slots, extra=learns)

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        bandwidths = work.choice["bandwidth"]
        if (bandwidths[slots] > 0.0).all():  # all keys have chosen a width
            scaled = np.ascontiguousarray(X / bandwidths[slots][:, None])
            self.learner.loop(work.learner, slots, scaled, Y, learn, out, basis)
            return
        n, numbers = len(X), max(1, X.shape[1], basis.transfer.shape[1] ** 2)
        chunk = max(1, CHUNK_NUMBERS // (numbers * self.rows))
        for first in range(0, n, chunk):
            rows = slice(first, min(n, first + chunk))
            turning = Basis(*(part[rows] for part in basis)) if len(basis.moved) else NO_BASIS
            part = Outputs(*(array[rows] for array in out))
            self._wait(work, slots[rows], X[rows], Y[rows], learn[rows], part, turning)

    def _wait(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        """Rows of keys some of which wait: those that a choice lets go come in front of their key's next row."""
        waiting = np.unique(slots[work.choice["bandwidth"][slots] == 0.0])
        most, dim, targets = len(X) + self.rows * len(waiting), X.shape[1], Y.shape[1]
        to_slots, to_learn = np.empty(most, np.int64), np.empty(most, np.int8)
        to_X, to_Y = np.empty((most, dim)), unknown((most, targets))
        origin = np.empty(most, np.int64)
        needed = LEARN_EXTRACTOR if self.kind == "features" or self.headless is not self else LEARN_HEAD
        laplacian = self._kernel.name == "laplacian"
        go = _let_go(
            tuple(work.choice), slots, X, Y, learn, self.rows, needed, laplacian, to_slots, to_X, to_Y, to_learn, origin
        )
        told = np.flatnonzero(origin[:go] >= 0)
        rows = origin[told]
        inner = self.learner.outputs(go, dim, out.prediction.shape[1])
        turning = Basis(np.zeros(go, np.int8), np.empty((go, *basis.transfer.shape[1:]))) if len(basis.moved) else basis
        for held, change in zip(turning, basis, strict=True):
            if len(basis.moved):
                held[told] = change[rows]
        self.learner.loop(work.learner, to_slots[:go], to_X[:go], to_Y[:go], to_learn[:go], inner, turning)
        for array, made in zip((*out, *basis), (*inner, *turning), strict=True):
            if len(made):
                array[rows] = made[told]

    @property
    def _kernel(self) -> Kernel:
        learner = getattr(self.learner, "learner", self.learner)
        return next(kernel for kernel in _values(learner) if isinstance(kernel, Kernel))


def with_chosen_width(settings: Mapping[str, Any], make: Callable[[Mapping[str, Any]], Learner]) -> Learner:
    """The learner that `make` makes of its settings; where its kernel has `bandwidth = "auto"`, behind a chosen width.

    A learner inside, of a classifier for each class, has the width of them all.
    """
    inside = settings.get("learner")
    table = inside if isinstance(inside, Mapping) else settings
    chosen = _split(table)
    if chosen is None:
        return make(settings)
    learner = make({**settings, "learner": chosen[0]} if table is inside else chosen[0])
    return AutoBandwidth(learner=learner, rows=chosen[1])


def _split(settings: Mapping[str, Any]) -> tuple[dict[str, Any], int] | None:
    """Settings of a learner with a kernel of width 1, and how many rows the width is chosen from; None: it is set.

    >>> _split({"budget": 5, "kernel": {"bandwidth": "auto"}})
    ({'budget': 5, 'kernel': {'bandwidth': 1.0}}, 100)
    """
    kernel = settings.get("kernel")
    if not isinstance(kernel, Mapping) or not isinstance(kernel.get("bandwidth"), str):
        return None
    if kernel["bandwidth"] != AUTO:
        reject("kernel", "bandwidth", f"a number or {AUTO!r}", kernel["bandwidth"])
    rows = kernel.get(ROWS_SETTING, ROWS)
    if isinstance(rows, bool) or not isinstance(rows, int) or not 2 <= rows <= MOST_ROWS:
        reject("kernel", ROWS_SETTING, f"an integer, 2 to {MOST_ROWS}", rows)
    own = {name: value for name, value in kernel.items() if name != ROWS_SETTING}
    return {**settings, "kernel": own | {"bandwidth": 1.0}}, rows


def _of_width_one(owner: Learner, learner: Learner) -> Learner:
    """The learner with a kernel of width 1; of a learner for each class, theirs."""
    inside = getattr(learner, "learner", None)
    if isinstance(inside, Learner) and not isinstance(learner, AutoBandwidth):
        return dataclasses.replace(learner, learner=_of_width_one(owner, inside))  # type: ignore[type-var]
    kernel = next((value for value in _values(learner) if isinstance(value, Kernel)), None)
    if kernel is None or kernel.name not in ("gaussian", "laplacian"):
        reject(owner, "learner", "a learner with a gaussian or laplacian kernel of its own", type(learner).__name__)
    if kernel.bandwidth not in (None, 1.0):
        reject(owner, "learner", "a learner with a kernel without bandwidth, because it is chosen", kernel.bandwidth)
    return dataclasses.replace(learner, kernel=dataclasses.replace(kernel, bandwidth=1.0))  # type: ignore[type-var]


def _values(learner: Learner) -> list[Any]:
    return [getattr(learner, field.name) for field in dataclasses.fields(learner)]  # type: ignore[arg-type]


@compiled
def _let_go(choice, slots, X, Y, learn, most, needed, laplacian, to_slots, to_X, to_Y, to_learn, origin):
    """The rows for the learner in their order, and origin, which row each is (-1: one that waited); gives how many."""
    all_samples, all_labels, all_marks, bandwidths, counts = choice
    go, labelled = 0, Y.shape[1] > 0 and Y.shape[1] == all_labels.shape[2]
    for n in range(len(X)):
        key, x, y = slots[n], X[n], Y[n]
        if bandwidths[key] > 0.0:
            for i in range(x.size):
                to_X[go, i] = x[i] / bandwidths[key]
            put(to_Y[go], y)
            to_slots[go], to_learn[go], origin[go] = key, learn[n], n
            go += 1
            continue
        if not learn[n] & needed or missing(x):
            continue

        # The row waits.
        samples, labels, marks, count = all_samples[key], all_labels[key], all_marks[key], counts[key, 0]
        put(samples[count], x)
        known = labelled and not missing(y)
        for t in range(labels.shape[1]):
            labels[count, t] = y[t] if known else 0.0
        marks[count] = learn[n] + KNOWN if known else learn[n]
        count += 1

        # Enough of them: the width is chosen, and all go on.
        if count == most:
            bandwidths[key] = choose(laplacian, samples, count, labels, marks)
            for row in range(count):
                for i in range(x.size):
                    to_X[go, i] = samples[row, i] / bandwidths[key]
                if marks[row] & KNOWN:
                    put(to_Y[go], labels[row])
                to_slots[go], to_learn[go], origin[go] = key, marks[row] & 3, -1
                go += 1
            count = 0
        counts[key, 0], counts[key, 1], counts[key, 2] = count, count, count
    return go
