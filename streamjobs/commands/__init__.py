"""The commands, one file per group with an `add_to(app)`. Heavy packages (numpy, numba, Kafka) are imported when used.

Here: an example of each command, for the end of its --help.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import typer

EXAMPLES = {
    "demo": "--people 5",
    "init": "job.toml --sample records.jsonl",
    "check": "job.toml --sample records.jsonl --key person",
    "size": "job.toml --keys 50000 --rate 1/s",
    "schema": "job.toml --outputs --format avro --sink predictions",
    "check-learner": "mypackage.nearest:Nearest --set budget=20",
    "describe": "okfeb --set rank=10",
    "rekey": "job.toml",
    "produce": "job.toml records.jsonl --key person",
    "run": "job.toml",
    "fit": "job.toml --input recordings --key person",
    "replay": "job.toml --input records.jsonl --key person --output-dir out",
    "plot": "drift job.toml --from out --output drift.svg",
    "tune": "job.toml --input records.jsonl --key person",
    "compare": "job.toml --learners job,rls,krls --input records.jsonl --key person --delay 20s",
    "export": "job.toml predictions --output predictions.csv",
    "version": "--json",
    "config show": "job.toml",
    "topics plan": "job.toml --acl --principal User:wrist",
    "topics create": "job.toml --partitions 8",
    "topics grow": "job.toml --dry-run",
    "drift tune": "job.toml --input records.jsonl --key machine --quiet-until 2026-11-21T12:00",
    "drift relearn": "job.toml pump-7 pump-9",
    "state list": "job.toml --limit 20",
    "state show": "job.toml p7",
    "state top": "job.toml --by ls_error",
    "state diff": "job.toml monday.states",
    "state verify": "job.toml",
    "state reset": "job.toml p7",
    "state forget": "job.toml p7 --count",
    "state export": "job.toml --all --output monday.states",
    "state import": "job.toml healthy.state --key pump-7",
    "state forget-offsets": "job.toml",
    "state migrate": "job.toml",
    "state repartition": "job.toml --dry-run",
    "state restore": "job.toml p7 --copy monday.states",
    "dlq list": "job.toml --reason malformed",
    "dlq show": "job.toml 3:1041",
    "dlq redrive": "job.toml --reason malformed --dry-run",
    "broker start": "--port 9092",
    "broker stop": "",
    "dashboards write": "dashboards",
}


def add_examples(app: "typer.Typer", above: str = "") -> None:
    """Put each example at the end of the help of its command, in all groups."""
    for command in app.registered_commands:
        if (words := EXAMPLES.get(f"{above}{command.name}")) is not None:
            command.epilog = f"Example: streamjobs {above}{command.name} {words}".rstrip()
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_examples(group.typer_instance, f"{above}{group.name} ")
