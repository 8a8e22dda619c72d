"""The pages name everything there is and nothing that is not, and their links lead somewhere; planted mistakes are found."""

import re
from functools import cache

import msgspec
import pytest

from streamjobs import __version__
from streamjobs.core.output_records import RECORDS
from streamjobs.outputs.schema import commented
from streamjobs.worker.metrics import Metrics
from streamjobs.worker.metrics.table import METRICS, PREFIX
from tests.docs import named
from tests.docs.links import anchors, linked_page, links, wrong_links
from tests.docs.pages import SECTION_IN, pages
from tests.docs.reference import BEGIN, END, renewed, sections
from tests.faults.suite import CASES
from tests.parts import CHECKOUT

README_BYTES = 15_000
PAGE_BYTES = 20_000
REFERENCE_BYTES = 24_000  # of pages with generated tables
LONG: set[str] = set()  # this list may only shrink


@cache
def _pages() -> dict[str, str]:
    return pages()


PAGES = sorted(_pages())


@pytest.mark.parametrize("page", PAGES)
def test_the_generated_sections_are_current(page: str) -> None:
    old, new = _pages()[page].splitlines(), renewed(_pages()[page], page).splitlines()
    lines = [f"- {line}" for line in old if line not in new] + [f"+ {line}" for line in new if line not in old]
    if old != new:
        pytest.fail("\n".join(["run `python -m tests.docs --write`; among others:", *lines[:12]]), pytrace=False)


def test_every_generated_section_has_its_page() -> None:
    assert set(SECTION_IN) == set(sections())
    assert set(SECTION_IN.values()) <= set(PAGES)


@pytest.mark.parametrize("page", PAGES)
def test_commands_metrics_settings_and_variables_named_exist(page: str) -> None:
    for check in (named.wrong_commands, named.wrong_metrics, named.wrong_settings, named.wrong_variables):
        assert not check(_pages()[page]), check.__name__


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    assert not wrong_links(page, _pages())


def test_the_readme_is_short() -> None:
    assert len(_pages()["README.md"].encode()) <= README_BYTES


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_read_in_one_sitting(page: str) -> None:
    most = REFERENCE_BYTES if page in SECTION_IN.values() else PAGE_BYTES
    assert page in LONG or len(_pages()[page].encode()) <= most


def test_links_lead_from_the_readme_to_every_page() -> None:
    reached, waiting = {"README.md"}, ["README.md"]
    while waiting:
        page = waiting.pop()
        targets = {linked_page(page, target) for _, target in links(_pages()[page])} & set(PAGES)
        waiting += targets - reached
        reached |= targets
    assert reached == set(PAGES)


def test_the_readme_answers_where_a_new_reader_has_to_look() -> None:
    """Each answer is a link to a name in the code, and the test of links follows it."""
    told = _pages()["README.md"].partition("| question | answer |")[2].partition("\n\n")[0].splitlines()[2:]
    answers = dict(row.strip("| ").split(" | ", 1) for row in told)
    assert len(answers) == 4
    for question, words in {
        "record become numbers": ("streamjobs/core/decoding/",),
        "exactly-once": ("streamjobs/worker/checkpoint.py", "streamjobs/core/admit.py"),
        "add a metric": ("`METRICS`](streamjobs/worker/metrics/table.py",),
        "zombie": ("`zombie`](tests/faults/suite.py", "`test_"),
    }.items():
        (answer,) = [answers[asked] for asked in answers if question in asked]
        assert all(word in answer for word in words), question
        assert re.search(r"\[`\w+(\.\w+)*`\]\([\w/]+\.py\)", answer), f"'{question}' is answered by no name in the code"


def test_one_line_runs_the_demo_and_one_line_the_tests() -> None:
    lines = [line.strip() for _, contents in named.blocks(_pages()["README.md"]) for line in contents.splitlines()]
    for end in ("streamjobs demo", "-m tests"):
        assert any("pip install" in line and line.endswith(end) for line in lines), f"no line installs and runs '{end}'"


def test_every_fault_case_stands_beside_what_an_operator_does() -> None:
    rows = _pages()["deploy/failures.md"].partition("| what happens |")[2].partition("\n\n")[0].splitlines()[2:]
    told = [name.strip("`") for row in rows for name in row.split("|")[-2].split()]
    assert sorted(told) == sorted(CASES)


def test_log_lines_that_an_operator_looks_for_are_written_by_the_code() -> None:
    rows = _pages()["deploy/failures.md"].partition("| what happens |")[2].partition("\n\n")[0].splitlines()[2:]
    phrases = [text for row in rows for text in re.findall(r"`([a-z][a-z ]+ [a-z ]+)`", row.split(" | ")[1])]
    sources = "".join(path.read_text(encoding="utf-8") for path in (CHECKOUT / "streamjobs").rglob("*.py"))
    assert phrases and [text for text in phrases if f'"{text}"' not in sources] == []


def test_the_changelog_begins_with_this_version_and_every_page_with_a_title() -> None:
    versions = re.findall(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", _pages()["CHANGELOG.md"], re.MULTILINE)
    assert versions[0] == __version__
    assert versions == sorted(versions, key=lambda one: tuple(map(int, one.split("."))), reverse=True)
    assert all(text.startswith("# ") for text in _pages().values())


def test_metrics_in_the_files_for_deployment_exist() -> None:
    for path in (CHECKOUT / "deploy").rglob("*"):
        if path.suffix in (".json", ".yml", ".yaml", ".toml", ".md"):
            assert not named.wrong_metrics(path.read_text(encoding="utf-8")), path


def test_the_table_of_metrics_is_what_a_worker_exposes() -> None:
    exposed = {
        metric.name for metric in Metrics(topic="imu", model="okfeb").registry.collect() if metric.name.startswith(PREFIX)
    }
    assert exposed == {PREFIX + metric.name.removesuffix("_total") for metric in METRICS}


def _sample() -> str:
    empty = "\n".join(f"{BEGIN.format(name)}\n{END.format(name)}" for name in sections())
    return renewed(empty, "all.md", dict.fromkeys(sections(), "all.md"))


def test_what_is_missing_or_does_not_exist_changes_the_reference() -> None:
    sample, place = _sample(), dict.fromkeys(sections(), "all.md")
    assert renewed(sample, "all.md", place) == sample
    for name in ("`max_abs`", "`topics plan`", "`--expect`", "`streamjobs_keys_created_total`", "`imu.dlq`", "`okfeb`"):
        assert name in sample
        lines = sample.splitlines()
        row = next(number for number, line in enumerate(lines) if name in line)
        without = "\n".join(lines[:row] + lines[row + 1 :])
        other = "\n".join([*lines[: row + 1], lines[row].replace(name, "`nothing_of_that_name`"), *lines[row + 1 :]])
        assert renewed(without, "all.md", place) == sample != without
        assert renewed(other, "all.md", place) == sample != other


@pytest.mark.parametrize("text", ["", BEGIN.format("metrics"), END.format("metrics") + BEGIN.format("metrics")])
def test_missing_markers_are_said(text: str) -> None:
    with pytest.raises(ValueError, match=r"deploy/metrics\.md needs <!-- reference:metrics"):
        renewed(text, "deploy/metrics.md")


def test_markers_in_another_page_than_theirs_are_said() -> None:
    with pytest.raises(ValueError, match=r"not at all: they stand in deploy/metrics\.md"):
        renewed(BEGIN.format("metrics") + END.format("metrics"), "README.md")


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
        (named.wrong_metrics, "`job:streamjobs_late:ratio_rate5m`, `streamjobs_keys`", "`streamjobs_late:ratio_rate5m`"),
        (named.wrong_metrics, "`streamjobs_keys`, `streamjobs_event_delay_seconds_bucket`", "`streamjobs_kegs`"),
        (named.wrong_settings, '```toml\n[source]\ntopic = "imu"\n```', '```toml\n[source]\ntropic = "imu"\n```'),
        (named.wrong_settings, '```toml\n[learner]\nname = "okfeb"\nrank = 3\n```', "```toml\n[sauce]\nx = 1\n```"),
        (named.wrong_variables, "STREAMJOBS_BROKER__URL, STREAMJOBS_CACHE", "STREAMJOBS_BROKER__URI"),
    ],
)
def test_a_planted_mistake_is_found(check, good: str, bad: str) -> None:
    assert check(good) == []
    assert len(check(bad)) == 1


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("[a](../README.md)", "[a](README2.md)"),
        ("[a](../pyproject.toml) ![b](page.png)", "![b](pages.png)"),
        ("[a](../README.md#two-commands)", "[a](../README.md#three-commands)"),
        ("[a](#here-b)\n\n## `Here`: B\n", "[a](#there)\n\n## `Here`: B\n"),
        ("[`METRICS`](../streamjobs/worker/metrics/table.py)", "[`METRIKS`](../streamjobs/worker/metrics/table.py)"),
        (
            "[`Checkpoints.take`](../streamjobs/worker/checkpoint.py)",
            "[`Checkpoints.give`](../streamjobs/worker/checkpoint.py)",
        ),
        ("[case `zombie`](../tests/faults/suite.py)", "[case `zombies`](../tests/faults/suite.py)"),
        ("[`table.py`](../streamjobs/worker/metrics/table.py)", "[`tables.py`](../streamjobs/worker/metrics/table.py)"),
        ("```\n[a](nowhere.md)\n```\n", "[a](../../outside.md)"),
        ("[a](https://example.org)", "[a]\n(b) [c](nowhere.md)"),
    ],
)
def test_a_planted_link_is_found(good: str, bad: str) -> None:
    """In a page of deploy/."""
    for text, problems in ((good, 0), (bad, 1)):
        page = {"deploy/README.md": text, "README.md": _pages()["README.md"]}
        assert len(wrong_links("deploy/README.md", page)) == problems, text


def test_headings_have_the_anchors_a_forge_gives_them() -> None:
    text = "# A `b`: c, d's\n## Same\n## Same\n```sh\n# no heading\n```\n### [Link](x.md) - e_f\n"
    assert anchors(text) == {"a-b-c-ds", "same", "same-1", "link---e_f"}


@pytest.mark.parametrize("sink", RECORDS)
def test_every_field_of_an_output_says_what_it_is(sink: str) -> None:
    record = RECORDS[sink]
    told = {name for name, _, _ in commented(record)}
    assert told == {field.name for field in msgspec.structs.fields(record)}
