"""What stands next to the worker's predictions: the same windows served in simpler ways, by the same arrival of labels."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array
from streamjobs.core.job import Job
from streamjobs.core.messages import Stored
from streamjobs.core.state.population import Population
from streamjobs.fit.fitting import recipe_of
from streamjobs.fit.learning import Learned, decided, features
from streamjobs.fit.recordings import Stream, arriving_at

Said = list[str | None]


class Control(NamedTuple):
    """What is said of each window of a person, None for nothing."""

    gated: Said  # as the worker is bound to
    frozen: Said  # the population's head, which never adapts
    cold: Said  # a head that begins with nothing
    last: Said  # the last label that has come


def controls(job: Job, records: Sequence[Stored]) -> dict[str, Control]:
    """By key, from the very records that are played."""
    decoded = job.decode(records)
    keys = [(records[i].key or b"").decode() for i in decoded.owner.tolist()]
    slot_of = {key: slot for slot, key in enumerate(dict.fromkeys(keys))}
    stage, population = job.steps.windows, job.population
    assert stage is not None and population is not None
    begin = stage.begin(job.shape, 0)
    work = stage.workspace(begin, slots=len(slot_of))
    for slot in range(len(slot_of)):
        stage.load(work, slot, begin)
    codes = np.array([[population.names.index(str(label))] for label in decoded.labels], dtype=np.float64)
    slots = np.array([slot_of[key] for key in keys], np.int64)
    learn = np.full(len(keys), 3, np.int8)
    rows = stage.advance(work, slots, decoded.times, decoded.X, codes, decoded.owner, learn)
    by_key = {}
    for key, slot in slot_of.items():
        mine = rows.slots == slot
        by_key[key] = _control(job, population, rows.times[mine], rows.X[mine], rows.L[mine, 0].astype(np.int64))
    return by_key


def _control(job: Job, population: Population, times: Array, X: Array, truth: Array) -> Control:
    recipe = recipe_of(job.composition)
    learned = Learned(
        population.scaling.state if population.scaling else None,
        population.map.state if population.map else None,
        population.head.state,
    )
    Z, stream = features(learned, recipe, X), Stream(X, truth, np.zeros(len(X), np.int64))
    arrivals = arriving_at(times, job.settings.labels.delay)
    gated, frozen, cold = (
        decided(recipe, start, learned, stream, Z, arrivals).chosen for start in ("gated", "frozen", "cold")
    )
    last, known = np.full(len(X), -1), -1
    for row, label in zip(*(part.tolist() for part in arrivals), strict=True):
        if label:
            known = truth[row]
        else:
            last[row] = known
    names = population.names
    return Control(*([None if c < 0 else names[c] for c in said.tolist()] for said in (gated, frozen, cold, last)))
