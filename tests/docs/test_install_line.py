"""What a message says about a missing package works where streamjobs was installed from."""

import json
import re
import tomllib
from importlib import metadata
from types import SimpleNamespace

import pytest

from streamjobs import install_line
from tests.parts import CHECKOUT

NEEDED = ["numpy>=2", "pyarrow>=22; extra == 'files'", 'cbor2<7,>=6; extra == "files"', "pyarrow>=22; extra == 'dev'"]
FOLDERS = ("streamjobs", "algorithms", "deploy", "examples", "papers")


def installed(monkeypatch: pytest.MonkeyPatch, *origins: dict | None) -> None:
    texts = [None if origin is None else json.dumps(origin) for origin in origins]
    known = [SimpleNamespace(read_text=lambda _, text=text: text, requires=NEEDED) for text in texts]
    monkeypatch.setattr(metadata, "distributions", lambda *, name: iter(known))


def test_a_checkout_is_installed_again_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    checkout = {"url": "file:///home/a%20b/streamjobs", "dir_info": {"editable": True}}
    for known in ([checkout], [None, checkout]):  # in the checkout itself its *.egg-info comes first
        installed(monkeypatch, *known)
        assert install_line("files") == "pip install -e '/home/a b/streamjobs[files]'"


def test_without_an_installation_it_is_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch)
    assert install_line("files") == "pip install -e '.[files]'"


def test_a_wheel_gets_the_packages_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    for origin in ({"url": "file:///tmp/streamjobs.whl", "archive_info": {}}, None):
        installed(monkeypatch, origin)
        assert install_line("files") == "pip install 'pyarrow>=22' 'cbor2<7,>=6'"


def test_no_message_or_page_names_a_package_that_no_index_has() -> None:
    texts = [
        path for folder in FOLDERS for ending in ("py", "md", "ipynb") for path in (CHECKOUT / folder).rglob(f"*.{ending}")
    ]
    texts += [CHECKOUT / "README.md", CHECKOUT / "deploy" / "Dockerfile"]
    name = re.compile(r"streamjobs\[[a-z,]+\]|\b(?:pip|pipx|uv)3? (?:\w+ )?install (?:-\S+ )*['\"]?streamjobs\b(?!-\*)")
    assert name.search("pip install -U streamjobs") and name.search("pipx install 'streamjobs'")
    named = [str(path) for path in texts if name.search(path.read_text(encoding="utf-8"))]
    assert len(texts) > 300 and not named


def test_the_readme_names_the_extra_of_each_kind_of_file_of_a_first_job_and_needs_no_other() -> None:
    """What the install line of the demo lacks: the packages of extras."""
    page = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    first = page.partition("## A first job on your own data")[2].partition("\n## ")[0]
    kinds = re.findall(r"`(\.\w+)`", first.partition("\n2. ")[0])
    needed = {".parquet": "files"}  # every other kind is read without a package of an extra
    assert {*kinds} == {".jsonl", ".csv", ".npz", ".parquet"} and {*map(str.lower, re.findall(r"\((\w+) needs", first))} == {
        kind[1:] for kind in needed
    }
    assert re.findall(r"pip install -e '\.\[(\w+)\]'", first) == [*needed.values()]
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert any(one.startswith("pyarrow") for one in project["optional-dependencies"]["files"])
    imported = {"-".join(name.split("_")) for name in re.findall(r"^ +from (\w+)", first, re.MULTILINE)}
    assert imported == {"confluent-kafka"} <= {re.split(r"[<>=\[]", one)[0] for one in project["dependencies"]}


def test_a_wheel_is_built_before_it_is_installed_and_an_operators_first_day_has_six_commands() -> None:
    page = (CHECKOUT / "deploy" / "README.md").read_text(encoding="utf-8")
    block = next(block for block in page.split("```") if ".whl" in block)
    assert 0 < block.index("pip wheel") < block.index("-c requirements.lock") < block.index("streamjobs-*.whl")
    day = page.split("### An operator's first day\n")[1].split("\n### ")[0]
    typed = re.findall(r"`(streamjobs [a-z]+[^`]*)`", day)
    assert len(typed) == len({*typed}) == 6 and day.strip().startswith("Six commands of streamjobs")
    assert all(" job.toml" in one for one in typed)
