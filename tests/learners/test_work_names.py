"""Compiled loops name the arrays of a workspace as the workspace does: they are passed by position."""

import sys
from typing import Any

import pytest

from algorithms import LEARNERS, learner_from
from streamjobs.stages import fill, windows
from streamjobs.stages.sensors import Sensors, loops
from streamjobs.stages.stage import Shape
from tests.checks.examples import EXAMPLES

SHAPE = Shape(dim=2, width=2, label_width=1, targets=1)
STAGES: dict[str, tuple[Any, Any]] = {
    "fill": (fill, fill.Fill(policies=("hold", "mean"))),
    "windows": (windows, windows.Windows(length=8.0, hop=1.0, rate=1.0)),
    "sensors": (
        loops,
        Sensors(
            names=("a", "b"), rate=1.0, wait=1.0, widths=(1, 1), rates=(1.0, 1.0), between=("hold", "hold"), gaps=(1.0, 1.0)
        ),
    ),
}
NAMED = [name for name in EXAMPLES if hasattr(getattr(sys.modules[LEARNERS[name].__module__], "Work", None), "_fields")]


@pytest.mark.parametrize("name", NAMED)
def test_a_loop_of_a_learner_names_all_arrays_in_their_order(name: str) -> None:
    for example in EXAMPLES[name]:
        learner: Any = learner_from(name, example.settings)
        work = learner.workspace(learner.init(dim=4, targets=example.targets, seed=0))
        assert work.names == sys.modules[LEARNERS[name].__module__].Work._fields


@pytest.mark.parametrize("name", STAGES)
def test_a_loop_of_a_stage_names_all_arrays_in_their_order(name: str) -> None:
    module, stage = STAGES[name]
    assert stage.workspace(stage.begin(SHAPE, 0)).names == module.Work._fields


def test_learners_have_named_arrays() -> None:
    assert {"gated_rls", "column_chart", "reference_chart"} <= set(NAMED)
