"""What the rules share that choose prototypes from the stream: one form of state, the map, and regression behind it.

Features are z = U'^-1 k as for `ald` and `random_prototypes`, in the order of arrival, so that any head can stand behind
any rule. With `regress` the learner predicts by itself. What the map's factor and the inverses are depends on the swaps
since they were last made from the prototypes alone; a state holds what left since then, at most a quarter of the budget, so
that they can be made again to the bit. After as many swaps they are rebuilt, which also ends the growth of rounding.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.compiled import compiled
from algorithms.common.kernels import Kernel, fill_row, own_value
from algorithms.common.linalg import put
from algorithms.common.protocol import Array, Learner
from algorithms.common.workspace import Slot, packed
from algorithms.prototypes import inverse, turning_map
from algorithms.prototypes.regression import FORMS, LABELS, NONE, label_weights

FAR = 1e100  # kernel values beyond are left alone: their squares would leave the floating-point range


class PrototypeState(NamedTuple):
    prototypes: Array  # (m, dim) by slot
    arrival: Array  # (m,) int64, number of the row in each slot, from 1
    labels: Array  # (m, targets) of the prototypes, with regress = "labels"; else not read
    replaced: Array  # (r, dim) what left since the map was last rebuilt, oldest first
    replaced_slot: Array  # (r,) int64
    replaced_arrival: Array  # (r,) int64
    weights: Array  # (budget, targets) of the regression; no targets without one
    P: Array  # triangle by rows, inverse of the regression's sum; empty without one
    estimate: float  # log det (K + ridge I) of the set
    seen: int  # rows so far


class PrototypeRule(Learner, abstract=True):
    """A base, not a learner. Its subclasses state the settings and which rule the loop follows."""

    __slots__ = ()
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("prototypes", "arrival", "labels"),
        ("replaced", "replaced_slot", "replaced_arrival"),
    )
    may_be_empty: ClassVar[tuple[str, ...]] = ("labels",)
    judges: ClassVar[bool] = True  # the rule needs Q = (K + ridge I)^-1 of the whole set

    kernel: Kernel
    budget: int
    regress: str
    regress_ridge: float
    ridge: float = 1.0
    on_swap: str = "transfer"

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "features" if self.regress == "none" else "regression"

    @property
    def headless(self) -> Learner:
        settings: Any = self
        return self if self.regress == "none" else replace(settings, regress="none")

    @property
    def width(self) -> int:
        return self.budget

    @property
    def maps(self) -> bool:
        """It keeps the whitened map."""
        return True

    @property
    def form(self) -> int:
        return FORMS.index(self.regress)

    def room(self, field: str) -> int | None:
        if field.startswith("replaced"):
            return max(1, self.budget // 4) if self.moves and (self.maps or self.form == LABELS) else 0
        return self.budget

    def squares(self, state: Any) -> Mapping[str, int]:
        return {"P": self.budget if self.regress in ("nystrom", "features") else 0}

    def init(self, *, dim: int, targets: int, seed: int) -> PrototypeState:
        return PrototypeState(**self._fresh(dim, targets))

    def _fresh(self, dim: int, targets: int) -> dict[str, Any]:
        columns = 0 if self.form == NONE else targets
        size = self.squares(None)["P"]
        return {
            "prototypes": np.empty((0, dim)),
            "arrival": np.empty(0, np.int64),
            "labels": np.empty((0, columns)),
            "replaced": np.empty((0, dim)),
            "replaced_slot": np.empty(0, np.int64),
            "replaced_arrival": np.empty(0, np.int64),
            "weights": np.zeros((self.budget if columns else 0, columns)),
            "P": packed(np.eye(size) / self.regress_ridge),
            "estimate": 0.0,
            "seen": 0,
        }

    def caches(self, state: Any, rows: Mapping[str, int]) -> Mapping[str, Array]:
        b = self.budget
        judge, on_labels, mapped = b if self.judges else 0, b if self.form == LABELS else 0, b if self.maps else 0
        return {
            "map": np.zeros((mapped, mapped)),
            "order": np.zeros(mapped, np.int64),
            "inverse": np.zeros((judge, judge)),
            "label_inverse": np.zeros((on_labels, on_labels)),
        }

    def derive(self, own: Slot) -> None:
        self._checked(own)
        total = self._restore(own)
        number, estimates = own.number, own.work["estimate"]
        if self.judges and estimates[number] == 0.0:
            estimates[number] = total

    def _restore(self, own: Slot) -> float:
        """The map, the inverses and the weights from labels; gives log det (K + ridge I) of the set before its swaps."""
        held, left = own.rows("prototypes"), own.rows("replaced")
        total = restore(
            self.kernel.code,
            own["prototypes"][:held].copy(),
            own["arrival"][:held].copy(),
            own["replaced"][:left].copy(),
            own["replaced_slot"][:left],
            own["replaced_arrival"][:left],
            own["map"],
            own["order"],
            own["inverse"] if self.judges else np.empty((0, 0)),
            float(self.ridge),
            own["label_inverse"],
            float(self.regress_ridge),
        )
        if self.form == LABELS:
            label_weights(own["label_inverse"], own["labels"], held, own["weights"])
        return float(total)

    def _checked(self, own: Slot) -> tuple[int, int]:
        """How many prototypes there are and how many left; raises ValueError for what cannot be."""
        held, name = own.rows_within(self, "prototypes", self.budget, "prototypes"), type(self).__name__
        left = own.rows("replaced")
        if left > (self.room("replaced") or 0):
            raise ValueError(f"{name}: the state stores {left} rows of replaced, at most {self.room('replaced')} are kept.")
        slots = own["replaced_slot"][:left]
        if left and not (slots.min() >= 0 and slots.max() < held):
            raise ValueError(f"{name}: replaced_slot must be 0 to {held - 1}; got {slots.min()} to {slots.max()}.")
        if own.rows("labels") == 0:
            own["labels"][:held] = 0.0
            own.set_rows("labels", held)
        if held:
            latest, seen = int(own["arrival"][:held].max()), own.work["seen"]
            seen[own.number] = max(seen[own.number], latest)
        return held, left


@compiled
def restore(code, prototypes, arrival, replaced, replaced_slot, replaced_arrival, U, order, Q, ridge, label_Q, label_ridge):
    """The map and the inverses of the set before the rows in `replaced` left, and then their swaps once more.

    prototypes, arrival and replaced are copies: they are written to. Gives log det (K + ridge I) of the set before.
    """
    count, size = len(prototypes), max(len(order), len(label_Q))
    k, z, turns = np.empty(size), np.empty(size), np.empty((2, size))
    for n in range(len(replaced) - 1, -1, -1):
        slot = replaced_slot[n]
        for j in range(replaced.shape[1]):
            prototypes[slot, j], replaced[n, j] = replaced[n, j], prototypes[slot, j]
        arrival[slot] = replaced_arrival[n]
    if U.size:
        turning_map.arrange(arrival, count, order)
    total = rebuild(code, prototypes, count, U, order, Q, ridge, label_Q, label_ridge)
    for n in range(len(replaced)):
        x = replaced[n]
        fill_row(code, prototypes, count, x, k)
        exchange(
            code, prototypes, count, replaced_slot[n], x, k, own_value(code, x), U, order, Q, ridge, label_Q, label_ridge,
            turns, z,
        )  # fmt: skip
    return total


@compiled
def rebuild(code, prototypes, count, U, order, Q, ridge, label_Q, label_ridge):
    """The map and the inverses from the prototypes alone; gives log det (K + ridge I) where Q is kept."""
    if U.size:
        turning_map.build(code, prototypes, count, order, U)
    if label_Q.size:
        inverse.invert(code, prototypes, count, label_ridge, label_Q)
    return inverse.invert(code, prototypes, count, ridge, Q) if Q.size else 0.0


@compiled
def exchange(
    code, prototypes, count, slot, x, k, kxx, U, order, Q, ridge, label_Q, label_ridge, turns, z
):  # fmt: skip
    """x takes the place of prototype `slot` in the map and the inverses; gives its coordinate in the map until then.

    k: kernel row of x against the prototypes so far, 0 at `slot` afterwards. turns: the rotations; z: x's coordinates now.
    """
    first = turning_map.leave(code, prototypes, U, order, count, slot, turns) if U.size else 0
    put(prototypes[slot], x)
    k[slot] = 0.0
    if Q.size and not inverse.replace(Q, count, slot, k, kxx, ridge, z):
        inverse.invert(code, prototypes, count, ridge, Q)
    if label_Q.size and not inverse.replace(label_Q, count, slot, k, kxx, label_ridge, z):
        inverse.invert(code, prototypes, count, label_ridge, label_Q)
    if U.size:
        turning_map.enter(U, order, count - 1, slot, k, kxx, z)
    return first
