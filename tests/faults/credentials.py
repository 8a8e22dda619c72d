"""A password that is changed while workers use it."""

from pathlib import Path

from streamjobs.errors import SetupError
from streamjobs.job_files import load_job
from streamjobs.kafka.client import verify
from streamjobs.settings.broker import BrokerSection
from tests.brokers.fault_injection import program
from tests.brokers.kafka_job import until
from tests.faults.case import Case

USER = "worker"
PATIENCE = 8  # seconds of refusals after which a worker ends; a minute in the product


def rotated(case: Case) -> None:
    """The password is changed, and every connection cut: told by its file both go on, told nothing both end."""
    job, cluster = case.make_job(), case.cluster
    file = case.folder / f"{case.name}.password"
    env = {
        "STREAMJOBS_BROKER__URL": f"kafka://{cluster.secured}",
        "STREAMJOBS_BROKER__CA_FILE": str(cluster.ca.file),
        "STREAMJOBS_BROKER__USERNAME": USER,
        "STREAMJOBS_BROKER__PASSWORD_FILE": str(file),
    }
    broker = load_job(job.path, env=env).broker
    give(case, broker, file, "the first")
    case.run_two_workers(program=program("impatient", PATIENCE), **env)
    case.start_load()
    case.wait_for_commits()

    change(case, broker, "the second")
    file.write_text("the second\n")
    cut = severed(case)
    assert cut >= 2 * len(cluster.gates), f"{cut} connections were cut: the workers had not all of theirs here"
    case.wait_for_commits()
    case.prove(f"the old password refused, {cut} connections cut, both went on with the new one")

    change(case, broker, "the third")
    severed(case)
    lines = [case.wait_for_exit(worker, 3, f"refused user {USER!r}") for worker in case.running_workers]
    assert len(lines) == 2 and job.lag() > 0
    case.prove("told nothing, both ended with code 3 and work left")
    file.write_text("the third\n")
    case.run_two_workers(**env)
    case.wait_for_commits()


def give(case: Case, broker: BrokerSection, file: Path, password: str) -> None:
    """The first password, known to every node and to the workers."""
    case.cluster.user(USER, password)
    file.write_text(password + "\n")
    file.chmod(0o600)
    until(lambda: not refusing(broker), f"{USER} welcome at every node", 60)


def change(case: Case, broker: BrokerSection, password: str) -> None:
    """At every node; the file still holds the one before, which is refused then."""
    case.cluster.user(USER, password)
    until(lambda: len(refusing(broker)) == len(case.cluster.gates), "the old password refused by every node", 60)


def refusing(broker: BrokerSection) -> list[str]:
    """The nodes that refuse what the file holds."""
    found = []
    for server in broker.url.removeprefix("kafka://").split(","):
        try:
            verify(broker.model_copy(update={"url": f"kafka://{server}"}))
        except SetupError as error:
            assert f"refused user {USER!r}" in str(error), error
            found.append(server)
    return found


def severed(case: Case) -> int:
    """Every connection is cut; gives how many."""
    return sum(gate.reset() for gate in case.cluster.gates.values())
