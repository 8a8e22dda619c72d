"""A job: the stages a key's rows pass, made once from the settings, and what identifies its snapshots."""

import json
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from algorithms import Learner
from algorithms.common.protocol import Stage, State
from algorithms.heads.gated import GatedRls
from algorithms.heads.smoothing import Smoothing
from streamjobs.core.decoding.records import Decoded, decoder
from streamjobs.core.messages import Record
from streamjobs.core.state import snapshot
from streamjobs.core.state.migration import carried, carries
from streamjobs.core.state.population import Population, begun
from streamjobs.core.state.population import decode as decode_population
from streamjobs.core.state.snapshot import Snapshot
from streamjobs.core.state.validation import MOST, sound
from streamjobs.core.warmup import warm_up
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.composition import Parts, Watch, describe, drift_stages, idle_stage, parts_of, sinks_of, watches
from streamjobs.settings.sections import Settings
from streamjobs.stages.class_counts import Books
from streamjobs.stages.fallback import Fallback
from streamjobs.stages.idle import Idle
from streamjobs.stages.late_labels import Waiting
from streamjobs.stages.order import Order
from streamjobs.stages.windows import Windows


class Job(NamedTuple):
    """Stages by name in the order rows pass them, and the facts around them; made by `Job.from_settings`."""

    settings: Settings
    stages: dict[str, Stage]  # see `stages_of`
    shared: dict[str, State]  # of stages all keys share: the population's scaling and map, which stand still
    learner: Learner  # a key's own
    watches: tuple[Watch, ...]  # what is watched for drift
    population: Population | None
    dim: int  # of a sample
    width: int  # of a row: dim, or the statistics of a window
    targets: int
    task: str  # classification | regression | none (the learner predicts nothing)
    classes: list[str] | None  # declared ones
    label_width: int  # numbers in a label's code
    model: str  # how outputs name it
    sinks: dict[str, str]  # sink -> topic, those that are on
    decode: Callable[[Sequence[Record]], Decoded]
    fingerprint: bytes
    described: dict[str, str]
    start: dict[str, Any] | None  # states a new key begins from, and `names`

    @classmethod
    def from_settings(cls, settings: Settings, start: bytes | None = None, population: bytes | None = None) -> "Job":
        """`start` is an exported state, `population` what the file of [population] holds.

        Raises SettingError for what the learners refuse, SnapshotError for damaged bytes or a start of another job,
        ConfigError where the population belongs to another job or is missing.
        """
        source, parts = settings.source, parts_of(settings)
        others = _population(settings, parts, population)
        if parts.task == "classification":
            known = len(others.names) if others is not None else 0
            targets = parts.max_classes if parts.max_classes is not None else known
        else:
            known, targets = 0, parts.targets if parts.predicts else 0
        label_width = parts.targets if parts.task == "regression" else 1

        stages = stages_of(settings, parts, targets, known)
        described = described_by(stages, parts, targets, others)
        model = settings.learner.name + (f"+{settings.head.name}" if settings.head else "")
        job = cls(
            settings=settings,
            stages=stages,
            shared=_shared(others),
            learner=parts.learner,
            watches=watches(settings.drift, model),
            population=others,
            dim=parts.dim,
            width=parts.width,
            targets=targets,
            task=parts.task,
            classes=parts.classes,
            label_width=label_width,
            model=model,
            sinks=sinks_of(settings, parts),
            decode=decoder(source, parts.dim, settings.window.mirror if settings.window else None, settings.labels.wait > 0),
            fingerprint=blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16).digest(),
            described=described,
            start=None,
        )
        return job.starting_from(start) if start is not None else job

    def starting_from(self, data: bytes) -> "Job":
        """The job whose new keys begin from an exported state; raises SnapshotError."""
        return self._replace(start=_started(self, data))

    @property
    def own(self) -> dict[str, Stage]:
        """The stages with a state per key."""
        return {name: stage for name, stage in self.stages.items() if name not in self.shared}

    def init(self, key: bytes) -> dict[str, Any]:
        """The stages' states of a new key, from the warm start where there is one."""
        seed = int.from_bytes(
            blake2b(key, digest_size=6, salt=self.settings.job.seed.to_bytes(8, "little", signed=True)).digest()
        )
        states = self._empty(seed)
        if self.start is not None:
            states |= {name: state for name, state in self.start["states"].items() if name not in SIGNAL}
        return states

    def names(self) -> list[str]:
        """Class names a new key begins with, in the order of their columns."""
        if self.start is not None:
            return list(self.start["names"])
        return list(self.population.names if self.population is not None else self.classes or ())

    def _empty(self, seed: int) -> dict[str, Any]:
        states: dict[str, Any] = {}
        for name, stage in self.own.items():
            if isinstance(stage, (Order, Windows)):
                states[name] = stage.init(self.dim, self.label_width)
            elif isinstance(stage, Idle):
                states[name] = stage.init(self.dim)
            elif isinstance(stage, Waiting):
                states[name] = stage.init(self.width, self.label_width)
            elif isinstance(stage, Smoothing):
                states[name] = stage.init(targets=self.targets)
            elif isinstance(stage, Fallback):
                states[name] = stage.init()
            elif isinstance(stage, Books):
                states[name] = stage.init(0 if self.population is None else self.population.rows)
            elif self.population is not None and isinstance(stage, GatedRls):
                states[name] = begun(self.population, stage, self.targets)
            else:
                assert isinstance(stage, Learner)
                dim = 1 if stage.kind == "drift" else self.width
                states[name] = stage.init(dim=dim, targets=self.targets if name == "learner" else 0, seed=seed)
        return states

    @property
    def state_bytes(self) -> int:
        """Upper bound of a key's snapshot in bytes, without its class names."""
        states = self._empty(0)
        arrays = sum(len(snapshot.flatten(state)) for state in states.values())
        heads = 256 + 20 * arrays + len(json.dumps(self.described))
        return heads + sum(stage.bytes_of(states[name]) for name, stage in self.own.items())

    def encode(self, states: dict[str, Any], names: list[str], offsets: snapshot.Offsets) -> bytes:
        arrays = [array for name in self.own for array in snapshot.flatten(states[name])]
        return snapshot.encode(Snapshot(self.fingerprint, _text(self.described), offsets, names, arrays))

    @property
    def snapshot_head(self) -> bytes:
        """What all this job's snapshots begin with."""
        return snapshot.head(self.fingerprint, _text(self.described))

    def decode_snapshot(self, data: bytes) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """Raises SnapshotError when the bytes are damaged or another job wrote them; the message says what differs."""
        held = snapshot.decode(data)
        if held.fingerprint != self.fingerprint:
            return self._migrated(held)
        begun = self._empty(0)
        states, at = {}, 0
        for name, like in begun.items():
            count = len(snapshot.flatten(like))
            states[name] = snapshot.unflatten(like, held.arrays[at : at + count])
            at += count
        if at != len(held.arrays):
            raise SnapshotError(f"snapshot holds {len(held.arrays)} arrays, this job expects {at}.")
        least = self.classes if self.population is None else self.population.names
        if least is not None and held.names[: len(least)] != least:
            raise SnapshotError(f"snapshot knows the classes {held.names!r:.200}, this job begins with {least!r:.200}.")
        sound(self.own, begun, states, held.names)
        return states, held.names, held.offsets

    def opened(self, data: bytes) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """As `decode_snapshot`, and each stage has taken its state: for who only reads. Raises SnapshotError."""
        states, names, offsets = self.decode_snapshot(data)
        for name, stage in self.own.items():
            try:
                stage.load(stage.workspace(states[name]), 0, states[name])
            except ValueError as problem:
                raise SnapshotError(f"the stored state contradicts itself: {problem}") from None
        return states, names, offsets

    def last_event(self, data: bytes) -> tuple[float, snapshot.Offsets]:
        """Event time of the newest applied sample in a snapshot, -inf without one, and the last applied offsets.

        Raises SnapshotError.
        """
        held = snapshot.decode(data)
        if held.fingerprint != self.fingerprint or not held.arrays:
            raise SnapshotError("snapshot of another job.")
        if held.arrays[0].ndim or held.arrays[0].dtype != np.float64:
            raise SnapshotError(f"snapshot field order.newest has shape {held.arrays[0].shape}, expected a number.")
        return float(held.arrays[0]), held.offsets  # `order` is the first stage, `newest` its first field

    def _migrated(self, held: Snapshot) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """The state of a key of another population, where this one replaces it."""
        written, population = snapshot.table_of(held.description), self.settings.population
        old = written.get("population")
        if population is None or old is None or old == self.described["population"]:
            raise SnapshotError(snapshot.difference(written, self.described))
        if carries(written, self.described, population.replaces or ()):
            assert self.population is not None
            begun = self._empty(0)
            try:
                states, names = carried(held, begun, self.population.names)
            except (IndexError, ValueError) as problem:
                raise SnapshotError(f"the stored state contradicts itself: {problem}.") from None
            sound(self.own, begun, states, names)
            return states, names, held.offsets
        if carries(written, self.described, [old]):
            raise SnapshotError(
                f"snapshot was written with population {old}; this job runs population {self.described['population']}. "
                f"Put the old file back, or set [population] replaces = [{old!r}]: then keys begin anew with the new "
                "population's head ('streamjobs state migrate JOB --population' shows what that means for how many)."
            )
        raise SnapshotError(snapshot.difference(written, self.described))

    def compile(self) -> None:
        """Run every compiled loop once, so that the first record does not wait for the compiler."""
        warm_up(self.stages, self._empty(0) | self.shared, self.dim, self.label_width)


def _text(described: dict[str, str]) -> str:
    return json.dumps(described, separators=(",", ":"))


def _population(settings: Settings, parts: Parts, data: bytes | None) -> Population | None:
    if settings.population is None:
        return None
    if data is None:
        raise ConfigError("[population]: its file was not read.")
    return decode_population(data, parts, settings.population.file)


def _shared(population: Population | None) -> dict[str, State]:
    if population is None:
        return {}
    parts = {"scaling": population.scaling, "map": population.map}
    return {name: taught.state for name, taught in parts.items() if taught is not None}


def _started(job: Job, data: bytes) -> dict[str, Any]:
    states, names, _ = job.opened(data)
    books = states["books"]
    if books.seen + books.rows >= MOST:
        raise SnapshotError(f"the exported state has seen {books.seen} rows and {books.rows}, more than there can be.")
    states["books"] = books._replace(seen=books.seen + books.rows, rows=0)
    for name in drift_stages(job.settings.drift):  # what was usual for others is no measure of drift
        del states[name]
    if job.classes is not None and names != job.classes:
        raise SnapshotError(f"the exported state knows the classes {names}, this job declares {job.classes}.")
    return {"states": states, "names": names}


SIGNAL = ("order", "idle", "windows", "waiting")  # of a key's signal: fresh for a new key, also after a warm start
_UNTOLD = ("order", "books", "fallback")  # of these no setting changes what the arrays of a snapshot mean


def stages_of(settings: Settings, parts: Parts, targets: int, known: int) -> dict[str, Stage]:
    """Stages by name: order, idle?, windows?, waiting?, scaling?, map?, learner, of drift, smoothing?, fallback?, books.

    targets: columns of a prediction; known: classes that a new key knows from the population.
    """
    source = settings.source
    stages: dict[str, Stage] = {"order": Order(policy=source.late, lateness=source.lateness, duplicates=source.duplicates)}
    stages |= idle_stage(settings.drift)
    if parts.windows is not None:
        stages["windows"] = parts.windows
    if parts.waiting is not None:
        stages["waiting"] = parts.waiting
    if parts.scaling is not None:
        stages["scaling"] = parts.scaling
    if parts.map is not None:
        stages["map"] = parts.map
    stages["learner"] = parts.learner
    stages |= drift_stages(settings.drift)
    if parts.smoothing is not None:
        stages["smoothing"] = parts.smoothing
    if parts.falls_back:
        stages["fallback"] = Fallback()
    stages["books"] = Books(classes=targets if parts.task == "classification" else 0, given=known)
    return stages


def described_by(stages: dict[str, Stage], parts: Parts, targets: int, population: Population | None) -> dict[str, str]:
    """What a job's snapshots belong to: all that decides what their arrays mean, by name, as people read it."""
    described = {"dim": str(parts.dim), "labels": str(targets)}
    described |= {name: describe(stage) for name, stage in stages.items() if name not in _UNTOLD}
    if parts.facts["mirror"] != "none":
        described["mirror"] = parts.facts["mirror"]
    if parts.classes is not None:
        described["classes"] = ",".join(parts.classes)
    if parts.falls_back:
        described["fallback"] = "last_label"
    if population is not None:
        described["population"] = population.fingerprint.hex()
    return described
