"""Names that are stored: each belongs to one class, and none has changed since it was first written.

A failure here means that states, populations or job files out there would no longer be read. Add lines; change none.
"""

import pytest

from algorithms import LEARNERS
from algorithms.auto_bandwidth import BandwidthChoice
from algorithms.common.kernels import Kernel
from algorithms.common.protocol import Stage
from algorithms.forecast.filters import FilterForecast, Series
from algorithms.forecast.forecast import Forecast
from streamjobs.core.state.held_stages import OtherForecasts
from streamjobs.core.state.untaught import SeenStage
from streamjobs.replay.first_rows import Listening
from streamjobs.replay.forecast_table import Listening as ForecastsListening
from streamjobs.stages.alarms import Alarms
from streamjobs.stages.class_counts import ClassCounts, Fallback
from streamjobs.stages.clip_targets import ClipTargets
from streamjobs.stages.events.bouts import Bouts
from streamjobs.stages.events.forecasts import Clock, Forecasts
from streamjobs.stages.events.pauses import Pauses
from streamjobs.stages.events.rhythm import Rhythm
from streamjobs.stages.events.silent import Grouped, SilentKeys
from streamjobs.stages.events.slopes import Slopes
from streamjobs.stages.events.stuck import StuckSensors, StuckWithoutRests
from streamjobs.stages.fill import Fill
from streamjobs.stages.idle import Idle
from streamjobs.stages.late_labels import LateLabels
from streamjobs.stages.learner import LearnerStage
from streamjobs.stages.order import Order
from streamjobs.stages.reference import Reference
from streamjobs.stages.sensors import Sensors
from streamjobs.stages.sensors.counters import Counters
from streamjobs.stages.smoothing import Elapsed, Refuted, Smoothing, Transitions
from streamjobs.stages.windows import Windows

LEARNER_NAMES = {  # in job files and populations -> in the fingerprints of states
    "adwin": "Adwin",
    "ald": "Ald",
    "auto_bandwidth": "AutoBandwidth",
    "block_greedy": "BlockGreedy",
    "bogd": "Bogd",
    "bpas": "Bpas",
    "chain": "Chain",
    "coherence": "Coherence",
    "column_chart": "ColumnChart",
    "column_charts": "ColumnCharts",
    "innovations": "Innovations",
    "row_tail": "RowTail",
    "conformal": "Conformal",
    "exkrls": "Exkrls",
    "exrls": "Exrls",
    "fogd": "Fogd",
    "forgetron": "Forgetron",
    "gated_rls": "GatedRls",
    "gauss_quadrature": "GaussQuadrature",
    "generalised_coherence": "GeneralisedCoherence",
    "glr_chart": "GlrChart",
    "ispeed": "Ispeed",
    "klms": "Klms",
    "knlms": "Knlms",
    "kogd": "Kogd",
    "krls": "Krls",
    "last_points": "LastPoints",
    "lms": "Lms",
    "logistic": "Logistic",
    "nlms": "Nlms",
    "nogd": "Nogd",
    "norma": "Norma",
    "okdl": "Okdl",
    "okdl_discriminative": "OkdlDiscriminative",
    "okfe": "Okfe",
    "okfeb": "Okfeb",
    "one_vs_rest": "OneVsRest",
    "online_greedy": "OnlineGreedy",
    "pa": "Pa",
    "page_hinkley": "PageHinkley",
    "pegasos": "Pegasos",
    "perceptron": "Perceptron",
    "projectron": "Projectron",
    "projectron_pp": "ProjectronPp",
    "pros_n_kons": "ProsNKons",
    "qklms": "Qklms",
    "random_prototypes": "RandomPrototypes",
    "rbp": "Rbp",
    "reference_chart": "ReferenceChart",
    "reference_level": "ReferenceLevel",
    "rff": "Rff",
    "rls": "Rls",
    "running_mean": "RunningMean",
    "scaling": "Scaling",
    "sieve_streaming": "SieveStreaming",
    "sispeed": "Sispeed",
    "skegd": "Skegd",
    "sparse_speed": "SparseSpeed",
    "speed": "Speed",
    "stream_greedy": "StreamGreedy",
    "taylor": "Taylor",
    "window_ratio": "WindowRatio",
    "wrkpca": "Wrkpca",
}
STAGE_NAMES = {
    Sensors: "Sensors",
    Smoothing: "Smoothing",
    Transitions: "Transitions",
    Refuted: "Refuted",
    Elapsed: "Elapsed",
    Order: "Order",
    Clock: "Clock",
    Forecasts: "Forecasts",
    Bouts: "Bouts",
    SilentKeys: "SilentKeys",
    StuckSensors: "StuckSensors",
    StuckWithoutRests: "StuckWithoutRests",
    Grouped: "Grouped",
    Pauses: "Pauses",
    Rhythm: "Rhythm",
    Slopes: "Slopes",
    Windows: "Windows",
    LateLabels: "Waiting",
    ClipTargets: "ClipTargets",
    Counters: "Counters",
    Idle: "Idle",
    Fallback: "Fallback",
    ClassCounts: "Books",
    LearnerStage: "LearnerStage",
    Listening: "Listening",
    ForecastsListening: "ForecastsListening",
    SeenStage: "Seen",
    Alarms: "Alarms",
    Fill: "Fill",
    Reference: "Reference",
    Kernel: "Kernel",
    BandwidthChoice: "BandwidthChoice",
    Forecast: "Forecast",
    FilterForecast: "FilterForecast",
    Series: "Series",
    OtherForecasts: "OtherForecasts",
}


@pytest.mark.parametrize("name", LEARNERS)
def test_the_name_of_a_learner_has_not_changed(name: str) -> None:
    assert LEARNERS[name].persisted_name == LEARNER_NAMES[name]


def test_no_learner_is_missing() -> None:
    assert set(LEARNER_NAMES) == set(LEARNERS)


@pytest.mark.parametrize("cls", LEARNERS.values(), ids=LEARNERS)
def test_a_learner_is_registered_by_the_name_it_states(cls: type) -> None:
    assert LEARNERS[cls.name] is cls  # type: ignore[attr-defined]


@pytest.mark.parametrize(("cls", "name"), STAGE_NAMES.items(), ids=STAGE_NAMES.values())
def test_the_names_of_stages_have_not_changed(cls: type, name: str) -> None:
    assert cls.persisted_name == name  # type: ignore[attr-defined]


def test_no_two_share_a_name_and_none_of_the_project_is_missing_here() -> None:
    listed = [*LEARNER_NAMES.values(), *STAGE_NAMES.values()]
    assert len(set(listed)) == len(listed)
    names = {cls.persisted_name for cls in _subclasses(Stage) if cls.__module__.startswith(("algorithms.", "streamjobs."))}
    assert names | {"Kernel"} == set(listed)


def test_every_class_states_its_own_name() -> None:
    """An inherited one would be another class's."""
    for cls in _subclasses(Stage):
        if cls.__module__.startswith(("algorithms.", "streamjobs.")):
            assert "persisted_name" in vars(cls), f"{cls.__name__} states no persisted_name"


def test_a_class_without_a_name_is_refused_with_one_sentence() -> None:
    with pytest.raises(TypeError, match=r"^Nameless: expected persisted_name, .*; got none\.$"):
        type("Nameless", (Stage,), {"__slots__": ()})


def test_a_class_that_states_something_of_a_field_it_does_not_store_is_refused() -> None:
    with pytest.raises(TypeError, match=r"^Confused: .* name weights, not in `stored`\.$"):
        type("Confused", (Stage,), {"persisted_name": "Confused", "stored": ("a",), "aligned": (("a", "weights"),)})


def _subclasses(cls: type) -> list[type[Stage]]:
    """Those with a state of their own: bases that families share (`abstract`) have no name."""
    below = [each for one in cls.__subclasses__() for each in (one, *_subclasses(one))]
    return [one for one in below if hasattr(one, "persisted_name")]
