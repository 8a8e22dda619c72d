"""What the scripts of this folder share: their options, and the lines they print."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from algorithms.common.protocol import Array


def options(
    name: str,
    told: str | None,
    arguments: list[str] | None,
    *,
    trials: int = 0,
    quick: str = "",
    pamap2: bool = False,
    third: str = "",
    only: Sequence[str] = (),
) -> argparse.Namespace:
    """--out, and where the script has them the others; `told` is the script's docstring."""
    parser = argparse.ArgumentParser(prog=f"python -m papers {name}", description=(told or "").partition("\n")[0])
    pictures = Path(tempfile.gettempdir()) / "streamjobs-paper"
    parser.add_argument("--out", type=Path, default=pictures, help="folder of the pictures; default: %(default)s")
    if trials:
        parser.add_argument("--trials", type=int, default=trials, help="random draws behind a figure; default: %(default)s")
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    if only:
        parser.add_argument("--only", choices=only, help="one set alone; default: all")
    if third:
        parser.add_argument("--third", action="store_true", help=third)
    if pamap2:
        parser.add_argument(
            "--pamap2", type=Path, help="the folder that PAMAP2_Dataset.zip unpacks to; default: the excerpt"
        )
    found = parser.parse_args(arguments or [])
    found.out.mkdir(parents=True, exist_ok=True)
    return found


def line(what: str, ours: str, wanted: str = "", holds: bool | None = None) -> list[str]:
    """One line of a table: ours beside the paper's or the target, and whether it holds; gives [what] if not."""
    print(
        f"{what:44} {ours:>26}   {wanted:28} {'' if holds is None else 'holds' if holds else 'MISSED'}".rstrip(), flush=True
    )
    return [f"{what} ({ours})"] if holds is not None and not holds else []  # numpy's False is another one


def told(values: Array | list[float], digits: int = 4) -> str:
    """Mean +- standard deviation over trials."""
    values = np.asarray(values, float)
    return f"{values.mean():.{digits}f} +- {values.std():.{digits}f}"


def verdict(reproduces: str, does_not: str | list[str] = "") -> None:
    """The one line that says what came out as in the paper and what did not."""
    missed = does_not if isinstance(does_not, str) else ", ".join(does_not)
    print(f"reproduces: {reproduces}; does not: {missed or 'nothing that the paper shows'}.", flush=True)
