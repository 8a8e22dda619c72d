"""Makes streamjobs/fit/starters: what people with a phone in the pocket and with a watch taught, and what it is worth.

    python -m tests.golden.make_starters

Sources: motionsense_8.npz and seglearn_watch.npz in the folder of recordings. Both are of Apple's Core Motion, with
accelerations in g and of the opposite sign of Android's.
"""

import contextlib
import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from papers.recordings import phone_signal
from streamjobs.cli import run
from streamjobs.demo.recordings import EXERCISES
from streamjobs.fit import starters
from streamjobs.settings.types import toml
from tests.data import dataset

FOLDER = Path(starters.__file__).parent
RATE = 50.0  # Hz
ACTIVITIES = dict(dws="downstairs", ups="upstairs", wlk="walking", jog="jogging", sit="sitting", std="standing")
JOB: dict[str, Any] = {
    "job": {"name": "starter"},
    "source": {"topic": "imu", "fields": list(starters.FIELDS), "time": "ts", "label": "activity"},
    "window": {"length": "2s", "hop": "1s", "rate": RATE, "statistics": "gravity"},
    "population": {"file": "population.state"},
    "scaling": {"clip": 5.0},
    "learner": {"name": "rls", "filter": "hmm"},
}
MADE_FROM = {
    "phone": "8 people of MotionSense (MIT licence) with an iPhone 6s in a front pocket of the trousers",
    "watch": "10 people who did shoulder exercises with a smartwatch, with each arm (seglearn, BSD-3-Clause licence)",
}
UNKNOWN = {
    "phone": "other places than a trouser pocket, other phones, and all other activities: each is taken to be one of these",
    "watch": "all that is not one of these exercises, such as walking: it is taken to be one of them",
}


def recordings_of(name: str) -> dict[str, Any]:
    """Columns of a recording for `fit`."""
    phone = name == "phone"
    data, words = (dataset("motionsense_8"), ACTIVITIES) if phone else (dataset("seglearn_watch"), EXERCISES)
    X = phone_signal(data) if phone else data["X"].astype(float)
    return {
        "X": X * np.r_[np.full(3, -starters.G), np.ones(3)],
        "person": data["key"],
        "recording": data["seg"],
        "ts": data["t"],
        "activity": np.array([words[str(label)] for label in data["y_labels"]])[data["y"]],
    }


def made(name: str, folder: Path) -> tuple[bytes, str]:
    """The contents of NAME.state and NAME.toml."""
    job, path, output = folder / "starter.toml", folder / "people.npz", folder / f"{name}.state"
    job.write_text(toml(JOB))
    np.savez(path, columns=np.array(starters.FIELDS), **recordings_of(name))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert run(["fit", str(job), "--input", str(path), "--output", str(output), "--force", "--json"]) == 0
    table = json.loads(printed.getvalue())
    ways, names = table["report"]["ways"], table["activities"]
    frozen, adapted = ways["rls, frozen head"]["all"], ways[table["report"]["job"]]["all"]
    worth = (
        f"each person left out in turn, {frozen['mean']:.1%} of the windows are right without any label of the person "
        f"(worst person {frozen['worst']:.1%}), {adapted['mean']:.1%} with labels 20 s late; repeating the last label: "
        f"{ways['last label seen']['all']['mean']:.1%}"
    )
    knows = {"made_from": MADE_FROM[name], "activities": list(names), "worth": worth, "unknown": UNKNOWN[name], "rate": RATE}
    return output.read_bytes(), "\n".join(toml({"": knows}).splitlines()[1:]) + "\n"


def main() -> int:
    for name in starters.NAMES:
        with tempfile.TemporaryDirectory() as folder:
            state, text = made(name, Path(folder))
        (FOLDER / f"{name}.state").write_bytes(state)
        (FOLDER / f"{name}.toml").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
