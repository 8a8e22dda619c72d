"""A job: the stages a key's rows pass, made once from its composition, and what identifies its snapshots."""

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple, TypeVar

import numpy as np

from algorithms import Learner
from algorithms.common.protocol import State
from streamjobs.core.decoding.keys import KeyAll, keyed
from streamjobs.core.decoding.records import Decoded
from streamjobs.core.decoding.time_units import job_decoder, time_judge
from streamjobs.core.decoding.unwrap import make_schemas
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.core.job_stages import described_by, stages_of
from streamjobs.core.messages import Record
from streamjobs.core.state import held_stages, migration, other_drift, snapshot
from streamjobs.core.state.population import Population
from streamjobs.core.state.population import decode as decode_population
from streamjobs.core.state.snapshot import Snapshot
from streamjobs.errors import ConfigError, SnapshotError
from streamjobs.settings.composition import Composition, Watch, composition_of
from streamjobs.settings.sections import Settings
from streamjobs.stages.fill import FillState
from streamjobs.stages.names import ALARMS, DRIFT_REFERENCE, FILL, ORDER, REFERENCE, SENSORS
from streamjobs.stages.order import OrderState
from streamjobs.stages.population.reference import PopulationReference
from streamjobs.stages.population.reject import Rejection
from streamjobs.stages.reference import OVER
from streamjobs.stages.sensors import SensorsState
from streamjobs.stages.stage import JobStage, Shape, refuse

SEED_BYTES = 6
Kind = TypeVar("Kind", bound=JobStage)


class Job(NamedTuple):
    """Stages by name in the order rows pass them, and the facts around them; made by `Job.from_composition`."""

    composition: Composition
    stages: dict[str, JobStage]  # see `stages_of`
    population: Population | None
    targets: int  # columns of a prediction
    shape: Shape
    keyed: KeyAll  # gives records the keys that the job goes by
    decode: Callable[[Sequence[Record]], Decoded]
    schemas: Schemas | None  # of records in a format that has them
    fingerprint: bytes
    described: dict[str, str]
    start: dict[str, Any] | None  # states a new key begins from, and `names`

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        start: bytes | None = None,
        population: bytes | None = None,
        schema: Definition | None = None,
    ) -> "Job":
        """Of settings made by hand. Raises as `from_composition` does, and ConfigError for what learners refuse."""
        return cls.from_composition(composition_of(settings), start, population, schema)

    @classmethod
    def from_composition(
        cls,
        composition: Composition,
        start: bytes | None = None,
        population: bytes | None = None,
        schema: Definition | None = None,
    ) -> "Job":
        """`start` is an exported state, `population` and `schema` what the files of [population] and schema_file hold.

        Raises SnapshotError for damaged bytes or a start of another job, ConfigError where the population belongs to another
        job or is missing, or the schema cannot be used.
        """
        settings = composition.settings
        schemas = make_schemas(settings.source, composition.mirror, schema)
        others = _population(composition, population)
        known, targets = 0, composition.targets if composition.predicts else 0
        if composition.task == "classification":
            known = len(others.names) if others is not None else 0
            targets = composition.max_classes if composition.max_classes is not None else known
        stages = stages_of(composition, others, targets, known)
        described = described_by(stages, composition, targets, others)
        job = cls(
            composition=composition,
            stages=stages,
            population=others,
            targets=targets,
            shape=Shape(
                dim=composition.dim,
                width=composition.width,
                label_width=composition.targets if composition.task == "regression" else 1,
                targets=targets,
                taught=0 if others is None else others.rows,
            ),
            keyed=keyed(settings.source, schemas=schemas),
            decode=job_decoder(composition, settings.source, schemas),
            schemas=schemas,
            fingerprint=blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16).digest(),
            described=described,
            start=None,
        )
        return job.starting_from(start) if start is not None else job

    def starting_from(self, data: bytes) -> "Job":
        """The job whose new keys begin from an exported state; raises SnapshotError."""
        return self._replace(start=_start(self, data))

    def on_partitions(self, partitions: int) -> "Job":
        """The job that refuses a record on another partition than its key's, see `decoding.keys`."""
        return self._replace(keyed=keyed(self.settings.source, partitions, self.schemas))

    def time_unit_of(self, record: Record) -> str | None:
        """The unit in which the record's time must be; None where it does not tell."""
        return time_judge(self.settings.source)(record)

    def in_time_unit(self, unit: str) -> "Job":
        """The job with the unit that was decided for time_unit = "auto"."""
        return self._replace(decode=job_decoder(self.composition, self.settings.source.in_unit(unit), self.schemas))

    @property
    def settings(self) -> Settings:
        return self.composition.settings

    @property
    def learner(self) -> Learner:
        """A key's own."""
        return self.composition.learner

    @property
    def watches(self) -> tuple[Watch, ...]:
        """What is watched for drift: first those the job goes by, then the controls."""
        return self.composition.watches

    @property
    def task(self) -> str:
        return self.composition.task

    @property
    def classes(self) -> list[str] | None:
        """Declared ones."""
        return self.composition.classes

    @property
    def model(self) -> str:
        """How outputs name learner and head."""
        return self.composition.model

    @property
    def sinks(self) -> dict[str, str]:
        """sink -> topic, those that are on."""
        return self.composition.sinks

    @property
    def dim(self) -> int:
        """Numbers of a sample."""
        return self.shape.dim

    @property
    def width(self) -> int:
        """Numbers of a row: dim, or the statistics of a window."""
        return self.shape.width

    @property
    def label_width(self) -> int:
        """Numbers of a label's code."""
        return self.shape.label_width

    @property
    def own(self) -> dict[str, JobStage]:
        """The stages with a state per key."""
        return {name: stage for name, stage in self.stages.items() if stage.shared_state is None}

    @property
    def shared(self) -> dict[str, State]:
        """States of stages all keys share: the population's scaling and map, which stand still."""
        return {name: stage.shared_state for name, stage in self.stages.items() if stage.shared_state is not None}

    def stage(self, name: str, kind: type[Kind]) -> Kind:
        """The stage of this name, which every job has."""
        stage = self.stages[name]
        assert isinstance(stage, kind)
        return stage

    def optional_stage(self, name: str, kind: type[Kind]) -> Kind | None:
        return self.stage(name, kind) if name in self.stages else None

    def init(self, key: bytes) -> dict[str, Any]:
        """The stages' states of a new key, from the warm start where there is one."""
        return self.init_from(self.seed_of(key))

    def seed_of(self, key: bytes) -> int:
        salt = self.settings.job.seed.to_bytes(8, "little", signed=True)
        return int.from_bytes(blake2b(key, digest_size=SEED_BYTES, salt=salt).digest())

    def init_from(self, seed: int) -> dict[str, Any]:
        states = self.fresh(seed)
        return states if self.start is None else states | self.start["states"]

    def names(self) -> list[str]:
        """Class names a new key begins with, in the order of their columns."""
        if self.start is not None:
            return list(self.start["names"])
        return self.given_names

    @property
    def given_names(self) -> list[str]:
        """Class names every key knows: declared, or the population's."""
        return list(self.population.names if self.population is not None else self.classes or ())

    @property
    def rejection(self) -> Rejection | None:
        """When the class of a row is unknown; None where it never is."""
        return self.population.reject if self.population is not None and self.composition.reject is not None else None

    @property
    def population_reference(self) -> PopulationReference | None:
        """What [drift] compares rows with; None where that is not the population's."""
        return self.population.reference if self.population is not None and self.composition.between is not None else None

    @property
    def most_names(self) -> int | None:
        """Classes a key may know; None where labels are numbers."""
        return self.targets if self.task == "classification" else None

    def fresh(self, seed: int) -> dict[str, Any]:
        """The states of a new key without a warm start."""
        return {name: stage.begin(self.shape, seed) for name, stage in self.own.items()}

    def normal_of(self, states: dict[str, Any]) -> dict[str, Any]:
        """Those of a key's states that hold what drift detection takes for normal."""
        return {name: states[name] for name, stage in self.own.items() if stage.knows_normal}

    @property
    def state_bytes(self) -> int:
        """Upper bound of a key's snapshot in bytes, without its class names."""
        states = self.fresh(0)
        arrays = sum(len(snapshot.flatten(state)) for state in states.values())
        heads = 256 + 20 * arrays + len(json.dumps(self.described))
        return heads + sum(stage.bytes_of(states[name]) for name, stage in self.own.items())

    def encode(self, states: dict[str, Any], names: list[str], offsets: snapshot.Offsets) -> bytes:
        arrays = [array for name in self.own for array in snapshot.flatten(states[name])]
        return snapshot.encode(Snapshot(self.fingerprint, _text(self.described), offsets, names, arrays))

    def encode_model(self, states: dict[str, Any], names: list[str]) -> bytes:
        """A key's model as the start of new keys ([state] start_from): no offsets, and a signal that begins fresh."""
        fresh = self.init(b"")
        signal = {name: fresh[name] for name, stage in self.own.items() if stage.signal}
        return self.encode(states | signal, names, {})

    @property
    def snapshot_head(self) -> bytes:
        """What all this job's snapshots begin with."""
        return snapshot.head(self.fingerprint, _text(self.described))

    def decode_snapshot(
        self, data: bytes, *, drift_anew: bool = False
    ) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """Raises SnapshotError when the bytes are damaged or another job wrote them; the message says what differs.

        drift_anew: a job with another [drift] may have written them; drift detection begins again then.
        """
        held = snapshot.decode(data)
        fresh, stages = self.fresh(0), held_stages.of_description(held, self.fingerprint, self.described, self.own)
        if stages is None:
            return self._of_another(held, fresh, drift_anew)
        behind = self.watches[-1].detector_stage if self.watches else None
        stages = held_stages.of_arrays(stages, fresh, len(held.arrays), self.shape, behind)
        states, at = dict(fresh), 0
        for name, stage in stages.items():
            like = fresh[name] if name in fresh else stage.begin(self.shape, 0)
            count = len(snapshot.flatten(like))
            states[name] = snapshot.unflatten(like, held.arrays[at : at + count])
            at += count
        states = {name: states[name] for name in fresh}
        if held.fingerprint != self.fingerprint:
            states |= self._anew(snapshot.table_of(held.description), fresh)
        if at != len(held.arrays):
            raise SnapshotError(f"snapshot holds {len(held.arrays)} arrays, this job expects {at}.")
        return self._checked(held, states, fresh)

    def _of_another(
        self, held: Snapshot, fresh: dict[str, Any], drift_anew: bool
    ) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """The state of a job with another [drift] or population, where it may be read. Raises SnapshotError."""
        written = snapshot.table_of(held.description)
        if not other_drift.differs(written, self.described):
            return self._migrated(held)
        if drift_anew:
            return self._checked(held, other_drift.kept(held, written, self.own, fresh, self.shape), fresh)
        raise SnapshotError(snapshot.difference(written, self.described, other_drift.RELEARN))

    def _checked(
        self, held: Snapshot, states: dict[str, Any], fresh: dict[str, Any]
    ) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """The states, where they are possible; raises SnapshotError."""
        least = self.given_names
        if held.names[: len(least)] != least:
            raise SnapshotError(f"snapshot knows the classes {held.names!r:.200}, this job begins with {least!r:.200}.")
        self._validate(states, fresh, held.names)
        return states, held.names, held.offsets

    def _anew(self, written: Mapping[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
        """States of detectors that begin anew: the population's reference is another one than theirs was."""
        if written.get(DRIFT_REFERENCE) == self.described.get(DRIFT_REFERENCE):
            return {}
        return {watch.detector_stage: fresh[watch.detector_stage] for watch in self.watches}

    def opened(self, data: bytes, *, drift_anew: bool = False) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """As `decode_snapshot`, and each stage has taken its state: for who only reads. Raises SnapshotError."""
        states, names, offsets = self.decode_snapshot(data, drift_anew=drift_anew)
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
        known = held_stages.of_description(held, self.fingerprint, self.described, self.own)
        name, like = (SENSORS, SensorsState) if SENSORS in self.own else (ORDER, OrderState)
        at = like._fields.index("newest")
        if known is not None and FILL in known:  # it comes before them
            at += len(FillState._fields)
        if known is None or len(held.arrays) <= at:
            raise SnapshotError("snapshot of another job.")
        newest = held.arrays[at]
        if newest.ndim != (name == SENSORS) or newest.dtype != np.float64 or not newest.size:
            what = "a number" if name == ORDER else "a number for each sensor"
            raise SnapshotError(f"snapshot field {name}.newest has shape {newest.shape}, expected {what}.")
        return float(newest.max()), held.offsets

    def _validate(self, states: dict[str, Any], fresh: dict[str, Any], names: list[str]) -> None:
        """Raises SnapshotError that names the field which the stages could not have left so."""
        classifies = self.task == "classification"
        if names and not classifies:
            refuse("names", "no classes in a regression", f"{len(names)}")
        if classifies and (len(names) > self.targets or len(set(names)) < len(names)):
            refuse("names", f"at most {self.targets} different classes", f"{len(names)}")
        for name, stage in self.own.items():
            stage.validate(name, states[name], fresh[name], names if classifies else None)

    def _migrated(self, held: Snapshot) -> tuple[dict[str, Any], list[str], snapshot.Offsets]:
        """The state of a key of another population, where this one replaces it."""
        written, population = snapshot.table_of(held.description), self.settings.population
        old = written.get("population")
        if population is None or old is None or old == self.described["population"]:
            raise SnapshotError(snapshot.difference(written, self.described))
        if migration.survives(written, self.described, population.replaces or ()):
            assert self.population is not None
            fresh = self.fresh(0)
            try:
                states, names = migration.migrated(held, self.own, fresh, self.population.names, self.targets)
            except (IndexError, ValueError) as problem:
                raise SnapshotError(f"the stored state contradicts itself: {problem}.") from None
            self._validate(states, fresh, names)
            return states, names, held.offsets
        if migration.survives(written, self.described, [old]):
            raise SnapshotError(
                f"snapshot was written with population {old}; this job runs population {self.described['population']}. "
                f"Put the old file back, or set [population] replaces = [{old!r}]: then keys start over with the new "
                "population's head ('streamjobs state migrate JOB --population' shows what that means for how many)."
            )
        raise SnapshotError(snapshot.difference(written, self.described))

    def compile(self) -> None:
        """Run every compiled loop once, so that the first record does not wait for the compiler."""
        states = self.fresh(0) | self.shared
        for name, stage in self.stages.items():
            stage.warm_up(states[name], self.shape)


def _text(described: dict[str, str]) -> str:
    return json.dumps(described, separators=(",", ":"))


def _population(composition: Composition, data: bytes | None) -> Population | None:
    section = composition.settings.population
    if section is None:
        return None
    if data is None:
        raise ConfigError("[population]: its file was not read.")
    return decode_population(data, composition, section.file)


def _start(job: Job, data: bytes) -> dict[str, Any]:
    """What new keys take over from an exported state: of drift detection only what [drift] reference_from asks for."""
    drift = job.settings.drift
    states, names, _ = job.opened(data, drift_anew=drift is None or drift.reference_from == "own")
    normal = _normal_for_others(job, states)
    inherited = {name: job.stages[name].inherit(state) for name, state in states.items()} | normal
    if job.classes is not None and names != job.classes:
        raise SnapshotError(f"the exported state knows the classes {names}, this job declares {job.classes}.")
    return {"states": {name: state for name, state in inherited.items() if state is not None}, "names": names}


def _normal_for_others(job: Job, states: dict[str, Any]) -> dict[str, Any]:
    """What an exported state holds for normal, where new keys are measured against that; raises SnapshotError."""
    drift = job.settings.drift
    if drift is None or drift.reference_from == "own":
        return {}
    if states[REFERENCE].phase != OVER:
        raise SnapshotError(
            f"the exported state has {states[REFERENCE].rows} rows of its reference ({drift.reference}), which is not over."
        )
    if ALARMS in states and np.any(states[ALARMS].opened):
        raise SnapshotError(
            "the exported state is in alarm, which is no measure for others; export it when the alarm is over, or after "
            "'streamjobs drift relearn' and a new reference."
        )
    return job.normal_of(states)
