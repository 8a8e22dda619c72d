"""python -m deploy.grafana: writes all dashboards into streamjobs/commands/dashboards."""

from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.delivery import delivery
from deploy.grafana.learners import learners
from deploy.grafana.overview import overview
from deploy.grafana.person import person

FOLDER = Path(__file__).resolve().parents[2] / "streamjobs" / "commands" / "dashboards"
DASHBOARDS = {"overview": overview, "learners": learners, "delivery": delivery, "person": person}


def as_json(name: str) -> str:
    """A dashboard as Grafana reads it; the same text at every call."""
    return JSONEncoder(sort_keys=True, indent=2).encode(DASHBOARDS[name]().build()) + "\n"


if __name__ == "__main__":
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(as_json(name), encoding="utf-8")
