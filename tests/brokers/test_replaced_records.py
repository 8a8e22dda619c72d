"""An input that has lost records which a worker has read, and has others at their offsets, as after an unclean election."""

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from streamjobs.core.advance import advance
from streamjobs.core.live.live import Live
from streamjobs.kafka.devbroker.broker import Broker
from streamjobs.maintenance.renew import without_offsets
from tests.brokers.fixtures import LEARNING
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import KafkaJob
from tests.brokers.load import samples
from tests.brokers.verification import identity
from tests.brokers.workers import Worker, run_until_done, running_worker, wait_for_exit
from tests.commands.jobs import command

Place = tuple[int, bytes]  # partition and key of a state


def test_replaced_records_end_a_worker_and_every_later_start(
    broker: Broker, tmp_path: Path, fork_server: ForkServer
) -> None:
    with Broker(data=tmp_path / "node") as node:
        job = KafkaJob(node.bootstrap, tmp_path, "replaced", **LEARNING, state={"replay": "0s"})
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

        before, answered = job.snapshots(), {identity(one.headers()) for one in job.sink("predictions")}
        assert command("state", "forget-offsets", job.path) == 0 == command("check", job.path, "--online")
        run_until_done(job, fork_server=fork_server)
        said = [identity(one.headers()) for one in job.sink("predictions")]
        states, predictions = learned_since(job, before, kept)
        assert len(said) == len(set(said)) == len(answered) + predictions  # no id is there twice
        assert predictions > 800 and without_places(job.snapshots()) == without_places(states)
        assert command("state", "forget-offsets", job.path) == 2  # nothing is lost now


def without_places(states: Mapping[Place, bytes]) -> dict[Place, bytes | None]:
    return {place: without_offsets(data) for place, data in states.items()}


def learned_since(job: KafkaJob, before: Mapping[Place, bytes], kept: Mapping[int, int]) -> tuple[dict[Place, bytes], int]:
    """States after the records from `kept` on, and how many predictions were made; before: of the lost records too."""
    learned: Any = without_places(before)
    records, made = [one for one in job.inputs() if one.offset >= kept[one.partition]], dict[Place, bytes]()
    predictions = 0
    for number in kept:
        live = Live(job.core, partial(lambda number, key: learned.get((number, key)), number))
        outputs, _ = advance(job.core, live, [record for record in records if record.partition == number])
        predictions += sum(output.sink == "predictions" for output in outputs)
        made |= {(number, key): data for key, data in live.snapshots()}
    return learned | made, predictions
