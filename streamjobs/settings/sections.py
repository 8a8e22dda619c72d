"""The job file's settings: every section with its units and ranges. `settings.load` builds them from a file's contents.

Durations are texts such as "2s", "500ms", "5m", "90d", or numbers of seconds; sizes are texts such as "64MB", or numbers
of bytes. The descriptions are the reference that users read (`streamjobs schema`).
"""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from streamjobs.settings.broker import BrokerSection, RegistrySection
from streamjobs.settings.events import AlarmsSection, BoutsSection, DriftSection, ForecastSection
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import Bytes, FieldName, Seconds, Secret, Section, Side, Topic, optional, secret, setting

MOST_WAITING = 100_000  # rows of a key that wait for labels


class JobSection(Section):
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,100}$")] = setting(
        "streamjobs", "consumer group, and prefix of the state topics"
    )
    guarantee: Literal["at_least_once", "exactly_once"] = setting(
        "at_least_once",
        "delivery of outputs; exactly_once: readers with isolation.level=read_committed see each output once",
    )
    seed: int = setting(0, "random seed; mixed into the seed of every key", ge=0, le=2**62)


class MirrorSection(Section):
    field: FieldName = Field(description="field that says how the sensor is worn, the same for all samples of a record")
    when: Side = Field(description="value of `field` in the records that change sign")
    columns: list[str] = Field(description="the [source] fields that change sign, such as ax, wy and wz")


class WindowSection(Section):
    length: Seconds = Field(description="length of a window in event time (duration, or seconds)")
    hop: Seconds | None = optional("event time from one window to the next (duration, or seconds); absent: the length")
    rate: float = Field(gt=0, le=100_000, description="sampling rate of the sensor in Hz")
    gap: Seconds | None = optional(
        "a longer pause between two samples starts a new window (duration, or seconds); absent: 10 sample periods"
    )
    fewest: float | None = optional(
        "least share of the samples that `rate` gives; a window with fewer has no row. With a setting below 0.8, windows "
        "with a share below 0.8 or above 1.05 are interpolated; absent: 0.8, or 0.4 with a [population]",
        gt=0,
        le=0.8,
    )
    statistics: Literal["simple", "rich", "gravity", "rich+gravity"] = setting(
        "simple",
        "numbers of a row: 48, 100, 89 or 189 for six fields; gravity fits any mounting, and needs acceleration in the "
        "first three fields",
    )
    convolutions: int = setting(
        0, "with [population]: how many numbers of a window come from random convolutions; 0: none", ge=0, le=500
    )
    mirror: MirrorSection | None = optional(
        "changes the sign of some columns before windows are made, so that a left arm looks like a right one"
    )


class LabelsSection(Section):
    wait: Seconds = setting(
        0.0,
        "event time that rows wait for labels, which come in later records without x (duration, or seconds); 0: labels "
        "arrive with their samples",
    )
    within: Seconds | None = optional(
        "how far the time of a later label may be from the `ts` of its row (duration, or seconds); absent: half the hop "
        "of windows, 0 for samples"
    )
    delay: Seconds = setting(
        0.0, "event time after which a label that arrived with its samples is learned (duration, or seconds); 0: at once"
    )
    most: int | None = optional(
        "most waiting rows of a key; if there are more, the oldest stops waiting; absent: 1000 samples, or the windows "
        "in `wait` or `delay`",
        ge=1,
        le=MOST_WAITING,
    )


class ScalingTable(Section):
    method: Literal["standard", "none"] = setting("standard", "standard: by running mean and variance")
    unit_norm: bool = setting(False, "scale every x to length 1 afterwards")
    freeze_after: int = setting(0, "rows after which the scale stops changing; 0: never", ge=0)
    clip: float = setting(0.0, "limit scaled values to +-clip; 0: off", ge=0)

    @property
    def shared(self) -> bool | None:
        """Whether the scale is the population's; None if the job file does not say."""
        stated = getattr(self, "from")
        return None if stated is None else bool(stated == "population")


if TYPE_CHECKING:
    ScalingSection = ScalingTable
else:  # `from` reads well in a job file, but is a keyword in Python and cannot be written as an attribute
    ScalingSection = create_model(
        "ScalingSection",
        __base__=ScalingTable,
        **{
            "from": (
                Literal["key", "population"] | None,
                optional(
                    "each key's own scale, or the fixed scale of [population]; absent: population if there is a [population]"
                ),
            )
        },
    )


class PopulationSection(Section):
    file: str = Field(
        description="file of 'streamjobs fit': scale, map and starting head of other people, shared by all keys"
    )
    replaces: list[Annotated[str, Field(pattern="^[0-9a-f]{32}$")]] | None = optional(
        "fingerprints of earlier populations, as 'streamjobs state migrate' prints: their keys get the new head, and "
        "keep offsets, windows and waiting rows; absent: their states are refused"
    )
    directions: int | None = optional(
        "how many combinations of a row's numbers the head sees; absent: all numbers", ge=2, le=1000
    )


class NamedSection(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)
    name: str


class LearnerSection(NamedSection):
    name: str = Field(
        description="a learner of the registry; its settings follow. A learner that predicts without a [head] also takes "
        "the settings of [head] here"
    )
    freeze: bool | None = optional("with [population]: the map does not learn; absent: true")
    input: bool = setting(
        False, "with [population] and a [head]: the head also sees the scaled row, before the features of the map"
    )


class HeadSection(NamedSection):
    name: str = Field(
        description="a learner that predicts, such as rls; its settings follow. A [population], or one of boost, gate, "
        "rate and discount, turns rls into gated_rls"
    )
    task: Literal["classification", "regression"] = setting("classification", "whether labels are classes or numbers")
    classes: list[str] | None = optional("the classes in order; absent: each key learns its own")
    max_classes: int = setting(16, "most classes of a key; absent with a [population]: the population's", ge=2, le=1024)
    targets: int = setting(1, "regression: numbers in a label", ge=1, le=1024)
    smooth: float = setting(0.0, "classification: weight of the previous row's scores in the decision; 0: off", ge=0, lt=1)
    filter: Literal["hmm"] | None = optional(
        "classification with a [population], in place of smooth; hmm: the score is the probability of the class, given "
        "this row and the rows before"
    )
    lasts: Seconds | None = optional(
        "with filter: how long an activity lasts on average (duration, or seconds); absent: as in the recordings of "
        "'streamjobs fit'"
    )
    clip_target: float | None = optional(
        "regression: largest distance of a label from the key's running mean, in running standard deviations; labels "
        "beyond are clipped to it; 0: off; absent: 10",
        ge=0,
        le=1e6,
    )
    fallback: Literal["last_label", "none"] | None = optional(
        "classification: prediction for a row without scores; absent: last_label with gated_rls"
    )
    reject: float | None = optional(
        "classification with a [population]: rows unlike all known classes become unknown, but at most this share of the "
        "rows of known classes does; absent: no row",
        gt=0,
        le=0.5,
    )


class SinksSection(Section):
    @model_validator(mode="before")
    @classmethod
    def _one_version(cls, stated: Any) -> Any:
        """Job files of earlier releases state the version of the records, of which there is one now."""
        version = stated.get("version", 2) if isinstance(stated, dict) else 2
        if str(version) != "2":
            raise ValueError(
                f"version {version} is removed. In the records, predicted_class and true_class (or predicted_value, "
                "predicted_values) replace y_hat and y, and open = true replaces end = 'open'. Remove the setting."
            )
        return {name: value for name, value in stated.items() if name != "version"} if isinstance(stated, dict) else stated

    scores: bool = setting(False, "classification: predictions also have the scores of all classes, and the two best")
    features: Topic | None = optional("topic of features; '' or absent: off")
    predictions: Topic | None = optional("topic of predictions; '': off; absent: <source>.predictions")
    drift: Topic | None = optional(
        "topic of the detector's report on every row; '': off; absent: <source>.drift without a topic of alarms"
    )
    alarms: Topic | None = optional(
        "topic of alarms; '': off; absent: <source>.alarms with [drift] false_alarms or [alarms]"
    )
    bouts: Topic | None = optional("topic of bouts; '': off; absent: <source>.bouts with [bouts]")
    forecasts: Topic | None = optional("topic of forecasts; '': off; absent: <source>.forecasts with [forecast]")
    dlq: Topic | None = optional("topic of dead letters; cannot be off; absent: <source>.dlq")


SINKS = ("features", "predictions", "drift", "alarms", "bouts", "forecasts", "dlq")  # settings of [sinks] that name a topic


class StateSection(Section):
    store: Literal["rocksdb", "memory"] = setting("rocksdb", "local store of states; memory: for tests")
    directory: str = setting("state", "folder of the local store")
    checkpoint: Seconds | None = optional(
        "longest time between two checkpoints; in a backlog 1s passes (duration, or seconds); absent: 1s, but 75ms with "
        "exactly_once if replay is not 0s"
    )
    checkpoint_records: int = setting(20_000, "most records of a partition between two checkpoints", ge=1)
    checkpoint_bytes: Bytes = setting(
        64 << 20, "most bytes of a partition between two checkpoints, in changed states and their records (size, or bytes)"
    )
    replay: Seconds = setting(
        10.0,
        "processor time that a crash may cost in applying records again (duration, or seconds); more time means fewer "
        "writes of states; 0s: each checkpoint writes all changed states",
    )
    cache: Bytes = setting(256 << 20, "most memory for live states (size, or bytes); all others stay in the store")
    ttl: Seconds | None = optional(
        "event time after which an idle key starts over and its state is removed (duration, or seconds); absent: never"
    )
    start_from: str | None = optional("exported state that new keys start from")

    def checkpoint_seconds(self, exactly_once: bool) -> float:
        """From one checkpoint to the next. With exactly_once outputs wait for it, and with `replay` it writes few states."""
        if self.checkpoint is not None:
            return self.checkpoint
        return 0.075 if exactly_once and self.replay else 1.0


class MetricsSection(Section):
    port: int = setting(9108, "port of /metrics and /health; 0: any free port", ge=0, le=65535)
    host: str = setting("127.0.0.1", "address that /metrics and /health are served on")
    token: Secret | None = secret(
        "token of the live page and of /api, at least 16 characters; absent: only a loopback address serves them"
    )
    token_file: str | None = optional("file with token, read at every login")


class Settings(Section):
    """A whole job file."""

    job: JobSection = JobSection()
    broker: BrokerSection = BrokerSection()
    source: SourceSection
    registry: RegistrySection | None = None
    labels: LabelsSection = LabelsSection()
    window: WindowSection | None = None
    population: PopulationSection | None = None
    scaling: ScalingSection = ScalingSection()
    learner: LearnerSection
    head: HeadSection | None = None
    drift: DriftSection | None = None
    bouts: BoutsSection | None = None
    forecast: ForecastSection | None = None
    alarms: AlarmsSection | None = None
    sinks: SinksSection = SinksSection()
    state: StateSection = StateSection()
    metrics: MetricsSection = MetricsSection()

    @property
    def checkpoint(self) -> float:
        """Seconds from one checkpoint to the next."""
        return self.state.checkpoint_seconds(self.job.guarantee == "exactly_once")

    @property
    def side(self) -> str | None:
        """The field that says how the sensor is worn; None if the job does not mirror."""
        return self.window.mirror.field if self.window and self.window.mirror else None
