"""Users meet no turn of phrase that STYLE.md advises against; the code has fewer of them with each change."""

import pytest

from tests.docs.words import of_source, turns

VISIBLE = 0  # in what users see
HIDDEN = 287  # in docstrings and comments


def test_words_that_stop_a_reader_become_fewer() -> None:
    """`python -m tests.docs.words` lists them; --hidden also those in docstrings and comments."""
    visible = sum(turn.visible for turn in turns())
    assert visible <= VISIBLE
    assert len(turns()) - visible <= HIDDEN


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
    source = '@app.command("run")\ndef run():\n    """Begin anew."""\n\ndef helper():\n    """Begin anew."""'
    assert [turn.visible for turn in of_source("streamjobs/commands/run.py", source)] == [True, False]
