"""The parts of `python -m tests`, in the order they run; quick ones first. Those with brokers run beside the others."""

import os
import platform
import sys
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
# In this order. The first three need no loops: meanwhile lane 0 compiles those that all need. `faults` is a long one.
FIRST = ("test_worker_starting.py", "test_worker_ending.py", "test_broker.py", "faults")
CORE_TYPE = "OPENBLAS_CORETYPE"  # the variable that names the kernels that OpenBLAS uses


@dataclass(frozen=True)
class Part:
    """A run of a tool (`command`), or of pytest over `folders`."""

    name: str
    folders: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    options: tuple[str, ...] = ()  # for pytest
    fast: bool = True  # in the run before every commit
    lane: int = 0  # parts of a lane run one after another, lanes beside each other; 1 and 2 mostly wait for brokers, and
    # 0 and 3 use the processors meanwhile
    either: bool = False  # begun last, by whichever lane is done first
    # The lane of a second process: each takes the next file that the other has not begun. Of a part that is begun by
    # whichever lane is done, it is begun after all other parts, if files are left.
    second: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # variables of its process
    within_seconds: int = 600  # a part that takes longer hangs: it is killed and has failed
    test_within_seconds: int = 400  # the same, where one test takes longer; the first one may wait for loops to be compiled
    members: tuple["Part", ...] = ()  # parts that run together in this one

    @property
    def there(self) -> list[str]:
        """Those of its folders (or a picked file, or file::test) that exist and have Python in them."""
        found = []
        for folder in self.folders:
            path = CHECKOUT / folder.partition("::")[0]
            if path.is_file() or any(path.rglob("*.py")):
                found.append(folder)
        return found


def _tool(*words: str) -> tuple[str, ...]:
    return (sys.executable, "-m", *words)


def _ordered(folders: Iterable[str]) -> tuple[str, ...]:
    """Those named in FIRST before the others."""
    names = {folder: Path(folder).name for folder in folders}
    return tuple(sorted(names, key=lambda folder: FIRST.index(names[folder]) if names[folder] in FIRST else len(FIRST)))


def _files(folder: str) -> tuple[str, ...]:
    """The folder's test files."""
    return _ordered(path.relative_to(CHECKOUT).as_posix() for path in sorted((CHECKOUT / folder).glob("test_*.py")))


def _on_another_processor() -> tuple[Part, ...]:
    """The tests of what LAPACK and BLAS compute, as on an x86-64 processor without AVX-512."""
    names = ("okfeb", "okfeb_reference", "okfe", "speed", "wrkpca", "sketching", "batch", "chain")
    files = (f"tests/learners/test_{name}.py" for name in names)
    folders = ("tests/processor", "tests/golden", *files, "tests/fit/test_serving.py")
    part = Part("processor", folders, fast=False, either=True, environment={CORE_TYPE: "Haswell"})
    return (part,) if platform.machine() == "x86_64" else ()


PARTS = (
    Part("format", command=_tool("ruff", "format", "--check", ".")),
    Part("lint", command=_tool("ruff", "check", ".")),
    Part("layers", ("tests/layers",)),  # compiles the loops that tests on brokers need
    Part("types", command=_tool("mypy"), lane=3),
    Part("runner", ("tests/runner",), fast=False, lane=3),
    Part("docs", ("tests/docs",), lane=3),
    Part(
        "doctests",
        ("algorithms", "papers/batch", "streamjobs"),
        options=("--doctest-modules",),
        within_seconds=1200,  # compiles most loops
    ),
    Part("checks", ("tests/checks",)),
    Part("learners", ("tests/learners", "tests/reference", "tests/golden")),
    Part("core", ("tests/stages", "tests/core")),
    Part("brokers", _files("tests/brokers"), fast=False, lane=1, second=2, within_seconds=1200),
    Part("faults", ("tests/faults",), fast=False, lane=1, within_seconds=900),
    Part("bench", ("tests/bench",), fast=False, lane=1),
    # Long parts first, and short ones last: then both processors have work to the end.
    Part(
        "commands",
        ("tests/settings", "tests/recordings", "tests/replay", "tests/commands", "tests/process"),
        either=True,
        second=0,
        within_seconds=1800,
    ),
    Part("worker", ("tests/kafka", "tests/worker", "tests/maintenance", "tests/schema_registry"), either=True, second=0),
    Part("fit", ("tests/fit",), either=True),
    Part("page", ("tests/page",), fast=False, either=True),
    Part("notebook", ("tests/notebook",), either=True),
    Part("paper", ("papers",), fast=False, either=True),
    Part("guard", ("tests/guard",), either=True),
    *_on_another_processor(),
    Part("fuzz", ("tests/fuzz",), fast=False, either=True),
    Part("deploy", ("tests/deploy",), fast=False, either=True),
    Part("outputs", ("tests/outputs",), either=True),
)


# Parts that run as one: they use the same compiled loops, the same large imports (pandas, pyarrow, scikit-learn), or one
# broker and one fork server.
TOGETHER = {
    "numeric": ("checks", "learners", "core"),
    "offline": ("worker", "fit", "notebook", "outputs"),
    "kafka": ("brokers", "faults", "bench"),
}


def together(parts: list[Part], name: str = "tests", names: Container[str] | None = None) -> list[Part]:
    """The parts of pytest as one: what they import and the compiled loops they use are loaded once (25 s of processor).

    name: of the one part.  names: of the parts that become one; None: all.
    """
    members = tuple(part for part in parts if part.folders and not part.options and (names is None or part.name in names))
    if len(members) < 2:
        return parts
    folders = _ordered(folder for part in members for folder in part.folders)
    either, lane, second = all(part.either for part in members), members[0].lane, members[0].second
    within = sum(part.within_seconds for part in members)
    one = Part(name, folders, lane=lane, either=either, second=second, within_seconds=within, members=members)
    rest = [part for part in parts if part not in members]
    rest.insert(parts.index(members[0]) if either else len(rest), one)
    return rest


LANES = 1 + max(max(part.lane, part.second or 0) for part in PARTS)


def ports_of(lane: int) -> dict[str, str]:
    """Variables for processes of a lane: no other lane takes a port that they have found free and use a moment later."""
    name, first = "STREAMJOBS_PORTS", 61_000 + 1_000 * lane
    return {} if name in os.environ else {name: f"{first}-{first + 999}"}


# Parts without a single test fail the run.
REQUIRED = frozenset(part.name for part in PARTS if part.folders)
