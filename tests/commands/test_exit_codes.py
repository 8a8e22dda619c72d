"""A failed assertion on an exit code says why the command ended so."""

from pathlib import Path

import pytest

from tests.commands.jobs import command, output_of
from tests.exit_codes import SHOWN, ExitCode


def test_a_failed_assertion_on_an_exit_code_shows_what_was_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    missing = tmp_path / "none.toml"
    with pytest.raises(AssertionError, match=r"^assert 2 <.*none.toml: cannot be read .*> == 0"):
        assert command("state", "list", missing) == 0
    assert "cannot be read" in capsys.readouterr().err
    code, text = output_of("state", "list", missing)
    assert (code, hash(code), code.text) == (2, hash(2), text) and "cannot be read" in text
    assert repr(ExitCode(3, "a\nlong  text" * SHOWN)).endswith("g texta long text>")
