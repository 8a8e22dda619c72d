"""`python -m papers`: what it lists, what it runs, and what the README beside it says of it."""

import re
from pathlib import Path

from papers import __main__ as runner

README = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
THEIRS = ("okfeb_", "filters_", "speed_", "prototypes_")  # scripts of the papers


def test_the_readme_has_a_row_for_every_script_of_the_papers_and_for_no_other():
    told = set(re.findall(r"`((?:okfeb|filters|speed|prototypes)_\w+)`", README))
    assert told == {name for name in runner.scripts() if name.startswith(THEIRS)}


def test_every_script_of_the_papers_says_in_one_line_what_reproduces():
    for name in runner.scripts():
        if name.startswith(THEIRS):
            source = (Path(__file__).parent / f"{name}.py").read_text(encoding="utf-8")
            assert source.count("    verdict(") == 1, name


def test_an_unknown_script_is_named_with_the_known_ones(capsys):
    assert runner.main(["okfeb_fig4"]) == 2
    assert "unknown script 'okfeb_fig4'; known: activity, " in capsys.readouterr().err


def test_a_script_draws_its_figure_and_says_what_reproduces(tmp_path, capsys):
    assert runner.main(["okfeb_fig5", "--trials", "1", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "000-fig5.png").stat().st_size > 10_000
    assert capsys.readouterr().out.count("\nreproduces: ") == 1
