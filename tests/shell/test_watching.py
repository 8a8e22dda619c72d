"""/metrics and /health: what they say, and that nobody else listens."""

import asyncio
import json
import urllib.error
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from streamjobs.config import MetricsSection
from streamjobs.core.messages import Report
from streamjobs.errors import REASONS, SetupError
from streamjobs.shell.health import STALLED, Health, Server
from streamjobs.shell.metrics import METRICS, PREFIX, RATIOS, Metrics
from tests.shell.fakes import Worker, stream


def get(port, path):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.fixture
def served():
    health = Health(Metrics("in", "okfeb", "page_hinkley", ["in.features"]))
    server = Server(MetricsSection(port=0), health)
    yield health, server.start()
    server.stop()


def test_every_metric_is_served_under_its_name(served):
    _, port = served
    status, text = get(port, "/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert status == 200
    for metric in METRICS:
        name = (PREFIX + metric.name).removesuffix("_total")
        assert name in families, metric.name
        assert families[name].type == metric.kind
    assert all(name.startswith(PREFIX) for name in families)


def test_every_reason_of_a_dead_letter_has_its_counter_from_the_start(served):
    health, _ = served
    for reason in REASONS:
        value = health.metrics.registry.get_sample_value(PREFIX + "records_dead_lettered_total", {"reason": reason})
        assert value == 0


def test_a_report_is_counted():
    metrics = Metrics("in", "okfeb")
    report = Report(records=3, bytes=90, samples=2, rows=2, redelivered=1, labels=2, wrong=1, keys_created=1)
    report.dead_lettered["malformed"] = 1
    report.ls_errors = [RATIOS[4], 1e9, 0.0]
    metrics.advanced(report, 0.001)
    metrics.advanced(report, 0.001)
    value = metrics.registry.get_sample_value
    assert value(PREFIX + "records_consumed_total", {"topic": "in"}) == 6
    assert value(PREFIX + "samples_total", {"model": "okfeb"}) == 4
    assert value(PREFIX + "records_dead_lettered_total", {"reason": "malformed"}) == 2
    assert value(PREFIX + "prediction_errors_total", {"kind": "class"}) == 2
    assert value(PREFIX + "ls_error_ratio_count") == 6
    assert value(PREFIX + "ls_error_ratio_bucket", {"le": repr(RATIOS[3])}) == 2
    assert value(PREFIX + "ls_error_ratio_bucket", {"le": repr(RATIOS[4])}) == 4
    assert value(PREFIX + "ls_error_ratio_bucket", {"le": "+Inf"}) == 6


def test_the_states_of_a_worker_answer_with_the_right_status(served):
    health, port = served
    for state, expected in (("recovering", 200), ("running", 200), ("stopping", 503), ("failed", 503)):
        health.state = state
        status, body = get(port, "/health")
        assert (status, json.loads(body)["state"]) == (expected, state)


def test_a_loop_that_stands_still_is_not_healthy():
    health = Health(Metrics("in"), state="running", turned=100.0)
    assert health.answer(100.0 + STALLED - 1)[0] == 200
    status, body = health.answer(100.0 + STALLED + 1)
    assert status == 503 and "no turn" in body["reason"]


def test_a_worker_behind_without_commits_is_not_healthy():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0)
        metrics = delivery.metrics
        metrics.end_of = lambda partition: 50
        health = Health(metrics, state="running")
        metrics.started -= STALLED + 1
        behind = health.answer()
        worker.fetch(0, stream(50))
        await worker.settle()
        await delivery.held[0].checkpoints.take()
        return behind, health.answer()

    (status, behind), (later, fine) = asyncio.run(body())
    assert status == 503 and behind["lag"] == {"0": 50} and behind["partitions"] == [0]
    assert later == 200 and fine["lag"] == {"0": 0} and fine["last_commit_age_seconds"] < 60


def test_the_lag_of_a_partition_that_went_elsewhere_is_not_shown():
    async def body():
        worker = Worker()
        delivery = await worker.begin(0, 1)
        value = delivery.metrics.registry.get_sample_value
        name, labels = PREFIX + "consumer_lag_records", {"topic": "in", "partition": "0"}
        before = value(name, labels)
        delivery.bar()
        await delivery.revoke("rebalance")
        await worker.begin(1)
        return before, value(name, labels), value(name, {"topic": "in", "partition": "1"})

    assert asyncio.run(body()) == (0, None, 0)


def test_a_taken_port_is_one_clear_sentence(served):
    _, port = served
    other = Server(MetricsSection(port=port), Health(Metrics()))
    with pytest.raises(SetupError, match=f"127.0.0.1:{port}: cannot listen"):
        other.start()
