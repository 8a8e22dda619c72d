"""The jobs hostile bytes come to, and the streams that make their valid records and states."""

import json
from functools import cache
from itertools import repeat
from typing import Any

import msgspec
import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.live.live import Live
from streamjobs.core.messages import Stored
from streamjobs.core.state.population import encode
from streamjobs.settings.load import settings_from
from streamjobs.settings.paths import EACH, ByName, path_of
from streamjobs.settings.sections import Settings
from tests.core.people import FILE, OTHERS, job_of_people, late_labels, of_people, population_of
from tests.core.streams import START, TOPIC, samples
from tests.fuzz.live_pool import applied

FIELDS = ["ax", "ay", "az"]
NAMED = {"topic": TOPIC, "fields": FIELDS, "time": "ts", "label": "activity"}
LISTED = {"topic": TOPIC, "dim": 4, "label": "activity", "max_abs": 1e6}
LATE = {**NAMED, "time_unit": "ms", "late": "dlq", "lateness": "1s", "max_samples": 100}
WINDOW = {"length": "1s", "hop": "500ms", "rate": 10.0}
DEEP: dict[str, Any] = {
    "topic": TOPIC,
    "fields": ["acc.x", "l[1][name=z].v", '"v.x"'],
    "time": "meta.ts",
    "label": "meta.activity",
}
DEEP |= {"missing": {"acc.x": "hold", '"v.x"': "mean"}, "hold_for": "30s", "numbers": "lenient", "time_zone": "UTC"}
IN_OBJECTS = NAMED | {
    "fields": [f"list[].{name}" for name in FIELDS],
    "time": "list[].ts",
    "missing": "hold",
    "hold_for": "9s",
}
WAIT = {"wait": "30s"}
MIRROR = {"field": "side", "when": 1, "columns": ["ax"]}
PAGE_HINKLEY = {"detector": "page_hinkley"}
SMALL = {"rank": 3, "seed_size": 6, "budget": 8}
MOMENTS = (2, 7, 25, 60)  # records of a key after which its state is kept
OF_REFERENCE = (7, 80, 120, 190)  # of one with a reference: in both halves of it, at its end, after it

# What a decoder of records must do: named fields, x as a list, labels that come late, paths into a record.
OF_RECORDS: tuple[dict[str, Any], ...] = (
    {"source": NAMED},
    {"source": LISTED, "window": None, "drift": None, "learner": {"name": "lms"}, "head": None},
    {"source": LATE, "window": WINDOW | {"mirror": MIRROR}, "labels": {"wait": "5s"}},
    {"source": DEEP},
    {"source": IN_OBJECTS},
)
# Every learner a job can have, and each way a state is kept; the first five share their loops with the above.
OF_STATES: tuple[dict[str, Any], ...] = (
    *OF_RECORDS,
    {
        "window": None,
        "drift": {"detector": "adwin", "watch": "loss"},
        "learner": {"name": "knlms", "budget": 8},
        "head": None,
    },
    {
        "source": NAMED | {"counters": ["ax", "az"], "angles": {"ay": 360}},
        "window": None,
        "learner": {"name": "lms"},
        "head": None,
        "drift": None,
    },
    {"window": None, "drift": {"detector": "window_ratio"}, "learner": {"name": "sispeed", "rank": 4, "seed_size": 8}},
    {"window": None, "learner": {"name": "krls", "budget": 8}, "head": None, "drift": {**PAGE_HINKLEY, "watch": "loss"}},
    {
        "window": None,
        "learner": {"name": "qklms", "budget": 8},
        "head": None,
        "drift": {"watch": "columns", "detector": {"name": "column_chart", "learn": 10, "least": 2, "reference": 20}},
    },
    {
        "window": None,
        "learner": {"name": "klms", "budget": 8},
        "head": None,
        "drift": {"watch": "loss", "detector": {"name": "conformal", "least": 2, "reference": 20}},
    },
    {
        "window": None,
        "head": None,
        "drift": {
            "watch": ["columns", "ls_error"],
            "reference": "first 120 rows",
            "false_alarms": "1 per 20 rows",
            "extractor": {"name": "last_points", "rank": 3},
        },
        "sinks": {"drift": "rows", "alarms": "alarms"},
    },
    {"window": None, "learner": {"name": "exkrls", "budget": 8, "transition": 0.9999}, "head": None, "drift": None},
    {"learner": {"name": "ald", "budget": 8}, "head": {"name": "gated_rls"}, "scaling": {"unit_norm": True}},
    {"learner": {"name": "wrkpca", "rank": 3}, "drift": {**PAGE_HINKLEY, "beside": ["last_points", "running_mean"]}},
    {"learner": {"name": "rff", "features": 16}, "head": {"name": "logistic"}, "drift": None},
    {"learner": {"name": "last_points", "rank": 3}, "head": {"name": "rls"}, "labels": {"delay": "1s"}, "drift": None},
    {
        "window": None,
        "learner": {
            "name": "okfeb",
            "rank": 3,
            "budget": 6,
            "role": "track",
            "coordinates": "support",
            "kernel": {"name": "polynomial"},
        },
        "head": {"name": "lms"},
    },
    *(
        {"window": None, "learner": learner, "head": {"name": head} if head else None, "drift": None}
        for learner, head in (
            ({"name": "klms", "budget": 8}, None),
            ({"name": "ispeed", "rank": 3, "seed_size": 6, "budget": 8, "solver": "ritz", "head": "rls"}, None),
            ({"name": "sispeed", **SMALL, "solver": "rank_one", "evict": "widen", "head": "exrls"}, None),
            ({"name": "speed", "rank": 3, "map_size": 8}, "pa"),
            ({"name": "sparse_speed", "rank": 3, "map_size": 8}, None),
            ({"name": "random_prototypes", "budget": 6}, "pegasos"),
            ({"name": "chain", "extractor": {"name": "taylor", "degree": 2}, "head": {"name": "exrls"}}, None),
            ({"name": "gauss_quadrature", "features": 8}, "nlms"),
        )
    ),
)
STANDS_ON, REPLACES = len(OF_STATES), len(OF_STATES) + 1


def made(sections: dict[str, Any]) -> Settings:
    """The settings of a small job, with whole sections replaced, or left out where None."""
    table = {"source": NAMED, "window": WINDOW, "head": {"name": "rls"}, "drift": PAGE_HINKLEY} | sections
    table.setdefault("learner", {"name": "okfeb", "rank": 3, "budget": 5})
    return settings_from({name: section for name, section in table.items() if section is not None})


@cache
def job_for(form: str, which: int) -> Job:
    """A job of OF_RECORDS in a format; raw numbers know neither names nor labels that come alone."""
    sections = dict(OF_RECORDS[which])
    source = {**sections["source"], "format": form}
    if form == "raw":
        source = {"topic": TOPIC, "format": "raw", "dim": 4 if which == 1 else 3}
        sections |= {"labels": {}, "window": None if which == 1 else WINDOW}
    return Job.from_settings(made({**sections, "source": source}))


@cache
def stateful(which: int) -> Job:
    """A job of OF_STATES; the one after the last stands on a population, the last of all on one that replaces it."""
    if which == STANDS_ON:
        return job_of_people(labels=WAIT)
    if which == REPLACES:
        replaces = [population_of(of_people(labels=WAIT)).fingerprint.hex()]
        chosen = of_people(population={"file": FILE, "replaces": replaces}, labels=WAIT)
        return Job.from_settings(chosen, population=encode(population_of(chosen, OTHERS[:480])))
    return Job.from_settings(made(OF_STATES[which]))


def body_of(job: Job, step: int, n: int = 0) -> dict[str, Any]:
    """A good record's contents, 10 samples a second; n: a frame of so many."""
    source = job.settings.source
    scale = {"s": 1, "ms": 1000, "us": 10**6, "ns": 10**9}[source.time_unit]
    rng = np.random.default_rng(step)
    X = rng.normal(size=(max(1, n), job.dim)) + [np.sin(step)] * job.dim
    times = [(START + 0.1 * (step + i)) * scale for i in range(max(1, n))]
    body: dict[str, Any] = {}
    if source.fields is not None:
        for i, name in enumerate(source.fields):
            _put(body, name, X[:, i].tolist() if n else float(X[0, i]))
    else:
        body["x"] = X.tolist() if n else X[0].tolist()
    if source.time is not None:
        _put(body, source.time, times if n else times[0])
    if source.label is not None and step % 3:
        _put(body, source.label, float(step % 7) if job.task == "regression" else ("run" if step // 40 % 2 else "sit"))
    if job.settings.side:
        body[job.settings.side] = step % 2
    return body


def _put(body: dict[str, Any], name: str, value: Any) -> None:
    for step in reversed(path_of(name).steps[1:]):
        if isinstance(step, str):
            value = {step: value}
        elif step == EACH:
            ((inner, values),) = value.items()
            before = body.get(path_of(name).top, repeat({}))
            values = values if isinstance(values, list) else [values]
            value = [{**old, inner: one} for old, one in zip(before, values, strict=False)]
        else:
            value = [{step.field: step.value, **value}] if isinstance(step, ByName) else [[]] * step + [value]
    top = path_of(name).top
    body[top] = {**body[top], **value} if isinstance(value, dict) and top in body else value


def value_of(job: Job, step: int, n: int = 0) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """The same as a record's value and headers."""
    form, body = job.settings.source.format, body_of(job, step, n)
    if form == "raw":
        X = np.array(body["x"])
        said = {"shape": ",".join(map(str, X.shape)), "dtype": "f8", "time": f"{START + 0.1 * step}", "rate": "10"}
        label = {"label": str(step % 7)} if job.task == "regression" else {"label": "run"}
        return X.tobytes(), tuple((f"streamjobs-{name}", text.encode()) for name, text in {**said, **label}.items())
    return (json.dumps(body).encode() if form == "json" else msgspec.msgpack.encode(body)), ()


def record(
    value: bytes | None, offset: int, headers: tuple[Any, ...] = (), key: bytes | None = b"p0", late: float = 5
) -> Stored:
    return Stored(TOPIC, 0, offset, round((START + 0.1 * offset + late) * 1000), key, value, headers)


def good(job: Job, begin: int, end: int) -> list[Stored]:
    """Records of single samples, one key."""
    made = [(step, *value_of(job, step, 1 if job.settings.source.format == "raw" else 0)) for step in range(begin, end)]
    return [record(value, step, headers) for step, value, headers in made]


@cache
def moments(form: str, which: int) -> tuple[bytes, ...]:
    """The stored states of a key as it learns the records of a job, named by its format (or "state") and number."""
    if form == "state" and which == REPLACES:
        return moments(form, STANDS_ON)
    job = stateful(which) if form == "state" else job_for(form, which)
    live, drift = Live(job, lambda key: None), job.settings.drift
    at = MOMENTS if drift is None or drift.reference is None else OF_REFERENCE
    if form == "state" and which == STANDS_ON:
        records = [one for one in late_labels(samples(300)) if one.key == b"p1"]
    else:
        records = good(job, 0, at[-1])
    kept, begin = [], 0
    for moment in at:
        end = len(records) * moment // at[-1]
        applied(job, live, records[begin:end])
        kept += [data for key, data in live.snapshots() if key == records[0].key]
        begin = end
    return tuple(kept)


def contents(job_settings: Settings) -> dict[str, Any]:
    """A job's settings as a job file has them."""
    return {
        name: {key: value for key, value in section.items() if value is not None}
        for name, section in job_settings.model_dump(exclude_defaults=True).items()
        if section is not None
    }
