"""Which learners' last bits depend on the processor's BLAS; and that the part `processor` runs with another core type."""

import os
from typing import Any

import pytest

from tests.parts import CHECKOUT, CORE_TYPE
from tests.processor.core_types import computed, core_names, write_streams

# They ask LAPACK or BLAS, or are made of learners that do. algorithms/adding.md names them.
DEPENDING = {
    *("okfeb", "okfe", "wrkpca", "speed", "sparse_speed", "ispeed", "sispeed", "nogd", "pros_n_kons", "skegd"),
    *("chain", "auto_bandwidth"),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    streams = tmp_path_factory.mktemp("streams") / "streams"
    write_streams(streams)
    return {core_type: computed(core_type, streams) for core_type in ("Haswell", "Nehalem")}


def test_these_tests_run_with_the_core_type_that_was_asked_for() -> None:
    asked = os.environ.get(CORE_TYPE)
    if asked:
        assert set(core_names()) == {asked.lower()}


def test_another_core_type_is_really_used(results: dict[str, dict[str, Any]]) -> None:
    assert {asked: set(result["names"]) for asked, result in results.items()} == {
        "Haswell": {"haswell"},
        "Nehalem": {"nehalem"},
    }


def test_only_learners_that_ask_lapack_or_blas_depend_on_the_core_type(results: dict[str, dict[str, Any]]) -> None:
    one, other = (result["bits"] for result in results.values())
    assert one.keys() == other.keys() and len(one) > 100
    differing = {name.split()[0] for name in one if one[name] != other[name]}
    assert differing == DEPENDING


def test_the_page_names_the_learners_that_depend_on_the_processor() -> None:
    text = (CHECKOUT / "algorithms" / "adding.md").read_text(encoding="utf-8")
    (paragraph,) = (one for one in text.split("\n- ") if one.startswith("The last bits of some learners"))
    assert [name for name in sorted(DEPENDING) if f"`{name}`" not in paragraph] == []
