"""How long clients wait for an answer stands in one module."""

import ast
from collections.abc import Iterator

import pytest

from tests.layers.imports import modules

CLIENTS = ("streamjobs.kafka", "streamjobs.maintenance", "streamjobs.commands")
ASKING = {name: path for name, path in modules().items() if name.startswith(CLIENTS) and "devbroker" not in name}
WAITS = ("timeout", "request_timeout", "operation_timeout")


def waits_of_its_own(source: str) -> Iterator[str]:
    """Each call that waits for an answer as long as something other than the module `timeouts` says."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        waits = [one.value for one in node.keywords if one.arg in WAITS]
        if isinstance(node.func, ast.Attribute) and node.func.attr == "result":
            waits += node.args
        for wait in waits:
            if "timeouts." not in ast.unparse(wait):
                yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.parametrize("module", ASKING)
def test_a_wait_for_an_answer_is_one_of_the_module_timeouts(module: str) -> None:
    assert not list(waits_of_its_own(ASKING[module].read_text())), module


def test_planted_ones_are_found() -> None:
    assert list(waits_of_its_own("admin.list_topics(timeout=WITHIN)"))
    assert list(waits_of_its_own("answers[topic].result(5)"))
    assert not list(waits_of_its_own("answers[topic].result(timeouts.ADMIN + 5)"))
