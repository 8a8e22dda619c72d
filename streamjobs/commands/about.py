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
    """Print the versions of streamjobs and of the libraries that its results depend on."""
    versions = {"streamjobs": __version__, "python": platform.python_version()}
    for library in LIBRARIES:
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            versions[library] = "missing"
    if as_json:
        show(versions)
    else:
        say("\n".join(f"{name:<16} {number}" for name, number in versions.items()))


def sbom(
    kafka: Annotated[
        bool,
        typer.Option("--kafka", help="Include the development broker's jars, if they are downloaded."),
    ] = False,
) -> None:
    """Print a software bill of materials (CycloneDX 1.6 JSON): packages, versions, licences, dependencies.

    Uses no network.
    """
    from streamjobs.commands.sbom import document
    from streamjobs.errors import SetupError
    from streamjobs.kafka.devbroker.jars import home

    jars = sorted((home() / "libs").glob("*.jar")) if kafka else []
    if kafka and not jars:
        raise SetupError(f"sbom: no jars in {home() / 'libs'}; 'streamjobs broker start' downloads them.")
    show(document("streamjobs", jars))
