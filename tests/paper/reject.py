"""Windows of activities nobody taught that [head] reject finds, and of known ones that it rejects: `fit`'s own figures.

python -m tests.paper reject [--quick]

--quick: a linear head alone.
"""

from streamjobs.fit.rejection import as_text, learn_rejection
from tests.paper.activity_population import SETS
from tests.paper.common import options
from tests.paper.gated_streams import way

SHARE = 0.05


def main(arguments: list[str] | None = None) -> int:
    quick = options("reject", __doc__, arguments, quick="a linear head alone").quick
    for title, read in SETS.items():
        data = read()
        for name in ("linear",) if quick else ("linear", "ald 300"):
            print(f"{title}, {name}, gated:\n{as_text(learn_rejection(data, way(name, name).recipe, SHARE))}\n", flush=True)
    return 0
