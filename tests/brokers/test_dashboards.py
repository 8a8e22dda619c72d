"""A real Prometheus scrapes a worker on a real Kafka while the demo's data flows: no panel of a dashboard is empty.

With the same worker goes the walk that deploy/runbook.md describes: a broken record is an alert and stands on the page in a
real Chromium, its runbook leads to it, and a second worker joins and is killed.
"""

import asyncio
import json
import math
import re
import shlex
import time
import tomllib
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from streamjobs.demo.job import FILE
from streamjobs.demo.player import Player
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import ANSWER, KafkaJob, Sent, until
from tests.brokers.verification import verify
from tests.brokers.workers import Worker, running_worker
from tests.commands.jobs import command
from tests.page.chromium import Browser, chromium
from tests.parts import CHECKOUT
from tests.prometheus import Prometheus, tool

DASHBOARDS = CHECKOUT / "streamjobs" / "commands" / "dashboards"
PLAYED_IN = 12.0  # seconds
LOOK_AT = 0.7  # of what is played has been taken
RATE_INTERVAL = "8s"
BROKEN = b"{broken"
LATER, LAST = 6000, 100  # samples; the last ones find a frozen worker
ROWS = "[...document.querySelectorAll('#{0} tbody tr')].map((one) => one.textContent)"


class Watched(NamedTuple):
    """A Prometheus with what it has seen of a job."""

    prometheus: Prometheus
    job: KafkaJob
    worker: Worker
    instance: str
    at: float  # seconds since 1970, while data flowed
    more: list[Sent]  # records of people who come later

    def finite(self, expr: str) -> int:
        """How many series of an expression have a finite value in the last seconds before `at`."""
        for name, value in {"$instance": self.instance, "$job": self.job.name, "$__rate_interval": RATE_INTERVAL}.items():
            expr = expr.replace(name, value)
        found = self.prometheus.ask("query_range", query=expr, start=self.at - 4, end=self.at, step=1)["result"]
        return sum(any(math.isfinite(float(value)) for _, value in one["values"]) for one in found)


@pytest.fixture(scope="module")
def watched(broker: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The demo's job with a detector of errors, a control beside it and forecasts; one record of the input is broken."""
    tool("prometheus")  # before anything is started
    folder = tmp_path_factory.mktemp("watched")
    sections = tomllib.loads(FILE.read_text(encoding="utf-8"))
    del sections["job"], sections["population"]
    sections["source"]["topic"] = "watched.in"
    sections["state"] = sections.get("state", {}) | {"replay": "0s"}  # the panels of the changelog have something to show
    sections["forecast"] = {"fields": ["ax"], "ahead": [1, 5]}
    sections["drift"] = {"extractor": {"name": "last_points", "rank": 5}, "beside": ["running_mean"]}
    job = KafkaJob(
        broker.bootstrap, folder, "watched", population=(FILE.parent / "population.state").read_bytes(), **sections
    )
    with running_worker(job) as worker:
        (serving,) = worker.events("serving /metrics and /health")
        instance = f"127.0.0.1:{serving['port']}"
        with Prometheus(folder, instance) as prometheus:
            until(prometheus.up, "Prometheus has scraped the worker")
            job.produce([Sent(b"person-01", BROKEN, 0, round(time.time() * 1000))])
            until(lambda: prometheus.value('ALERTS{alertstate="firing"}'), "the broken record is an alert")
            player = Player(broker.bootstrap, job.input, PLAYED_IN)
            player.start()
            enough = LOOK_AT * len(player.ready)
            until(lambda: prometheus.value("streamjobs_records_consumed_total") > enough, "most is taken", every=0.2)
            at = time.time()
            assert player.failed is None
            player.stopping.set()
            player.join(30)
            newest = player.ready[-LATER:]
            more = [Sent(b"late-" + key, value, part, round(1000 * at)) for _, part, key, value in newest]
            yield Watched(prometheus, job, worker, instance, at, more)
        assert worker.stop() == 0


def _panels() -> list[tuple[str, str, list[str]]]:
    """(dashboard, title, queries) of every panel with queries."""
    found = []
    for path in sorted(DASHBOARDS.glob("*.json")):
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            if panel["type"] != "text":
                found.append((path.stem, panel["title"], [target["expr"] for target in panel["targets"]]))
    return found


def test_no_panel_is_empty_while_data_flows(watched: Watched) -> None:
    assert watched.finite("sum(rate(streamjobs_records_consumed_total[$__rate_interval])) > 100")
    panels = _panels()
    assert len(panels) > 40 and all(queries for _, _, queries in panels)
    empty = [(board, title, query) for board, title, those in panels for query in those if not watched.finite(query)]
    assert empty == []


def test_the_panels_of_forecasts_show_more_than_their_zero(watched: Watched) -> None:
    zero = " or vector(0)"  # shown by a job without forecasts
    queries = [query for _, _, those in _panels() for query in those if "forecast" in query]
    assert len(queries) == 3 and all(query.endswith(zero) for query in queries)
    assert [watched.finite(query.removesuffix(zero)) for query in queries] == [2, 4, 2], "rows ahead, and intervals of each"


def test_variables_and_annotations_find_the_job_and_its_alarms(watched: Watched) -> None:
    ask = watched.prometheus.ask
    assert ask("label/job_name/values", **{"match[]": "streamjobs_build_info"}) == [watched.job.name]
    chosen = f'streamjobs_build_info{{job_name=~"{watched.job.name}"}}'
    assert ask("label/instance/values", **{"match[]": chosen}) == [watched.instance]
    board = json.loads((DASHBOARDS / "overview.json").read_text(encoding="utf-8"))
    found = {one["name"]: watched.finite(one["expr"]) for one in board["annotations"]["list"]}
    assert found == {"Alerts of workers": 0, "Alerts of jobs": 1, "Drift alarms": 1}


def test_a_broken_record_is_an_alert_and_nothing_else_is(watched: Watched) -> None:
    rules = [rule for group in watched.prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}
    (alert,) = [one for one in watched.prometheus.ask("alerts")["alerts"] if one["state"] == "firing"]
    assert alert["labels"]["alertname"] == "StreamjobsDeadLetters"
    assert (alert["labels"]["job_name"], alert["labels"]["reason"]) == (watched.job.name, "malformed")


def test_exemplars_name_keys_by_their_hash_alone(watched: Watched) -> None:
    # Their times are event times, and the recordings are older than the scrape.
    query = {"query": "streamjobs_ls_error_ratio_bucket", "start": watched.at - 3600, "end": watched.at}
    found = [one["labels"] for series in watched.prometheus.ask("query_exemplars", **query) for one in series["exemplars"]]
    assert found and all(set(labels) == {"key_hash"} and len(labels["key_hash"]) == 16 for labels in found)


def test_a_wrong_query_and_an_empty_one_are_found(watched: Watched) -> None:
    with pytest.raises(ValueError, match="parse error"):
        watched.finite("sum by (instance (streamjobs_keys)")
    assert watched.finite('streamjobs_keys{instance=~"elsewhere"}') == 0


def test_the_page_shows_the_broken_record_and_the_alarms(watched: Watched) -> None:
    async def looked(address: str) -> tuple[list[str], list[str]]:
        async with Browser(address) as browser:
            tab = await browser.tab()
            await tab.open(f"http://{watched.instance}/", width=1600)
            letters, alarms = [await tab.until(ROWS.format(table)) for table in ("letters", "alarms")]
            await tab.close()
        return letters, alarms

    assert watched.prometheus.value("sum(streamjobs_drift_events_total)") > 0
    with chromium() as address:
        letters, alarms = asyncio.run(looked(address))
    assert any("person-01" in row and "malformed" in row for row in letters)
    assert alarms and all(re.search(r"person-\d\d", row) for row in alarms), alarms


def test_the_alerts_runbook_leads_to_the_broken_record(watched: Watched, capsys: pytest.CaptureFixture[str]) -> None:
    (alert,) = [one for one in watched.prometheus.ask("alerts")["alerts"] if one["state"] == "firing"]
    page, _, anchor = alert["annotations"]["runbook_url"].partition("#")
    text = (CHECKOUT / page).read_text(encoding="utf-8")
    (section,) = [one for one in re.split(r"^### ", text, flags=re.MULTILINE) if one.partition("\n")[0].lower() == anchor]
    assert _typed(watched, section.split("```sh\n")[1].partition("\n")[0]) == 0
    listed = capsys.readouterr().out
    (place,) = re.findall(r"\b\d:\d+\b", listed)
    assert "malformed" in listed
    (shown,) = re.findall(r"`(streamjobs dlq show\sjob.toml PARTITION:OFFSET)`", section)
    assert _typed(watched, shown.replace("PARTITION:OFFSET", place)) == 0
    assert BROKEN.decode() in capsys.readouterr().out


def test_the_first_command_of_every_runbook_works_beside_a_worker(watched: Watched) -> None:
    page = (CHECKOUT / "deploy" / "runbook.md").read_text(encoding="utf-8")
    section = r"^### Streamjobs\w+\n\n(?:[^`\n][^\n]*\n){1,3}\n```sh\n(.+)\n```$"  # its meaning, then the command
    commands = set(re.findall(section, page, re.MULTILINE))
    elsewhere = {one for one in commands if one.split()[0] in ("journalctl", "df")}  # of the machine, not of the product
    typed = commands - elsewhere
    assert len(elsewhere) == 3 and len(typed) > 7
    for line in typed:
        if line.startswith("curl "):
            _asked(watched, line)
        else:
            assert _typed(watched, line) == 0, line


def _asked(watched: Watched, line: str) -> None:
    """A call of curl, perhaps with a grep behind it: each name of its pattern is in what it shows."""
    (path, pattern), at = re.findall(r"127\.0\.0\.1:9108(/\w+)(?: \| grep -E '(.+)')?$", line)[0], watched.instance
    with urllib.request.urlopen(f"http://{at}{path}", timeout=ANSWER) as answer:
        shown = [text for text in answer.read().decode().splitlines() if re.search(pattern, text)]
    names = re.findall(r"[a-z_]{3,}", pattern)
    assert shown and [name for name in names if not any(name in text for text in shown)] == [], line


def _typed(watched: Watched, line: str) -> int:
    """The exit code of a command of the page, for this job."""
    words = [str(watched.job.path) if word == "job.toml" else word for word in shlex.split(line)]
    assert words[0] == "streamjobs"
    return command(*words[1:])


def test_a_second_worker_joins_and_is_killed_and_nothing_is_lost(watched: Watched, fork_server: ForkServer) -> None:
    job = watched.job
    job.wait_until_done([watched.worker])
    with running_worker(job, "b", fork_server=fork_server) as second:
        until(lambda: job.members() == [2, 2], "each worker has two of the four partitions")
        job.produce(watched.more[:-LAST])
        second.freeze()
        job.produce(watched.more[-LAST:])
        assert job.lag() > 0, "killed when its work was done"
        assert second.kill() == -9
    job.wait_until_done([watched.worker])
    verify(job, repeats=True)
