"""Populations to start with. NOTICE.md names the recordings they were made from, and the licences.

A starter is two files: NAME.state as `streamjobs fit` writes it, and NAME.toml with what it was made from and what it is
worth. `python -m tests.golden.make_starters` makes both. Its first three fields are acceleration with gravity in m/s^2,
the others the turning rate in rad/s; it describes windows by numbers that do not depend on how the sensor is mounted.
"""

import tomllib
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any, NamedTuple

import numpy as np

from streamjobs.core.state.population import Population, encode
from streamjobs.core.state.population_reader import decode
from streamjobs.errors import ConfigError
from streamjobs.settings.paths import column_path

NAMES = ("phone", "watch")
FIELDS = ("ax", "ay", "az", "wx", "wy", "wz")
NUMBERS = "acceleration with gravity x, y, z in m/s^2, then turning rate x, y, z in rad/s"
G = 9.80665  # m/s^2
LOOK_AT = 50_000  # rows of a sample
RATES = 0.4, 4.0  # of a sample, as shares of the population's; samples at another rate are interpolated
GRAVITY, IN_G, MOST_TURNING = (7.0, 13.0), (0.7, 1.3), 30.0  # usual length of acceleration; its unit g; rad/s


class Starter(NamedTuple):
    name: str
    made_from: str
    activities: list[str]
    worth: str
    unknown: str  # what it cannot know
    rate: float  # Hz
    population: Population

    def described(self) -> list[str]:
        """What a newcomer should know, a sentence a line."""
        return [
            f"the population {self.name!r} was learned from {self.made_from}",
            f"it knows {', '.join(self.activities)}; {self.worth}",
            f"it cannot know {self.unknown}",
            f"it needs {NUMBERS}, {RATES[0] * self.rate:g} to {RATES[1] * self.rate:g} samples a second; the sensor may be "
            "mounted in any direction",
        ]

    def file(self, fields: Sequence[str]) -> bytes:
        """The population's file for a job with these six fields, in the order of FIELDS."""
        return encode(self.population._replace(facts=self.population.facts | {"x": ",".join(fields)}))


def starter(name: str) -> Starter:
    """Raises ConfigError for a name that is not in NAMES."""
    if name not in NAMES:
        raise ConfigError(f"--population must be {' or '.join(NAMES)}; got {name!r}.")
    place = resources.files(__package__)
    facts = tomllib.loads((place / f"{name}.toml").read_text(encoding="utf-8"))
    return Starter(name, **facts, population=decode((place / f"{name}.state").read_bytes()))


def require_fields(of: Starter, fields: Sequence[str]) -> None:
    """Raises ConfigError unless there are six."""
    if len(fields) != len(FIELDS):
        raise ConfigError(
            f"--population {of.name} needs six numbers a sample, {NUMBERS}; the sample has {len(fields)}: "
            f"{', '.join(fields) or 'none'}. Give a sample with these six only, in this order."
        )


def require_same_kind(of: Starter, fields: Sequence[str], rate: float | None, rows: Iterable[dict[str, Any]]) -> None:
    """Raises ConfigError where a sample's rate or units are not those of the population. rate: Hz, None unknown."""
    least, most = RATES
    if rate is not None and not least <= rate / of.rate <= most:
        raise ConfigError(
            f"--population {of.name} was learned from {of.rate:g} samples a second; the sample has {rate:g}. Record at "
            f"{least * of.rate:g} to {most * of.rate:g} Hz, or label recordings of five people and run 'streamjobs fit'."
        )
    paths = [column_path(field) for field in fields]
    found = [[path.find(row) for path in paths] for row in rows]
    X = np.array([x for x in found if all(isinstance(value, int | float) for value in x)], float).reshape(-1, len(fields))
    if not len(X):
        return
    usual = float(np.median(np.linalg.norm(X[:, :3], axis=1)))
    turning = float(np.quantile(np.linalg.norm(X[:, 3:], axis=1), 0.95))
    expected = f"--population {of.name} needs {NUMBERS}"
    if IN_G[0] <= usual <= IN_G[1]:
        raise ConfigError(
            f"{expected}; the usual length of {', '.join(fields[:3])} is {usual:.2g}, as in g. Multiply them by {G}."
        )
    if not GRAVITY[0] <= usual <= GRAVITY[1]:
        raise ConfigError(
            f"{expected}; the usual length of {', '.join(fields[:3])} is {usual:.2g}, not about 9.8. Record the "
            "acceleration with gravity, in m/s^2."
        )
    if turning > MOST_TURNING:
        raise ConfigError(
            f"{expected}; one in 20 lengths of {', '.join(fields[3:])} is above {turning:.3g}, as in degrees a second. "
            "Divide them by 57.29578."
        )
