"""The README names everything there is and nothing that is not; each planted mistake is found."""

from functools import cache

import msgspec
import pytest

from streamjobs.core.encode import Prediction
from streamjobs.worker.metrics import METRICS, PREFIX, Metrics
from tests.docs import named
from tests.docs.reference import BEGIN, END, commented, renewed, sections
from tests.faults.suite import CASES
from tests.parts import CHECKOUT


@cache
def _readme() -> str:
    path = CHECKOUT / "README.md"
    if not path.exists():
        pytest.skip("README.md is not written yet")
    return path.read_text(encoding="utf-8")


def test_the_reference_sections_are_current() -> None:
    old, new = _readme().splitlines(), renewed(_readme()).splitlines()
    lines = [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
    if old != new:
        pytest.fail("\n".join(["run `python -m tests.docs --write`; among others:", *lines[:12]]), pytrace=False)


def test_commands_and_options_in_examples_exist() -> None:
    assert not named.wrong_commands(_readme())


def test_metrics_named_exist() -> None:
    assert not named.wrong_metrics(_readme())


def test_settings_in_examples_exist() -> None:
    assert not named.wrong_settings(_readme())


def test_environment_variables_named_exist() -> None:
    assert not named.wrong_variables(_readme())


def test_one_line_runs_the_demo_and_one_line_the_tests() -> None:
    lines = [line.strip() for _, contents in named.blocks(_readme()) for line in contents.splitlines()]
    for end in ("streamjobs demo", "-m tests"):
        assert any("pip install" in line and line.endswith(end) for line in lines), f"no line installs and runs '{end}'"


def test_every_fault_case_stands_beside_what_an_operator_does() -> None:
    rows = _readme().partition("| what happens |")[2].partition("\n\n")[0].splitlines()[2:]
    told = [name.strip("`") for row in rows for name in row.split("|")[-2].split()]
    assert sorted(told) == sorted(CASES)


def test_metrics_in_the_files_for_deployment_exist() -> None:
    for path in (CHECKOUT / "deploy").rglob("*"):
        if path.suffix in (".json", ".yml", ".yaml", ".toml", ".md"):
            assert not named.wrong_metrics(path.read_text(encoding="utf-8")), path


def test_the_table_of_metrics_is_what_a_worker_exposes() -> None:
    exposed = {metric.name for metric in Metrics(topic="imu", model="okfeb").registry.collect()}
    assert exposed == {PREFIX + metric.name.removesuffix("_total") for metric in METRICS}


def _sample() -> str:
    return renewed("\n".join(f"{BEGIN.format(name)}\n{END.format(name)}" for name in sections()))


def test_what_is_missing_or_does_not_exist_changes_the_reference() -> None:
    sample = _sample()
    assert renewed(sample) == sample
    for name in ("`max_abs`", "`topics plan`", "`--expect`", "`streamjobs_keys_created_total`", "`imu.dlq`", "`okfeb`"):
        assert name in sample
        lines = sample.splitlines()
        row = next(number for number, line in enumerate(lines) if name in line)
        without = "\n".join(lines[:row] + lines[row + 1 :])
        other = "\n".join([*lines[: row + 1], lines[row].replace(name, "`nothing_of_that_name`"), *lines[row + 1 :]])
        assert renewed(without) == sample != without
        assert renewed(other) == sample != other


@pytest.mark.parametrize("text", ["", BEGIN.format("metrics"), END.format("metrics") + BEGIN.format("metrics")])
def test_missing_markers_are_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"README\.md needs <!-- reference:"):
        renewed(text)


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (
            named.wrong_commands,
            "```\nstreamjobs replay job.toml --expect out.csv\n```",
            "```\n$ streamjobs relay job.toml\n```",
        ),
        (named.wrong_commands, "```\n.venv/bin/streamjobs topics plan job.toml\n```", "```\nstreamjobs topics draw\n```"),
        (named.wrong_commands, "```\nstreamjobs demo --kafka # with Java\n```", "```\nstreamjobs demo --rabbit\n```"),
        (named.wrong_commands, "streamjobs is a worker", "```\npip install . && streamjobs show\n```"),
        (named.wrong_commands, "`streamjobs check job.toml --online` tells", "then `streamjobs check job.toml --onlin`"),
        (named.wrong_metrics, "`streamjobs_keys`, `streamjobs_event_delay_seconds_bucket`", "`streamjobs_kegs`"),
        (named.wrong_settings, '```toml\n[source]\ntopic = "imu"\n```', '```toml\n[source]\ntropic = "imu"\n```'),
        (named.wrong_settings, '```toml\n[learner]\nname = "okfeb"\nrank = 3\n```', "```toml\n[sauce]\nx = 1\n```"),
        (named.wrong_variables, "STREAMJOBS_BROKER__URL, STREAMJOBS_CACHE", "STREAMJOBS_BROKER__URI"),
    ],
)
def test_a_planted_mistake_is_found(check, good: str, bad: str) -> None:
    assert check(good) == []
    assert len(check(bad)) == 1


def test_every_field_of_a_prediction_says_what_it_is() -> None:
    told = {name for name, _, _ in commented(Prediction)}
    assert told == {field.name for field in msgspec.structs.fields(Prediction)}
