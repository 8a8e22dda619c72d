"""A job with a population: other people's windows learned as `fit` does, in small."""

import json

import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.state.population import Population, encode
from streamjobs.settings.composition import composition_of
from streamjobs.settings.sections import ScalingSection, Settings
from streamjobs.stages.class_counts import targets_of
from streamjobs.stages.population.directions import Directions, joint_of
from streamjobs.stages.smoothing import Changes, Transitions
from tests.core.streams import START, record, samples, settings

FILE = "population.state"
NAMES = ["run", "sit"]
OTHERS = samples(600, keys=4, seed=9)


def of_people(**sections) -> Settings:
    """The small job with a shared map of 20 prototypes. Sections replace whole tables."""
    table = {
        "population": {"file": FILE},
        "scaling": {"clip": 5.0, "from": "population"},
        "learner": {"name": "ald", "above": 0.1, "budget": 20, "freeze": True},
        "head": {"name": "rls", "boost": 10.0, "smooth": 0.3, "fallback": "last_label"},
    }
    return settings(**(table | sections))


# A head on 40 directions, of which P has the covariances of 32.
COMPACT: dict[str, dict[str, object]] = {
    "window": {"length": "1s", "hop": "500ms", "rate": 10.0, "statistics": "rich"},
    "population": {"file": FILE, "directions": 40},
    "learner": {"name": "ald", "above": 0.1, "budget": 20, "freeze": True, "input": True},
}


def late_labels(records: list[Stored], after: float = 3.0) -> list[Stored]:
    """The same samples of all keys but p0 without labels; each window's label comes `after` seconds behind its end."""
    stream: list[Stored] = []
    windows: dict[bytes, list[tuple[float, str]]] = {}
    for one in records:
        body = json.loads(one.value)
        if one.key != b"p0":
            body.pop("activity", None)
        stream.append(record(len(stream), one.key, body))
        step, waiting = round((body["ts"] - START) * 10), windows.setdefault(one.key, [])
        if step % 5 == 4 and step >= 9:  # windows of 1 s every half: their ends
            waiting.append((START + (step + 1) * 0.1, "run" if (step // 40) % 2 else "sit"))
        while one.key != b"p0" and waiting and waiting[0][0] + after <= body["ts"]:
            time, label = waiting.pop(0)
            stream.append(record(len(stream), one.key, {"ts": time, "activity": label}))
    return stream


def _without_population(settings: Settings) -> Settings:
    """The job before anything was fitted: every key learns its own scale and map."""
    scaling = ScalingSection(**{**settings.scaling.model_dump(), "from": None})
    learner = settings.learner.model_copy(update={"freeze": None, "input": False})
    head = settings.head and settings.head.model_copy(update={"filter": None})
    return settings.model_copy(update={"population": None, "scaling": scaling, "learner": learner, "head": head})


def windows_of(job: Job, records: list[Stored]) -> tuple[np.ndarray, list[object]]:
    """The rows of width `job.width` of the records' keys, in order, and the label codes by sample's first appearance."""
    live = Live(job, lambda key: None)
    decoded = job.decode(records)
    slots = np.array([live.slot(records[i].key) for i in decoded.owner])
    codes = np.array([[np.nan if label is None else float(NAMES.index(label))] for label in decoded.labels])
    learn = np.full(len(slots), 3, np.int8)
    made = job.stages["windows"].advance(live.work["windows"], slots, decoded.times, decoded.X, codes, decoded.owner, learn)
    return made.X, made.L[:, 0]


def population_of(job_settings: Settings, records: list[Stored] = OTHERS) -> Population:
    """Scale, map and head of all these records, each in one pass."""
    parts = composition_of(job_settings)
    X, codes = windows_of(Job.from_settings(_without_population(job_settings)), records)
    known = np.isfinite(codes)
    X, codes = X[known], codes[known]
    scaling = mapping = None
    if parts.scaling is not None:
        scaling, _ = parts.scaling.run(parts.scaling.init(dim=parts.width, targets=0, seed=0), X)
        X = parts.scaling.transform(scaling, X)
    if parts.map is not None:
        mapping, _ = parts.map.run(parts.map.init(dim=parts.width, targets=0, seed=0), X)
        mapped = parts.map.transform(mapping, X)
        X = np.hstack([X, mapped]) if parts.keeps_input else mapped
    few = None
    if job_settings.population is not None and (count := job_settings.population.directions):
        few = Directions(np.linalg.qr(np.random.default_rng(3).normal(size=(X.shape[1], count)))[0], np.zeros(count))
        X = few.rows(X)
    teacher = parts.teacher
    head, _ = teacher.run(teacher.init(dim=X.shape[1], targets=len(NAMES), seed=0), X, targets_of(codes, len(NAMES)))
    labels = np.bincount(codes.astype(int), minlength=len(NAMES))
    figures = {"names": NAMES, "labels": labels, "people": 4, "scaling": scaling, "map": mapping, "head": head}
    made = Population.from_composition(parts, **figures, directions=few)
    if few is not None:
        made = made._replace(joint=joint_of(len(few.offset)))
    filters = parts.smoothing is not None and parts.smoothing.probabilities
    changes = Changes((3.0, 1.0, 3.0), 2.0, -1.0)
    return made._replace(transitions=Transitions(sharpness=5.0, switch=0.1, changes=changes), boost=5.0) if filters else made


def job_of_people(**sections) -> Job:
    chosen = of_people(**sections)
    return Job.from_settings(chosen, population=encode(population_of(chosen)))
