"""`demo`: the whole flow, in under a minute."""

from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    app.command("demo")(demo)


def demo(
    kafka: Annotated[bool, typer.Option("--kafka", help="Use a real Apache Kafka (needs Java 17 and Maven).")] = False,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser", help="Open the worker's live page, where a browser and a terminal are there."
        ),
    ] = True,
    seconds: Annotated[float, typer.Option(min=5, max=600, help="How long to play the recordings, in seconds.")] = 20.0,
) -> None:
    """See it work: recognise the exercises of people it has never seen, with a broker, recordings and a worker.

    Needs no Java, Docker or network.
    """
    from streamjobs.demo.show import run

    run(kafka=kafka, seconds=seconds, browser=browser)
