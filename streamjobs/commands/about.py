"""`version`."""

import platform
from importlib.metadata import PackageNotFoundError, version

import typer

from streamjobs import __version__
from streamjobs.commands.common import AsJson, say, show

LIBRARIES = ("numpy", "scipy", "numba", "faust-streaming", "aiokafka", "rocksdict", "confluent-kafka", "msgspec", "pydantic")


def add_to(app: typer.Typer) -> None:
    app.command("version")(version_command)


def version_command(as_json: AsJson = False) -> None:
    """Print the version, and those of the libraries that decide on results."""
    found = {"streamjobs": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            found[library] = version(library)
        except PackageNotFoundError:
            found[library] = "missing"
    if as_json:
        show(found)
    else:
        say("\n".join(f"{name:<16} {number}" for name, number in found.items()))
