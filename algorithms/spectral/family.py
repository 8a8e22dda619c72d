"""What speed, sparse_speed, ispeed and sispeed share: one form of state, one loop, and how they meet a workspace.

The four differ in which rows enter the dictionary and whether the map follows. Each is a learner of its own with these
functions as its methods. With head = "none" (as in a chain) it only gives features; otherwise it predicts with its head.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.eigen import symmetric
from algorithms.common.kernels import Kernel, gram
from algorithms.common.protocol import LEARN_HEAD, Array, Basis, Learner, Outputs, Slot, Workspace, require
from algorithms.common.rls import carry_covariance, packed, unpacked
from algorithms.spectral.evictions import EVICTIONS
from algorithms.spectral.loop import HEADS, NOVEL, TOLD, Rules, rows_until
from algorithms.spectral.map import Fields, admit, pairs, rebuild, restore, values_on

TRANSFERS = ("exact", "nearest", "truncate")
SOLVERS = ("eigh", "rank_one", "ritz")

STORED = ("dictionary", "values", "used", "waiting", "wanted", "marks", "weights", "vectors", "eigenvalues")
ALIGNED = (("dictionary", "values", "used"), ("waiting", "wanted", "marks"))
MAY_BE_EMPTY = ("used",)


class FamilyState(NamedTuple):
    dictionary: Array  # (m, dim) stored samples in order of admission; none before the first map
    values: Array  # (m, targets) the head's predictions on them, V sqrt(Lambda) w: the same whatever the eigenvectors' signs
    used: Array  # (m,) int64, number of the row whose nearest each was last
    waiting: Array  # (n, dim) the rows so far, until the first map is built
    wanted: Array  # (n, targets) their targets, 0 where unknown
    marks: Array  # (n,) int8, 1 if the row enters the dictionary, plus 2 if its target is known
    weights: Array  # (rank, targets) of the head; none without a map
    vectors: Array  # (m q,) eigenvectors row by row, where the solver goes on from them
    eigenvalues: Array  # (q,) largest first
    P: Array  # (rank (rank + 1) / 2,) lower triangle by rows, of a head that has one
    novelty: float  # the present threshold
    seen: int  # rows so far


def check_head(learner: Any) -> None:
    """The settings of rank, novelty and head."""
    require(learner, "rank", learner.rank >= 1, "1 or more")
    require(learner, "novelty", 0 <= learner.novelty < 1e150, "0 or more")
    require(learner, "head", learner.head in HEADS, "one of " + ", ".join(HEADS))
    require(learner, "step_size", 0 < learner.step_size < np.inf, "above 0")
    require(learner, "forgetting", 0 < learner.forgetting <= 1, "in (0, 1]")
    require(learner, "delta", 0 < learner.delta <= 1e12, "above 0, at most 1e12")
    require(learner, "transition", 0 < learner.transition <= 1, "in (0, 1]")
    require(learner, "state_noise", 0 <= learner.state_noise < np.inf, "0 or more")


def check_map(learner: Any) -> None:
    """The settings of a map that follows."""
    require(learner, "seed_size", 1 <= learner.seed_size <= 100_000, "1 to 100000")
    require(learner, "transfer", learner.transfer in TRANSFERS, "one of " + ", ".join(TRANSFERS))
    require(learner, "solver", learner.solver in SOLVERS, "one of " + ", ".join(SOLVERS))
    enough = learner.ritz_rank is None or learner.ritz_rank >= learner.rank
    require(learner, "ritz_rank", enough, f"rank ({learner.rank}) or more")
    holds = learner.budget == 0 or learner.budget >= learner.rank
    require(learner, "budget", holds, f"0 (no limit), or rank ({learner.rank}) or more")
    require(learner, "evict", learner.evict in EVICTIONS, "one of " + ", ".join(EVICTIONS))
    require(learner, "order", learner.order in ("map_first", "lms_first"), "'map_first' or 'lms_first'")


def rules(learner: Any) -> Rules:
    """The settings as compiled code reads them."""
    grows = learner.moves
    return Rules(
        rank=learner.rank,
        first=learner.seed_size if grows else learner.map_size,
        grows=grows,
        budget=learner.budget if grows else 0,
        stops=grows and learner.evict == "stop",
        map_first=grows and learner.order == "map_first",
        head=HEADS.index(learner.head),
        step_size=float(learner.step_size),
        forgetting=float(learner.forgetting),
        delta=float(learner.delta),
        transition=float(learner.transition),
        state_noise=float(learner.state_noise),
    )


def kind(learner: Any) -> str:
    return "features" if learner.head == "none" else "regression"


def headless(learner: Any) -> Any:
    return learner if learner.head == "none" else replace(learner, head="none")


def width(learner: Any) -> int:
    return int(learner.rank)


def init(learner: Any, *, dim: int, targets: int, seed: int) -> FamilyState:
    columns = 0 if learner.head == "none" else targets
    size = _inputs(learner)
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
        P=packed(learner.delta * np.eye(size)),
        novelty=float(learner.novelty),
        seen=0,
    )


def dim(learner: Any, state: FamilyState) -> int:
    return int(state.dictionary.shape[1])


def targets(learner: Any, state: FamilyState) -> int:
    return int(state.values.shape[1])


def _inputs(learner: Any) -> int:
    """Rows of P: none where the head has no such matrix."""
    return int(learner.rank) if learner.head in ("rls", "exrls") else 0


def _most(learner: Any) -> int | None:
    """Most stored samples; None = unbounded."""
    if not learner.moves:
        return int(learner.map_size)
    return learner.budget or None


def room(learner: Any, field: str) -> int | None:
    if field in ("waiting", "wanted", "marks"):
        return int(learner.seed_size if learner.moves else learner.map_size)
    if field == "weights":
        return int(learner.rank)
    most = _most(learner)
    return _solver_room(learner, field, most) if most is not None and field in ("vectors", "eigenvalues") else most


def _solver_room(learner: Any, field: str, samples: int) -> int:
    if not learner.moves or learner.solver == "eigh":
        return 0
    q = pairs(learner, samples)
    return samples * q if field == "vectors" else q


def rooms(learner: Any, state: FamilyState, extra: int) -> dict[str, int]:
    """Rows a workspace gives each stored field; where nothing bounds them, by the samples that may come."""
    found = Learner.rooms(learner, state, extra)
    if _most(learner) is None:
        found["dictionary"] += len(state.waiting)
        found |= {field: max(found[field], found["dictionary"]) for field in ("values", "used")}
        for field in ("vectors", "eigenvalues"):
            found[field] = max(_solver_room(learner, field, found["dictionary"]), len(getattr(state, field)))
    return found


def workspace(learner: Any, state: FamilyState, *, slots: int = 1, extra: int = 0) -> Workspace:
    _compile()
    return Learner.workspace(learner, _whole(learner, state), slots=slots, extra=extra)


@lru_cache(maxsize=1)
def _compile() -> None:
    """What the first new map needs compiled, now and not when it comes."""
    symmetric(gram(Kernel(), np.eye(2), np.eye(2)), 2)
    carry_covariance(np.eye(2), np.eye(2), 1.0)


def load(learner: Any, work: Any, slot: int, state: FamilyState) -> None:
    Learner.load(learner, work, slot, _whole(learner, state))


def save(learner: Any, work: Any, slot: int, like: FamilyState) -> FamilyState:
    fields = Fields(*work.arrays)
    m = int(fields.counts[slot, 0])
    fields.values[slot, :m] = values_on(fields, slot, m)
    state = Learner.save(learner, work, slot, like)
    return state._replace(P=packed(state.P))  # type: ignore[no-any-return]


def _whole(learner: Any, state: FamilyState) -> FamilyState:
    n = _inputs(learner)
    if state.P.shape != (n * (n + 1) // 2,):
        name = type(learner).__name__
        raise ValueError(f"{name}: expected P of {n * (n + 1) // 2} numbers ({n} inputs), got shape {state.P.shape}.")
    return state._replace(P=unpacked(state.P, n))


def caches(learner: Any, state: FamilyState, rows: Mapping[str, int]) -> Mapping[str, Array]:
    """Psi' and Lambda, and the gram matrix where the solver needs it at every admission."""
    m = rows["dictionary"]
    kept = m if learner.moves and learner.solver == "ritz" else 0
    return {"map": np.zeros((m, learner.rank)), "spectrum": np.zeros(learner.rank), "gram": np.zeros((kept, kept))}


def derive(learner: Any, own: Slot) -> None:
    """The map of a state that has one, and weights where the stored ones do not give the stored values to the last bit."""
    fields, slot, name, most = Fields(*own.work), own.number, type(learner).__name__, _most(learner)
    m, waits, first = own.rows("dictionary"), own.rows("waiting"), rules(learner).first
    if most is not None and m > most:
        raise ValueError(f"{name}: the state stores {m} samples, this learner's limit is {most}.")
    if waits >= first:
        raise ValueError(f"{name}: {waits} rows wait for the first map, which is made from {first}.")
    _check_caches(learner, own, m)
    if m == 0:
        _check_waiting(own, name, waits, most)
        return
    if own.rows("used") == 0:
        fields.used[slot, :m] = 0
    if not restore(fields, slot, learner, m):
        raise ValueError(f"{name}: the kernel of {m} stored samples, or its eigenvectors, are out of range.")
    stored = fields.values[slot, :m]
    with np.errstate(over="ignore", invalid="ignore"):
        if own.rows("weights") == 0 or not np.array_equal(values_on(fields, slot, m), stored):
            fields.weights[slot] = fields.map[slot, :m].T @ stored  # (35)
    if not np.isfinite(fields.weights[slot]).all():
        raise ValueError(f"{name}: the values of {m} stored samples are out of range.")
    own.set_rows("used", m)
    own.set_rows("weights", learner.rank if learner.head != "none" else 0)


def _check_caches(learner: Any, own: Slot, m: int) -> None:
    """Raise ValueError unless weights and eigenpairs of m stored samples are all there, or none is."""
    q = pairs(learner, m) if learner.moves and learner.solver != "eigh" else 0
    weights = learner.rank if m > 0 and learner.head != "none" else 0
    for field, expected in (("weights", weights), ("vectors", m * q), ("eigenvalues", q)):
        got = own.rows(field)
        if got not in (0, expected):
            raise ValueError(
                f"{type(learner).__name__}: the state holds {m} rows of dictionary; "
                f"expected {expected} rows of {field} (or none), got {got}."
            )


def _check_waiting(own: Slot, name: str, waits: int, most: int | None) -> None:
    """Raise ValueError unless rows that wait hold some that will be the dictionary, and these find room."""
    novel = int((own["marks"][:waits] & NOVEL > 0).sum())
    if (waits and not novel) or (most is not None and novel > most):
        limit = "1 or more" if most is None else f"1 to {most}"
        raise ValueError(f"{name}: {waits} rows wait for the first map; expected {limit} of them novel, got {novel}.")


def run_loop(learner: Any, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
    fields, now, code = Fields(*work), rules(learner), learner.kernel.code
    listens, n = learner.head == "none" and basis.moved.size > 0, -1
    compiled = (*fields[:1], *fields[2:7], *fields[9:14])
    while (n := rows_until(n + 1, *compiled, slots, X, Y, learn, out, code, now)) < len(X):
        slot = int(slots[n])
        held = int(fields.counts[slot, 0])
        if held == 0:
            _begin(learner, fields, slot, compiled, now)
            continue
        T = admit(fields, slot, learner, X[n], out.features[n])
        if T is not None:
            out.admitted[n], out.evicted[n] = 1, fields.counts[slot, 0] <= held
            if listens:
                basis.moved[n], basis.transfer[n] = 1, T
        if now.map_first and now.head > 0:
            _teach(learner, compiled, slot, X[n : n + 1], Y[n : n + 1], learn[n : n + 1] & LEARN_HEAD, now)


def _begin(learner: Any, fields: Fields, slot: int, compiled: Any, now: Rules) -> None:
    """The first map from the rows that waited, which the head then learns in order."""
    first = int(fields.counts[slot, 3])
    X, Y, marks = (array[slot, :first].copy() for array in (fields.waiting, fields.wanted, fields.marks))
    fields.counts[slot, 3:6] = 0
    dictionary = X[marks & NOVEL > 0]
    m = len(dictionary)
    fields.dictionary[slot, :m] = dictionary
    if not rebuild(fields, slot, learner, m):
        return
    fields.counts[slot, :3] = m
    fields.counts[slot, 6] = learner.rank if learner.head != "none" else 0
    fields.weights[slot] = 0.0
    fields.P[slot] = learner.delta * np.eye(fields.P.shape[1])
    fields.used[slot, :m] = 0
    if learner.moves:
        with np.errstate(over="ignore"):
            nearest = np.argmin([np.square(dictionary - x).sum(axis=1) for x in X], axis=1)
        fields.used[slot, nearest] = fields.seen[slot] - first + 1 + np.arange(first)  # the last of equals counts
    Y[marks & TOLD == 0] = np.nan
    _teach(learner, compiled, slot, X, Y, np.full(first, LEARN_HEAD, np.int8), now)


def _teach(learner: Any, compiled: Any, slot: int, X: Array, Y: Array, learn: Array, now: Rules) -> None:
    """Rows for the head alone, by the present map."""
    out = learner.outputs(len(X), X.shape[1], Y.shape[1])
    slots = np.full(len(X), slot, np.int64)
    Y = np.ascontiguousarray(Y)
    rows_until(0, *compiled, slots, X, Y, learn, out, learner.kernel.code, now)  # type: ignore[call-arg]
