"""States with an open alarm as releases up to 0.2.0 stored them: their evidence was not bounded and became infinite. Made by

    mkdir /tmp/old && git archive 4e5b17d | tar -x -C /tmp/old
    python tests/golden/make_evidence_states.py /tmp/old tests/golden/evidence-4e5b17d.zip

with the packages of requirements.lock. Of each job: its settings, the key's snapshot OPEN rows after the change, in which
`scores` holds inf, and its snapshot LATER rows after it, from the same worker. That release cannot read the first one.
"""

import json
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

QUIET, OPEN, LATER = 2000, 450, 800  # rows before the change, and rows after it at which the states are stored
JOBS: dict[str, dict[str, Any]] = {
    "column_chart": {"watch": "columns", "false_alarms": "1 per 10000 rows"},
    "conformal": {"watch": "loss", "detector": "conformal"},
}


def bodies(begin: int, end: int, quiet: int = QUIET) -> list[dict[str, float]]:
    """Rows of noise; after the first `quiet` ones column ax is at another level, and labels are larger."""
    made = []
    for row in range(begin, end):
        random, later = np.random.default_rng(row), row >= quiet
        x = random.normal(size=3).round(3) + np.array([8.0 * later, 0.0, 0.0])
        body = dict(zip(("ax", "ay", "az"), x.tolist(), strict=True))
        made.append(body | {"ts": 1.7e9 + 0.1 * row, "activity": round(random.normal(), 3) * (100.0 if later else 1.0)})
    return made


def main(old: Path, target: Path) -> None:
    sys.path[:] = [str(old), *(one for one in sys.path if not one.endswith("golden"))]
    from streamjobs.core.advance import advance
    from streamjobs.core.job import Job
    from streamjobs.core.live.live import Live
    from tests.core.streams import record, settings

    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:

        def put(name: str, data: bytes | str) -> None:
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED, 9)

        for name, drift in JOBS.items():
            chosen = settings(window=None, learner={"name": "nlms", "task": "regression"}, head=None, drift=drift)
            put(f"{name}/job.json", json.dumps(chosen.model_dump(mode="json", exclude_unset=True)))
            job = Job.from_settings(chosen)
            live = Live(job, lambda key: None)
            for word, begin, end in (("open", 0, QUIET + OPEN), ("later", QUIET + OPEN, QUIET + LATER)):
                advance(job, live, [record(begin + at, b"k", body) for at, body in enumerate(bodies(begin, end))])
                ((_, data),) = live.snapshots()
                put(f"{name}/{word}", data)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
