"""The registry: every learner by its name, and `learner_from` to make one from a table of settings.

>>> learner = learner_from("lms", {"step_size": 0.5})
>>> state, out = learner.run(learner.init(dim=1, targets=1, seed=0), [[1.0]], [[2.0]])
>>> state.weights
array([[1.]])
"""

from collections.abc import Mapping
from typing import Any

from algorithms.adaptive.exkrls import Exkrls
from algorithms.adaptive.klms import Klms
from algorithms.adaptive.knlms import Knlms
from algorithms.adaptive.krls import Krls
from algorithms.adaptive.qklms import Qklms
from algorithms.chain import Chain
from algorithms.common.protocol import (
    Array,
    Basis,
    Learner,
    NumericsError,
    Outputs,
    SettingError,
    Stage,
    Workspace,
)
from algorithms.common.settings import build, suggestion
from algorithms.drift.adwin import Adwin
from algorithms.drift.page_hinkley import PageHinkley
from algorithms.drift.window_ratio import WindowRatio
from algorithms.heads.exrls import Exrls
from algorithms.heads.gated import GatedRls
from algorithms.heads.lms import Lms
from algorithms.heads.logistic import Logistic
from algorithms.heads.nlms import Nlms
from algorithms.heads.pa import Pa
from algorithms.heads.pegasos import Pegasos
from algorithms.heads.rls import Rls
from algorithms.maps.gauss_quadrature import GaussQuadrature
from algorithms.maps.rff import Rff
from algorithms.maps.taylor import Taylor
from algorithms.prototypes.ald import Ald
from algorithms.prototypes.random_prototypes import RandomPrototypes
from algorithms.scaling import Scaling
from algorithms.spectral.ispeed import Ispeed
from algorithms.spectral.sispeed import Sispeed
from algorithms.spectral.sparse_speed import SparseSpeed
from algorithms.spectral.speed import Speed
from algorithms.subspace.last_points import LastPoints
from algorithms.subspace.okfe import Okfe
from algorithms.subspace.okfeb import Okfeb
from algorithms.subspace.running_mean import RunningMean
from algorithms.subspace.wrkpca import Wrkpca

LEARNERS: dict[str, type[Learner]] = {
    "adwin": Adwin,
    "ald": Ald,
    "chain": Chain,
    "exkrls": Exkrls,
    "exrls": Exrls,
    "gated_rls": GatedRls,
    "gauss_quadrature": GaussQuadrature,
    "ispeed": Ispeed,
    "klms": Klms,
    "knlms": Knlms,
    "krls": Krls,
    "last_points": LastPoints,
    "lms": Lms,
    "logistic": Logistic,
    "nlms": Nlms,
    "okfe": Okfe,
    "okfeb": Okfeb,
    "pa": Pa,
    "page_hinkley": PageHinkley,
    "pegasos": Pegasos,
    "qklms": Qklms,
    "random_prototypes": RandomPrototypes,
    "rff": Rff,
    "rls": Rls,
    "running_mean": RunningMean,
    "scaling": Scaling,
    "sispeed": Sispeed,
    "sparse_speed": SparseSpeed,
    "speed": Speed,
    "taylor": Taylor,
    "window_ratio": WindowRatio,
    "wrkpca": Wrkpca,
}

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
    return build(name, LEARNERS[name], settings, _nested)


def _nested(table: Mapping[str, Any]) -> Learner:
    name = table.get("name")
    if not isinstance(name, str):
        raise SettingError(f"a nested learner needs a 'name', a text; got {dict(table)!r:.200}.")
    return learner_from(name, {k: v for k, v in table.items() if k != "name"})
