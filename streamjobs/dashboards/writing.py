"""Writes all dashboards into a folder."""

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from streamjobs.dashboards.delivery import delivery
from streamjobs.dashboards.learners import learners
from streamjobs.dashboards.overview import overview
from streamjobs.dashboards.person import person

DASHBOARDS = {"overview": overview, "learners": learners, "delivery": delivery, "person": person}


def as_json(name: str) -> str:
    """A dashboard as Grafana reads it; the same text at every call."""
    return JSONEncoder(sort_keys=True, indent=2).encode(DASHBOARDS[name]().build()) + "\n"


def write(folder: Path) -> list[Path]:
    """Write each dashboard as NAME.json; gives the files. Makes the folder where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name in DASHBOARDS:
        files.append(folder / f"{name}.json")
        files[-1].write_text(as_json(name), encoding="utf-8")
    return files
