"""The pictures of ARCHITECTURE.md and streamjobs/README.md agree with the imports; each planted mistake is detected."""

import re
from functools import cache

import pytest

from tests.docs.maps import Map, maps, project_imports, read_map, wrong, wrong_floors
from tests.docs.pages import pages

PAGES = ("ARCHITECTURE.md", "streamjobs/README.md")


@cache
def _imports() -> dict[str, set[str]]:
    return project_imports()


@cache
def _maps() -> dict[str, Map]:
    """The pictures by their heading."""
    sections = [section for page in PAGES for section in re.split(r"\n###? ", pages()[page])[1:]]
    return {section.splitlines()[0]: picture for section in sections for picture in maps(section)}


def test_the_pages_draw_the_layers_and_the_three_ways() -> None:
    assert sorted(_maps()) == ["The layers", "The way of a record", "The way of a setting", "The way of a state"]
    assert all(len(found.arrows) >= 12 for found in _maps().values())


def test_every_box_and_arrow_of_every_page_is_so() -> None:
    for page, text in pages().items():
        for found in maps(text):
            assert wrong(found, _imports()) == [], page


def test_every_import_leads_to_a_lower_floor_of_the_layers() -> None:
    assert wrong_floors(_maps()["The layers"], _imports()) == []


BOXES = 'partition["worker.partition<br/>applies"]\nadvance["core.advance"]\ninterface["core.interface"]\n'


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("partition --> advance", "streamjobs.worker.partition does not import streamjobs.core.advance"),
        ("interface --> partition", "streamjobs.core.interface does not import streamjobs.worker.partition"),
        ("partition -.-> interface", "streamjobs.core.interface does not import streamjobs.worker.partition"),
        ("interface ==>|by worker.app| advance", "streamjobs.worker.app does not import both"),
        ("interface ==>|by nobody| advance", "streamjobs.nobody does not import both"),
        ("interface ==> advance", "does not import both"),
        (
            "partition ==>|by worker.delivery| interface",
            "streamjobs.worker.partition imports streamjobs.core.interface itself",
        ),
        ("partition --> nowhere", "one of them is no box"),
        ("partition calls advance", "is neither a box nor an arrow"),
        ('other["worker.shell"]', "there is no module streamjobs.worker.shell"),
        ('codec["core.encode"]', "no arrow leads to codec or from it"),
    ],
)
def test_a_planted_box_or_arrow_is_found(line: str, problem: str) -> None:
    good = BOXES + "partition --> interface\ninterface -.-> partition\ninterface ==>|by job_files| advance\n"
    assert wrong(read_map(good), _imports()) == []
    found = wrong(read_map(good + line), _imports())
    assert any(problem in sentence for sentence in found), found


def test_planted_imports_and_packages_without_a_floor_are_found() -> None:
    layers = read_map('subgraph high["x"]\na\nend\nsubgraph low["y"]\nb\nc\nend')
    fine = {
        "streamjobs.a.x": {"streamjobs.b", "streamjobs.a"},
        "streamjobs.a": set(),
        "streamjobs.b": set(),
        "streamjobs.c": set(),
    }
    assert wrong_floors(layers, fine) == []
    up = wrong_floors(layers, fine | {"streamjobs.b": {"streamjobs.a.x"}})
    assert up == ["streamjobs.b imports streamjobs.a.x, which does not stand on a lower floor"]
    assert wrong_floors(layers, fine | {"streamjobs.b": {"streamjobs.c"}}), "of two on one floor neither imports the other"
    assert wrong_floors(layers, fine | {"streamjobs.new": set()}) == ["streamjobs.new stands on no floor"]
    twice = read_map('subgraph high["x"]\na\nb\nend\nsubgraph low["y"]\nb\nc\nend')
    assert "streamjobs.b stands on two floors" in wrong_floors(twice, fine)
