"""What speed, sparse_speed, ispeed and sispeed share: one form of state, one loop, and how they meet a workspace.

The four differ in which rows enter the dictionary and whether the map follows the stream. Each is a learner of its own, with
one of these classes as its base. With head = "none" (as in a chain) it only gives features. Otherwise it predicts with its
head.
"""

from collections import namedtuple
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

from algorithms.common.eigen import symmetric
from algorithms.common.kernels import Kernel, KernelLearner, gram
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Learner, Outputs, require
from algorithms.common.rls import carry_covariance
from algorithms.common.workspace import Slot, Workspace, packed
from algorithms.spectral.loop import HEADS, LABELLED, NOVEL, Rules, rows_until
from algorithms.spectral.map import SAMPLES, WAITING, WEIGHTS, admit, pairs, rebuild, restore, values_on

LARGEST_NOVELTY = 1e150  # from here on the square of a distance leaves the floating-point range


class FamilyState(NamedTuple):
    dictionary: Array  # (m, dim) stored samples in order of admission; none before the first map
    values: Array  # (m, targets) the head's predictions on them, V sqrt(Lambda) w: the same whatever the eigenvectors' signs
    used: Array  # (m,) int64, number of the last row that each was nearest to
    waiting: Array  # (n, dim) the rows so far, until the first map is built
    wanted: Array  # (n, targets) their targets, 0 where unknown
    marks: Array  # (n,) int8, 1 if the row enters the dictionary, plus 2 if its target is known
    weights: Array  # (rank, targets) of the head; none without a map
    vectors: Array  # (m q,) eigenvectors row by row, where the solver goes on from them
    eigenvalues: Array  # (q,) largest first
    P: Array  # (rank (rank + 1) / 2,) lower triangle by rows, of a head that has one
    novelty: float  # the present threshold
    seen: int  # rows so far


# A workspace's arrays by name. map (slots, room, rank): Psi'; spectrum (slots, rank): Lambda; gram (slots, room, room):
# K, where the solver needs it at every admission.
Fields = cast(Any, namedtuple("Fields", (*FamilyState._fields, "counts", "map", "spectrum", "gram")))


class SpectralFilter(KernelLearner, abstract=True):
    """A base, not a learner. Its subclasses state the settings, and how many rows wait for the first map."""

    __slots__ = ()
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (
        *(("dictionary", "values", "used"), ("waiting", "wanted", "marks")),
        *(("weights",), ("vectors",), ("eigenvalues",)),
    )
    may_be_empty: ClassVar[tuple[str, ...]] = ("used",)

    rank: int
    novelty: float
    head: str
    step_size: float
    forgetting: float
    delta: float
    transition: float
    state_noise: float
    # Of a map that follows the stream; what a fixed one has instead.
    solver: str = "eigh"
    budget: int = 0
    evict: str = "stop"
    order: str = "lms_first"

    @property
    def first_rows(self) -> int:
        """How many rows wait for the first map."""
        raise NotImplementedError

    def _rules(self) -> Rules:
        """The settings as compiled code reads them."""
        grows = self.moves
        return Rules(
            rank=self.rank,
            first=self.first_rows,
            grows=grows,
            budget=self.budget,
            stops=grows and self.evict == "stop",
            map_first=grows and self.order == "map_first",
            head=HEADS.index(self.head),
            step_size=float(self.step_size),
            forgetting=float(self.forgetting),
            delta=float(self.delta),
            transition=float(self.transition),
            state_noise=float(self.state_noise),
        )

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "features" if self.head == "none" else "regression"

    @property
    def headless(self) -> Learner:
        settings: Any = self
        return self if self.head == "none" else replace(settings, head="none")

    def init(self, *, dim: int, targets: int, seed: int) -> FamilyState:
        columns = 0 if self.head == "none" else targets
        size = self._inputs()
        return FamilyState(
            dictionary=np.empty((0, dim)),
            values=np.empty((0, columns)),
            used=np.empty(0, np.int64),
            waiting=np.empty((0, dim)),
            wanted=np.empty((0, columns)),
            marks=np.empty(0, np.int8),
            weights=np.empty((0, columns)),
            vectors=np.empty(0),
            eigenvalues=np.empty(0),
            P=packed(self.delta * np.eye(size)),
            novelty=float(self.novelty),
            seen=0,
        )

    def _inputs(self) -> int:
        """Rows of P: none where the head has no such matrix."""
        return self.rank if self.head in ("rls", "exrls") else 0

    def _most(self) -> int | None:
        """Most stored samples; None = unbounded."""
        return self.budget or None if self.moves else self.first_rows

    def room(self, field: str) -> int | None:
        if field in ("waiting", "wanted", "marks"):
            return self.first_rows
        if field == "weights":
            return self.rank
        most = self._most()
        return self._solver_room(field, most) if most is not None and field in ("vectors", "eigenvalues") else most

    def _solver_room(self, field: str, samples: int) -> int:
        if not self.moves or self.solver == "eigh":
            return 0
        q = pairs(self, samples)
        return samples * q if field == "vectors" else q

    def rooms(self, state: FamilyState, extra: int) -> dict[str, int]:
        """Rows a workspace gives each stored field; where nothing bounds them, by the samples that may come."""
        rows = Learner.rooms(self, state, extra)
        if self._most() is None:
            rows["dictionary"] += len(state.waiting)
            rows |= {field: max(rows[field], rows["dictionary"]) for field in ("values", "used")}
            for field in ("vectors", "eigenvalues"):
                rows[field] = max(self._solver_room(field, rows["dictionary"]), len(getattr(state, field)))
        return rows

    def workspace(self, state: FamilyState, *, slots: int = 1, extra: int = 0) -> Workspace:
        _compile_map()
        return Learner.workspace(self, state, slots=slots, extra=extra)

    def squares(self, state: FamilyState) -> Mapping[str, int]:
        return {"P": self._inputs()}

    def complete(self, own: Slot) -> None:
        """The values on the dictionary, which the loop keeps as weights."""
        fields, m = Fields(*own.work), own.rows("dictionary")
        fields.values[own.number, :m] = values_on(fields, own.number, m)

    def caches(self, state: FamilyState, rows: Mapping[str, int]) -> Mapping[str, Array]:
        """Psi' and Lambda, and the gram matrix where the solver needs it at every admission."""
        m = rows["dictionary"]
        kept = m if self.moves and self.solver == "ritz" else 0
        return {"map": np.zeros((m, self.rank)), "spectrum": np.zeros(self.rank), "gram": np.zeros((kept, kept))}

    def derive(self, own: Slot) -> None:
        """The map of a state that has one; and weights, where the stored ones do not give the stored values to the bit."""
        fields, slot, name, most = Fields(*own.work), own.number, type(self).__name__, self._most()
        m, waits = own.rows_within(self, "dictionary", most, limit="limit"), own.rows("waiting")
        first = self._rules().first
        if waits >= first:
            raise ValueError(f"{name}: {waits} rows wait for the first map, which is made from {first}.")
        self._check_caches(own, m)
        if m == 0:
            novel = int((own["marks"][:waits] & NOVEL > 0).sum())
            if (waits and not novel) or (most is not None and novel > most):
                limit = f"{'1 or more' if most is None else f'1 to {most}'} of them novel"
                raise ValueError(f"{name}: {waits} rows wait for the first map; expected {limit}, got {novel}.")
            return
        if own.rows("used") == 0:
            fields.used[slot, :m] = 0
        if not restore(fields, slot, self, m):
            raise ValueError(f"{name}: the kernel of {m} stored samples, or its eigenvectors, are out of range.")
        stored = fields.values[slot, :m]
        with np.errstate(over="ignore", invalid="ignore"):
            if own.rows("weights") == 0 or not np.array_equal(values_on(fields, slot, m), stored):
                fields.weights[slot] = fields.map[slot, :m].T @ stored  # (35)
        if not np.isfinite(fields.weights[slot]).all():
            raise ValueError(f"{name}: the values of {m} stored samples are out of range.")
        own.set_rows("used", m)
        own.set_rows("weights", self.rank if self.head != "none" else 0)

    def _check_caches(self, own: Slot, m: int) -> None:
        """Raise ValueError unless weights and eigenpairs of m stored samples are all there, or none is."""
        q = pairs(self, m) if self.moves and self.solver != "eigh" else 0
        weights = self.rank if m > 0 and self.head != "none" else 0
        for name, expected in (("weights", weights), ("vectors", m * q), ("eigenvalues", q)):
            got = own.rows(name)
            if got not in (0, expected):
                raise ValueError(
                    f"{type(self).__name__}: the state holds {m} rows of dictionary; "
                    f"expected {expected} rows of {name} (or none), got {got}."
                )

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        fields, now, code = Fields(*work), self._rules(), self.kernel.code
        listens, n = self.head == "none" and basis.moved.size > 0, -1
        while (n := rows_until(n + 1, fields, slots, X, Y, learn, out, code, now)) < len(X):
            slot = int(slots[n])
            held = int(fields.counts[slot, 0])
            if held == 0:
                self._begin(fields, slot, now)
                continue
            T = admit(fields, slot, self, X[n], out.features[n])
            if T is not None:
                out.admitted[n], out.evicted[n] = 1, fields.counts[slot, 0] <= held
                if listens:
                    basis.moved[n], basis.transfer[n] = 1, T
            if now.map_first and now.head > 0:
                self._teach(fields, slot, X[n : n + 1], Y[n : n + 1], learn[n : n + 1] & LEARN_HEAD, now)

    def _begin(self, fields: Any, slot: int, now: Rules) -> None:
        """The first map from the rows that waited, which the head then learns in order."""
        first = int(fields.counts[slot, WAITING][0])
        X, Y, marks = (array[slot, :first].copy() for array in (fields.waiting, fields.wanted, fields.marks))
        fields.counts[slot, WAITING] = 0
        dictionary = X[marks & NOVEL > 0]
        m = len(dictionary)
        fields.dictionary[slot, :m] = dictionary
        if not rebuild(fields, slot, self, m):
            return
        fields.counts[slot, SAMPLES] = m
        fields.counts[slot, WEIGHTS] = self.rank if self.head != "none" else 0
        fields.weights[slot] = 0.0
        fields.P[slot] = self.delta * np.eye(fields.P.shape[1])
        fields.used[slot, :m] = 0
        if self.moves:
            with np.errstate(over="ignore"):
                nearest = np.argmin([np.square(dictionary - x).sum(axis=1) for x in X], axis=1)
            fields.used[slot, nearest] = fields.seen[slot] - first + 1 + np.arange(first)  # the last of equals counts
        Y[marks & LABELLED == 0] = np.nan
        self._teach(fields, slot, X, Y, np.full(first, LEARN_HEAD, np.int8), now)

    def _teach(self, fields: Any, slot: int, X: Array, Y: Array, learn: Array, now: Rules) -> None:
        """Rows for the head alone, by the present map."""
        out = self.outputs(len(X), X.shape[1], Y.shape[1])
        slots = np.full(len(X), slot, np.int64)
        Y = np.ascontiguousarray(Y)
        rows_until(0, fields, slots, X, Y, learn, out, self.kernel.code, now)


@lru_cache(maxsize=1)
def _compile_map() -> None:
    """What the first new map needs compiled, now and not when it comes."""
    symmetric(gram(Kernel(), np.eye(2), np.eye(2)), 2)
    carry_covariance(np.eye(2), np.eye(2), 1.0)


@dataclass(frozen=True, kw_only=True)
class FixedMap(SpectralFilter, abstract=True):
    """The settings of speed and sparse_speed."""

    __slots__ = ()

    rank: Annotated[int, "1 or more"]  # features: leading eigenfunctions, at most map_size
    map_size: Annotated[int, "1 to 100000"]  # first rows, from which the map is made
    novelty: float
    head: Literal["lms", "rls", "exrls", "none"] = "lms"  # "none": features only
    step_size: Annotated[float, "above 0"] = 0.1  # of lms, above 0
    forgetting: Annotated[float, "in (0, 1]"] = 1.0  # of rls and exrls; weight of a row after n more rows is forgetting^n
    delta: Annotated[float, "above 0, at most 1e12"] = 100.0  # of rls and exrls, above 0; start of P, 1 / ridge
    transition: Annotated[float, "in (0, 1]"] = 1.0  # of exrls, in (0, 1]; the state's transition is this times the identity
    state_noise: Annotated[float, "0 or more"] = 1e-4  # of exrls, 0 or more

    def check(self) -> None:
        require(self, "novelty", 0 <= self.novelty < LARGEST_NOVELTY, "0 or more")
        require(self, "rank", self.rank <= self.map_size, f"at most map_size ({self.map_size})")

    @property
    def first_rows(self) -> int:
        return self.map_size


@dataclass(frozen=True, kw_only=True)
class MovingMap(SpectralFilter, abstract=True):
    """The settings of ispeed and sispeed."""

    __slots__ = ()
    moves: ClassVar[bool] = True

    rank: Annotated[int, "1 or more"] = 30  # features: leading eigenfunctions, at most budget
    seed_size: Annotated[int, "1 to 100000"] = 100  # first rows, from which the first map is made
    novelty: float  # 0 or more; squared distance to the nearest stored sample from which a row is stored
    transfer: Literal["exact", "nearest", "truncate"] = "exact"  # the head's value on a newcomer: its own, the nearest's, 0
    solver: Literal["eigh", "rank_one", "ritz"] = "eigh"
    ritz_rank: int | None = None  # eigenpairs that ritz keeps; None = 2 rank
    budget: int = 200  # most stored samples, 0 = no limit
    evict: Literal["lru", "oldest", "close_pair", "widen", "stop"] = "lru"
    order: Literal["map_first", "lms_first"] = "map_first"  # of a row that enters: the map follows before the head learns
    head: Literal["lms", "rls", "exrls", "none"] = "lms"  # "none": features only
    step_size: Annotated[float, "above 0"] = 0.1  # of lms, above 0
    forgetting: Annotated[float, "in (0, 1]"] = 1.0  # of rls and exrls; weight of a row after n more rows is forgetting^n
    delta: Annotated[float, "above 0, at most 1e12"] = 100.0  # of rls and exrls, above 0; start of P, 1 / ridge
    transition: Annotated[float, "in (0, 1]"] = 1.0  # of exrls, in (0, 1]; the state's transition is this times the identity
    state_noise: Annotated[float, "0 or more"] = 1e-4  # of exrls, 0 or more

    def check(self) -> None:
        require(self, "novelty", 0 <= self.novelty < LARGEST_NOVELTY, "0 or more")
        enough = self.ritz_rank is None or self.ritz_rank >= self.rank
        require(self, "ritz_rank", enough, f"rank ({self.rank}) or more")
        holds = self.budget == 0 or self.budget >= self.rank
        require(self, "budget", holds, f"0 (no limit), or rank ({self.rank}) or more")

    @property
    def first_rows(self) -> int:
        return self.seed_size
