"""`broker start|stop`: a real single-node Apache Kafka for development."""

from typing import Annotated

import typer

from streamjobs.commands.console import note, say


def start(
    port: Annotated[
        int | None, typer.Option(min=1, max=65_535, help="Port on 127.0.0.1; absent: 9092, or any free port.")
    ] = None,
) -> None:
    """Start the development broker, if it is not running, and print its url.

    It runs until 'broker stop' and keeps its data.
    """
    from streamjobs.kafka.devbroker import detached

    say(detached.start(port, progress=note))


def stop() -> None:
    """Stop the development broker; its data stays."""
    from streamjobs.kafka.devbroker import detached

    url = detached.stop()
    say(f"stopped {url}" if url else "no broker was running")
