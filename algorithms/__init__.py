"""The registry: every learner by its name, and `learner_from` to make one from a table of settings.

One line adds a learner: the import of its class, which states its name.

>>> learner = learner_from("lms", {"step_size": 0.5})
>>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0]], [[2.0]])
>>> state.weights
array([[1.]])
"""

from collections.abc import Iterable, Mapping
from typing import Any

from algorithms.adaptive.exkrls import Exkrls as Exkrls
from algorithms.adaptive.klms import Klms as Klms
from algorithms.adaptive.knlms import Knlms as Knlms
from algorithms.adaptive.krls import Krls as Krls
from algorithms.adaptive.qklms import Qklms as Qklms
from algorithms.auto_bandwidth import AutoBandwidth as AutoBandwidth
from algorithms.auto_bandwidth import with_chosen_width
from algorithms.budgeted.bogd import Bogd as Bogd
from algorithms.budgeted.bpas import Bpas as Bpas
from algorithms.budgeted.forgetron import Forgetron as Forgetron
from algorithms.budgeted.kogd import Kogd as Kogd
from algorithms.budgeted.norma import Norma as Norma
from algorithms.budgeted.perceptron import Perceptron as Perceptron
from algorithms.budgeted.projectron import Projectron as Projectron
from algorithms.budgeted.projectron_pp import ProjectronPp as ProjectronPp
from algorithms.budgeted.rbp import Rbp as Rbp
from algorithms.chain import Chain as Chain
from algorithms.common.protocol import (
    Array,
    Basis,
    Learner,
    NumericsError,
    Outputs,
    SettingError,
    Stage,
)
from algorithms.common.settings import build, suggestion
from algorithms.common.workspace import Workspace
from algorithms.dictionary.okdl import Okdl as Okdl
from algorithms.dictionary.okdl_discriminative import OkdlDiscriminative as OkdlDiscriminative
from algorithms.drift.adwin import Adwin as Adwin
from algorithms.drift.column_chart import ColumnChart as ColumnChart
from algorithms.drift.conformal import Conformal as Conformal
from algorithms.drift.glr_chart import GlrChart as GlrChart
from algorithms.drift.page_hinkley import PageHinkley as PageHinkley
from algorithms.drift.reference_chart import ReferenceChart as ReferenceChart
from algorithms.drift.reference_level import ReferenceLevel as ReferenceLevel
from algorithms.drift.window_ratio import WindowRatio as WindowRatio
from algorithms.heads.exrls import Exrls as Exrls
from algorithms.heads.gated import GatedRls as GatedRls
from algorithms.heads.lms import Lms as Lms
from algorithms.heads.logistic import Logistic as Logistic
from algorithms.heads.nlms import Nlms as Nlms
from algorithms.heads.pa import Pa as Pa
from algorithms.heads.pegasos import Pegasos as Pegasos
from algorithms.heads.rls import Rls as Rls
from algorithms.maps.gauss_quadrature import GaussQuadrature as GaussQuadrature
from algorithms.maps.rff import Rff as Rff
from algorithms.maps.taylor import Taylor as Taylor
from algorithms.one_vs_rest import OneVsRest as OneVsRest
from algorithms.prototypes.ald import Ald as Ald
from algorithms.prototypes.block_greedy import BlockGreedy as BlockGreedy
from algorithms.prototypes.coherence import Coherence as Coherence
from algorithms.prototypes.generalised_coherence import GeneralisedCoherence as GeneralisedCoherence
from algorithms.prototypes.online_greedy import OnlineGreedy as OnlineGreedy
from algorithms.prototypes.random_prototypes import RandomPrototypes as RandomPrototypes
from algorithms.prototypes.sieve_streaming import SieveStreaming as SieveStreaming
from algorithms.prototypes.stream_greedy import StreamGreedy as StreamGreedy
from algorithms.scaling import Scaling as Scaling
from algorithms.sketching.fogd import Fogd as Fogd
from algorithms.sketching.nogd import Nogd as Nogd
from algorithms.sketching.pros_n_kons import ProsNKons as ProsNKons
from algorithms.sketching.skegd import Skegd as Skegd
from algorithms.spectral.ispeed import Ispeed as Ispeed
from algorithms.spectral.sispeed import Sispeed as Sispeed
from algorithms.spectral.sparse_speed import SparseSpeed as SparseSpeed
from algorithms.spectral.speed import Speed as Speed
from algorithms.subspace.last_points import LastPoints as LastPoints
from algorithms.subspace.okfe import Okfe as Okfe
from algorithms.subspace.okfeb import Okfeb as Okfeb
from algorithms.subspace.running_mean import RunningMean as RunningMean
from algorithms.subspace.wrkpca import Wrkpca as Wrkpca


def by_name(classes: Iterable[object]) -> dict[str, type[Learner]]:
    """The learners among these objects, sorted by the names they state; TypeError where one has no name of its own."""
    learners: dict[str, type[Learner]] = {}
    for cls in classes:
        if isinstance(cls, type) and issubclass(cls, Learner) and cls is not Learner:
            name = getattr(cls, "name", None)
            if not isinstance(name, str) or name in learners:
                raise TypeError(f"{cls.__name__}: expected a name that no other learner has; got {name!r}.")
            learners[name] = cls
    return dict(sorted(learners.items()))


LEARNERS: dict[str, type[Learner]] = by_name(vars().values())  # all that is imported above

__all__ = [
    "LEARNERS",
    "Array",
    "Basis",
    "Learner",
    "NumericsError",
    "Outputs",
    "SettingError",
    "Stage",
    "Workspace",
    "learner_from",
]


def learner_from(name: str, settings: Mapping[str, Any]) -> Learner:
    """The learner `name` with these settings; nested learners are tables with `name` beside their settings.

    Raises SettingError with one sentence: the unknown name or setting (and the nearest known one), or the wrong value.
    """
    if name not in LEARNERS:
        raise SettingError(f"unknown learner {name!r}{suggestion(name, LEARNERS)}")
    return with_chosen_width(settings, lambda own: build(name, LEARNERS[name], own, _nested))


def _nested(table: Mapping[str, Any]) -> Learner:
    name = table.get("name")
    if not isinstance(name, str):
        raise SettingError(f"a nested learner needs a 'name', a text; got {dict(table)!r:.200}.")
    return learner_from(name, {k: v for k, v in table.items() if k != "name"})
