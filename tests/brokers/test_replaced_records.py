"""An input that has lost records which a worker has read, and has others at their offsets, as after an unclean election."""

import shutil
from pathlib import Path

from streamjobs.kafka.devbroker.broker import Broker
from tests.brokers.fixtures import LEARNING
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.load import samples
from tests.brokers.workers import Worker, running_worker, wait_for_exit


def test_replaced_records_end_a_worker_and_every_later_start(
    broker: Broker, tmp_path: Path, fork_server: ForkServer
) -> None:
    with Broker(data=tmp_path / "node") as node:
        job = KafkaJob(node.bootstrap, tmp_path, "replaced", **LEARNING)
        job.produce(samples(1000, seed=1))
        with running_worker(job, fork_server=fork_server) as worker:
            job.wait_until_done([worker])
            kept = job.ends()
            node.stop()
            logs = [tmp_path / "node" / "log" / f"{job.input}-{number}" for number in kept]
            for log in logs:
                shutil.copytree(log, tmp_path / log.name)
            node.restart()
            job.produce(samples(600, seed=2))
            job.wait_until_done([worker])
            read = job.ends()
            node.stop()
            for log in logs:
                shutil.rmtree(log)
                shutil.copytree(tmp_path / log.name, log)
            node.restart()
            assert job.ends() == kept
            job.produce(samples(1000, seed=3))
            assert all(job.ends()[number] > read[number] for number in read)
            told = [wait_for_exit(worker)]
        told.append(wait_for_exit(Worker(job, fork_server=fork_server)))
        sentences = [
            f"topic {job.input}[{number}]: the broker has lost the records from offset {kept[number]} on, which this "
            f"job has read up to {read[number]}: "
            for number in kept
        ]
        for code, lines in told:
            assert code == 3 and len(lines) == 1 and any(sentence in lines[0] for sentence in sentences), lines
