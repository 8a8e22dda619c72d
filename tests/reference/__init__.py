"""Slow references: every learner once more, written as plainly as its paper prints it, with nothing cached or clever.

A function that stands for a learner says so:

    @slow_reference("lms", step_size=0.1)
    def lms(X, Y, *, step_size): ...
        return {"prediction": predictions}

With these settings the learner must give the same outputs on a short stream of its kind (X (n, dim), Y (n, targets)): each
array that the function returns, by the name of the field in `Outputs`; row n as it was before row n is learned.
tests/checks/test_references.py compares them, and fails for a learner without one.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, NamedTuple

from algorithms.common.protocol import Array

Outputs = dict[str, Array]


class SlowReference(NamedTuple):
    settings: dict[str, Any]
    outputs: Callable[..., Outputs]


_references: dict[str, SlowReference] = {}


def slow_reference(name: str, **settings: Any) -> Callable[[Callable[..., Outputs]], Callable[..., Outputs]]:
    """The decorated function gives what the learner `name` with these settings must give."""

    def register(outputs: Callable[..., Outputs]) -> Callable[..., Outputs]:
        _references[name] = SlowReference(settings, outputs)
        return outputs

    return register


def references() -> dict[str, SlowReference]:
    """By the learner's name, from all modules of this folder."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    return _references
