"""Job files: nothing but a ConfigError may come of any bytes, nor of the environment beside them."""

from dataclasses import fields
from random import Random
from typing import Any

from algorithms import LEARNERS, SettingError
from algorithms.common.kernels import NAMES
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError
from streamjobs.job_files import table_of
from streamjobs.settings.environment import SECTION_MODELS
from streamjobs.settings.load import settings_from
from streamjobs.settings.notes import notes
from tests.core.people import of_people
from tests.fuzz.bytes import EDGES, REALS, Bend, bent, cut, double, flip, insert, remove, replace
from tests.fuzz.case import Case, Family, chance, must
from tests.fuzz.grammar import TEXTS, as_toml, value
from tests.fuzz.jobs import OF_STATES, contents, made

KERNEL = ("bandwidth", "degree", "offset", "scale", "x")
BUILT = 8  # one of so many job files that are good is made into a job
VARIABLES = (
    "LEARNER__RANK",
    "SOURCE__FIELDS",
    "JOB__NAME",
    "WINDOW__MIRROR__FIELD",
    "X__Y",
    "__",
    "HEAD__",
    "STATE__CACHE",
    "DRIFT",
)
TEXT_BENDS: tuple[Bend, ...] = (flip, replace, cut, remove, insert, double)
DURATIONS = (
    "2s",
    "0s",
    "-1s",
    "1e9d",
    "9" * 400 + "d",
    "2 s",
    "64MB",
    "0B",
    "99999999999999GB",
    "imu.x",
    "..",
    "kafka://a:b@c:1",
)

SETTINGS = {name: [*model.model_fields] for name, model in SECTION_MODELS.items()}  # what each section may hold
OWN = {name: [one.name for one in fields(learner)] for name, learner in LEARNERS.items()}  # type: ignore[arg-type]
CHOICES = ("exactly_once", "msgpack", "raw", "ms", "dlq", "predict_only", "rich", "gravity", "none", "loss", "regression")


class JobFiles(Family):
    name = "job"

    def __init__(self) -> None:
        self.tables = [contents(made(sections)) for sections in OF_STATES] + [contents(of_people())]

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(len(self.tables))
        table = {name: dict(section) for name, section in self.tables[which].items()}
        for _ in range(rnd.choice((0, 1, 1, 1, 2, 3))):
            _change(table, rnd)
        data = _text(table, rnd).encode("utf-8", "surrogatepass")
        if rnd.random() < 0.2:
            data = bent(data, rnd, bends=TEXT_BENDS)
        env = ()
        if rnd.random() < 0.1:
            text = as_toml(rnd, rnd.choice((value(rnd), rnd.choice(EDGES), rnd.choice(DURATIONS))))
            env = (("STREAMJOBS_" + rnd.choice((*VARIABLES, "LEARNER" + "__A" * 50)), text),)
        return Case(which, data, env)

    def attempt(self, case: Case) -> str:
        try:
            settings = settings_from(table_of(case.data, "job.toml"), dict(case.around), "job.toml")
        except ConfigError as error:
            must(bool(error.problems) and all(error.problems), "no sentence")
            str(error).encode("utf-8", "backslashreplace")
            return "ConfigError"
        notes(settings)
        if chance(case.data) % BUILT == 0:
            try:
                Job.from_settings(settings)
            except (ConfigError, SettingError):
                return "ConfigError when made"
        return "decoded"


def _change(table: dict[str, Any], rnd: Random) -> None:
    """A section or a setting more, less, or another."""
    kind, name = rnd.randrange(12), rnd.choice(list(table))
    if kind == 0:
        del table[name]
        table.setdefault("source", {})
        return
    if kind == 1:
        table[rnd.choice((*TEXTS, "window", "population", "head"))] = table[name]
        return
    if kind < 5:  # any section, which may not be there yet
        name = rnd.choice(list(SETTINGS))
    section = table.setdefault(name, {})
    if kind == 2 and section:
        del section[rnd.choice(list(section))]
    elif kind < 8 and section:
        section[rnd.choice(list(section))] = _odd(rnd)
    else:
        section[_setting(name, section, rnd)] = _odd(rnd)


def _setting(name: str, section: dict[str, Any], rnd: Random) -> str:
    """One that the section, or the learner it names, may have; now and then one that nothing has."""
    known, learner = SETTINGS.get(name, []), section.get("name")
    if isinstance(learner, str) and rnd.random() < 0.7:
        known = OWN.get(learner, known)
    return rnd.choice(known) if known and rnd.random() < 0.95 else rnd.choice(TEXTS)


def _odd(rnd: Random) -> Any:
    kind = rnd.randrange(10)
    if kind < 2:
        return rnd.choice(EDGES) * rnd.choice((1, 1, -1))
    if kind < 4:
        return rnd.choice((*REALS, 0.5, 2.0, 1e-9))
    if kind == 4:
        return rnd.choice(DURATIONS)
    if kind == 5:
        return rnd.choice((*LEARNERS, *CHOICES, *NAMES))
    if kind == 6:
        return rnd.choice(([], {}, True, False, "", 1, 2, 3, 7))
    if kind == 7:
        return _table(rnd)
    if kind == 8:
        return [rnd.choice((_table(rnd), rnd.choice((*LEARNERS, "ax", "x")))) for _ in range(rnd.randrange(4))]
    return value(rnd)


def _table(rnd: Random, depth: int = 0) -> dict[str, Any]:
    """A nested learner's, a kernel's, or a mirror's table."""
    kind = rnd.randrange(4)
    if kind == 0:
        return {"name": rnd.choice((*NAMES, rnd.choice(TEXTS), 1, [])), rnd.choice(KERNEL): rnd.choice((*REALS, *EDGES))}
    if kind == 1:
        return {"field": rnd.choice(("side", "ax", "ts", "")), "when": rnd.choice((1, "l", True, [])), "columns": ["ax"]}
    name = rnd.choice((*LEARNERS, rnd.choice(TEXTS), 7, ["okfeb"], {}))
    made: dict[str, Any] = {"name": name} if rnd.random() < 0.95 else {}
    for setting in OWN.get(name, ["rank"]) if isinstance(name, str) else ["rank"]:
        if rnd.random() < 0.25:
            made[setting] = _table(rnd, depth + 1) if depth < 3 and rnd.random() < 0.3 else rnd.choice((*EDGES, *REALS, "a"))
    return made


def _text(table: dict[str, Any], rnd: Random) -> str:
    lines = []
    for name, section in table.items():
        if not isinstance(section, dict) or rnd.random() < 0.02:
            lines.insert(0, f"{as_toml(rnd, name)} = {as_toml(rnd, section)}")
            continue
        lines.append(f"[{name if name.isalnum() else as_toml(rnd, name)}]")
        lines += [
            f"{key if key.isidentifier() else as_toml(rnd, key)} = {as_toml(rnd, one)}" for key, one in section.items()
        ]
        if rnd.random() < 0.01:
            lines.append(
                rnd.choice(
                    ("a." * 500 + "a = 1", "a." * 40 + "a = 1", "[[x]]", "[a.b", "x = 0x" + "f" * 5000, "\x00", "# é")
                )
            )
    return rnd.choice(("\n", "\n", "\r\n", "\r")).join(lines)
