"""`python -m tests.schema_registry`: start a real registry (Apicurio) and record its answers anew."""

import json
import tempfile
from pathlib import Path

from tests.schema_registry import apicurio, server, writers


def record() -> None:
    with tempfile.TemporaryDirectory() as folder, apicurio.running(Path(folder)) as url, server.serving(url) as proxy:
        rows = [writers.row(0)]
        avro = writers.avro(proxy.url, rows)
        protobuf = writers.protobuf(proxy.url, rows)
        source = writers.source_of_protobuf(proxy.url)
        ids = {int.from_bytes(value[1:5]) for value in (*avro.values, *protobuf.values)}
        for schema in sorted({*ids, source, 999}):
            proxy.answer("GET", f"/schemas/ids/{schema}", "")
        proxy.answer("GET", "/subjects/place/versions/1", "")
        server.RECORDED.write_text(json.dumps(proxy.exchanges, indent=1) + "\n")
        print(f"{len(proxy.exchanges)} answers in {server.RECORDED}")


if __name__ == "__main__":
    record()
