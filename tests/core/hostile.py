"""Long and shifting streams, and what is written and read of a stage's state as it goes through them."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.protocol import LEARN, Learner
from streamjobs.core.job import Job
from streamjobs.core.live.columns import Columns
from streamjobs.core.live.slots import LastOffsets
from streamjobs.core.messages import Stored
from streamjobs.core.state import snapshot
from streamjobs.core.state.valid import StateCheck
from streamjobs.errors import SnapshotError
from streamjobs.stages.learner import LearnerStage
from tests.fuzz.jobs import good

HEAD = snapshot.head(bytes(16), "{}")
SHIFTS = (  # of the columns of a part of a stream: factor, offset, seldom NaN
    (1.0, 0.0),
    (1.0, 8.0),  # a level that does not come back
    (1e12, 0.0),  # columns without a scale
    (0.0, 3.0),  # constants
    (1.0, 0.0),
    (1e-200, 0.0),
    (1e160, 0.0),
    (1.0, -50.0),
)


def streams(learner: Learner, dim: int, targets: int, rows: int, seed: int = 0) -> Iterator[tuple[Any, Any]]:
    """Parts of a stream, each of `rows` rows: X (rows, dim), Y (rows, targets); then alternating and counting ones."""
    random = np.random.default_rng(seed)
    for factor, offset in SHIFTS:
        X = random.normal(size=(rows, dim)) * factor + offset
        Y = random.choice([-1.0, 1.0], size=(rows, targets))
        Y[random.random(rows) < 0.1] = np.nan
        if learner.kind == "regression":
            Y *= random.choice([1e-9, 1.0, 1e6], size=(rows, 1))
        yield X, Y
    sign = np.where(np.arange(rows) % 2, 1.0, -1.0)[:, None]
    yield sign * np.ones((rows, dim)), np.where(np.isnan(sign), np.nan, sign) * np.ones((rows, targets))
    yield np.arange(rows)[:, None] * np.ones((rows, dim)), np.ones((rows, targets))
    wild = random.normal(size=(rows, dim))
    wild[::7], wild[3::11, 0] = np.nan, np.inf
    yield wild, np.full((rows, targets), np.nan)


class Verdicts(NamedTuple):
    """Of one state: what the check before a write, the reader in columns and the long way of reading say."""

    writable: bool
    in_columns: bool
    alone: str  # the sentence of the long way, "" where it takes the state

    @property
    def agree(self) -> bool:
        return self.writable == self.in_columns == (not self.alone)


class OneKey:
    """A learner as a stage of a job, and its state in slot 0; slot 1 is for what is read back."""

    def __init__(self, learner: Learner, dim: int, targets: int) -> None:
        self.stage = LearnerStage(learner=learner)
        self.fresh = learner.init(dim=dim, targets=targets, seed=3)
        self.work = learner.workspace(self.fresh, slots=2)
        learner.load(self.work, 0, self.fresh)
        columns = Columns.of((HEAD,), {"learner": self.stage}, {"learner": self.work}, {"learner": self.fresh})
        assert columns is not None
        self.columns, self.learner = columns, learner
        self.rest = LastOffsets(2), [()] * 2

    def advance(self, X: Any, Y: Any) -> None:
        out = self.learner.outputs(len(X), X.shape[1], Y.shape[1])
        self.learner.advance(self.work, np.zeros(len(X), np.int64), X, Y, out, np.full(len(X), LEARN, np.int8))

    def verdicts(self) -> Verdicts:
        """Of the state as it is; one that is read has the bits that were written."""
        writable = bool(self.columns.writable([0], None)[0])
        (data,) = self.columns.encode([0], *self.rest)
        in_columns = self.columns.decode([data], [1], *self.rest, None, [])[0]
        if in_columns:
            assert self.columns.encode([1], *self.rest) == [data]
        alone = ""
        try:
            state = snapshot.unflatten(self.fresh, snapshot.decode(data).arrays)
            StateCheck({"learner": self.stage}, {"learner": self.fresh})({"learner": state}, None)
            self.learner.load(self.learner.workspace(state), 0, state)
        except (SnapshotError, ValueError) as problem:
            alone = str(problem)
        return Verdicts(writable, in_columns, alone)


def hostile_records(job: Job, begin: int, end: int, part: int) -> list[Stored]:
    """Good records of a job, their numbers shifted as a part of a stream says."""
    factor, offset = SHIFTS[part % len(SHIFTS)]

    def shifted(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: other if name in ("ts", "activity", "name") else shifted(other) for name, other in value.items()}
        return [shifted(one) for one in value] if isinstance(value, list) else value * factor + offset

    records = good(job, begin, end)
    return [one._replace(value=json.dumps(shifted(json.loads(one.value))).encode()) for one in records]
