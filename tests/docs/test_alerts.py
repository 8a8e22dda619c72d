"""The rules of deploy/prometheus: promtool's own tests, a runbook section for each alert, and metrics that a worker has."""

import re
import subprocess
from collections.abc import Container, Mapping
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamjobs.worker.metrics import Metrics
from tests.docs.links import anchors
from tests.docs.named import wrong_commands
from tests.parts import CHECKOUT
from tests.prometheus import tool

RULES = CHECKOUT / "deploy" / "prometheus"
RUNBOOK = (CHECKOUT / "deploy" / "runbook.md").read_text(encoding="utf-8")
PROMETHEUS_OWN = {"up"}  # made by Prometheus for each target
WORDS = {  # of PromQL, beside metrics
    *("absent", "and", "avg_over_time", "by", "changes", "count", "group_left", "increase", "last_over_time", "max"),
    *("min_over_time", "offset", "on", "or", "predict_linear", "rate", "resets", "sum", "time", "unless"),
}


def _read(name: str) -> Any:
    return yaml.safe_load((RULES / name).read_text(encoding="utf-8"))


def _rules(name: str) -> list[dict[str, Any]]:
    return [rule for group in _read(name)["groups"] for rule in group["rules"]]


ALERTS = {rule["alert"]: rule for rule in _rules("alerts.yml")}
RECORDED = {rule["record"]: rule for rule in _rules("recording.yml")}


@cache
def _exposed() -> set[str]:
    return {
        sample.name
        for family in Metrics("in", "okfeb", "cusum", ["out"], ["x"]).registry.collect()
        for sample in family.samples
    } | {"streamjobs_consumer_lag_records", "streamjobs_worst_ls_error_ratio", "streamjobs_changelog_records_total"}


def _metrics_of(expression: str) -> set[str]:
    """Metrics (and recorded ones) that an expression names: words that are neither PromQL's, nor labels, nor durations."""
    bare = re.sub(r'\{[^}]*\}|\[[^]]*\]|"[^"]*"|\b(?:by|on|group_left)\s*\([^)]*\)', " ", expression)
    return set(re.findall(r"\b[a-z_][a-z0-9_:]*\b", bare)) - WORDS


def _sections() -> dict[str, str]:
    """Text of each section of the runbook below its heading, by heading."""
    found = re.split(r"^#{2,3} (.+)$", RUNBOOK, flags=re.MULTILINE)[1:]
    return dict(zip(found[::2], found[1::2], strict=True))


@pytest.mark.slow
def test_every_alert_fires_when_it_should_and_is_silent_otherwise() -> None:
    command = [tool("promtool"), "test", "rules", "alerts_test.yml"]
    done = subprocess.run(command, cwd=RULES, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_promtool_takes_the_configuration_with_its_rules() -> None:
    command = [tool("promtool"), "check", "config", "--lint-fatal", "prometheus.yml"]
    done = subprocess.run(command, cwd=RULES, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout and f"{len(RECORDED)} rules found" in done.stdout


@pytest.mark.slow
def test_promtool_takes_the_configuration_of_compose_with_the_same_rules(tmp_path: Path) -> None:
    compose = yaml.safe_load((CHECKOUT / "deploy" / "compose.yaml").read_text(encoding="utf-8"))
    (tmp_path / "rules").symlink_to(RULES)  # as the service mounts it
    assert "./prometheus:/etc/prometheus/rules:ro" in compose["services"]["prometheus"]["volumes"]
    (tmp_path / "prometheus.yml").write_text(compose["configs"]["prometheus"]["content"], encoding="utf-8")
    command = [tool("promtool"), "check", "config", "prometheus.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout and f"{len(RECORDED)} rules found" in done.stdout


GUARDS = {  # what keeps an alert silent in the harmless situation that is nearest to its own
    "StreamjobsFallingBehind": ("and job_name:streamjobs_late_batches:increase1h >= 10", ""),
    "StreamjobsFallingBehindSlowly": ("and job_name:streamjobs_late_batches:increase6h >= 10", ""),
    "StreamjobsManyDeadLetters": ("and job_name:streamjobs_records_dead_lettered:increase1h >= 10", ""),
    "StreamjobsRecoveryStuck": ("and streamjobs_recovery_remaining_records > 0", ""),
    "StreamjobsStateMisses": ("and on (job, instance) rate(streamjobs_keys_evicted_total[5m]) > 0", ""),
    "StreamjobsPopulationDrift": (">= 20", ">= 2"),
    "StreamjobsDiskFilling": ("and predict_linear(streamjobs_state_disk_free_bytes[1h] offset 90m, 24 * 3600) < 0", ""),
    "StreamjobsRestarting": ("> 2", "> 1"),
    "StreamjobsNoRecords": (
        "unless on (job, job_name) sum by (job, job_name) (instance:streamjobs_consumer_lag_records:sum) > 0",
        "",
    ),
    "StreamjobsNotReady": ("and streamjobs_recovery_remaining_records == 0", ""),
}
ALSO = {  # a second one
    "StreamjobsPopulationDrift": ("avg_over_time(job_name:streamjobs_keys_in_drift:ratio[1d])", "0 * {}"),
}
OF_ANY_LENGTH = {"StreamjobsStateMisses", "StreamjobsPopulationDrift"}  # their `for` is patience, and no test needs it


def _failing(folder: Path, rules: Any, changed: Container[str]) -> set[str]:
    """The alerts with tests that fail under these rules, of the groups of tests that name a changed one."""
    tests = _read("alerts_test.yml")
    tests["tests"] = [
        group for group in tests["tests"] if any(check["alertname"] in changed for check in group["alert_rule_test"])
    ]
    (folder / "recording.yml").write_bytes((RULES / "recording.yml").read_bytes())
    for name, text in (("alerts_test.yml", tests), ("alerts.yml", rules)):
        (folder / name).write_text(yaml.safe_dump(text), encoding="utf-8")
    command = [tool("promtool"), "test", "rules", "alerts_test.yml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    return set(re.findall(r"alertname: (\w+), time", done.stdout + done.stderr))


@pytest.mark.slow
@pytest.mark.parametrize("guards", [GUARDS, ALSO], ids=["first", "second"])
def test_an_alert_without_its_guard_fires_where_nothing_is_wrong(
    guards: Mapping[str, tuple[str, str]], tmp_path: Path
) -> None:
    rules = _read("alerts.yml")
    for rule in rules["groups"][0]["rules"]:
        guard, instead = guards.get(rule["alert"], ("", ""))
        assert guard in rule["expr"], rule["alert"]
        rule["expr"] = rule["expr"].replace(guard, instead.format(guard)) if guard else rule["expr"]
    assert _failing(tmp_path, rules, guards) == guards.keys()


@pytest.mark.slow
def test_an_alert_that_does_not_wait_fires_too_early(tmp_path: Path) -> None:
    rules = _read("alerts.yml")
    waiting = {rule["alert"] for rule in rules["groups"][0]["rules"] if rule.pop("for", None)} - OF_ANY_LENGTH
    assert len(waiting) > 10
    assert _failing(tmp_path, rules, waiting) >= waiting


def test_every_alert_has_a_test_in_which_it_fires_and_one_in_which_it_is_silent() -> None:
    fires, silent = set(), set()
    for group in _read("alerts_test.yml")["tests"]:
        instances = {label for one in group["input_series"] for label in re.findall(r'instance="([^"]+)"', one["series"])}
        for check in group["alert_rule_test"]:
            if check["exp_alerts"]:
                fires.add(check["alertname"])
            if len(check["exp_alerts"]) < len(instances):
                silent.add(check["alertname"])
    assert fires == silent == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_what_is_wrong_and_leads_to_a_section_with_its_meaning_and_a_command(name: str) -> None:
    rule = ALERTS[name]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    told = rule["annotations"]
    assert set(told) == {"summary", "description", "runbook_url"}
    assert re.match(r"[A-Z{].*[^.]$", told["summary"]) and re.match(r"[A-Z{].*\.$", told["description"])
    assert told["runbook_url"] == f"deploy/runbook.md#{name.lower()}" and name.lower() in anchors(RUNBOOK)
    section = _sections()[name]
    begin = r"\n\n[A-Z][^\n]+\n(?:[^`\n][^\n]*\n){0,2}\n```sh\n\S[^\n]+\n```\n\n"
    assert re.match(begin, section), f"the section {name} does not begin with its meaning, in three lines, and a command"
    assert not wrong_commands(section)


def test_the_runbook_reads_the_log_of_the_unit_that_the_repository_installs() -> None:
    (unit,) = [file.name for file in (CHECKOUT / "deploy").glob("*.service")]
    patterns = re.findall(r"journalctl -u '?([^\s'`]+)", RUNBOOK)
    assert len(patterns) == 5 and all(fnmatch(unit.replace("@", "@wrist"), f"{one}.service") for one in patterns)


def test_every_section_of_an_alert_belongs_to_one() -> None:
    assert {heading for heading in _sections() if heading.startswith("Streamjobs")} == set(ALERTS)


@pytest.mark.parametrize("name", [*ALERTS, *RECORDED])
def test_a_rule_names_metrics_that_a_worker_has(name: str) -> None:
    named = _metrics_of((ALERTS.get(name) or RECORDED[name])["expr"])
    assert named and not named - _exposed() - RECORDED.keys() - PROMETHEUS_OWN


def test_every_recorded_series_is_used() -> None:
    used = {metric for rule in [*ALERTS.values(), *RECORDED.values()] for metric in _metrics_of(rule["expr"])}
    assert RECORDED.keys() - used == set()


def test_the_edge_of_a_late_batch_is_a_bucket() -> None:
    edges = set(re.findall(r'le="([^"]+)"', (RULES / "recording.yml").read_text(encoding="utf-8")))
    exposed = {
        sample.labels["le"]
        for family in Metrics("in").registry.collect()
        for sample in family.samples
        if sample.name == "streamjobs_processing_delay_seconds_bucket"
    }
    assert edges and edges <= exposed
