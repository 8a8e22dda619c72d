"""`version` and `sbom`."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from streamjobs import __version__
from streamjobs.commands.console import AsJson, say, show

LIBRARIES = ("numpy", "scipy", "numba", "faust-streaming", "aiokafka", "rocksdict", "confluent-kafka", "msgspec", "pydantic")


def add_to(app: typer.Typer) -> None:
    app.command("version")(version_command)
    app.command("sbom")(sbom)


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


def sbom(
    kafka: Annotated[
        bool, typer.Option("--kafka", help="Also the jars of the broker for development, where they have been brought.")
    ] = False,
) -> None:
    """Print what is installed as CycloneDX 1.6 JSON: each package's version, licence and what it needs. No network."""
    from streamjobs.commands.sbom import document
    from streamjobs.errors import SetupError
    from streamjobs.kafka.devbroker.jars import home

    jars = sorted((home() / "libs").glob("*.jar")) if kafka else []
    if kafka and not jars:
        raise SetupError(f"sbom: there are no jars in {home() / 'libs'}; 'streamjobs broker start' brings them.")
    show(document("streamjobs", jars))
