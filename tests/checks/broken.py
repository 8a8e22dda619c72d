"""Learners with one fault each, and by which check each must be caught."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from algorithms.common.protocol import Array, Basis, Learner, Outputs
from algorithms.common.workspace import Slot, Workspace
from tests.checks.steady import Fields, Steady


class ChangesItsRows(Steady):
    def usable(self, x: Array) -> bool:
        x *= 2
        return Steady.usable(self, x)


class WritesIntoTheOldState(Steady):
    def save(self, work: Any, slot: int, like: Any) -> Any:
        like.weights[:] = work["weights"][slot]
        return Steady.save(self, work, slot, like)


class CountsOutsideItsState(Steady):
    calls: ClassVar[list[int]] = []

    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        self.calls.append(1)
        Steady.row(self, work, key, x, y, learn, out)
        out.prediction[0] += len(self.calls)


class DrawsFromGlobalRandomness(Steady):
    def learn(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        Steady.learn(self, work, key, x + np.random.standard_normal(len(x)), y, out)


class CentersTheBatch(Steady):
    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        Steady.loop(self, work, slots, X - X.mean(axis=0) if len(X) else X, Y, learn, out, basis)


class LearnsFirst(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        if learn & 2:
            self.learn(work, key, x, y, out)
        Steady.row(self, work, key, x, y, 0, out)


class LooksAtTheNextRow(Steady):
    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        Steady.loop(self, work, slots, X, Y, learn, out, basis)
        out.prediction[:-1] += X[1:, :1]


class TeachesAnotherKey(Steady):
    def learn(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        Steady.learn(self, work, key, x, y, out)
        Fields(*work).weights[0] += 1e-9


class RemembersTheLastRowOfAnyKey(Steady):
    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        Steady.loop(self, work, slots, X, Y, learn, out, basis)
        other = np.flatnonzero(np.diff(slots)) + 1
        out.prediction[other] += 1.0


class AddsUpItsCache(Steady):
    """The cache is kept by addition; recomputed from the state it is another number."""

    def store(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        fields = Fields(*work)
        old, count = fields.power[key, 0], fields.counts[key, 0]
        Steady.store(self, work, key, x, y, out)
        fields.power[key, 0] = (old * count + x @ x) / (count + 1) if count < self.memory else old


class LeavesItsCacheInTheSlot(Steady):
    def derive(self, own: Slot) -> None:
        before = own["power"][0]
        Steady.derive(self, own)
        own["power"][0] += before


class Work(Workspace):
    __slots__ = ()

    def grow(self, slots: int) -> None:
        Workspace.grow(self, slots)
        self["samples"][:] = 0


class LosesRowsAsItGrows(Steady):
    def workspace(self, state: Any, *, slots: int = 1, extra: int = 0) -> Workspace:
        work = Steady.workspace(self, state, slots=slots, extra=extra)
        return Work(work.arrays, work.names, work.stored)


class GrowsWithoutEnd(Steady):
    bounded: ClassVar[bool] = True  # it says

    def room(self, field: str) -> int | None:
        return None

    def store(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        fields = Fields(*work)
        fields.samples[key, fields.counts[key, 0]] = x
        fields.counts[key] += 1


class UnderstatesItsSize(Steady):
    def state_bytes(self, dim: int, targets: int) -> int:
        return Steady.state_bytes(self, dim, targets) // 2


class TakesAMissingTargetForZero(Steady):
    def learn(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        Steady.learn(self, work, key, x, np.nan_to_num(y, posinf=0, neginf=0), out)


class LearnsFromBadRows(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        Steady.row(self, work, key, np.nan_to_num(x, posinf=0, neginf=0), y, learn, out)

    def usable(self, x: Array) -> bool:
        return True


class LetsInfinityIn(Steady):
    def store(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        Steady.store(self, work, key, x * x, y, out)


class IsBlindAfterStandingStill(Steady):
    def store(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        Steady.store(self, work, key, x, y, out)
        fields = Fields(*work)
        count = fields.counts[key, 0]
        if np.ptp(fields.samples[key, :count], axis=0).max() == 0.0 and count == self.memory:
            fields.seen[key] = -1

    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        blind = Fields(*work).seen[key] < 0
        Steady.row(self, work, key, x, y, 0 if blind else learn, out)
        if blind:
            out.prediction[0] = np.nan


class RaisesFarOut(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        Steady.row(self, work, key, x, y, learn, out)
        if np.abs(x).max() > 1e3:
            raise IndexError


class SaysInfinity(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        Steady.row(self, work, key, x, y, learn, out)
        out.ls_error[0] = x @ x


class LearnsWhilePredicting(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        Steady.row(self, work, key, x, y, 3, out)


class CountsWhatItOnlyPredicts(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        Steady.row(self, work, key, x, y, learn, out)
        Fields(*work).seen[key] += learn == 0


class LearnsOnAnyBit(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        Steady.row(self, work, key, x, y, 3 if learn else 0, out)


class ChangesWhenListenedTo(Steady):
    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        Steady.loop(self, work, slots, X, Y, learn, out, basis)
        out.prediction[:] += len(basis.moved)


class PredictsTheBatchTogether(Steady):
    def predict(self, state: Any, X: Any) -> Array:
        prediction = Steady.predict(self, state, X)
        return prediction - prediction.mean(axis=0)


class StandsAtAFixedPoint(Steady):
    def learn(self, work: Any, key: int, x: Array, y: Array, out: Outputs) -> None:
        weights = Fields(*work).weights[key]
        before = weights.copy()
        Steady.learn(self, work, key, x, y, out)
        weights *= before != 0


class HangsOnAHair(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        Steady.row(self, work, key, x, y, learn, out)
        out.prediction[0] += np.floor(x[0] * 1e12) % 2


class ReturnsColumnsFirst(Steady):
    def save(self, work: Any, slot: int, like: Any) -> Any:
        state = Steady.save(self, work, slot, like)
        return state._replace(samples=np.asfortranarray(state.samples))


class KeepsAList(Steady):
    def save(self, work: Any, slot: int, like: Any) -> Any:
        return Steady.save(self, work, slot, like)._replace(seen=[1])


class InventsTheAnswersItLacks(Steady):
    """It does not state that every sample has its answer: a state with 3 samples and 1 answer is taken."""

    aligned: ClassVar[tuple[tuple[str, ...], ...]] = ()


class RepairsInSilence(Steady):
    """Fields that do not fit are cut and filled up until they do."""

    def load(self, work: Any, slot: int, state: Any) -> None:
        answers = np.zeros((len(state.samples), state.answers.shape[1]))
        kept = min(len(answers), len(state.answers))
        answers[:kept] = state.answers[:kept]
        Steady.load(self, work, slot, state._replace(answers=answers))


class RefusesWithoutAWord(Steady):
    def check_rows(self, state: Any) -> None:
        if len(state.samples) != len(state.answers):
            raise ValueError("rows")


class DoubtsAFreshState(Steady):
    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        fields = Fields(*work)
        fresh = fields.seen[key] == 0 and fields.counts[key, 0] > 0
        Steady.row(self, work, key, x, y, learn, out)
        out.prediction[0] *= np.nan if fresh else 1.0


class StartsWithAnObject(Steady):
    def init(self, *, dim: int, targets: int, seed: int) -> Any:
        return Steady.init(self, dim=dim, targets=targets, seed=seed)._replace(seen=object())


class HidesItsTargets(Steady):
    def targets(self, state: Any) -> int:
        return 0


class LosesLessThanNothing(Steady):
    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        Steady.loop(self, work, slots, X, Y, learn, out, basis)
        out.loss[:] = -1.0


class IsOfNoKind(Steady):
    kind: ClassVar[str] = "oracle"

    def outputs(self, n: int, dim: int, targets: int) -> Outputs:
        return Steady.outputs(self, n, dim, targets)


class TakesAnyShape(Steady):
    def run(self, state: Any, X: Any, Y: Any = None) -> Any:
        rows = np.atleast_2d(X)[:, : self.dim(state)]
        return Steady.run(self, state, rows, None)


@dataclass(slots=True, kw_only=True)
class MayBeChanged(Learner):
    """Settings that are not frozen."""

    name: ClassVar[str] = "may_be_changed"
    persisted_name: ClassVar[str] = "MayBeChanged"
    kind: ClassVar[str] = "regression"
    memory: int = 5


class ChecksNoSetting(Steady):
    def __post_init__(self) -> None:
        pass


class SaysNothing(Steady):
    __module__ = "tests.checks"


class Detector(Steady):
    """Alarms in the rows that `alarms` says."""

    kind: ClassVar[str] = "drift"
    alarms: ClassVar[slice] = slice(0)

    def targets(self, state: Any) -> int:
        return 0

    def width_for(self, dim: int) -> int:
        return 4

    def loop(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array, out: Outputs, basis: Basis) -> None:
        out.features[:] = 0.0
        out.features[self.alarms] = (1.0, 1.0, 0.12, 0.62)


class NeverAlarms(Detector):
    pass


class AlwaysAlarms(Detector):
    alarms: ClassVar[slice] = slice(None)


class AlarmsInTime(Detector):
    alarms: ClassVar[slice] = slice(650, 651)


class SpansNothing(Steady):
    kind: ClassVar[str] = "features"

    def targets(self, state: Any) -> int:
        return 0

    def width_for(self, dim: int) -> int:
        return 1

    def row(self, work: Any, key: int, x: Array, y: Array, learn: int, out: Outputs) -> None:
        out.ls_error[0] = 1.0


class IsEquallyFarFromAll(SpansNothing):
    def width_for(self, dim: int) -> int:
        return 0


FAULTS: dict[str, tuple[type[Learner], ...]] = {
    "check_same_bits_twice": (CountsOutsideItsState, DrawsFromGlobalRandomness),
    "check_any_split_gives_the_same_bits": (CentersTheBatch, AddsUpItsCache),
    "check_snapshot_at_every_event_changes_nothing": (AddsUpItsCache,),
    "check_any_mix_of_keys_equals_each_key_alone": (RemembersTheLastRowOfAnyKey, TeachesAnotherKey),
    "check_keys_do_not_touch_each_other": (TeachesAnotherKey,),
    "check_growing_the_workspace_keeps_the_bits": (LosesRowsAsItGrows,),
    "check_load_and_save_are_exact_also_in_a_used_slot": (LeavesItsCacheInTheSlot,),
    "check_inputs_are_left_as_they_were": (ChangesItsRows, WritesIntoTheOldState),
    "check_outputs_do_not_see_their_own_target": (LearnsFirst, LooksAtTheNextRow),
    "check_a_missing_target_teaches_nothing": (TakesAMissingTargetForZero,),
    "check_rows_that_are_not_finite_teach_nothing": (LearnsFromBadRows,),
    "check_predicting_leaves_the_state_alone": (LearnsWhilePredicting, CountsWhatItOnlyPredicts),
    "check_transform_and_predict_take_each_row_alone": (PredictsTheBatchTogether,),
    "check_rows_not_to_be_learned_are_as_if_absent": (CountsWhatItOnlyPredicts,),
    "check_each_learns_only_what_its_bit_allows": (LearnsOnAnyBit,),
    "check_a_listener_to_the_basis_changes_nothing": (ChangesWhenListenedTo,),
    "check_the_state_is_plain_arrays_and_numbers": (ReturnsColumnsFirst, KeepsAList),
    "check_state_bytes_is_an_upper_bound": (GrowsWithoutEnd, UnderstatesItsSize),
    "check_nothing_but_finite_numbers_enters_the_state": (LetsInfinityIn,),
    "check_it_goes_on_after_outliers_and_a_sensor_that_stood_still": (IsBlindAfterStandingStill,),
    "check_outliers_raise_nothing": (RaisesFarOut, SaysInfinity),
    "check_a_state_built_by_hand_works": (DoubtsAFreshState,),
    "check_a_state_that_contradicts_itself_is_refused": (
        InventsTheAnswersItLacks,
        RepairsInSilence,
        RefusesWithoutAWord,
    ),
    "check_a_new_state_fits": (IsOfNoKind, StartsWithAnObject, HidesItsTargets),
    "check_outputs_have_their_shapes": (LosesLessThanNothing,),
    "check_wrong_shapes_are_refused_with_one_sentence": (TakesAnyShape,),
    "check_a_nudged_start_gives_the_same_outputs": (HangsOnAHair,),
    "check_the_error_falls_on_an_easy_stream": (
        StandsAtAFixedPoint,
        NeverAlarms,
        AlwaysAlarms,
        SpansNothing,
        IsEquallyFarFromAll,
    ),
    "check_settings_are_frozen": (MayBeChanged, GrowsWithoutEnd),
    "check_a_setting_out_of_range_is_one_clear_sentence": (ChecksNoSetting,),
    "check_the_file_says_what_the_learner_is": (SaysNothing,),
}
