"""All checks by name: every function check_* of these modules."""

from collections.abc import Callable

from streamjobs.learner_checks import honesty, limits, quality, replay, settings
from streamjobs.learner_checks.case import Case

FIRST = "check_a_new_state_fits"  # the others run a learner, and need one with a state

CHECKS: dict[str, Callable[[Case], None]] = {FIRST: limits.check_a_new_state_fits} | {
    name: check
    for module in (replay, honesty, limits, quality, settings)
    for name, check in vars(module).items()
    if name.startswith("check_")
}
