"""The demo's picture: a live table on a terminal, plain lines elsewhere."""

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streamjobs.demo.board import RIGHT, SILENT, STRIP, Board, Person, Score
from streamjobs.demo.recordings import EXERCISES

BAR = 8  # cells of the LS error's bar
WIDE = 121  # columns of a terminal from which on names and bars fit
TAKEN = {True: 107, False: 68}  # columns beside the strip, where wide and where not
LINE_EVERY = 5.0  # seconds, where the output is no terminal
CELLS = {RIGHT: ("■", "green"), SILENT: ("·", "bright_black")}
HONEST = (
    "Labels arrive with the data here: a window is predicted first, then learned. So the label before is a hard control "
    "('copy'), and the honest column is 'new set': the first window after a change, where there is nothing to copy."
)


def percent(score: Score, copied: bool = False) -> str:
    """ "84 %", or "-" before there is anything to count."""
    return f"{100 * (score.copied if copied else score.right) / score.windows:.0f} %" if score.windows else "-"


def milliseconds(delay: float | None) -> str:
    return "-" if delay is None else f"{delay * 1000:.0f} ms"


def strip(person: Person, cells: int) -> Text:
    """The newest windows: right or wrong; a window that raised a drift alarm is a triangle."""
    text = Text()
    for verdict, drift in list(person.strip)[-cells:]:
        cell, color = CELLS.get(verdict, ("■", "red"))
        text.append("▲" if drift else cell, style="yellow" if drift else color)
    return text


def table(board: Board, width: int) -> Table:
    """A row per person, for a terminal of `width` columns."""
    wide = width >= WIDE
    grid = Table(box=None, padding=(0, 1), header_style="bold", expand=False)
    cells = min(STRIP, max(8, width - TAKEN[wide]))
    ls_error, newest = ("LS error", "newest windows") if wide else ("LS", "newest")
    least = {"does": 19, "predicted": 19, ls_error: 13} if wide else {"does": 4, ls_error: 5}  # nothing jumps about
    for title in ("person", "does", "predicted", "right", "copy", "new set", ls_error, "drift", newest):
        right = title in ("right", "copy", "new set", "drift")
        least_width = least.get(title, cells if title == newest else None)
        grid.add_column(title, justify="right" if right else "left", no_wrap=True, min_width=least_width)
    names = EXERCISES if wide else {code: code for code in EXERCISES}
    for name in sorted(board.people):
        person = board.people[name]
        hit = person.predicted == person.exercise
        grid.add_row(
            name,
            names.get(person.exercise, person.exercise),
            Text(names.get(person.predicted or "", "-"), style="green" if hit else "red" if person.predicted else "dim"),
            percent(person.all),
            Text(percent(person.all, copied=True), style="dim"),
            percent(person.new),
            _bar(person.ls_error, BAR if wide else 0),
            str(person.drifts) if person.drifts else "",
            strip(person, cells),
        )
    return grid


def _bar(ls_error: float | None, length: int) -> Text:
    if ls_error is None:
        return Text("seeding" if length else "-", style="dim")
    full = round(length * min(1.0, max(0.0, ls_error)))
    return (
        Text("━" * full, style="cyan")
        .append("━" * (length - full), style="bright_black")
        .append(f"{' ' if length else ''}{ls_error:.2f}")
    )


class Screen:
    """Draws the board again and again; `with Screen(..) as screen: screen.draw(board)`."""

    def __init__(self, console: Console, place: str) -> None:
        self.console, self.place = console, place  # place: what the records pass through
        self.tty = console.is_terminal
        self.live = Live(console=console, auto_refresh=False, transient=False) if self.tty else None
        self.begun = self.said = time.monotonic()
        self.stepped = ""

    def __enter__(self) -> "Screen":
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def step(self, text: str) -> None:
        """Something that happens before there is anything to show; elsewhere than on a terminal it is said once."""
        if self.live is not None:
            waited = time.monotonic() - self.begun
            self.live.update(Text.assemble(("  ● ", "yellow"), text, (f" {waited:.0f} s", "dim")), refresh=True)
        elif text != self.stepped:
            self.console.print(text)
            self.stepped = text

    def draw(self, board: Board, share: float, expected: int) -> None:
        """share: how much has been played, 0 to 1; expected: windows to come in all."""
        if self.live is not None:
            self.live.update(self._picture(board, share, expected), refresh=True)
        elif time.monotonic() - self.said >= LINE_EVERY:
            self.said = time.monotonic()
            self.console.print(line(board, self.said - self.begun), soft_wrap=True)

    def _picture(self, board: Board, share: float, expected: int) -> Panel:
        figures = Table.grid(padding=(0, 2))
        figures.add_row(
            ProgressBar(total=1.0, completed=share, width=24 if self.console.width >= WIDE else 8),
            f"{board.played:,} samples in",
            f"{board.windows:,} of {expected:,} windows out",
            f"after {milliseconds(board.delay(0.5))} (p50), {milliseconds(board.delay(0.99))} (p99)",
        )
        legend = Text("right: so far, copy: with the label before   ")
        legend.append("■", "green").append(" right ").append("■", "red").append(" wrong ")
        legend.append("·").append(" no prediction yet ").append("▲", "yellow").append(" drift alarm")
        legend.stylize("dim")
        body = Group(table(board, self.console.width), Text(), figures, legend, Text(HONEST, style="dim italic"))
        title = "streamjobs: ten people at their exercises, one learner each"
        padding = (1, 2) if self.console.width >= WIDE else (0, 0)
        return Panel(body, title=title, subtitle=self.place, border_style="cyan", expand=False, padding=padding)


def line(board: Board, elapsed: float) -> str:
    """The same in one line."""
    everything, new = board.total("all"), board.total("new")
    drifts = sum(person.drifts for person in board.people.values())
    return (
        f"{elapsed:5.0f} s  {board.played:>7,} samples in  {board.windows:>5,} windows out  right {percent(everything):>5}"
        f"  copy {percent(everything, copied=True):>5}  new set {percent(new):>5}  drift {drifts:>3}"
        f"  p50 {milliseconds(board.delay(0.5))}  p99 {milliseconds(board.delay(0.99))}"
    )


def summary(board: Board, facts: dict[str, Any]) -> Group:
    """What has been seen, by person, with the controls beside; and where to go next."""
    grid = Table(box=None, padding=(0, 1), header_style="bold", title="Right, by person", title_justify="left")
    for title in ("person", "windows", "right", "copy", "new set", "copy", "come back", "copy", "drift"):
        grid.add_column(title, justify="left" if title == "person" else "right", no_wrap=True)
    for name in sorted(board.people):
        person = board.people[name]
        grid.add_row(name, *_scores(person.all, person.new, person.back), str(person.drifts))
    drifts = sum(person.drifts for person in board.people.values())
    grid.add_section()
    grid.add_row("all", *_scores(board.total("all"), board.total("new"), board.total("back")), str(drifts), style="bold")
    lines = [
        f"{board.played:,} samples in, {board.windows:,} of {facts['expected']:,} windows out in {facts['seconds']:.0f} s "
        f"({facts['speed']:.0f} times as fast as life); {board.dead_letters} dead letters.",
        f"From the last sample of a window to its prediction: p50 {milliseconds(board.delay(0.5))}, "
        f"p99 {milliseconds(board.delay(0.99))} ({facts['place']}).",
        "new set: the first window of a set, before any label of it; come back: of those, exercises done before.",
        f"The first {facts['seed']} windows of a person only seed the learner: no prediction, counted as not right.",
        HONEST,
        "All learners began cold. Where labels come late, and with a warm start, other figures count: see the README.",
    ]
    following = Table.grid(padding=(0, 2))
    for command, meaning in (
        ("streamjobs init --sample FILE", "a job file for your own recording"),
        ("streamjobs check job.toml", "every mistake at once; sizes of states"),
        ("streamjobs replay job.toml --input FILE --key COLUMN", "your data through it, without Kafka"),
        ("streamjobs run job.toml", "the worker, on your Kafka"),
        ("streamjobs demo --kafka", "this, on a real Apache Kafka (Java 17 and Maven)"),
    ):
        following.add_row(Text(f"  {command}", style="cyan"), meaning)
    job = Text(f"The job that ran: {facts['job']}", style="dim")
    return Group(Text(), grid, Text(), Text("\n".join(lines)), Text(), Text("Next", style="bold"), following, job)


def _scores(*scores: Score) -> list[str]:
    cells = [str(scores[0].windows)]
    for score in scores:
        cells += [percent(score), percent(score, copied=True)]
    return cells
