"""`demo`: the whole flow in under a minute."""

from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    kafka: Annotated[bool, typer.Option("--kafka", help="On a real Apache Kafka (Java 17 and Maven).")] = False,
    seconds: Annotated[float, typer.Option(min=5, max=600, help="How long the recordings are played.")] = 20.0,
) -> None:
    """People it has never seen exercise, and it says what each does: a broker, real recordings, the worker.

    No Java, Docker or network.
    """
    from streamjobs.demo.show import run

    run(kafka=kafka, seconds=seconds)
