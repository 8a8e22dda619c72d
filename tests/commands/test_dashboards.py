"""Dashboards: the files are what deploy/grafana gives, `dashboards write` copies them, and metrics exist."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from grafana_foundation_sdk.models import units
from prometheus_client import Metric

from deploy.grafana.__main__ import DASHBOARDS, FOLDER, as_json
from streamjobs.cli import run
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.metrics.table import METRICS, PREFIX
from tests.docs.named import wrong_metrics
from tests.parts import CHECKOUT

GRAFANA = CHECKOUT / "deploy" / "grafana"
NAMES = ("overview", "learners", "delivery", "person")
UNITS = {value for name, value in vars(units).items() if isinstance(value, str) and not name.startswith("_")}
VARIABLES = re.compile(r"\$(?:__rate_interval|job|instance)\b")


@cache
def _board(name: str) -> dict[str, Any]:
    return json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))


def _expressions(name: str) -> list[str]:
    return [target["expr"] for panel in _board(name)["panels"] for target in panel.get("targets", ())]


def test_the_files_for_grafana_are_what_their_source_gives() -> None:
    """Otherwise: python -m deploy.grafana."""
    assert set(DASHBOARDS) == set(NAMES)
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")} == {
        f"{name}.json": as_json(name) for name in NAMES
    }


def test_the_command_copies_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    assert run(["dashboards", "write", str(folder)]) == 0
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        path.name: path.read_bytes() for path in FOLDER.glob("*.json")
    }
    assert capsys.readouterr().out.split() == [str(folder / f"{name}.json") for name in sorted(NAMES)]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    assert run(["dashboards", "write", str(tmp_path / "file")]) == 3
    assert re.fullmatch(r"dashboards: .*/file: cannot be written \(.+\)\.\n", capsys.readouterr().err)


@pytest.mark.parametrize("name", NAMES)
def test_every_panel_has_a_title_a_description_a_unit_and_its_place(name: str) -> None:
    panels, taken = _board(name)["panels"], set()
    assert len({panel["title"] for panel in panels}) == len(panels)
    for panel in panels:
        assert re.fullmatch(r"[A-Z].*[^.]", panel["title"]) and re.fullmatch(r"[A-Z0-9].*[.?]", panel["description"]), panel[
            "title"
        ]
        if panel["type"] != "text":
            assert panel["fieldConfig"]["defaults"]["unit"] in UNITS and panel["targets"], panel["title"]
            letters = [target["refId"] for target in panel["targets"]]
            assert letters == sorted(set(letters)) and all(target["legendFormat"] for target in panel["targets"])
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken and max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells


@pytest.mark.parametrize("name", NAMES)
def test_variables_choose_job_and_worker_and_alarms_are_annotations(name: str) -> None:
    board = _board(name)
    assert [one["name"] for one in board["templating"]["list"]][:3] == ["datasource", "job", "instance"]
    assert "$job" in board["templating"]["list"][2]["query"]
    annotations = " ".join(one["expr"] for one in board["annotations"]["list"])
    assert 'ALERTS{alertname=~"Streamjobs.+"' in annotations and f"{PREFIX}drift_events_total" in annotations
    for expression in _expressions(name):
        selectors = re.findall(r"[a-z_]+\{([^}]*)\}", expression)
        assert selectors and all('instance=~"$instance"' in one for one in selectors), expression
        assert "$" not in VARIABLES.sub("", expression), expression


@pytest.mark.parametrize("name", NAMES)
def test_queries_name_metrics_that_a_worker_has_and_labels_that_these_have(name: str) -> None:
    labels = {PREFIX + metric.name: {*metric.labels, "instance", "le"} for metric in METRICS}
    for expression in _expressions(name):
        assert not wrong_metrics(expression)
        named = {re.sub("_(bucket|sum|count)$", "", word) for word in re.findall(rf"{PREFIX}[a-z_]+", expression)}
        by = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
        allowed = set.union(*(labels[one] for one in named)) if named else {"instance"}
        assert by <= allowed, expression


def test_metrics_of_the_process_that_are_named_exist() -> None:
    families: list[Metric] = list(Metrics("in").registry.collect())
    exposed = {sample.name for family in families for sample in family.samples}
    named = {word for name in NAMES for one in _expressions(name) for word in re.findall(r"\bprocess_[a-z_]+", one)}
    assert named and named <= exposed


def test_every_metric_is_on_a_dashboard_or_in_a_rule() -> None:
    rules = [path.read_text(encoding="utf-8") for path in (CHECKOUT / "deploy" / "prometheus").glob("*.yml")]
    shown = " ".join(rules + [one for name in NAMES for one in _expressions(name)])
    assert [metric.name for metric in METRICS if PREFIX + metric.name not in shown] == []


def test_what_grafana_is_provisioned_with_leads_to_the_dashboards() -> None:
    (provider,) = (GRAFANA / "provisioning" / "dashboards").iterdir()
    (one,) = yaml.safe_load(provider.read_text(encoding="utf-8"))["providers"]
    assert (one["type"], one["options"]["path"]) == ("file", "/var/lib/grafana/dashboards")
    (sources,) = (GRAFANA / "provisioning" / "datasources").iterdir()
    (source,) = yaml.safe_load(sources.read_text(encoding="utf-8"))["datasources"]
    scraped = yaml.safe_load((CHECKOUT / "deploy" / "prometheus" / "prometheus.yml").read_text(encoding="utf-8"))
    assert source["type"] == "prometheus"
    assert source["jsonData"]["timeInterval"] == scraped["global"]["scrape_interval"]
