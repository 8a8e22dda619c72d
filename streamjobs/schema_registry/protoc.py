"""Compiles .proto sources with protoc, in a process of its own: a source that breaks it breaks nothing else."""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from streamjobs import install_line
from streamjobs.errors import ConfigError

WITHIN = 60.0  # seconds
_NAME = re.compile(r"(?!/)(?!.*\.\.)[\w./ -]{1,200}")
_COMMAND = (
    "import sys, grpc_tools, os; from grpc_tools import protoc; "
    "sys.exit(protoc.main([*sys.argv, '-I' + os.path.join(os.path.dirname(grpc_tools.__file__), '_proto')]))"
)


class ProtocFailed(OSError):
    """protoc did not end as it should, which is not the source's fault for sure."""


class ProtocError(Exception):
    """A source that protoc refuses; the message is the end of a sentence."""


def require_protoc() -> None:
    """Raises ConfigError where it is not installed."""
    try:
        import grpc_tools.protoc  # noqa: F401
    except ImportError:
        raise ConfigError(
            f"[source]: .proto sources need grpcio-tools, which has protoc: {install_line('protobuf')}."
        ) from None


def descriptors_of(sources: Mapping[str, str], main: str, folder: Path | None = None) -> bytes:
    """A FileDescriptorSet of `main` and all that it imports, `main` last. Takes a while, in which nothing else runs here.

    sources: texts by the names under which they are imported. folder: where imports are looked for besides.
    Raises ProtocError, ConfigError, and OSError where the machine is at fault.
    """
    require_protoc()
    for name in sources:
        if not _NAME.fullmatch(name):
            raise ProtocError(f"imports a file with a name that cannot be one: {name!r:.80}")
    with tempfile.TemporaryDirectory(prefix="streamjobs-protoc-") as place:
        for name, text in sources.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        output = Path(place, "descriptors.streamjobs")
        paths = [f"-I{place}", *([f"-I{folder}"] if folder is not None else [])]
        command = [sys.executable, "-c", _COMMAND, *paths, "--include_imports", f"--descriptor_set_out={output}", main]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=WITHIN, check=False)
        except subprocess.TimeoutExpired:
            raise ProtocFailed(f"protoc took more than {WITHIN:.0f} s") from None
        if done.returncode < 0 or (not done.returncode and not output.is_file()):
            raise ProtocFailed(f"protoc ended with {done.returncode}")
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith(main)]
            raise ProtocError(f"is not a Protobuf schema: {lines[0] if lines else 'protoc failed'}".rstrip(". ")[:300])
        return output.read_bytes()
