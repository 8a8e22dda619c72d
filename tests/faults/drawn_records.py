"""Jobs drawn from all sections, formats, kinds of input and settings of states, and the records of their keys.

Event times of a partition never go back by more than the shorter of two pauses, so that a removed state ([state] ttl) is
one that a replay lets start over too.
"""

import gzip
import io
import json
import random
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import msgspec
import numpy as np

from streamjobs.core.job import Job
from streamjobs.core.state.population import encode
from streamjobs.errors import ConfigError
from streamjobs.settings.load import settings_from
from tests.brokers.kafka_job import PARTITIONS, Sent
from tests.core.drawn_jobs import drawn
from tests.core.people import COMPACT, of_people, population_of
from tests.core.written_formats import EVENT

START, PHASES = 1_700_000_000.0, 8
TTL, PAUSE = "120s", 200  # a pause that is longer; all others together are shorter
SENSORS = {
    "fast": {"fields": ["f0", "f1"], "rate": 10},
    "slow": {"fields": ["f2"], "rate": 2.5, "between": "hold"},
}
Encode = Callable[[dict[str, Any]], tuple[bytes, list[tuple[str, bytes]]]]


class Drawn(NamedTuple):
    """A job, and how its records are written."""

    table: dict[str, Any]
    form: str
    keys: int
    population: bytes | None
    compression: str  # of the producer
    transactional: bool
    directions: int | None = None  # of the population

    @property
    def fields(self) -> list[str]:
        named = self.table["source"].get("fields", ["f0", "f1", "f2"])  # absent: sensors
        return [name.rpartition(".")[2] for name in named]

    @property
    def regression(self) -> bool:
        return (self.table.get("head") or self.table["learner"]).get("task") == "regression"


def draw(rng: random.Random) -> Drawn:
    """A job that the settings accept."""
    while True:
        one = _draw(rng)
        table = json.loads(json.dumps(one.table))
        table["source"]["topic"] = "in"
        if one.population is not None:
            table["population"] = {"file": "population.state", "directions": one.directions}
        try:
            Job.from_settings(settings_from(table), population=one.population)
        except ConfigError:
            continue
        if one.form in ("msgpack", "avro"):
            one.table["source"]["format"] = one.form
        return one


def _draw(rng: random.Random) -> Drawn:
    pick, table = rng.choice, drawn(rng)
    form, population, few = pick(("json", "paths", "msgpack", "gzip", "cloudevents", "avro")), None, None
    kind = pick(("usual", "usual", "usual", "population", "sensors"))
    if kind == "sensors":
        form = "json"
        table["source"] = {"time": "ts", "label": "y", "sensors": {"name": "s", "each": SENSORS}, "missing": "skip"}
        table["source"]["sensors"] |= {} if "window" in table else {"rate": 5}
        table.get("forecast", {}).pop("every", None)
    elif kind == "population":
        form = pick(("json", "msgpack", "gzip"))
        table["head"] = {
            "name": "rls",
            "boost": 10.0,
            "fallback": "last_label",
            **pick(({"filter": "hmm"}, {"smooth": 0.3})),
        }
        chosen = of_people(head=table["head"], **pick(({}, COMPACT)))
        assert chosen.population is not None
        few = chosen.population.directions
        population = encode(population_of(chosen))
        table |= chosen.model_dump(mode="json", exclude_unset=True, include={"window", "scaling", "learner"})
        table["source"] |= {"fields": ["ax", "ay", "az"]}
    source = table["source"]
    if form == "paths":
        source["fields"] = [f"r.{name}" for name in source["fields"]]
    source |= {"gzip": {"compression": "gzip"}, "cloudevents": {"envelope": "cloudevents"}}.get(form, {})
    if rng.random() < 0.2:
        source |= {"key": "who", "partitioner": "crc32"}
    table["state"] = _state(rng)
    if "drift" in table and rng.random() < 0.7:
        table["drift"] |= {"reference": pick(("first 20 rows", "first 5s")), **pick(({}, {"relearn_after": "15 rows"}))}
    table.pop("alarms", None)
    if rng.random() < 0.5:
        table["alarms"] = {"stuck": pick((True, "2s"))}
        if "ttl" not in table["state"]:
            source["partitioner"] = "crc32"
            table["alarms"] |= {"silent": pick(("3s", "8s")), **pick(({}, {"group": 0.3, "group_within": "60s"}))}
            table["alarms"] |= pick(({}, {"expected": ["k1", "k3", "never"]}))
    table |= {"job": {"guarantee": pick(("at_least_once", "exactly_once"))}, "sinks": {}}
    keys = pick((5, 20, 60) if "window" in table or kind == "sensors" else (5, 40, 200, 400))
    return Drawn(table, form, keys, population, pick(("none", "gzip", "lz4", "zstd", "snappy")), rng.random() < 0.3, few)


def _state(rng: random.Random) -> dict[str, Any]:
    pick = rng.choice
    state: dict[str, Any] = {
        "replay": pick(("0s", "200ms", "2s", "10s", "60s")),
        "checkpoint": pick(("50ms", "200ms", "1s", "3s")),
    }
    for name, values in (
        ("cache", ("1MB", "4MB")),
        ("checkpoint_records", (50, 500)),
        ("checkpoint_bytes", ("64KB", "1MB")),
    ):
        if rng.random() < 0.3:
            state[name] = pick(values)
    return state | ({"ttl": TTL} if rng.random() < 0.4 else {})


def writer(one: Drawn, folder: Path) -> Encode:
    """Writes bodies as the job reads them; names the schema in the job."""
    if one.form == "avro":
        kinds = [*dict.fromkeys((*one.fields, "ts"), "double").items(), ("y", "double" if one.regression else "string")]
        kinds.append(("who", "string"))
        own = [{"name": name, "type": ["null", kind]} for name, kind in kinds]
        schema = {"type": "record", "name": "Reading", "fields": own}
        one.table["source"]["schema_file"] = str(folder / "drawn.avsc")
        (folder / "drawn.avsc").write_text(json.dumps(schema))
        parsed = fastavro.parse_schema(schema)

        def avro(body: dict[str, Any]) -> bytes:
            stream = io.BytesIO()
            fastavro.schemaless_writer(stream, parsed, body)
            return stream.getvalue()

        return lambda body: (avro(body), [])

    def text(body: dict[str, Any]) -> bytes:
        return json.dumps(body).encode()

    numbers = set(one.fields)
    event = [("content-type", b"application/cloudevents+json")]
    encodes: dict[str, Encode] = {
        "json": lambda body: (text(body), []),
        "paths": lambda body: (text(body | {"r": {name: body[name] for name in numbers & body.keys()}}), []),
        "msgpack": lambda body: (msgspec.msgpack.encode(body), []),
        "gzip": lambda body: (gzip.compress(text(body), mtime=0), []),
        "cloudevents": lambda body: (text({**EVENT, "data": body}), event),
    }
    return encodes[one.form]


class Stream:
    """Phases in which some of the keys send: some join late, fall silent and come back, some never have a label."""

    def __init__(self, one: Drawn, seed: int, encode: Encode) -> None:
        self.one, self.encode, self.rng, self.numbers = one, encode, random.Random(seed), np.random.default_rng(seed)
        pick, dim = self.rng.choice, len(one.fields)
        self.kinds = [[self.rng.randrange(8) for _ in range(dim)] for _ in range(one.keys)]
        self.labelled = [pick((0.0, 0.05, 0.7)) for _ in range(one.keys)]
        self.joins = [pick((0, 0, 0, 1, 3, 5)) for _ in range(one.keys)]
        self.walk, self.steps, self.sent = np.zeros((one.keys, dim)), [0] * one.keys, list[Sent]()

    def records(self, count: int) -> list[Sent]:
        """About so many, in the order in which they are sent."""
        now, steps = START, max(3, min(60, round(count / (PHASES * self.one.keys * 0.5))))
        for phase in range(PHASES):
            now += self.rng.choice((0, 0.5, 5, PAUSE))
            sending = [key for key, joins in enumerate(self.joins) if joins <= phase and self.rng.random() < 0.6]
            for step in range(steps):
                now += 0.1
                for key in sending:
                    if self.rng.random() > 0.03:
                        self._sample(key, now + key * 1e-5, first=step == 0)
        return self.sent

    def _values(self, key: int) -> list[float]:
        z, step = self.numbers.normal(size=len(self.one.fields)), self.steps[key]
        self.steps[key] += 1
        self.walk[key] += z
        kinds = [z, self.walk[key], np.sin(step / 7) + 0.1 * z, np.round(np.abs(z)), 5.0 + 0 * z, step // 50 * 10 + z]
        kinds += [1e6 * z, z * 10.0 ** self.numbers.integers(-8, 8)]
        return [float(kinds[kind][at]) for at, kind in enumerate(self.kinds[key])]

    def _sample(self, key: int, now: float, *, first: bool) -> None:
        rng, one, x = self.rng, self.one, self._values(key)
        at = round(now - (0.15 if not first and rng.random() < 0.02 else 0.0), 6)
        names = ("run", "sit") if one.population is not None else ("a", "b")
        label = {"y": 2 * x[0] if one.regression else names[self.steps[key] // 40 % 2]}
        body = dict(zip(one.fields, x, strict=True)) | {"ts": at} | (label if rng.random() < self.labelled[key] else {})
        what = rng.random()
        if "sensors" in one.table["source"]:
            if self.steps[key] % 4 == 0:
                self._send(key, {"s": "slow", "f2": body["f2"], "ts": round(at - 0.01, 6)}, at)
            body = {name: value for name, value in body.items() if name != "f2"} | {"s": "fast"}
        elif what < 0.02:
            body[one.fields[0]] = rng.choice((None, 1e300))
        elif what < 0.05 and not first and self.labelled[key]:
            body = {"ts": round(at - rng.choice((0.1, 0.2, 1.0)), 6), **label}  # a label that comes late
        elif what > 0.97 and one.form != "avro":
            body = {name: [value] * 3 for name, value in body.items()} | {"ts": [round(at + 0.1 * i, 6) for i in range(3)]}
        self._send(key, body, at)

    def _send(self, number: int, body: dict[str, Any], at: float) -> None:
        rng, name = self.rng, f"k{number}"
        partition, keyed = zlib.crc32(name.encode()) % PARTITIONS, "key" in self.one.table["source"]
        own = rng.choice((name.encode(), None, b"other")) if keyed else name.encode()
        value, headers = self.encode(body | ({"who": name} if keyed else {}))
        self.sent.append(Sent(own, value, partition, round(at * 1000), headers))
        if rng.random() < 0.003:
            self.sent.append(Sent(own, rng.choice((None, b"", b"{")), partition, round(at * 1000), headers))
