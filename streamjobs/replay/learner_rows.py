"""The rows that a key's learner gets of recordings: windows made, scaled, as a worker would have them."""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, NamedTuple

import numpy as np

from algorithms.common.protocol import LEARN, LEARN_EXTRACTOR, Array, Outputs
from streamjobs.core.job import Job
from streamjobs.core.messages import Record
from streamjobs.replay.engine import Replay
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.names import MAP


class KeyRows(NamedTuple):
    """What a key's learner (or the map that it shares) learned, in order."""

    scaled: Array  # (n, width)
    unscaled: Array  # (n, width) the same rows in the units of the records


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening(LearnerStage):
    """The stage as it is, which keeps what it gets: rows, and what is to be learned of them."""

    persisted_name: ClassVar[str] = "Listening"  # never stored

    kept: list[tuple[Array, Array]] = field(default_factory=list, compare=False)

    def advance(self, work: Any, slots: Array, X: Array, Y: Array, learn: Array) -> Outputs:
        self.kept.append((X.copy(), learn.copy()))
        return LearnerStage.advance(self, work, slots, X, Y, learn)


def learner_rows(job: Job, records: Iterable[Record]) -> KeyRows:
    """The rows that the records of one key teach, as a worker would have them."""
    steps = {"map": job.steps.map} if job.steps.map else {"learner": job.steps.learner}
    listening = {name: _listening(step) for name, step in {**steps, "scaling": job.steps.scaling}.items() if step}
    Replay(job.with_stages(**listening)).run(records, lambda output: None, lambda tally: None)
    before = listening.pop("scaling", None)
    (last,) = listening.values()
    nothing = np.empty((0, job.width))
    scaled = np.concatenate([nothing, *(X for X, _ in last.kept)])
    unscaled = scaled if before is None else np.concatenate([nothing, *(X for X, _ in before.kept)])
    if job.shared.get(MAP) is None:
        learn = np.concatenate([np.empty(0, np.int64), *(learn for _, learn in last.kept)])
    else:
        learn = np.full(len(scaled), LEARN)  # it stands still, and sees every row
    taken = np.isfinite(scaled).all(axis=1) & (learn & LEARN_EXTRACTOR > 0)
    return KeyRows(scaled[taken], unscaled[taken])


def _listening(stage: LearnerStage) -> Listening:
    return Listening(**{one.name: getattr(stage, one.name) for one in fields(stage) if one.init})
