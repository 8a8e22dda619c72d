"""A job: the stages a key's rows pass, made once from its composition, and what identifies its snapshots."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from algorithms import Learner
from algorithms.common.protocol import State
from streamjobs.core.decoding.keys import KeyAll, keyed
from streamjobs.core.decoding.records import Decoded
from streamjobs.core.decoding.time_units import job_decoder, time_judge
from streamjobs.core.decoding.unwrap import make_schemas
from streamjobs.core.decoding.with_schema.schemas import Schemas
from streamjobs.core.decoding.with_schema.wire_format import Definition
from streamjobs.core.job_stages import Steps, described_by, steps_of
from streamjobs.core.messages import Record, Stored
from streamjobs.core.state import snapshot
from streamjobs.core.state.held_stages import BEHIND
from streamjobs.core.state.migration import of_drift
from streamjobs.core.state.population import Convolved, Population
from streamjobs.core.state.population_reader import decode as decode_population
from streamjobs.core.state.snapshot import LeftOut, Snapshot
from streamjobs.core.state.untaught import Untaught
from streamjobs.core.state.valid import StateCheck
from streamjobs.errors import ConfigError, StreamjobsError
from streamjobs.settings.composition import Composition, composition_of
from streamjobs.settings.composition.watches import Watch
from streamjobs.settings.sections import Settings
from streamjobs.stages import rows
from streamjobs.stages.population.reference import PopulationReference
from streamjobs.stages.population.reject import Rejection
from streamjobs.stages.population.units import Norms
from streamjobs.stages.stage import JobStage, Shape

if TYPE_CHECKING:
    from streamjobs.stages.population.directions import Directions

SEED_BYTES = 6


class Job(NamedTuple):
    """The stages that rows pass, and the facts that each batch needs, resolved once by `Job.from_composition`."""

    composition: Composition
    settings: Settings
    steps: Steps
    stages: dict[str, JobStage]  # all of them in order, by stored name
    own: dict[str, JobStage]  # those with a state per key
    shared: dict[str, State]  # states of those that all keys share: a population's scaling and map, which do not learn
    template: dict[str, Any]  # states of a new key with seed 0, without a warm start
    untaught: Untaught | None  # the part of a key's head that its snapshots leave out until its first label
    check: StateCheck  # of stored states
    population: Population | None
    convolutions: Convolved | None  # of windows, as the population has them
    norms: Norms | None  # of the population's windows, by which other units are noticed
    directions: "Directions | None"  # that the head sees, as the population has them
    rejection: Rejection | None  # when the class of a row is unknown
    population_reference: PopulationReference | None  # what [drift] compares rows with, if that is the population's
    task: str  # classification | regression | none
    learner: Learner  # a key's own
    watches: tuple[Watch, ...]  # for drift: first those that raise alarms, then the controls
    classes: list[str] | None  # declared ones
    model: str  # how outputs name learner and head
    sinks: dict[str, str]  # sink -> topic, those that are on
    targets: int  # columns of a prediction
    shape: Shape
    keyed: KeyAll  # gives records the keys that the job uses
    decode: Callable[[Sequence[Record]], Decoded]
    schemas: Schemas | None  # of records in a format that has them
    fingerprint: bytes
    described: dict[str, str]
    start: dict[str, Any] | None  # states a new key begins from, and `names`
    partitions: int = 1  # of the input
    life: str = ""  # of the input topic, in the ids of outputs: see `topic_of_life`

    @classmethod
    def from_settings(cls, settings: Settings, population: bytes | None = None, schema: Definition | None = None) -> "Job":
        """Of settings made by hand. Raises as `from_composition` does, and ConfigError for what learners refuse."""
        return cls.from_composition(composition_of(settings), population, schema)

    @classmethod
    def from_composition(
        cls, composition: Composition, population: bytes | None = None, schema: Definition | None = None
    ) -> "Job":
        """population, schema: contents of the files of [population] and schema_file.

        Raises SnapshotError for a damaged population, ConfigError where the population belongs to another job or is missing,
        or the schema cannot be used.
        """
        settings = composition.settings
        schemas = make_schemas(settings.source, composition.mirror, schema)
        others = _population(composition, population)
        known, targets = 0, composition.targets if composition.task != "none" else 0
        if composition.task == "classification":
            known = len(others.names) if others is not None else 0
            targets = composition.max_classes if composition.max_classes is not None else known
        steps = steps_of(composition, others, targets, known)
        stages = steps.by_name()
        own = {name: stage for name, stage in stages.items() if stage.shared_state is None}
        shared = {name: stage.shared_state for name, stage in stages.items() if name not in own}
        described = described_by(stages, composition, targets, others)
        shape = Shape(
            dim=composition.dim,
            width=composition.width,
            label_width=composition.targets if composition.task == "regression" else 1,
            targets=targets,
            taught=0 if others is None else others.rows,
        )
        template = {name: stage.begin(shape, 0) for name, stage in own.items()}
        return cls(
            composition=composition,
            settings=settings,
            steps=steps,
            stages=stages,
            own=own,
            shared=shared,
            template=template,
            untaught=Untaught.of(own, template) if composition.learner.label_taught else None,
            check=StateCheck(own, template),
            population=others,
            convolutions=None if others is None else others.convolutions,
            norms=None if others is None else others.norms(composition.columns),
            directions=None if others is None else others.directions,
            rejection=others.reject if others is not None and composition.reject is not None else None,
            population_reference=others.reference if others is not None and composition.between is not None else None,
            task=composition.task,
            learner=composition.learner,
            watches=composition.watches,
            classes=composition.classes,
            model=composition.model,
            sinks=composition.sinks,
            targets=targets,
            shape=shape,
            keyed=keyed(settings.source, schemas=schemas),
            decode=job_decoder(composition, settings.source, schemas),
            schemas=schemas,
            fingerprint=_fingerprint(described),
            described=described,
            start=None,
        )

    def with_stages(self, **others: Any) -> "Job":
        """The job with other stages of the same states in the place of these fields of `steps`."""
        steps = self.steps._replace(**others)
        stages = steps.by_name()
        own = {name: stages[name] for name in self.own}
        return self._replace(steps=steps, stages=stages, own=own, check=StateCheck(own, self.template))

    @property
    def sections(self) -> dict[str, str]:
        """By the name of a section that may be added to a job with states: a hash of its settings."""
        texts = {name: self.own[name].description() or "" for name in BEHIND if name in self.own}
        if drift := [(name, text) for name, text in self.described.items() if of_drift(name)]:
            texts["drift"] = json.dumps(drift)
        if self.steps.alarms is not None:
            texts["alarms"] = ""
        return {name: blake2b(text.encode(), digest_size=3).hexdigest() for name, text in texts.items()}

    def without(self, sections: Collection[str]) -> "Job":
        """The job for records from before these sections were added: states keep their stages, no record reaches them."""
        none: dict[str, Any] = dict.fromkeys(name for name in sections if name in Steps._fields)
        if "drift" not in sections:
            return self._replace(steps=self.steps._replace(**none))
        none |= dict.fromkeys(("idle", "reference", "reference_scaling", "slopes", "rhythm", "alarms", "pauses"))
        steps = self.steps._replace(**none, watches=())
        sinks = {sink: topic for sink, topic in self.sinks.items() if sink != "drift"}
        return self._replace(steps=steps, watches=(), sinks=sinks)

    def on_partitions(self, partitions: int) -> "Job":
        """The job that refuses a record on another partition than its key's, see `decoding.keys`."""
        expected = self.settings.alarms.expected if self.settings.alarms is not None else ()
        return self._replace(keyed=keyed(self.settings.source, partitions, self.schemas, expected), partitions=partitions)

    def in_life(self, life: str) -> "Job":
        """The job over an input topic that was recreated under it."""
        return self._replace(life=life)

    def time_unit_of(self, record: Record) -> str | None:
        """The unit in which the record's time must be; None where it does not tell."""
        return time_judge(self.settings.source)(record)

    def in_time_unit(self, unit: str) -> "Job":
        """The job with the unit that was decided for time_unit = "auto"."""
        return self._replace(decode=job_decoder(self.composition, self.settings.source.in_unit(unit), self.schemas))

    @property
    def dim(self) -> int:
        return self.shape.dim

    @property
    def width(self) -> int:
        """Numbers of a row: dim, or the statistics of a window."""
        return self.shape.width

    @property
    def label_width(self) -> int:
        """Numbers of a label's code."""
        return self.shape.label_width

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
    def forecast_plan(self) -> tuple[list[str], tuple[int, ...], tuple[float, ...]] | None:
        """The columns that are forecast, the rows ahead and the coverage of intervals; None without forecasts."""
        if (stage := self.steps.forecasts) is None:
            return None
        return [self.composition.columns[at] for at in stage.columns], stage.learner.ahead, stage.learner.coverage

    @property
    def given_names(self) -> list[str]:
        """Class names every key knows: declared, or the population's."""
        return list(self.population.names if self.population is not None else self.classes or ())

    @property
    def most_names(self) -> int | None:
        """Classes a key may know; None where labels are numbers."""
        return self.targets if self.task == "classification" else None

    def fresh(self, seed: int) -> dict[str, Any]:
        """The states of a new key without a warm start."""
        return {name: stage.begin(self.shape, seed) for name, stage in self.own.items()}

    def normal_of(self, states: dict[str, Any]) -> dict[str, Any]:
        """Those of a key's states that contain what drift detection treats as normal."""
        return {name: states[name] for name, stage in self.own.items() if stage.knows_normal}

    @property
    def begins_untaught(self) -> bool:
        """Whether new keys begin with the head that snapshots leave out."""
        if self.untaught is None or self.start is None:
            return self.untaught is not None
        arrays = [array for name, state in self.init_from(0).items() for array in snapshot.flatten(state)]
        kept = self.untaught.without(arrays)
        return len(self.untaught.left_out) == sum(isinstance(array, LeftOut) for array in kept)

    @property
    def state_bytes(self) -> int:
        """Upper bound of a key's snapshot in bytes, without its class names."""
        states = self.template
        arrays = sum(snapshot.array_counts(states.values()))
        heads = 256 + 20 * arrays + len(json.dumps(self.described))
        left_out = 0 if self.untaught is None else self.untaught.constant_nbytes
        return heads + sum([stage.bytes_of(states[name]) for name, stage in self.own.items()]) - left_out

    def encode(self, states: dict[str, Any], names: list[str], offsets: snapshot.Offsets) -> bytes:
        arrays = [array for name in self.own for array in snapshot.flatten(states[name])]
        if self.untaught is not None:
            arrays = self.untaught.without(arrays)
        return snapshot.encode(Snapshot(self.fingerprint, _text(self.described), offsets, names, arrays))

    def encode_model(self, states: dict[str, Any], names: list[str]) -> bytes:
        """A key's model as the start of new keys ([state] start_from): no offsets, and a signal that begins fresh."""
        fresh = self.init(b"")
        signal = {name: fresh[name] for name, stage in self.own.items() if stage.signal}
        return self.encode(states | signal, names, {})

    def snapshot_heads(self, left_out: Mapping[int, LeftOut] | None = None) -> tuple[bytes, bytes]:
        """What this job's snapshots begin with that leave out these arrays, by place; and before they named their fields."""
        former = {name: text for name, text in self.described.items() if name != snapshot.FIELDS}
        heads = [snapshot.head(_fingerprint(one), _text(one), left_out) for one in (self.described, former)]
        return heads[0], heads[1]

    def compile(self) -> None:
        """Run every compiled loop once, so that the first record does not wait for the compiler."""
        states = self.template | self.shared
        for name, stage in self.stages.items():
            try:
                stage.warm_up(states[name], self.shape)
            except (StreamjobsError, MemoryError, OSError):
                raise
            except Exception as error:
                raise ConfigError(_not_started(self.model, name, error)) from error
        rows.warm_up(watched=bool(self.steps.watches))
        self.decode([Stored(self.settings.source.topic or "", 0, 0, 0, b"-", b"{}")])


def _not_started(model: str, stage: str, error: Exception) -> str:
    """Names the innermost learner that was called, and where and how it failed."""
    place, learner, trace = "?", "", error.__traceback__
    while trace is not None:
        place = f"{trace.tb_frame.f_code.co_filename.rpartition('/')[2]}, line {trace.tb_lineno}"
        owner = trace.tb_frame.f_locals.get("self")
        learner = type(owner).__name__ if isinstance(owner, Learner) else learner
        trace = trace.tb_next
    text = next(iter(str(error).strip().splitlines()), "no message")
    return (
        f"stage {stage!r} of {model}: {learner or 'it'} raised {type(error).__name__} on a first row of zeros ({place}): "
        f"{text:.200}; correct the learner, which 'streamjobs check-learner' checks."
    )


def _fingerprint(described: dict[str, str]) -> bytes:
    return blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=16).digest()


def _text(described: dict[str, str]) -> str:
    return json.dumps(described, separators=(",", ":"))


def _population(composition: Composition, data: bytes | None) -> Population | None:
    section = composition.settings.population
    if section is None:
        return None
    if data is None:
        raise ConfigError("[population]: its file was not read.")
    return decode_population(data, composition, section.file)
