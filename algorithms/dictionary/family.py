"""What okdl and okdl_discriminative share: one form of state, one loop, and how they meet a workspace."""

from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Array, Basis, Learner, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.dictionary.atoms import inner_products
from algorithms.dictionary.budget import EVICTIONS, GRACE
from algorithms.dictionary.loop import rows_through
from algorithms.dictionary.steps import Rules


class DictionaryState(NamedTuple):
    samples: Array  # (m, dim) stored samples, in the order they came
    atom_weights: Array  # (m, atoms) Omega: the atoms are D = Phi(samples) atom_weights
    w: Array  # (atoms, targets) regressor; no columns where there is none
    seen: int  # rows so far
    made_for: int  # checksum of the samples and weights that H and P belong to; others are as if absent
    H: Array  # (atoms, atoms) D'D, or none
    P: Array  # (m (m + 1) / 2,) (K + eps I)^-1 as a lower triangle by rows, or none


class DictionaryLearner(Learner, abstract=True):
    """A base, not a learner. Its subclasses state the settings."""

    __slots__ = ()
    stored: ClassVar[tuple[str, ...]] = ("samples", "atom_weights", "H", "P")
    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (("samples", "atom_weights"),)
    may_be_empty: ClassVar[tuple[str, ...]] = ("H", "P")

    kernel: Kernel
    atoms: int
    l1: float
    l2: float
    ridge: float
    step_size: float
    step_decay: float
    step_freeze: int
    budget: int
    evict: str

    def check_settings(self) -> None:
        require(self, "atoms", self.atoms >= 1, "1 or more")
        require(self, "l1", 0 <= self.l1 < np.inf, "0 or more")
        require(self, "l2", 0 <= self.l2 < np.inf, "0 or more")
        require(self, "step_size", 0 < self.step_size < np.inf, "above 0")
        for pull in ("ridge", "nu"):
            require(self, pull, 0 <= getattr(self, pull, 0.0) * self.step_size <= 1, "0 to 1 / step_size")
        require(self, "step_decay", 0 < self.step_decay < np.inf, "above 0")
        require(self, "step_freeze", self.step_freeze >= -1, "-1 (never) or more")
        holds = self.budget == 0 or self.budget >= self.atoms
        require(self, "budget", holds, f"0 (no limit), or atoms ({self.atoms}) or more")
        require(self, "evict", self.evict in EVICTIONS, "one of " + ", ".join(EVICTIONS))

    @property
    def width(self) -> int:
        return self.atoms

    def room(self, field: str) -> int | None:
        if field == "H":
            return self.atoms
        most = self.budget + 1  # a new sample enters before one leaves
        if field == "P":
            return most * (most + 1) // 2 if self.budget and self.evict.startswith("projected") else 0
        return most if self.budget else None

    def init(self, *, dim: int, targets: int, seed: int) -> DictionaryState:
        return DictionaryState(
            samples=np.empty((0, dim)),
            atom_weights=np.empty((0, self.atoms)),
            w=np.zeros((self.atoms, targets if self.kind == "classification" else 0)),
            seen=0,
            made_for=0,
            H=np.zeros((self.atoms, self.atoms)),
            P=np.empty(0),
        )

    def derive(self, own: Slot) -> None:
        """H where the state has none that belongs to its samples; P is made when it is needed."""
        held, rows, triangle = own.rows("samples"), own.rows("H"), own.rows("P")
        if self.budget and held > self.budget:
            raise ValueError(
                f"{type(self).__name__}: the state stores {held} samples, this learner's budget is {self.budget}."
            )
        wanted = ((rows, self.atoms, "H", "rows"), (triangle, held * (held + 1) // 2, "P", "numbers"))
        for got, expected, field, unit in wanted:
            if got not in (0, expected):
                raise ValueError(f"{type(self).__name__}: expected {expected} {unit} of {field} or none, got {got}.")
        if rows == 0 or int(own["made_for"]) != _checksum(own, held):
            inner_products(self.kernel.code, own["samples"], own["atom_weights"], held, own["H"])
            own.set_rows("H", self.atoms)
            own.set_rows("P", 0)

    def complete(self, own: Slot) -> None:
        own.work["made_for"][own.number] = _checksum(own, own.rows("samples"))

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        rows_through(tuple(work), slots, X, Y, learn, out, self.kernel.code, self.rules)

    @property
    def rules(self) -> Rules:
        """The settings as compiled code reads them."""
        return Rules(
            discriminative=self.kind == "classification",
            l1=float(self.l1),
            l2=float(self.l2),
            ridge=float(self.ridge),
            nu=float(getattr(self, "nu", 0.0)),
            step_size=float(self.step_size),
            step_decay=float(self.step_decay),
            step_freeze=self.step_freeze,
            budget=self.budget,
            evict=EVICTIONS.index(self.evict),
            grace=self.budget // GRACE if self.evict == "projected_grace" else 0,
        )


def _checksum(own: Slot, held: int) -> int:
    """Of the bits of the samples and weights, each with a factor of its own; 0 for none."""
    total = 0
    for field in ("samples", "atom_weights"):
        bits = own[field][:held].reshape(-1).view(np.int64)
        total += int((bits * (2 * np.arange(bits.size) + 1)).sum())
    return total % 2**61  # a whole number of a state stays far below where one wraps around
