"""The wheel holds every file of the two packages, and works where there is no checkout."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.deploy.wheel import build
from tests.parts import CHECKOUT

_IMPORT_ALL = """
import importlib, pkgutil, sys
unpacked, checkout = sys.argv[1:]
sys.meta_path = [one for one in sys.meta_path if "editable" not in repr(one)]
sys.path = [unpacked, *(one for one in sys.path if one != checkout)]
names = ["algorithms", "streamjobs"]
for name in list(names):
    package = importlib.import_module(name)
    assert package.__file__.startswith(unpacked), package.__file__
    names += [found.name for found in pkgutil.walk_packages(package.__path__, name + ".") if "__main__" not in found.name]
for name in names:
    importlib.import_module(name)
strangers = [name for name in sys.modules if name.partition(".")[0] == "tests"]
assert not strangers, strangers
print(len(names))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("wheel"))


def test_the_built_wheel_holds_every_file_and_nothing_else(wheel: Path) -> None:
    folders = [CHECKOUT / "algorithms", CHECKOUT / "streamjobs"]
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    known = {path.relative_to(CHECKOUT).as_posix() for path in files}
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
        notes = archive.read(next(name for name in archive.namelist() if name.endswith("entry_points.txt"))).decode()
    assert held == known
    assert len(held) > 200
    assert "streamjobs = streamjobs.__main__:main" in notes


def test_every_module_of_the_wheel_imports_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "unpacked")
    words = [sys.executable, "-I", "-c", _IMPORT_ALL, str(tmp_path / "unpacked"), str(CHECKOUT)]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 200
