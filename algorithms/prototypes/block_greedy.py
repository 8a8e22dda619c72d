"""BlockGreedy: OnlineGreedy on a gram matrix that counts as block-diagonal, which makes a row linear in the budget.

Source: Schlegel, Pan, Chen, White, "Adapting kernel representations online using submodular maximization", Alg. 2 and 3.
Symbols: b = budget, r = block_size, lambda = ridge, eps_t = min_gain, g_e = estimate, B_1 = the nearest block,
l(B) = least loss of a removal from B, c(B) = the prototype it is of, eta = regress_ridge.
Cost of a row: O(b d + r^2); of a swap O(r^2 d + r^3) more, of new blocks (once in b swaps) 20 O(b^2 d / r + b r^2).
State: b (d + 2) + b d / r numbers; with regress = "nystrom" or "labels" b (d + 2) / 4, and as `online_greedy` more.
Readings: floor(b / r) blocks of any size; k-means from prototypes far from each other (slot 0 first), later from the
present means, at most 20 rounds, ties to the lowest block and slot. Blocks are made when the set is full and again after b
newcomers (`recluster`); until then, or without, they begin as equal shares of the slots. x enters the nearest block in any
case, and takes the slot that becomes free. Alg. 3 prints its comments the wrong way round: the larger of g_1 and g_2 is
taken, a tie within the block; the threshold is on that gain, and a gain must be above 0. An emptied block keeps its mean,
with codes (overlap kernel) none. `estimate` is the sum over the blocks, never below the true log-determinant.
Features are the kernel row (a map of all prototypes would cost O(b^2)); LS error is that of the nearest block's span, an
upper bound; after a swap a linear head hands the weight that leaves to its block and to x.
"""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np

from algorithms.common.protocol import Array, Basis, Outputs, require
from algorithms.common.workspace import Slot
from algorithms.prototypes.block_loop import restore_blocks, rows
from algorithms.prototypes.blocks import cluster
from algorithms.prototypes.family import PrototypeRule
from algorithms.prototypes.regression import NYSTROM


class BlockState(NamedTuple):
    prototypes: Array  # (m, dim) by slot
    arrival: Array  # (m,) int64, number of the row in each slot, from 1
    labels: Array  # (m, targets) of the prototypes, with regress = "labels"; else not read
    block: Array  # (m,) int64, block of each slot
    replaced: Array  # (r, dim) what left since the regression's map was last rebuilt, oldest first
    replaced_slot: Array  # (r,) int64
    replaced_arrival: Array  # (r,) int64
    means: Array  # (blocks, dim)
    weights: Array  # (budget, targets) of the regression; no targets without one
    P: Array  # triangle by rows, inverse of the regression's sum; empty without one
    estimate: float  # g_e, 0 until there are blocks
    clusterings: int  # how often blocks were made
    added: int  # newcomers since then
    seen: int  # rows so far


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockGreedy(PrototypeRule):
    """Prototypes of large log-determinant, found in time linear in the budget; features are similarities to them.

    >>> from algorithms.common.kernels import Kernel
    >>> learner = BlockGreedy(budget=4, block_size=2, kernel=Kernel(bandwidth=1.0))
    >>> state, out = learner.run(learner.init(dim=1, targets=0, seed=0), [[0.0], [0.1], [7.0], [7.1], [3.0]])
    >>> state.prototypes.ravel(), state.block, round(state.estimate, 3)
    (array([0. , 3. , 7. , 7.1]), array([0, 0, 1, 1]), 2.488)
    """

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = (
        ("prototypes", "arrival", "labels", "block"),
        ("replaced", "replaced_slot", "replaced_arrival"),
    )
    may_be_empty: ClassVar[tuple[str, ...]] = ("labels", "block")
    moves: ClassVar[bool] = True
    judges: ClassVar[bool] = False

    budget: Annotated[int, "1 to 10000"] = 100  # most prototypes, 1 to 10000
    block_size: int = 10  # prototypes of a block on average, 1 to budget
    recluster: bool = True  # blocks by k-means; false: equal shares of the slots
    neighbours: Literal["all", "nearest"] = "all"  # the prototype that leaves is of any block, or of the nearest
    ridge: Annotated[float, "1e-12 to 1e12"] = 1.0  # lambda of the criterion, 1e-12 to 1e12
    min_gain: Annotated[float, "0 or more"] = 0.01  # a swap must gain as much (relative: as this share of the estimate)
    gain_rule: Literal["absolute", "relative"] = "absolute"
    regress: Literal["none", "nystrom", "features", "labels"] = "none"  # ridge regression behind the prototypes
    regress_ridge: Annotated[float, "1e-12 to 1e12"] = 0.01  # eta of the regression, 1e-12 to 1e12
    on_swap: Literal["transfer", "reset"] = "transfer"  # what the regression knows after a swap: all of it, or nothing

    def check(self) -> None:
        require(self, "block_size", 1 <= self.block_size <= self.budget, f"1 to budget ({self.budget})")

    @property
    def maps(self) -> bool:
        return self.form == NYSTROM

    @property
    def blocks(self) -> int:
        return self.budget // self.block_size

    def init(self, *, dim: int, targets: int, seed: int) -> BlockState:  # type: ignore[override]
        return BlockState(
            block=np.empty(0, np.int64),
            means=np.zeros((self.blocks, dim)),
            clusterings=0,
            added=0,
            **self._fresh(dim, targets),
        )

    def caches(self, state: Any, rows: Any) -> Any:
        b, few = self.budget, self.blocks
        general = dict(PrototypeRule.caches(self, state, rows))
        del general["inverse"]
        return general | {
            "block_inverse": np.zeros((b, b)),
            "block_span": np.zeros((b, b)),
            "loss": np.zeros(few),
            "loser": np.zeros(few, np.int64),
            "spread": np.zeros(few),
        }

    def derive(self, own: Slot) -> None:
        held, _ = self._checked(own)
        block, number, work = own["block"], own.number, own.work
        prototypes, code, fresh = own["prototypes"][:held], self.kernel.code, own.rows("block") == 0
        if fresh:
            block[:held] = np.minimum(np.arange(held) * self.blocks // self.budget, self.blocks - 1)
            own.set_rows("block", held)
            work["clusterings"][number], work["added"][number] = 0, held
            if held == self.budget and self.recluster:
                cluster(code, prototypes, own["means"], block, True)
                work["clusterings"][number], work["added"][number] = 1, 0
        if held and not (block[:held].min() >= 0 and block[:held].max() < self.blocks):
            raise ValueError(f"BlockGreedy: block must be 0 to {self.blocks - 1}; got {block[:held].tolist()!r:.100}.")
        self._restore(own)
        ends = own["block_inverse"], own["block_span"], own["loss"], own["loser"], own["spread"], np.empty(held, np.int64)
        total = restore_blocks(code, prototypes, block[:held], own["means"], float(self.ridge), *ends)
        if fresh or work["estimate"][number] == 0.0:
            work["estimate"][number] = total

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        limits = float(self.ridge), float(self.min_gain), self.gain_rule == "relative"
        ways = self.recluster, self.neighbours == "all"
        ends = self.form, float(self.regress_ridge), self.on_swap == "reset"
        rows(tuple(work), slots, X, Y, learn, out, basis, self.kernel.code, *limits, *ways, *ends)
