"""A small job and recordings for it, as files."""

import contextlib
import csv
import io
import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamjobs.cli import run
from streamjobs.errors import ConfigError
from streamjobs.settings.load import settings_from
from tests.exit_codes import ExitCode

START = 1_700_000_000.0
# A second worker of a group waits a second less than this on the mock broker, because the group may have another member.
SESSION = ("STREAMJOBS_BROKER__SESSION_TIMEOUT", "4s")
JOB = """\
[job]
name = "small"
[source]
topic = "imu"
fields = ["ax", "ay", "az"]
time = "ts"
label = "activity"
[window]
length = "1s"
hop = "500ms"
rate = 10.0
[learner]
name = "okfeb"
rank = 3
budget = 5
[head]
name = "rls"
[drift]
detector = "page_hinkley"
[sinks]
features = "imu.features"
"""


def job_file(folder: Path, text: str = JOB) -> Path:
    path = folder / "job.toml"
    path.write_text(text)
    return path


def rows(n: int = 1500, keys: int = 3, seed: int = 1) -> Iterator[dict[str, Any]]:
    """Samples at 10 Hz a key, keys in turn, two activities that alternate every four seconds."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        step = i // keys
        moving = (step // 40) % 2
        t = START + step / 10
        x = rng.normal(size=3) * (0.1 + moving) + [np.sin(3 * t) * moving, 0, 1 - moving]
        values = dict(zip(("ax", "ay", "az"), x.tolist(), strict=True))
        yield {"person": f"p{i % keys}", "ts": t, **values, "activity": "run" if moving else "sit"}


def jsonl(path: Path, table: Iterator[dict[str, Any]] | list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


def as_csv(path: Path, table: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    return path


def as_npz(path: Path, table: list[dict[str, Any]]) -> Path:
    X = np.array([[row["ax"], row["ay"], row["az"]] for row in table])
    others = {name: np.array([row[name] for row in table]) for name in ("person", "ts", "activity")}
    np.savez(path, X=X, columns=np.array(["ax", "ay", "az"]), **others)
    return path


def as_parquet(path: Path, table: list[dict[str, Any]]) -> Path:
    import pyarrow
    from pyarrow import parquet

    parquet.write_table(pyarrow.Table.from_pylist(table), path)
    return path


def command(*words: object) -> ExitCode:
    """Run a command line in this process; gives its exit code, which knows what was printed."""
    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([str(word) for word in words])
    finally:
        sys.stdout.write(out.getvalue())
        sys.stderr.write(err.getvalue())
    return ExitCode(code, out.getvalue() + err.getvalue())


def table(**changes: Any) -> dict[str, Any]:
    """The small job's tables with sections changed; None removes one."""
    made = tomllib.loads(JOB)
    for section, settings in changes.items():
        if settings is None:
            del made[section]
        elif isinstance(settings, dict):
            made[section] = made.get(section, {}) | settings
        else:
            made[section] = settings
    return made


def problems(tables: dict[str, Any], env: dict[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        settings_from(tables, env)
    return caught.value.problems


def output_of(*words: object) -> tuple[ExitCode, str]:
    """Exit code of a command and what it printed, errors included; of JSON without the progress of a slow machine."""
    text = io.StringIO()
    progress = io.StringIO() if "--json" in words else text
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(progress):
        code = command(*words)
    return code, text.getvalue() + (progress.getvalue() if code and progress is not text else "")
