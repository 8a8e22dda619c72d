"""`state show --prototypes`: the samples that a key's learner keeps, as a table and as pictures."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streamjobs.commands.console import note, say, show, table

if TYPE_CHECKING:
    import numpy as np
    from rich.console import Console

    from streamjobs.core.job import Job
    from streamjobs.maintenance.copies import Entry
    from streamjobs.maintenance.prototypes import Prototypes, Rows

MOST_COLUMNS = 8  # of a table for people
GAP = 2  # character cells between two images
GREYS = (232, 255)  # of a terminal's 256 colours
BLUE_TO_RED = (21, 63, 105, 147, 189, 231, 224, 217, 210, 203, 196)  # low to high
PICTURES = (".svg", ".png")


def show_prototypes(
    job: "Job",
    entries: "list[Entry]",
    *,
    rows: "Rows | None",
    image: str | None,
    picture: Path | None,
    as_json: bool,
) -> None:
    """Print the stored samples of a key's states, or write a picture of them.

    rows: the key's, where they are at hand. image: HEIGHTxWIDTH of samples that are images.
    """
    from streamjobs.maintenance.prototypes import prototypes

    found = [one for entry in entries for one in prototypes(job, entry, rows)]
    shape = None if image is None else _shape(image, len(found[0].columns))
    if picture is not None:
        written = _drawn(found, shape, picture)
        note(f"drawn: {', '.join(map(str, written))}")
    if as_json:
        show([_as_json(one) for one in found])
        return
    for one in found:
        _print(one, shape)


def _shape(text: str, numbers: int) -> tuple[int, int]:
    """Height and width; raises ConfigError where the samples have another size."""
    from streamjobs.errors import ConfigError

    match = re.fullmatch(r"(\d+)x(\d+)", text)
    if match is None:
        raise ConfigError(f"--image: expected HEIGHTxWIDTH such as 16x16, got {text!r}.")
    height, width = int(match[1]), int(match[2])
    if height * width != numbers:
        raise ConfigError(f"--image {text}: expected a product of {numbers}, the numbers of a row, got {height * width}.")
    return height, width


def _as_json(one: "Prototypes") -> dict[str, Any]:
    return {**one._asdict(), "samples": [sample._asdict() for sample in one.samples]}


def _print(one: "Prototypes", shape: tuple[int, int] | None) -> None:
    from rich.console import Console

    of = f", {one.rows:,} rows seen" if one.rows is not None else ""
    say(f"{one.part}: {len(one.samples)} {one.field} of {one.name}{of}")
    console = Console()
    if console.is_terminal:
        _draw(console, one, shape)
    shown = _columns(one) if shape is None else []
    first = ("entered as row", "rows ago", "stored after it", "share")
    lines = [
        (
            number,
            sample.entered,
            None if sample.entered is None or one.rows is None else one.rows - sample.entered,
            sample.later,
            None if sample.share is None else f"{sample.share:.1%}",
            *(sample.x[column] for column in shown),
        )
        for number, sample in enumerate(one.samples, 1)
    ]
    table(("#", *first, *(one.columns[column] for column in shown)), lines)
    if shape is None and len(shown) < len(one.columns):
        note(f"{len(shown)} of {len(one.columns)} columns: those in which the samples differ most; --json has all")
    for text in one.notes:
        note(f"note: {text}")


def _columns(one: "Prototypes") -> list[int]:
    """The columns that are shown, in their order: where samples differ most, in standard deviations of the rows."""
    import numpy as np

    spread = np.asarray([sample.scaled for sample in one.samples]).std(axis=0)
    return sorted(np.argsort(-spread, kind="stable")[:MOST_COLUMNS].tolist())


def _draw(console: "Console", one: "Prototypes", shape: tuple[int, int] | None) -> None:
    """Images side by side in half blocks, or a row of colours for each sample."""
    import numpy as np

    if shape is None:
        values = np.asarray([sample.scaled for sample in one.samples])
        for line in _strips(values, console.width):
            console.print(line)
        return
    height, width = shape
    images = [np.asarray(sample.x).reshape(height, width) for sample in one.samples]
    together = max(1, (console.width + GAP) // (width + GAP))
    for begin in range(0, len(images), together):
        for line in half_blocks(images[begin : begin + together]):
            console.print(line)
        console.print()


def _strips(values: "np.ndarray", width: int) -> list[Any]:
    """A line for each sample: its columns from blue (-3 standard deviations) to red (+3), as wide as fits."""
    from rich.text import Text

    lines, cell = [], max(1, min(4, (width - 5) // values.shape[1]))
    for number, row in enumerate(values, 1):
        line = Text(f"{number:>4} ")
        for value in row[: (width - 5) // cell]:
            level = round((min(max(value, -3.0), 3.0) + 3.0) / 6.0 * (len(BLUE_TO_RED) - 1))
            line.append(" " * cell, style=f"on color({BLUE_TO_RED[level]})")
        lines.append(line)
    return lines


def half_blocks(images: "Sequence[np.ndarray]") -> list[Any]:
    """Lines of text with the images side by side, two rows of pixels in a line, each image from its least to its most."""
    import numpy as np
    from rich.text import Text

    height, width = images[0].shape
    lines = [Text() for _ in range((height + 1) // 2)]
    low, high = GREYS
    for number, image in enumerate(images):
        span = float(image.max() - image.min()) or 1.0
        grey = np.rint(low + (image - image.min()) / span * (high - low)).astype(int)
        for at, line in enumerate(lines):
            if number:
                line.append(" " * GAP)
            for column in range(width):
                upper = grey[2 * at, column]
                lower = grey[2 * at + 1, column] if 2 * at + 1 < height else None
                line.append("▀", style=f"color({upper})" + ("" if lower is None else f" on color({lower})"))
    return lines


def _drawn(found: "list[Prototypes]", shape: tuple[int, int] | None, path: Path) -> list[Path]:
    """A picture for each set; the second and later ones get a number in their names."""
    from streamjobs.commands.prototypes.pictures import draw
    from streamjobs.errors import ConfigError

    if path.suffix.lower() not in PICTURES:
        raise ConfigError(f"--picture {path}: expected a name that ends in {' or '.join(PICTURES)}.")
    written = []
    for number, one in enumerate(found, 1):
        to = path if number == 1 else path.with_stem(f"{path.stem}-{number}")
        draw(one, shape, to)
        written.append(to)
    return written
