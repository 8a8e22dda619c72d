"""Draws deploy/demo.svg, the README's picture: the demo's own board, two thirds through a real run.

python -m tests.golden.make_demo_picture
"""

import io
import re
from pathlib import Path
from typing import Any

from rich.console import Console

from streamjobs.demo import show
from streamjobs.demo.screen import Screen

PICTURE = Path(__file__).parents[2] / "deploy" / "demo.svg"
WIDTH = 158  # columns
SHARE = 0.66  # of the recordings played


class Taken:
    """Keeps the first board that is far enough."""

    def __init__(self) -> None:
        self.svg = ""

    def look(self, screen: Screen, board: Any, share: float) -> None:
        if self.svg or share < SHARE:
            return
        console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
        there, screen.console = screen.console, console
        console.print(screen._picture(board, share))
        screen.console = there
        svg = console.export_svg(title="streamjobs demo")
        svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.DOTALL)  # no fonts from elsewhere
        self.svg = re.sub(r"[ \t]+\n", "\n", svg).replace("Fira Code", "ui-monospace, Menlo, Consolas")


def main() -> None:
    taken, draw = Taken(), Screen.draw

    def drawn(screen: Screen, board: Any, share: float) -> None:
        taken.look(screen, board, share)
        draw(screen, board, share)

    Screen.draw = drawn  # type: ignore[method-assign]
    show.run(kafka=False, seconds=60.0)
    PICTURE.write_text(taken.svg)
    print(f"{PICTURE.name}: {len(taken.svg)} bytes")


if __name__ == "__main__":
    main()
