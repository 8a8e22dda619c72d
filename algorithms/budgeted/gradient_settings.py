"""Settings that kogd, norma and bogd share."""

from typing import Any

import numpy as np

from algorithms.budgeted.gradient_loop import LOSSES
from algorithms.common.protocol import require


def check_steps(learner: Any) -> None:
    """Step size, decay and loss."""
    require(learner, "step_size", 0 < learner.step_size < np.inf, "above 0")
    decays = learner.ridge >= 0 and learner.ridge * learner.step_size < 1
    require(learner, "ridge", decays, "0 or more and below 1 / step_size")
    require(learner, "loss", learner.loss in LOSSES, "one of " + ", ".join(LOSSES))


def kind_of(loss: str) -> str:
    return "regression" if loss == "squared" else "classification"
