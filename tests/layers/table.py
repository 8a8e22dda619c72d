"""Who may import whom: a table for each folder, lowest floor first. Think hard before changing it."""

import sys
from dataclasses import dataclass

NUMERIC = {"numpy", "scipy", "numba"}
# Of the standard library, what knows no file, clock, process, socket, log or global randomness.
PURE = {
    *("abc", "bisect", "collections", "copy", "dataclasses", "difflib", "enum", "functools", "heapq"),
    *("itertools", "math", "operator", "types", "typing"),
}
PURE_TEXT = {"base64", "binascii", "hashlib", "json", "re", "statistics", "string", "struct", "tomllib", "zlib"}
STANDARD = frozenset(sys.stdlib_module_names)  # the whole standard library: these modules act on the world
CLIENTS = {"aiokafka", "confluent_kafka"}
BASE = {"=streamjobs", "streamjobs.errors"}


@dataclass(frozen=True)
class Layer:
    name: str
    modules: tuple[str, ...]  # with everything below them, unless a longer name is in another layer; "=m" = m alone
    may: frozenset[str]  # packages with everything below; "=m" = the module m alone
    pure: bool = False  # no open(), print(), np.random, ...


def _layer(name: str, modules: tuple[str, ...], may: set[str], *, pure: bool = False) -> Layer:
    """A layer may use its own modules, and of the standard library what fits its kind."""
    return Layer(name, modules, frozenset({*modules, *may, *(PURE if pure else STANDARD)}), pure)


_SETTINGS = {*BASE, "streamjobs.settings"}
_CORE = {*_SETTINGS, "streamjobs.core", "streamjobs.stages", "algorithms"}
_KAFKA = {*_SETTINGS, "streamjobs.kafka", "streamjobs.core.messages", "streamjobs.core.interface"}

_OF_ESTIMATORS = {"streamjobs.estimators", "streamjobs.stages.class_counts"}
_TIMES = {"datetime", "zoneinfo"}  # to read times that are texts; nobody asks for the time of day

LAYERS = (
    # Numerics. A learner file may import helpers of its own folder too; never another learner, never the registry.
    _layer("common", ("algorithms.common",), {*NUMERIC, "mmap"}, pure=True),
    _layer(
        "compiled",
        ("algorithms.common.compiled",),
        {*NUMERIC, "hashlib", "pathlib", "re", "sys", "warnings", "algorithms.common.cache_folder"},
        pure=True,
    ),
    _layer(
        "cache folder", ("algorithms.common.cache_folder",), {"os", "pathlib", "stat", "tempfile", "warnings"}, pure=True
    ),
    _layer("BLAS threads", ("algorithms.common.blas",), {"ctypes", "importlib", "pathlib", "threading"}, pure=True),
    Layer("learners", ("algorithms",), frozenset({*PURE, *NUMERIC, "algorithms.common"}), pure=True),
    _layer(
        "composites",
        ("algorithms.auto_bandwidth", "algorithms.chain", "algorithms.one_vs_rest"),
        {*NUMERIC, "algorithms"},
        pure=True,
    ),
    _layer("online", ("algorithms.online",), {*NUMERIC, "algorithms.common"}, pure=True),
    _layer("registry", ("=algorithms",), {"algorithms", "importlib", "?"}, pure=True),
    # The product, pure part.
    _layer(
        "package", ("=streamjobs",), {"importlib", "json", "urllib", "?"}, pure=True
    ),  # late attributes: who imports it loads nothing
    _layer("base", ("streamjobs.errors",), {"errno"}, pure=True),
    _layer("stages", ("streamjobs.stages",), {*NUMERIC, *_TIMES, "algorithms", *BASE}, pure=True),
    _layer(
        "settings",
        ("streamjobs.settings",),
        {*PURE_TEXT, *_TIMES, "urllib", "pydantic", "pydantic_core", "algorithms", "streamjobs.stages", *BASE},
        pure=True,
    ),
    _layer(
        "presets", ("streamjobs.settings.presets",), {"tomllib", "importlib"}, pure=True
    ),  # reads the package's own files
    _layer("core", ("streamjobs.core",), {*PURE_TEXT, *NUMERIC, "msgspec", *_CORE}, pure=True),
    _layer(
        "decoding",
        ("streamjobs.core.decoding",),
        {
            *PURE_TEXT,
            *NUMERIC,
            "msgspec",
            "streamjobs.core.messages",
            "streamjobs.core.partitioners",
            "streamjobs.stages.event_time",
            "algorithms",
            "datetime",
            *_SETTINGS,
        },
        pure=True,
    ),
    _layer(
        "decoding with schemas",
        ("streamjobs.core.decoding.with_schema",),
        {
            *PURE_TEXT,
            *("uuid", "io", "datetime", "fastavro", "google"),
            *("streamjobs.core.messages", "streamjobs.core.decoding.samples"),
            *_SETTINGS,
        },
        pure=True,
    ),
    _layer(
        "state",
        ("streamjobs.core.state",),
        {*PURE_TEXT, *NUMERIC, *(_CORE - {"streamjobs.core"})},
        pure=True,
    ),
    _layer(
        "live states",
        ("streamjobs.core.live",),
        {
            *PURE_TEXT,
            *NUMERIC,
            *(_CORE - {"streamjobs.core"}),
            *("streamjobs.core.job", "streamjobs.core.messages", "streamjobs.core.state"),
            "marshal",  # of records in memory: nothing stored or received is read with it
        },
        pure=True,
    ),
    # What acts on the world: below, what serves; above, what is asked for.
    _layer("process", ("streamjobs.process",), {"numba", "scipy", "?"}),
    _layer("learner reference", ("streamjobs.learner_reference",), {"algorithms", *BASE}),
    _layer("own learners", ("streamjobs.own_learners",), {"algorithms", *BASE}),
    _layer("checks of learners", ("streamjobs.learner_checks",), {"numpy", "algorithms", "streamjobs.core.state.snapshot"}),
    _layer(
        "job files",
        ("streamjobs.job_files",),
        {"streamjobs.own_learners", "streamjobs.process", "streamjobs.schema_registry", *_CORE},
    ),
    _layer(
        "schema registry",
        ("streamjobs.schema_registry",),
        {
            *(
                "aiohttp",
                "msgspec",
                "structlog",
                "?",
                "grpc_tools",
                "google",
                "streamjobs.kafka.secrets",
                "streamjobs.kafka.certificates",
            ),
            *("streamjobs.core.decoding.with_schema", "streamjobs.core.decoding.unwrap", "streamjobs.core.messages"),
            *_SETTINGS,
        },
    ),
    _layer(
        "recordings",
        ("streamjobs.recordings",),
        {
            *(*NUMERIC, "cbor2", "msgspec", "pyarrow", "streamjobs.core.messages", "streamjobs.core.decoding.keys"),
            *("streamjobs.core.decoding.loading", *_SETTINGS),
        },
    ),
    _layer("kafka", ("streamjobs.kafka",), {*CLIENTS, *_KAFKA, "pydantic"}),
    _layer("kafka client", ("streamjobs.kafka.client",), {*CLIENTS, *_KAFKA, "faust"}),
    _layer(
        "kafka patches",
        ("streamjobs.kafka.patches",),
        {"aiokafka", "cramjam", "numpy", "streamjobs.core.messages", "streamjobs.core.decoding.gunzip", *_KAFKA},
    ),
    _layer("development broker", ("streamjobs.kafka.devbroker",), {"confluent_kafka", *BASE}),
    _layer(
        "worker",
        ("streamjobs.worker",),
        {
            *(
                "aiohttp",
                "aiokafka",
                "confluent_kafka",
                "cramjam",
                "faust",
                "mode",
                "numpy",
                "prometheus_client",
                "structlog",
            ),
            *_KAFKA,
            *("streamjobs.core.state.snapshot", "streamjobs.core.live.live_stats", "streamjobs.core.unlearned"),
            *("streamjobs.job_files", "streamjobs.process", "streamjobs.schema_registry"),
        },
    ),
    _layer("store", ("streamjobs.worker.store",), {"faust", "rocksdict", "structlog", *BASE}),
    _layer("replay", ("streamjobs.replay",), {"msgspec", "numpy", "streamjobs.kafka", "streamjobs.schema_registry", *_CORE}),
    _layer(
        "notebook",
        ("streamjobs.notebook",),
        {
            *("matplotlib", "msgspec", "numpy", "pandas"),
            *("streamjobs.job_files", "streamjobs.own_learners", "streamjobs.recordings", "streamjobs.replay"),
            "streamjobs.kafka.reader",
            *_CORE,
        },
    ),
    _layer(
        "estimators",
        ("streamjobs.estimators",),
        {"numpy", "algorithms", "streamjobs.learner_reference", "streamjobs.own_learners"},
    ),
    _layer("scikit-learn", ("streamjobs.sklearn",), {"numpy", "sklearn", "algorithms", "=streamjobs", *_OF_ESTIMATORS}),
    _layer(
        "river",
        ("streamjobs.river",),
        {"numpy", "pandas", "river", "algorithms", "=streamjobs", "streamjobs.learner_reference", *_OF_ESTIMATORS},
    ),
    _layer(
        "maintenance",
        ("streamjobs.maintenance",),
        {*CLIENTS, "numpy", "streamjobs.replay", "streamjobs.worker", "streamjobs.schema_registry", *_KAFKA, *_CORE},
    ),
    _layer(
        "fit",
        ("streamjobs.fit",),
        {
            *(
                "msgspec",
                "numpy",
                "rich",
                "streamjobs.kafka",
                "streamjobs.recordings",
                "streamjobs.replay",
                "streamjobs.job_files",
            ),
            *("streamjobs.schema_registry", *_CORE),
        },
    ),
    _layer(
        "outputs",
        ("streamjobs.outputs",),
        {"msgspec", "pyarrow", "streamjobs.kafka", "streamjobs.replay", *_CORE},
    ),
    _layer("sizing", ("streamjobs.sizing",), {"streamjobs.worker.pace", *_CORE}),
    _layer(
        "demo",
        ("streamjobs.demo",),
        {"confluent_kafka", "numpy", "rich", "streamjobs.fit", "streamjobs.job_files", *_KAFKA, *_CORE},
    ),
    _layer(
        "commands",
        ("streamjobs.commands",),
        {
            *("matplotlib", "msgspec", "numpy", "pydantic", "rich", "typer"),
            *("streamjobs.demo", "streamjobs.fit", "streamjobs.job_files", "streamjobs.learner_reference"),
            *("streamjobs.learner_checks", "streamjobs.notebook", "streamjobs.own_learners", "?"),
            *(
                "streamjobs.maintenance",
                "streamjobs.outputs",
                "streamjobs.process",
                "streamjobs.recordings",
                "streamjobs.replay",
                "streamjobs.sizing",
                "streamjobs.worker",
            ),
            *_KAFKA,
            *_CORE,
        },
    ),
    _layer(
        "command line",
        ("streamjobs.cli", "streamjobs.__main__"),
        {"typer", "streamjobs.commands", "streamjobs.process", *BASE},
    ),
)

FREE_OF_IO = {"open", "print", "input", "exec", "eval", "compile", "breakpoint"}  # builtins no pure module calls
FREE_OF_FILES = {"random", "load", "save", "savez", "loadtxt", "savetxt", "genfromtxt", "fromfile", "memmap"}  # of numpy
DECOMPOSITIONS = {"eig", "eigh", "eigvals", "eigvalsh", "svd", "svdvals"}  # signs and order are fixed in one place:
DECOMPOSE_IN = "algorithms.common.eigen"
