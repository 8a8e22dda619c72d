"""`GET /api/keys/KEY` on two workers of one job: what `state show` says, and on the other worker who has the key."""

import json
import urllib.error
import urllib.request
from typing import Any

from streamjobs.core.partitioners import murmur2
from streamjobs.maintenance.copies import Entry
from streamjobs.maintenance.summary import details
from tests.brokers.fixtures import LEARNING, MakeJob
from tests.brokers.fork_server import ForkServer
from tests.brokers.kafka_job import ANSWER, PARTITIONS, until
from tests.brokers.load import samples
from tests.brokers.workers import Worker, running_worker


def asked(worker: Worker, key: bytes) -> tuple[int, Any]:
    port = worker.events("serving /metrics and /health")[-1]["port"]
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/keys/{key.decode()}", timeout=ANSWER) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_a_worker_tells_the_state_of_its_keys_and_which_worker_has_others(
    make_job: MakeJob, fork_server: ForkServer
) -> None:
    job = make_job("asked", **LEARNING)
    placed = [one._replace(partition=murmur2(one.key or b"", PARTITIONS)) for one in samples(400, keys=12)]
    with (
        running_worker(job, "a", fork_server=fork_server) as one,
        running_worker(job, "b", fork_server=fork_server) as other,
    ):

        def of(worker: Worker) -> list[int]:
            return worker.events("ready")[-1]["partitions"] if worker.events("ready") else []

        until(lambda: len(of(one)) == len(of(other)) == PARTITIONS // 2, "each has half of the partitions")
        job.produce(placed)
        job.wait_until_done([one, other])
        for (number, key), data in job.snapshots().items():
            here, elsewhere = (one, other) if number in of(one) else (other, one)
            status, told = asked(here, key)
            said = details(job.core, Entry(number, key, data, -1, told["states"][0]["written"]))
            assert (status, told["states"]) == (200, [json.loads(json.dumps(said))])
            status, told = asked(elsewhere, key)
            assert (status, told["partition"], told["partitions_here"]) == (404, number, sorted(of(elsewhere)))
            likely = [worker["partitions"] for worker in told["workers"] if worker["likely"]]
            assert len(told["workers"]) == 2 and likely == [sorted(of(here))]
