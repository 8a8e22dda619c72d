"""What [drift] of job files written for 0.1.0 gave then, in `tests/golden/drift-0.1.0.zip`. Made with that tag's code by

    mkdir /tmp/old && git archive v0.1.0 | tar -x -C /tmp/old
    python tests/golden/make_drift_numbers.py /tmp/old tests/golden/drift-0.1.0.zip

and the packages of requirements.lock. Of each job: its settings, the records of three keys, the records of its drift topic,
and every key's snapshot after the first half of the records.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

N = 480  # records of a job, three keys in turn; their numbers are cut to 3 decimals, which keeps the file small
# Well posed: a rounding error grows less than 10,000 times. With a budget of 5 it grows 1e12 times, and another LAPACK,
# which plants the first subspace, then gives other alarms.
LEARNER = {"name": "okfeb", "role": "head", "rank": 3, "budget": 8}
EXTRACTOR = LEARNER | {"role": "track"}
JOBS: dict[str, dict[str, Any]] = {  # [drift] as 0.1.0's README and `init` wrote it, and every detector of that time
    "usual": {},
    "init": {"watch": "ls_error", "detector": {"name": "page_hinkley", "delta": 0.03, "threshold": 0.25}},
    "controls": {
        "extractor": EXTRACTOR,
        "detector": {"name": "page_hinkley", "delta": 0.05, "threshold": 0.5, "forget": 0.9, "min_between": 8},
        "beside": ["last_points", "running_mean"],
    },
    "adwin": {"extractor": {"name": "running_mean"}, "detector": {"name": "adwin", "confidence": 0.3}},
    "window_ratio": {"extractor": EXTRACTOR, "detector": {"name": "window_ratio", "short": 3, "long": 12, "ratio": 1.3}},
    "loss": {"watch": "loss", "detector": {"name": "page_hinkley", "threshold": 0.1}},
}


def main(old: Path, target: Path) -> None:
    sys.path[:] = [str(old), *(one for one in sys.path if not one.endswith("golden"))]
    from streamjobs.core.advance import advance
    from streamjobs.core.job import Job
    from streamjobs.core.live import Live  # type: ignore[import-not-found]
    from tests.core import streams

    def short(value: bytes) -> bytes:
        body = json.loads(value)
        cut = {name: round(one, 3) if isinstance(one, float) else one for name, one in body.items()}
        return json.dumps(cut).encode()

    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def put(name: str, data: bytes | str) -> None:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)

        records = [one._replace(topic="golden", value=short(one.value)) for one in streams.samples(N)]
        lines = [json.dumps([one.key.decode(), one.timestamp, one.value.decode()]) for one in records]
        put("records.jsonl", "\n".join(lines))
        for name, drift in JOBS.items():
            table = streams.settings(window=None, learner=LEARNER, drift=drift).model_dump(mode="json", exclude_unset=True)
            table["source"]["topic"] = "golden"
            put(f"{name}/job.json", json.dumps(table))
            job = Job.from_settings(type(streams.settings())(**table))
            live, half, rows = Live(job, lambda key: None), len(records) // 2, []
            for part, some in (("half", records[:half]), ("end", records[half:])):
                outputs = advance(job, live, some).outputs
                rows += [one.value.decode() for one in outputs if one.sink == "drift"]
                for key, data in live.snapshots() if part == "half" else ():
                    put(f"{name}/half/{key.decode()}", data)
            put(f"{name}/drift.jsonl", "\n".join(rows))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
