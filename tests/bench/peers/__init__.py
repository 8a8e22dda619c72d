"""The worker beside other engines on one real Kafka: the same records in interleaved rounds, outputs compared."""

from collections.abc import Sequence


def main(arguments: Sequence[str] = ()) -> int:
    from tests.bench.peers.run import main as run  # programs of peers need none of its packages

    return run(arguments)
