"""Recordings for the tests of `tune` and `compare`."""

import numpy as np

from tests.commands.jobs import START, jsonl

RINGS = """\
# two rings, one in the other
[job]
name = "rings"
[source]
topic = "in"
fields = ["x", "y"]
time = "ts"
label = "ring"

[learner]  # too wide by far
name = "knlms"
task = "classification"
loss = "hinge"
budget = 30
kernel = { bandwidth = 4.0 }

[state]
ttl = "90d"  # stays
"""


def rings(tmp_path, n: int = 240, keys: int = 2, holds: int = 0):
    """Two rings, which a line does not part. holds: rows of a ring one after the other; 0: they are mixed."""
    random = np.random.default_rng(0)
    table = []
    for at in range(n):
        outer = bool(at // keys // holds % 2) if holds else random.random() < 0.5
        angle, far = random.uniform(0, 2 * np.pi), (3.0 if outer else 1.0) + 0.1 * random.standard_normal()
        x = {"x": far * np.cos(angle), "y": far * np.sin(angle)}
        table.append({"who": f"p{at % keys}", "ts": START + at, **x, "ring": "outer" if outer else "inner"})
    return jsonl(tmp_path / "rings.jsonl", table)
