"""Counts and ranges in the arrays of a stored state: a stage names the fields, and each number is checked."""

import numpy as np
import pytest

from streamjobs.core.state.valid import StateCheck
from streamjobs.errors import SnapshotError
from streamjobs.stages.alarms import Alarms
from streamjobs.stages.class_counts import ClassCounts
from streamjobs.stages.clip_targets import ClipTargets
from streamjobs.stages.events.bouts import Bouts
from streamjobs.stages.events.pauses import Pauses
from streamjobs.stages.events.rhythm import Rhythm
from streamjobs.stages.events.silent import Grouped, SilentKeys
from streamjobs.stages.events.slopes import Slopes
from streamjobs.stages.events.stuck import StuckSensors, StuckWithoutRests
from streamjobs.stages.fill import Fill
from streamjobs.stages.reference import Reference
from streamjobs.stages.sensors.counters import Counters
from streamjobs.stages.smoothing import Refuted
from streamjobs.stages.stage import LARGEST, MOST_COUNTED, JobStage, Shape

FIELDS = [
    (Alarms(watches=2), "opened rows"),
    (ClassCounts(classes=3), "labelled"),
    (Bouts(shortest=2.0, hop=1.0, length=1.0), "rows"),
    (Rhythm(), "days"),
    (StuckSensors(), "run limit runs seen rests zeros"),
    (StuckWithoutRests(), "run limit runs seen"),
    (Fill(policies=("hold", "hold")), "seen"),
    (Counters(columns=(0, 1)), "seen"),
]
CASES = [(stage, field) for stage, fields in FIELDS for field in fields.split()]


@pytest.mark.parametrize(("stage", "field"), CASES, ids=[f"{type(one).__name__}-{field}" for one, field in CASES])
def test_a_count_below_0_or_near_where_it_wraps_around_is_refused(stage: JobStage, field: str) -> None:
    fresh = stage.begin(Shape(dim=2, width=2, label_width=1, targets=3), seed=0)
    check = StateCheck({"stage": stage}, {"stage": fresh})
    for wrong in (-1, MOST_COUNTED):
        counts = getattr(fresh, field).copy()
        counts.flat[-1] = wrong
        with pytest.raises(SnapshotError, match=f"stage.{field}: expected a count from 0, got"):
            check({"stage": fresh._replace(**{field: counts})}, 3)
    counts.flat[-1] = MOST_COUNTED - 1
    check({"stage": fresh._replace(**{field: counts})}, 3)


RANGES: list[tuple[JobStage, dict[str, tuple[float, float]]]] = [
    (Bouts(shortest=2.0, hop=1.0, length=1.0), {"day": (0, 3_652_058)}),
    (ClipTargets(), {"variance": (0, LARGEST), "largest": (0, LARGEST), "in_a_row": (0, 1_000)}),
    (Grouped(), {"clock": (-1, LARGEST)}),
    (Pauses(), {"usual": (0, LARGEST)}),
    (Reference(rows=10), {"phase": (0, 2)}),
    (Refuted(), {"run": (0, 21)}),
    (SilentKeys(), {"clock": (0, LARGEST)}),
    (Slopes(columns=(1,), spans=(60.0,)), dict.fromkeys(("settled", "weight", "usual", "changes"), (0, np.inf))),
    (StuckSensors(), {"named": (0, 2), "opened": (0, 1)}),
]
IN_RANGE = [(stage, field, *ends) for stage, fields in RANGES for field, ends in fields.items()]


@pytest.mark.parametrize(
    ("stage", "field", "least", "most"), IN_RANGE, ids=[f"{type(one[0]).__name__}-{one[1]}" for one in IN_RANGE]
)
def test_a_number_outside_the_range_of_its_field_is_refused(stage: JobStage, field: str, least: float, most: float) -> None:
    fresh = stage.begin(Shape(dim=2, width=2, label_width=1, targets=3), seed=0)
    check = StateCheck({"stage": stage}, {"stage": fresh})
    whole = np.asarray(getattr(fresh, field)).dtype.kind == "i"
    outside = [least - 1, most + 1] if whole else [least - 1, np.nan, *([np.inf] if most == LARGEST else [])]
    for number, refused in [(least, False), (most, False), *((wrong, True) for wrong in outside)]:
        value = getattr(fresh, field)
        value = np.full_like(value, number) if np.ndim(value) else type(value)(number)
        state = {"stage": fresh._replace(**{field: value})}
        if not refused:
            check(state, 3)
            continue
        with pytest.raises(SnapshotError, match=f"stage.{field}: expected "):
            check(state, 3)
