"""A function has at most 70 lines and 8 arguments; the exceptions are named, and none may grow."""

import ast
import functools
from collections.abc import Iterator

from tests.layers.functions import COMPILED, MOST_ARGUMENTS, MOST_LINES, OTHERS
from tests.layers.imports import modules, tree


def sizes(source: str) -> Iterator[tuple[str, int, int, bool]]:
    """Of each function: its name, lines, arguments without self and cls, and whether it is compiled."""
    for node in tree(source):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            names = [one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            arguments = len(names) - (names[:1] in (["self"], ["cls"]))
            compiled = any("compiled" in ast.unparse(one) for one in node.decorator_list)
            yield node.name, (node.end_lineno or 0) - node.lineno + 1, arguments, compiled


def large(source: str, module: str) -> Iterator[tuple[str, tuple[int, int], bool]]:
    for name, lines, arguments, compiled in sizes(source):
        if lines > MOST_LINES or arguments > MOST_ARGUMENTS:
            yield f"{module}.{name}", (lines, arguments), compiled


@functools.cache
def _large() -> list[tuple[str, tuple[int, int], bool]]:
    return [one for module, path in modules().items() for one in large(path.read_text(encoding="utf-8"), module)]


def test_functions_are_short_and_take_few_arguments_but_for_named_exceptions_that_do_not_grow() -> None:
    listed = {True: COMPILED, False: OTHERS}
    grown = [
        f"{name}: {lines} lines, {arguments} arguments"
        for name, (lines, arguments), compiled in _large()
        if lines > max(MOST_LINES, listed[compiled].get(name, (0, 0))[0])
        or arguments > max(MOST_ARGUMENTS, listed[compiled].get(name, (0, 0))[1])
    ]
    assert not grown, f"divide these (at most {MOST_LINES} lines and {MOST_ARGUMENTS} arguments): {grown}"


def test_every_exception_is_still_needed() -> None:
    unneeded = {*COMPILED, *OTHERS} - {name for name, *_ in _large()}
    assert not unneeded, f"remove these from tests/layers/functions.py: {unneeded}"


def test_a_large_function_is_found() -> None:
    assert [name for name, *_ in large("def f(a, b, c, d, e, g, h, i, j): pass", "m")] == ["m.f"]
    assert not list(large("class A:\n    def f(self, a, b, c, d, e, g, h, i): pass", "m"))
    assert list(large("@compiled\ndef f():\n" + "    pass\n" * MOST_LINES, "m")) == [("m.f", (MOST_LINES + 1, 0), True)]
