"""Job files: nothing but a ConfigError may come of any bytes, nor of the environment beside them."""

import zlib
from random import Random
from typing import Any

from algorithms import SettingError
from streamjobs.checking import settings_from
from streamjobs.checking.advice import advice
from streamjobs.core.job import Job
from streamjobs.errors import ConfigError
from streamjobs.files import table_of
from tests.core.people import of_people
from tests.fuzz.bytes import EDGES, REALS, Bend, bent, cut, double, flip, insert, remove, replace
from tests.fuzz.case import Case, Family, must
from tests.fuzz.grammar import TEXTS, as_toml, value
from tests.fuzz.jobs import OF_STATES, contents, made

BUILT = 16  # one of so many job files that are good is made into a job
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


class JobFiles(Family):
    name = "job"

    def __init__(self) -> None:
        self.tables = [contents(made(sections)) for sections in OF_STATES] + [contents(of_people())]
        self.names = sorted({name for table in self.tables for section in table.values() for name in section})

    def draw(self, rnd: Random) -> Case:
        which = rnd.randrange(len(self.tables))
        table = {name: dict(section) for name, section in self.tables[which].items()}
        for _ in range(rnd.choice((0, 1, 1, 1, 2, 3))):
            self._change(table, rnd)
        data = _text(table, rnd).encode("utf-8", "surrogatepass")
        if rnd.random() < 0.3:
            data = bent(data, rnd, bends=TEXT_BENDS)
        env = ()
        if rnd.random() < 0.1:
            text = as_toml(rnd, rnd.choice((value(rnd), rnd.choice(EDGES), rnd.choice(DURATIONS))))
            env = (("STREAMJOBS_" + rnd.choice((*VARIABLES, "LEARNER" + "__A" * 50)), text),)
        return Case(which, data, env)

    def _change(self, table: dict[str, Any], rnd: Random) -> None:
        kind, name = rnd.randrange(10), rnd.choice(list(table))
        if kind == 0:
            del table[name]
            table.setdefault("source", {})
            return
        section = table[name]
        if kind == 1:
            table[rnd.choice((*TEXTS, "window", "population", "head"))] = section
        elif kind == 2 or not section:
            section[rnd.choice((*self.names, *TEXTS))] = rnd.choice((value(rnd), rnd.choice(DURATIONS), rnd.choice(EDGES)))
        elif kind == 3:
            del section[rnd.choice(list(section))]
        else:
            options = (
                value(rnd),
                rnd.choice(EDGES),
                rnd.choice(REALS),
                rnd.choice(DURATIONS),
                -1,
                [],
                {},
                {"name": "okfeb"},
            )
            section[rnd.choice(list(section))] = rnd.choice(options)

    def attempt(self, case: Case) -> str:
        try:
            settings = settings_from(table_of(case.data, "job.toml"), dict(case.around), "job.toml")
        except ConfigError as error:
            must(bool(error.problems) and all(error.problems), "no sentence")
            str(error).encode("utf-8", "backslashreplace")
            return "ConfigError"
        advice(settings)
        if zlib.crc32(case.data) % BUILT == 0:
            try:
                Job.from_settings(settings)
            except (ConfigError, SettingError):
                return "ConfigError when made"
        return "decoded"


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
