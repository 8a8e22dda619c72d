"""`version` and `dashboards`."""

import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated

import typer

from streamjobs import __version__
from streamjobs.commands.console import AsJson, say, show
from streamjobs.errors import SetupError

DASHBOARDS = Path(__file__).parent / "dashboards"
LIBRARIES = ("numpy", "scipy", "numba", "faust-streaming", "aiokafka", "rocksdict", "confluent-kafka", "msgspec", "pydantic")


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


def write_dashboards(
    folder: Annotated[Path, typer.Argument(help="The folder to write to; it is created where it is missing.")],
) -> None:
    """Write the dashboards (overview, learners, delivery, person) as JSON for Grafana 10.1 or newer.

    Files of the same names are overwritten.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for source in sorted(DASHBOARDS.glob("*.json")):
            say(str(shutil.copyfile(source, folder / source.name)))
    except OSError as error:
        raise SetupError(f"dashboards: {error.filename or folder}: cannot be written ({error.strerror}).") from None
