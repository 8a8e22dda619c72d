"""Users meet no turn of phrase that STYLE.md advises against; the code has fewer of them with each change."""

from importlib import import_module

import pytest

from tests.docs.reference import leaf_commands
from tests.docs.words import help_functions, of_source, turns

VISIBLE = 0  # in what users see
HIDDEN = 0  # in docstrings and comments


def test_words_that_stop_a_reader_become_fewer() -> None:
    """`python -m tests.docs.words` lists them; --hidden also those in docstrings and comments."""
    seen = [turn.visible for turn in turns()]
    assert seen.count(True) <= VISIBLE
    assert seen.count(False) <= HIDDEN


@pytest.mark.parametrize(
    ("source", "visible"),
    [
        ('raise ValueError(f"{x}: begins anew")', [True]),
        ('"""Whose row it is."""', [False]),
        ("x = 1  # nobody reads it", [False]),
        ('def f():\n    """What somebody did."""\n    return "is no number"', [False, True]),
        ('x = "a row that is known, and nobody\'s fault"', [True]),
        ('anew = told = "renewed"', []),
        ('drift["beside"]', []),
        ("x = \"the controls in 'beside' stand beside it\"", [True]),
    ],
)
def test_a_planted_turn_is_found(source: str, visible: list[bool]) -> None:
    assert [turn.visible for turn in of_source("streamjobs/x.py", source)] == visible


def test_the_help_of_a_command_is_what_users_see() -> None:
    source = 'def run():\n    """Begin anew."""\n\ndef helper():\n    """Begin anew."""'
    assert [turn.visible for turn in of_source("streamjobs/commands/run.py", source, {"run"})] == [True, False]


def test_the_help_of_every_command_counts() -> None:
    texts = {
        getattr(import_module(path.removesuffix(".py").replace("/", ".")), name).__doc__
        for path, names in help_functions().items()
        for name in names
    }
    for words, command in leaf_commands():
        assert command.callback.__doc__ in texts, words
