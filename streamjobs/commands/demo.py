"""`demo`: the whole flow, in under a minute."""

from typing import Annotated

import typer

from streamjobs.commands.console import note, say


def demo(
    kafka: Annotated[bool, typer.Option("--kafka", help="Use a real Apache Kafka (needs Java 17 and Maven).")] = False,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser", help="Open the worker's live page, if a browser and a terminal are available."
        ),
    ] = True,
    seconds: Annotated[
        float | None, typer.Option(min=5, max=600, help="How long to play; absent: 20 s; with --feed until it is stopped.")
    ] = None,
    feed: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Only send the recordings, in real time and again and again, to this broker, such as "
            "kafka://localhost:9092; run the demo's job with a worker of your own.",
        ),
    ] = None,
) -> None:
    """Show a worker that recognises the exercises of people it has never seen, with a broker and recordings.

    Needs no Java, Docker or network.
    """
    if feed is not None:
        from streamjobs.demo.feed import feed as send

        until = "it is stopped" if seconds is None else f"{seconds:g} s have passed"
        note(f"sending the demo's recordings to {feed}, until {until} ...")
        return say(f"{send(feed, seconds):,} records sent")
    from streamjobs.demo.show import run

    run(kafka=kafka, seconds=seconds or 20.0, browser=browser)


def start(
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Port on 127.0.0.1; absent: 9092, or any free port.")
    ] = None,
) -> None:
    """Start the development broker, if it is not running, and print its url.

    It runs until 'broker stop' and keeps its data.
    """
    from streamjobs.kafka.devbroker.broker import start_detached

    say(start_detached(port, progress=note))


def stop() -> None:
    """Stop the development broker; its data stays."""
    from streamjobs.kafka.devbroker.broker import stop_detached

    url = stop_detached()
    say(f"stopped {url}" if url else "no broker was running")
