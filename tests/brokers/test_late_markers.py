"""A node that is late with the markers of answered commits, as one without a free processor is.

It sends them to itself, here through a proxy. They arrive when a command that changes states takes the partitions over.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamjobs.kafka import topics
from streamjobs.kafka.devbroker.broker import Broker, free_port
from streamjobs.worker.changelog import Changelog
from tests.brokers.fixtures import LEARNING, cleaning_up_on_sigterm
from tests.brokers.kafka_job import PARTITIONS, KafkaJob
from tests.brokers.load import samples
from tests.brokers.proxy import Proxy
from tests.brokers.workers import running_worker
from tests.commands.jobs import output_of


@pytest.fixture
def late(tmp_path: Path) -> Iterator[tuple[Broker, Proxy]]:
    port, controller, inner, outer = (free_port() for _ in range(4))
    extra = {
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller},INNER://127.0.0.1:{inner}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},INNER://127.0.0.1:{outer}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,INNER:PLAINTEXT",
        "inter.broker.listener.name": "INNER",
        "transaction.partition.verification.enable": "false",  # it goes the same way, and a worker waits for it
    }
    proxy = Proxy(outer, inner).start()
    with cleaning_up_on_sigterm(), Broker(port=port, extra=extra) as broker:
        yield broker, proxy
        proxy.mend()
    proxy.stop()


@pytest.mark.long  # in the test command on fakes: tests/maintenance/test_changelog_edit.py
@pytest.mark.parametrize("recreated", [True, False])
def test_a_command_waits_for_the_markers_of_a_worker_that_has_ended(
    late: tuple[Broker, Proxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recreated: bool
) -> None:
    broker, proxy = late
    job = KafkaJob(broker.bootstrap, tmp_path, "late", **LEARNING)
    job.produce(samples(400, keys=40))
    with running_worker(job) as worker:
        job.wait_until_done([worker])
        job.wait_for_markers(job.changelog)
        proxy.silence(True)
        assert worker.stop() == 0
    ends = job.ends(job.changelog), job.ends(job.changelog, committed_only=False)
    assert ends[0] != ends[1], "no marker is late"
    if recreated:
        job.delete(job.changelog)
        topics.create(job.settings, job_sinks=job.core.sinks, state_bytes=job.core.state_bytes, roles=("state",))
    words = ("state", "restore", job.path, "--accept") if recreated else ("state", "reset", job.path, "--all")
    opened = Changelog.open

    async def opening(self: Changelog) -> None:
        proxy.silence(False)  # the broker answers once the markers are written
        await opened(self)

    monkeypatch.setattr(Changelog, "open", opening)
    code, text = output_of(*words)
    assert code == 0 and (text.count("0 states in it stay") == PARTITIONS or "40 keys reset" in text), text
    assert job.committed() == job.ends()
