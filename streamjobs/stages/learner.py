"""A learner as a stage of a job: in which role it learns, and what its keys begin with."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from algorithms.common.head_rows import HeadRows
from algorithms.common.protocol import LEARN, Array, Learner, Outputs, SettingError, Stage, State, unknown
from streamjobs.stages.stage import JobStage, Shape, describe

FEW = 8  # rows: with fewer, the order of `key_order` gains less than it costs


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerStage(JobStage):
    """State and workspace are the learner's own; this says what differs by its role in the job."""

    persisted_name: ClassVar[str] = "LearnerStage"  # never stored: its learner's is
    finite = True

    learner: Learner
    predicts: bool = False  # it has the job's targets
    watches: bool = False  # for drift: what was usual for others is not usual for it
    reads_error: bool = False  # its x is one number, the error that is watched
    before_row: int = 0  # numbers of its x before those of a row
    start: State | None = None  # of a new key: the population's head; None: as the learner begins
    shared: State | None = None  # of all keys together: what the population taught stands still
    by_key: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)  # in `advance`; empty: not known

    def __post_init__(self) -> None:
        """Raises SettingError: compiled loops check no bounds, and a job's workspaces have the rooms that are stated."""
        if not self.learner.bounded:
            raise SettingError(
                f"{self.learner.name} with these settings stores every sample; a job runs bounded learners only."
            )

    @property
    def shared_state(self) -> State | None:
        return self.shared

    @property
    def knows_normal(self) -> bool:  # type: ignore[override]
        return self.watches

    @property
    def at_bound(self) -> Mapping[str, float]:
        return getattr(self.learner, "at_bound", {})

    @property
    def codec(self) -> Stage:
        return self.learner

    def begin(self, shape: Shape, seed: int) -> State:
        if self.start is not None:
            return self.start
        dim = 1 if self.reads_error else self.before_row + shape.width
        return self.learner.init(dim=dim, targets=shape.targets if self.predicts else 0, seed=seed)

    def warm_up(self, state: State, shape: Shape) -> None:
        learner = self.learner
        dim, targets = learner.dim(state), learner.targets(state)
        work = learner.workspace(state)
        learner.load(work, 0, state)
        out = learner.outputs(1, dim, targets)
        learner.advance(
            work, np.zeros(1, np.int64), np.zeros((1, dim)), unknown((1, targets)), out, np.full(1, LEARN, np.int8)
        )

    def description(self) -> str:
        return describe(self.learner)

    def advance(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array) -> Outputs:
        """Rows of many keys through the learner: X (n, dim), Y (n, targets), learn (n,) int8.

        Outputs are in record order. A learner that stores samples gets the rows key by key: `key_order`.
        """
        if isinstance(work, HeadRows):
            rows, learn = work.enter(slots, X, Y, learn)
            return self.advance(work.rows, rows, X, Y, learn)
        if not self.by_key:
            self.by_key.append(self.learner.kind != "drift" and _stores_samples(self.learner))
        order = key_order(slots) if len(slots) >= FEW and self.by_key[0] else None
        if order is not None:
            slots, X, Y, learn = slots[order], X[order], Y[order], learn[order]
        out = self.learner.outputs(len(slots), X.shape[1], Y.shape[1])
        self.learner.advance(work, slots, X, Y, out, learn)
        if order is None:
            return out
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        return Outputs(*(array[place] for array in out))

    # How a state enters and leaves a workspace is the learner's.
    def workspace(self, state: State, *, slots: int = 1, extra: int = 0) -> Any:
        return self.learner.workspace(state, slots=slots, extra=extra)

    def load(self, work: Any, slot: int, state: State) -> None:
        if isinstance(work, HeadRows):
            work.load(slot, state)
        else:
            self.learner.load(work, slot, state)

    def save(self, work: Any, slot: int, like: State) -> State:
        return work.save(slot, like) if isinstance(work, HeadRows) else self.learner.save(work, slot, like)

    def bytes_of(self, state: State) -> int:
        return self.learner.bytes_of(state)


def _stores_samples(learner: Learner) -> bool:
    """Whether the learner, or a learner inside it, stores samples of each key."""
    parts = (getattr(learner, one.name) for one in fields(learner))  # type: ignore[arg-type]
    return bool(learner.stored) or any(_stores_samples(part) for part in parts if isinstance(part, Learner))


def key_order(slots: Array) -> Array | None:
    """The order (n,) that puts the rows of each key together, older rows first; None where the order gains little.

    Rows of different keys do not interact, so a loop gives the same bits in this order. A loop that stores samples
    recomputes less: a gram matrix serves several rows, and the key's samples stay in the processor's cache.

    >>> key_order(np.array([2, 1, 2, 1])).tolist()
    [1, 3, 0, 2]
    """
    if np.count_nonzero(slots[1:] != slots[:-1]) * 2 < len(slots):  # already together, as the samples of frames are
        return None
    order = np.argsort(slots, kind="stable")
    together = slots[order]
    repeats = np.count_nonzero(together[1:] == together[:-1])
    return order if repeats * 2 >= len(slots) and repeats else None
