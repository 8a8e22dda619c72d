"""The table of the papers' systems in algorithms/README.md: each is a learner of the registry or a function that exists."""

import importlib
import re
from pathlib import Path

import pytest

from algorithms import LEARNERS
from tests.layers.imports import CHECKOUT

README = (Path(CHECKOUT) / "algorithms" / "README.md").read_text(encoding="utf-8")
PAPERS = {"OK-FE and OK-FEB", "SkeGD", "SPEED", "OKDL", "BlockGreedy"}


def systems() -> list[list[str]]:
    """Paper, name there, name here, figure or table: the rows of the table."""
    section = README.partition("### Systems of the papers")[2].partition("\nEvery file")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line.startswith("|")]
    return rows[2:]


@pytest.mark.parametrize("row", systems(), ids=lambda row: f"{row[0]}: {row[1]}")
def test_a_system_of_a_paper_is_a_learner_or_a_function_that_says_what_it_does(row: list[str]) -> None:
    paper, there, here, used = row
    assert paper in PAPERS and there and re.fullmatch(r"(Fig|Table|Section|Alg)\.? \w+", used)
    name = here.strip("`")
    if "." not in name:
        assert name in LEARNERS
        return
    module, _, function = name.rpartition(".")
    assert getattr(importlib.import_module(module), function).__doc__


def test_no_system_is_listed_twice_and_no_paper_is_missing() -> None:
    rows = systems()
    assert len({(row[0], row[1]) for row in rows}) == len(rows) and {row[0] for row in rows} == PAPERS
