"""Counts in the arrays of a stored state: a stage names the fields, and each number is checked."""

import pytest

from streamjobs.core.state.valid import StateCheck
from streamjobs.errors import SnapshotError
from streamjobs.stages.alarms import Alarms
from streamjobs.stages.class_counts import ClassCounts
from streamjobs.stages.events.bouts import Bouts
from streamjobs.stages.events.rhythm import Rhythm
from streamjobs.stages.events.stuck import StuckSensors, StuckWithoutRests
from streamjobs.stages.fill import Fill
from streamjobs.stages.sensors.counters import Counters
from streamjobs.stages.stage import MOST_COUNTED, JobStage, Shape

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
