"""`python -m tests.schema_registry`: start a real registry (Apicurio) and record its answers anew, in recorded.json."""

import argparse
import json
import tempfile
from pathlib import Path

from tests.schema_registry import apicurio, server, writers


def record(url: str) -> None:
    """url: of a registry without these schemas."""
    with server.serving(url) as proxy:
        rows = [writers.row(0)]
        written = writers.avro(proxy.url, rows), writers.protobuf(proxy.url, rows)
        ids = {int.from_bytes(one.values[0][1:5]) for one in written}
        for schema in sorted({*ids, writers.source_of_protobuf(proxy.url), 999}):
            proxy.answer("GET", f"/schemas/ids/{schema}", "")
        proxy.answer("GET", "/subjects/place/versions/1", "")
        server.RECORDED.write_text(json.dumps(proxy.exchanges, indent=1) + "\n")
        print(f"{len(proxy.exchanges)} answers in {server.RECORDED}")


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()  # takes no option: another word must not overwrite the answers
    with tempfile.TemporaryDirectory() as folder, apicurio.running(Path(folder)) as started:
        record(started)
