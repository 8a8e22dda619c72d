"""A password that is changed while workers use it."""

from pathlib import Path

from streamjobs.errors import SetupError
from streamjobs.job_files import load_job
from streamjobs.kafka.client import verify
from streamjobs.settings.broker import BrokerSection
from tests.brokers.bed import until
from tests.brokers.planted import program
from tests.faults.trial import Trial

USER = "worker"
PATIENCE = 8  # seconds of refusals after which a worker ends; a minute in the product


def rotated(trial: Trial) -> None:
    """The password is changed, and every connection cut: told by its file both go on, told nothing both end."""
    bed, cluster = trial.make_bed(), trial.cluster
    file = trial.folder / f"{trial.name}.password"
    env = {
        "STREAMJOBS_BROKER__URL": f"kafka://{cluster.secured}",
        "STREAMJOBS_BROKER__CA_FILE": str(cluster.ca.file),
        "STREAMJOBS_BROKER__USERNAME": USER,
        "STREAMJOBS_BROKER__PASSWORD_FILE": str(file),
    }
    broker = load_job(bed.path, env=env).broker
    give(trial, broker, file, "the first")
    trial.both(program=program("impatient", PATIENCE), **env)
    trial.pour()
    trial.progress()

    change(trial, broker, "the second")
    file.write_text("the second\n")
    cut = severed(trial)
    assert cut >= 2 * len(cluster.gates), f"{cut} connections were cut: the workers had not all of theirs here"
    trial.progress()
    trial.prove(f"the old password refused, {cut} connections cut, both went on with the new one")

    change(trial, broker, "the third")
    severed(trial)
    lines = [trial.ends_by_itself(worker, 3, f"refused user {USER!r}") for worker in trial.alive]
    assert len(lines) == 2 and bed.behind() > 0
    trial.prove("told nothing, both ended with code 3 and work left")
    file.write_text("the third\n")
    trial.both(**env)
    trial.progress()


def give(trial: Trial, broker: BrokerSection, file: Path, password: str) -> None:
    """The first password, known to every node and to the workers."""
    trial.cluster.user(USER, password)
    file.write_text(password + "\n")
    file.chmod(0o600)
    until(lambda: not refusing(broker), f"{USER} welcome at every node", 60)


def change(trial: Trial, broker: BrokerSection, password: str) -> None:
    """At every node; the file still holds the one before, which is refused then."""
    trial.cluster.user(USER, password)
    until(lambda: len(refusing(broker)) == len(trial.cluster.gates), "the old password refused by every node", 60)


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


def severed(trial: Trial) -> int:
    """Every connection is cut; gives how many."""
    return sum(gate.reset() for gate in trial.cluster.gates.values())
