"""The table of layers. Think hard before changing it."""

from dataclasses import dataclass

NUMERIC = {"numpy", "scipy", "numba"}
# Of the standard library, what knows no file, clock, process, socket, log or global randomness.
PURE = {
    *("abc", "bisect", "collections", "copy", "dataclasses", "difflib", "enum", "functools", "heapq"),
    *("itertools", "math", "operator", "types", "typing"),
}
PURE_TEXT = {"base64", "binascii", "hashlib", "json", "re", "statistics", "string", "struct", "tomllib", "zlib"}
SETTINGS = ("streamjobs.config", "streamjobs.access", "streamjobs.fields", "streamjobs.errors")
CORE = ("=streamjobs", "streamjobs.core", *SETTINGS)
FRONT = ("streamjobs.cli", "streamjobs.__main__", "streamjobs.commands")
DEEDS = ("streamjobs.demo", "streamjobs.fit", "streamjobs.replay", "streamjobs.guessing", "streamjobs.files")


@dataclass(frozen=True)
class Layer:
    name: str
    modules: tuple[str, ...]  # with everything below them, unless a longer name is in another layer; "=m" = m alone
    may: frozenset[str]  # packages with everything below; "=m" = the module m alone; "*" = anything
    may_not: tuple[str, ...] = ()  # wins
    pure: bool = True  # no open(), print(), np.random, ...


LAYERS = (
    Layer("common", ("algorithms.common",), frozenset({*PURE, *NUMERIC, "algorithms.common"})),
    # The one that names the folder of the compile cache.
    Layer("compiled", ("algorithms.common.compiled",), frozenset({*PURE, *NUMERIC, "os", "pathlib", "hashlib"})),
    # Of its own folder a learner file may import helpers too; never another learner, never the registry.
    Layer("learners", ("algorithms",), frozenset({*PURE, *NUMERIC, "algorithms.common"})),
    Layer("composites", ("algorithms.chain", "algorithms.one_vs_rest"), frozenset({*PURE, *NUMERIC, "algorithms"})),
    Layer("registry", ("=algorithms",), frozenset({*PURE, "algorithms"})),
    # What a job file may say; those above make it and obey it.
    Layer("settings", ("=streamjobs", *SETTINGS), frozenset({*PURE, *PURE_TEXT, "pydantic", *SETTINGS})),
    Layer("core", ("streamjobs.core",), frozenset({*PURE, *PURE_TEXT, *NUMERIC, "msgspec", "algorithms", *CORE})),
    # A job file's contents become settings: it needs to know what the core makes of them.
    Layer(
        "checking",
        ("streamjobs.checking",),
        frozenset({*PURE, *PURE_TEXT, "pydantic", "pydantic_core", "algorithms", *CORE, "streamjobs.checking"}),
    ),
    # What snapshots and dead letters say; commands and shell bring the bytes.
    Layer(
        "state",
        ("streamjobs.state",),
        frozenset({*PURE, *PURE_TEXT, *NUMERIC, "algorithms", *CORE, "streamjobs.state"}),
    ),
    # The only place that knows Faust; those above call it, it calls none of them.
    Layer("shell", ("streamjobs.shell",), frozenset({"*"}), ("tests", *DEEDS, *FRONT), pure=False),
    # What commands do; how they are called and what they print is said above.
    Layer("deeds", DEEDS, frozenset({"*"}), ("tests", *FRONT), pure=False),
    Layer("front", FRONT, frozenset({"*"}), ("tests",), pure=False),
)

FREE_OF_IO = {"open", "print", "input", "exec", "eval", "compile", "breakpoint"}  # builtins no pure module calls
FREE_OF_FILES = {"random", "load", "save", "savez", "loadtxt", "savetxt", "genfromtxt", "fromfile", "memmap"}  # of numpy
DECOMPOSITIONS = {"eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals"}  # signs and order are fixed in one place:
DECOMPOSE_IN = "algorithms.common.eigen"
