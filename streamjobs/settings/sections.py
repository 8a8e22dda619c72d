"""The job file's settings: every section with its units and ranges. `settings.load` makes them of a file's contents.

Durations are texts such as "2s", "500ms", "5m", "90d"; sizes such as "64MB".
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from streamjobs.settings.broker import BrokerSection
from streamjobs.settings.types import Bytes, Seconds, Section, Side, Topic


class JobSection(Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] = Field(
        default="streamjobs", description="application id: consumer group and prefix of the state topics"
    )
    guarantee: Literal["at_least_once", "exactly_once"] = Field(
        default="at_least_once",
        description="of outputs; exactly_once: readers with isolation.level=read_committed see each one once, a checkpoint "
        "later",
    )
    seed: int = Field(default=0, ge=0, le=2**62, description="mixed into every key's own seed")


class SourceSection(Section):
    topic: Topic = Field(description="input topic")
    format: Literal["json", "msgpack", "raw"] = Field(default="json", description="how record values are encoded")
    fields: list[str] | None = Field(default=None, description="named numbers that make x, in this order")
    x: str = Field(default="x", description="where `fields` is absent: the field with the numbers of x")
    dim: int | None = Field(default=None, ge=1, le=4096, description="length of x; with `fields` it is their number")
    time: str | None = Field(default=None, description="field with the event time; absent: the record's timestamp")
    time_unit: Literal["s", "ms", "us", "ns"] = Field(default="s", description="unit of the event time, since 1970")
    label: str | None = Field(default=None, description="field with the label; may be absent or null in a record")
    late: Literal["learn", "predict_only", "drop", "dlq"] = Field(
        default="learn", description="what happens to a sample older than the newest applied one of its key"
    )
    lateness: Seconds = Field(
        default=0.0, description="samples wait this long in event time to be put in order (duration, or seconds)"
    )
    duplicates: Literal["drop", "learn"] = Field(default="drop", description="a sample with the time of one before it")
    future: Seconds = Field(
        default=60.0, description="furthest an event time may lie ahead of the record's timestamp (duration, or seconds)"
    )
    max_bytes: Bytes = Field(default=1 << 20, description="largest record value (size, or bytes)")
    max_samples: int = Field(default=10_000, ge=1, description="most samples in a frame")
    max_abs: float = Field(default=1e9, gt=0, description="largest |x| of a sample")
    max_key_bytes: int = Field(default=256, ge=1, description="longest key, in bytes")
    max_headers: int = Field(default=100, ge=0, description="most headers of a record")
    max_header_bytes: Bytes = Field(default=64 << 10, description="largest headers of a record, all names and values")


class MirrorSection(Section):
    field: str = Field(description="field of a record, one value for all its samples, that says how the sensor is worn")
    when: Side = Field(description="its value in records whose columns change sign")
    columns: list[str] = Field(
        description="those of [source] fields that change sign, such as ax, wy and wz between left and right"
    )


class WindowSection(Section):
    length: Seconds = Field(description="event time a window covers (duration, or seconds)")
    hop: Seconds | None = Field(
        default=None, description="event time between windows (duration, or seconds); absent: the length"
    )
    rate: float = Field(gt=0, le=100_000, description="declared sampling rate in Hz")
    gap: Seconds | None = Field(
        default=None,
        description="a longer pause between samples begins a new window (duration, or seconds); absent: 10 sample periods",
    )
    statistics: Literal["simple", "rich", "gravity"] = Field(
        default="simple",
        description="which features a window gives: 48, 100 or 89 for six axes; gravity: the first three fields are "
        "acceleration, and how the sensor is mounted does not matter",
    )
    mirror: MirrorSection | None = Field(
        default=None,
        description="signs of columns changed before windows are made, so that a left arm looks like a right one: a table "
        "of `field`, `when` and `columns`",
    )


class LabelsSection(Section):
    wait: Seconds = Field(
        default=0.0,
        description="rows wait this long in event time for labels that come later, in records with time and label and "
        "without x (duration, or seconds); 0: labels come with their samples",
    )
    within: Seconds | None = Field(
        default=None,
        description="furthest the time of such a label may lie from its row's `ts` (duration, or seconds); absent: half "
        "the hop of windows, 0 for samples",
    )
    delay: Seconds = Field(
        default=0.0,
        description="a label that came with its samples is learned this much later in event time, as if it had come late "
        "(duration, or seconds)",
    )
    most: int | None = Field(
        default=None,
        ge=1,
        le=100_000,
        description="most rows of a key that wait, then the oldest leaves; absent: as many windows as `wait` or `delay` "
        "covers, 1000 for samples",
    )


class ScalingTable(Section):
    method: Literal["standard", "none"] = Field(default="standard", description="running mean and variance per key")
    unit_norm: bool = Field(default=False, description="scale every x to length 1 afterwards")
    freeze_after: int = Field(default=0, ge=0, description="rows after which the scale stands still; 0: never")
    clip: float = Field(default=0.0, ge=0, description="cut scaled values at +-clip; 0: off")

    @property
    def shared(self) -> bool | None:
        """The population's scale; None where the job file does not say."""
        stated = getattr(self, "from")
        return None if stated is None else bool(stated == "population")


if TYPE_CHECKING:
    ScalingSection = ScalingTable
else:  # `from` is the right word in a job file and cannot be written as an attribute in Python
    ScalingSection = create_model(
        "ScalingSection",
        __base__=ScalingTable,
        **{
            "from": (
                Literal["key", "population"] | None,
                Field(
                    default=None,
                    description="whose scale: each key's own, or that of [population], which stands still; absent: the "
                    "population's where there is one",
                ),
            )
        },
    )


class PopulationSection(Section):
    file: str = Field(
        description="what 'streamjobs fit' learned from other people: scale, map and starting head, shared by all keys"
    )
    replaces: list[Annotated[str, Field(pattern="^[0-9a-f]{32}$")]] | None = Field(
        default=None,
        description="fingerprints of populations before this one, as 'streamjobs state migrate' shows them: their keys keep "
        "offsets, signal and waiting rows, and begin anew with this one's head; absent: they are an error",
    )


class NamedSection(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    name: str


class LearnerSection(NamedSection):
    name: str = Field(
        description="a learner of the registry; its settings stand beside it. One that predicts by itself (without a "
        "[head]) may also have task, classes, max_classes, targets, smooth and fallback here, as in [head]"
    )
    freeze: bool | None = Field(
        default=None, description="the map stands still; always so with [population], and only there"
    )


class HeadSection(NamedSection):
    name: str = Field(
        description="a learner that predicts, such as rls; its settings stand beside it. Settings of gated_rls beside rls "
        "(boost, gate, rate, discount), or a [population], make it gated_rls"
    )
    task: Literal["classification", "regression"] = Field(default="classification", description="what labels are")
    classes: list[str] | None = Field(default=None, description="the classes in order; absent: learned per key")
    max_classes: int = Field(
        default=16, ge=2, le=1024, description="most classes a key may learn; with a population, absent: its classes"
    )
    targets: int = Field(default=1, ge=1, le=1024, description="regression: numbers in a label")
    smooth: float = Field(
        default=0.0, ge=0, lt=1, description="classification: share of the row before in the scores that decide; 0: off"
    )
    fallback: Literal["last_label", "none"] | None = Field(
        default=None,
        description="classification: what is said while a row has no scores; absent: last_label with gated_rls, else none",
    )


class DriftSection(Section):
    extractor: dict[str, Any] | None = Field(
        default=None,
        description="a learner of its own whose LS error is watched: a table with its name and settings, such as okfeb with "
        "role = 'track'; absent: the [learner]",
    )
    detector: str | dict[str, Any] = Field(
        default="page_hinkley", description="a detector, or a table with its name and settings"
    )
    watch: Literal["ls_error", "loss"] = Field(default="ls_error", description="the number per row it watches")
    beside: list[str | dict[str, Any]] = Field(
        default=[],
        description="controls whose LS errors the same detector watches beside it, such as last_points and running_mean: "
        "names, or tables with a name and settings",
    )
    idle: int = Field(
        default=10,
        ge=0,
        le=1_000_000,
        description="an idle sensor is not drift: samples that repeat the one before more often than this, and their "
        "windows, are not watched; 0: all are",
    )


class SinksSection(Section):
    features: Topic | None = Field(default=None, description="topic of features; '' = off; absent: <source>.features")
    predictions: Topic | None = Field(default=None, description="absent: <source>.predictions")
    drift: Topic | None = Field(default=None, description="absent: <source>.drift")
    dlq: Topic | None = Field(default=None, description="dead letters; absent: <source>.dlq; cannot be off")


class StateSection(Section):
    store: Literal["rocksdb", "memory"] = Field(default="rocksdb", description="memory: for tests only")
    directory: str = Field(default="state", description="folder of the local store")
    checkpoint: Seconds = Field(default=1.0, description="longest time between checkpoints (duration, or seconds)")
    checkpoint_records: int = Field(default=20_000, ge=1, description="most records between checkpoints of a partition")
    checkpoint_bytes: Bytes = Field(
        default=64 << 20, description="most changed state between checkpoints of a partition (size, or bytes)"
    )
    cache: Bytes = Field(
        default=256 << 20, description="most memory for live states (size, or bytes); the rest rests in the store"
    )
    ttl: Seconds | None = Field(
        default=None,
        description="a key whose newest event time lies further back than this when a record comes begins anew, and its "
        "state is removed (duration, or seconds); absent: never",
    )
    start_from: str | None = Field(default=None, description="exported state file that new keys begin from")


class MetricsSection(Section):
    port: int = Field(default=9108, ge=0, le=65535, description="of /metrics and /health; 0: any free one")
    host: str = Field(default="127.0.0.1", description="address they are served on")


class Settings(Section):
    """A whole job file."""

    job: JobSection = JobSection()
    broker: BrokerSection = BrokerSection()
    source: SourceSection
    labels: LabelsSection = LabelsSection()
    window: WindowSection | None = None
    population: PopulationSection | None = None
    scaling: ScalingSection = ScalingSection()
    learner: LearnerSection
    head: HeadSection | None = None
    drift: DriftSection | None = None
    sinks: SinksSection = SinksSection()
    state: StateSection = StateSection()
    metrics: MetricsSection = MetricsSection()

    @property
    def side(self) -> str | None:
        """The field of a record that says how the sensor is worn, where the job mirrors."""
        return self.window.mirror.field if self.window and self.window.mirror else None
