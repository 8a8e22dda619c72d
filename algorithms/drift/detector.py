"""What all drift detectors share, and those of one number with `standardise`. Bases, not learners."""

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from algorithms.common.demands import Demand, insist, met
from algorithms.common.protocol import Array, Basis, Learner, Outputs, State
from algorithms.common.workspace import Slot, Workspace
from algorithms.drift import standardised
from algorithms.drift.report import COLUMNS, watches_columns, watches_one


class Detector(Learner, abstract=True):
    """A stored state has to meet `demands`. Detectors that also derive caches define `derive`."""

    __slots__ = ()
    kind: ClassVar[str] = "drift"
    reports: ClassVar[int]  # columns of a row of `features`

    @property
    def width(self) -> int:
        return self.reports

    def dim(self, state: State) -> int:
        return len(state.mean) if watches_columns(self) else 1

    def derive(self, own: Slot) -> None:
        insist(self, own)

    def derive_slots(self, work: Any, slots: Array) -> Array:
        if type(self).derive is Detector.derive:
            return met(self, work, slots)
        return Learner.derive_slots(self, work, slots)


class OneNumber(Detector, abstract=True):
    """A detector with thresholds: `standardise` puts the number's own deviations in front of it.

    It defines `fresh`, `mean_error` and `rules`. Its states have the field `scale` last where the setting is on.
    """

    __slots__ = ()
    reports: ClassVar[int] = COLUMNS
    unit: ClassVar[standardised.Unit]
    scaled_state: ClassVar[Any]

    min_rows: int
    standardise: bool

    def fresh(self) -> State:
        """The state of a new key without `standardise`."""
        raise NotImplementedError

    def mean_error(self, state: Any) -> tuple[float, str] | None:
        """The mean that a state remembers, as it is stored, and of which rows."""
        raise NotImplementedError

    def rules(self) -> tuple[Callable[..., None], tuple[Any, ...]]:
        """The compiled loop, and the settings behind its arrays."""
        raise NotImplementedError

    def init(self, *, dim: int, targets: int, seed: int) -> State:
        watches_one(self, dim)
        start = self.fresh()
        return self.scaled_state(*start, standardised.fresh()) if self.standardise else start

    def demands(self, work: Workspace, slots: Array) -> Iterable[Demand]:
        return standardised.demands(work, slots) if self.standardise else ()

    def recent_error(self, state: State) -> tuple[float, str] | None:
        error = self.mean_error(state)
        if error is None or not isinstance(state, self.scaled_state):
            return error
        return self.unit.mean_of(state.scale, error[0]), error[1]

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        loop, settings = self.rules()
        if self.standardise:
            self.unit.run(loop, work, slots, X, learn, out.features, *settings)
        else:
            loop(tuple(work), slots, X, learn, out.features, *settings)
