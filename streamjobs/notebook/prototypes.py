"""The samples that a key's learner keeps, in the units of the records, with the number of their row and their share of rows.

A state does not have all of this. The row of a sample is found by its bits among the rows of the key. The share of a sample
is the fraction of rows that are more similar to it than to any other sample, by the learner's own kernel.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from algorithms.common.kernels import Kernel, gram
from algorithms.common.protocol import Array, State
from streamjobs.core.job import Job
from streamjobs.core.live.stored import StoredSamples, stored_samples
from streamjobs.errors import ConfigError
from streamjobs.replay.first_rows import KeyRows
from streamjobs.stages.names import SCALING

AT_ONCE = 2000  # rows with kernel values that are computed together


class Prototypes(NamedTuple):
    """The m stored samples of a learner, those of the largest share first."""

    part: str  # stage, and part of its learner, such as "learner.extractor"
    name: str  # of the learner
    field: str  # of its state
    columns: list[str]
    samples: Array  # (m, dim) in the units of the records; scaled where a row's own length is lost (unit_norm)
    scaled: Array  # (m, dim) as the learner has them
    entered: list[int | None]  # number of the row that each was, from 1; None for a sample from elsewhere
    shares: Array  # (m,) of the rows, those to which the sample is the most similar one


def prototypes(job: Job, states: Mapping[str, State], rows: KeyRows) -> list[Prototypes]:
    """One set for each part of the learner that stores samples; rows: all those of the key.

    Raises ConfigError for a learner that stores no samples.
    """
    held = stored_samples(job, states)
    if not held or not len(rows.scaled):
        raise ConfigError(f"{type(job.learner).name} stores no samples (yet), so it has no prototypes to show.")
    return [_shown(job, states, one, rows) for one in held]


def _shown(job: Job, states: Mapping[str, State], held: StoredSamples, rows: KeyRows) -> Prototypes:
    stored = np.ascontiguousarray(getattr(held.state, held.field), float)
    place = {row.tobytes(): number for number, row in enumerate(np.ascontiguousarray(rows.scaled / held.width), 1)}
    entered = [place.get(row.tobytes()) for row in stored]
    scaled = stored * held.width
    samples = _unscaled(job, states, scaled)
    for at, number in enumerate(entered):
        if number is not None and samples is not scaled:  # as the record has it, whatever the scale is now
            samples[at] = rows.unscaled[number - 1]
    counts = np.zeros(len(scaled))
    for begin in range(0, len(rows.scaled), AT_ONCE):
        chosen = nearest(held.learner.kernel, rows.scaled[begin : begin + AT_ONCE], scaled)
        counts += np.bincount(chosen, minlength=len(scaled))
    order = np.argsort(-counts, kind="stable")
    return Prototypes(
        held.part,
        type(held.learner).name,
        held.field,
        list(job.composition.columns[: scaled.shape[1]]),
        samples[order],
        scaled[order],
        [entered[at] for at in order.tolist()],
        counts[order] / len(rows.scaled),
    )


def _unscaled(job: Job, states: Mapping[str, State], scaled: Array) -> Array:
    """The samples by the present scale; `scaled` itself if the scale cannot be undone."""
    if job.steps.scaling is None:
        return scaled.copy()
    scaling: Any = job.steps.scaling.learner
    state: Any = job.shared.get(SCALING) or states[SCALING]
    if scaling.unit_norm:
        return scaled
    if scaling.method == "none":
        return scaled.copy()
    unscaled: Array = state.mean + scaled * np.sqrt(state.squares / max(int(state.seen), 1))
    return unscaled


def nearest(kernel: Kernel, X: Array, S: Array) -> Array:
    """The row of S (m, dim) that each row of X is most similar to: nearest, or of the largest |cosine| in feature space."""
    if kernel.name in ("gaussian", "laplacian"):  # by distance: far out all kernel values are 0
        apart: Array = np.stack([np.square(X - x).sum(axis=1) for x in S], axis=1).argmin(axis=1)
        return apart
    own = np.sqrt([max(float(gram(kernel, x[None], x[None])[0, 0]), 1e-300) for x in S])
    alike: Array = np.argmax(np.abs(gram(kernel, X, S)) / own, axis=1)
    return alike
