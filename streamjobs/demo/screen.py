"""Draws the demo: a live table on a terminal, plain lines elsewhere."""

import time
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from streamjobs.demo.board import RIGHT, STRIP, Board, Person, Score
from streamjobs.demo.recordings import EXERCISES

ALARM = "▼"  # a window that raised a drift alarm
BAR = 8  # cells of the bar of the person's own head
WIDE = 139  # least columns of a terminal for full names and bars
TAKEN = {True: 125, False: 79}  # columns beside the strip, on a wide terminal or not
LINE_EVERY = 5.0  # seconds, if the output is not a terminal
PLAIN = (  # the controls
    ("frozen", "the population's head alone, which never adapts"),
    ("cold", "a head that starts with nothing but the population's scale and map"),
    ("last", "the last label that had arrived"),
)
HONEST = (
    "Nothing was learned from these five people: 'streamjobs fit' learned from five others. Labels come 20 s late, when "
    "their set of 10 s is over, so repeating the last label does not help. frozen: "
    + PLAIN[0][1]
    + "; cold: "
    + PLAIN[1][1]
    + "; "
    "last: " + PLAIN[2][1] + ". LS error: distance of the newest window from what the map spans, 0 to 1. Drift: "
    "changes of exercise noticed, without labels, by windows that are not like those just before them; the job states at "
    "most 10 false alarms an hour of a person who goes on with the same."
)


def percent(score: Score, who: str = "right") -> str:
    """The share of right predictions, such as "84 %"; "-" without windows."""
    return f"{100 * int(getattr(score, who)) / score.windows:.0f} %" if score.windows else "-"


def milliseconds(delay: float | None) -> str:
    return "-" if delay is None else f"{delay * 1000:.0f} ms"


def strip(person: Person, cells: int) -> Text:
    """The newest windows: right or wrong, and drift alarms."""
    text = Text()
    for verdict, drift in list(person.strip)[-cells:]:
        text.append(ALARM if drift else "■", style="green" if verdict == RIGHT else "red")
    return text


def table(board: Board, width: int) -> Table:
    """A row per person, for a terminal of `width` columns."""
    wide = width >= WIDE
    grid = Table(box=None, padding=(0, 1), header_style="bold", expand=False)
    cells = min(STRIP, max(8, width - TAKEN[wide]))
    own, newest = ("own head", "newest windows") if wide else ("own", "newest")
    least = {"does": 19, "predicted": 19, own: 13, newest: cells} if wide else {"does": 4, own: 4, newest: cells}
    error = "LS error" if wide else "LS"
    for title in ("person", "does", "predicted", "right", "frozen", "cold", "last", error, "drift", own, newest):
        right = title in ("right", "frozen", "cold", "last", error, "drift")
        grid.add_column(title, justify="right" if right else "left", no_wrap=True, min_width=least.get(title))
    names = EXERCISES if wide else {code: code for code in EXERCISES}
    for name in sorted(board.people):
        person = board.people[name]
        hit = person.predicted == person.exercise
        grid.add_row(
            name,
            names.get(person.exercise, person.exercise),
            Text(names.get(person.predicted or "", "-"), style="green" if hit else "red"),
            Text(percent(person.all), style="bold"),
            *(Text(percent(person.all, who), style="dim") for who, _ in PLAIN),
            "-" if person.ls_error is None else f"{person.ls_error:.2f}",
            f"{person.drift.noticed}/{person.drift.changes}",
            _bar(person.share, BAR if wide else 0),
            strip(person, cells),
        )
    return grid


def _bar(share: float, length: int) -> Text:
    full = round(length * share)
    return (
        Text("━" * full, style="cyan")
        .append("━" * (length - full), style="bright_black")
        .append(f"{' ' if length else ''}{share:.2f}")
    )


class Screen:
    """Draws the board; `with Screen(..) as screen: screen.draw(board, 0.5)`."""

    def __init__(self, console: Console, place: str) -> None:
        self.console, self.place = console, place  # place: what the records pass through
        self.tty = console.is_terminal
        self.live = Live(console=console, auto_refresh=False, transient=False) if self.tty else None
        self.started = self.printed = time.monotonic()
        self.stepped = ""

    def __enter__(self) -> "Screen":
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def step(self, text: str) -> None:
        """Show a step of the start; without a terminal, print it once."""
        if self.live is not None:
            waited = time.monotonic() - self.started
            self.live.update(Text.assemble(("  ● ", "yellow"), text, (f" {waited:.0f} s", "dim")), refresh=True)
        elif text != self.stepped:
            self.console.print(text)
            self.stepped = text

    def draw(self, board: Board, share: float) -> None:
        """Draw the board. share: how much has been played, 0 to 1."""
        if self.live is not None:
            self.live.update(self._picture(board, share), refresh=True)
        elif time.monotonic() - self.printed >= LINE_EVERY:
            self.printed = time.monotonic()
            self.console.print(line(board, self.printed - self.started), soft_wrap=True)

    def _picture(self, board: Board, share: float) -> Panel:
        figures = Table.grid(padding=(0, 2))
        figures.add_row(
            ProgressBar(total=1.0, completed=share, width=24 if self.console.width >= WIDE else 8),
            f"{board.played:,} samples in",
            f"{board.windows:,} of {board.expected:,} windows out",
            f"after {milliseconds(board.delay(0.5))} (p50), {milliseconds(board.delay(0.99))} (p99)",
        )
        legend = Text("right so far, and with simpler ways   ")
        legend.append("■", "green").append(" right ").append("■", "red").append(" wrong ").append(ALARM).append(" drift   ")
        legend.append("━━", "cyan").append(" weight of the person's own head against the population's")
        legend.stylize("dim")
        body = Group(table(board, self.console.width), Text(), figures, legend, Text(HONEST, style="dim italic"))
        title = "streamjobs: five people it has never seen, a head of their own each"
        padding = (1, 2) if self.console.width >= WIDE else (0, 0)
        return Panel(body, title=title, subtitle=self.place, border_style="cyan", expand=False, padding=padding)


def line(board: Board, elapsed: float) -> str:
    """The figures in one line."""
    everything = board.total("all")
    beside = "".join(f"  {who} {percent(everything, who):>5}" for who, _ in PLAIN)
    return (
        f"{elapsed:5.0f} s  {board.played:>7,} samples in  {board.windows:>5,} windows out  right {percent(everything):>5}"
        f"{beside}  p50 {milliseconds(board.delay(0.5))}  p99 {milliseconds(board.delay(0.99))}"
    )


def summary(board: Board, facts: dict[str, Any]) -> Group:
    """The final figures by person, with the controls, and where to go next."""
    grid = Table(box=None, padding=(0, 1), header_style="bold", title="Windows predicted right", title_justify="left")
    heads = ("person", "windows", "right", *(who for who, _ in PLAIN), "2nd half", "frozen", "at first")
    for title in heads:
        grid.add_column(title, justify="left" if title == "person" else "right", no_wrap=True)
    for name in sorted(board.people):
        person = board.people[name]
        grid.add_row(name, *_scores(person.all, person.half, person.first))
    grid.add_section()
    grid.add_row("all", *_scores(board.total("all"), board.total("half"), board.total("first")), style="bold")
    lines = [
        f"{board.played:,} samples in, {board.windows:,} of {board.expected:,} windows out in {facts['seconds']:.0f} s "
        f"({facts['speed']:.0f} times real time); {board.dead_letters} dead letters.",
        f"From the last sample of a window to its prediction: p50 {milliseconds(board.delay(0.5))}, "
        f"p99 {milliseconds(board.delay(0.99))} ({facts['place']}).",
        _drift(board),
        *(f"{who}: {meaning}." for who, meaning in PLAIN),
        "at first: before any label of the person had arrived. 2nd half: of each person's windows.",
        HONEST.partition(" frozen:")[0],
        f"A person's state is the head alone, {facts['state']}; scale and map ({facts['shared']}) are shared.",
    ]
    following = Table.grid(padding=(0, 2))
    for command, meaning in (
        ("streamjobs init --sample FILE", "a job file for your own recording"),
        ("streamjobs check job.toml", "all mistakes at once, and the size of states"),
        ("streamjobs fit job.toml --input FILE", "learn from people you have, for people you have not; with a report"),
        ("streamjobs replay job.toml --input FILE --key COLUMN", "run your data through the job, without Kafka"),
        ("streamjobs run job.toml", "the worker, on your Kafka"),
        ("streamjobs demo --kafka", "this demo on a real Apache Kafka (needs Java 17 and Maven)"),
    ):
        following.add_row(Text(f"  {command}", style="cyan"), meaning)
    job = Text(f"The job that ran: {facts['job']}", style="dim")
    return Group(Text(), grid, Text(), Text("\n".join(lines)), Text(), Text("Next", style="bold"), following, job)


def _drift(board: Board) -> str:
    drifts = [person.drift for person in board.people.values()]
    noticed, changes, false = (sum(getattr(drift, name) for drift in drifts) for name in ("noticed", "changes", "false"))
    return f"Drift: {noticed} of {changes} changes of exercise noticed within their set, {false} other alarms."


def _scores(everything: Score, half: Score, first: Score) -> list[str]:
    cells = [str(everything.windows), percent(everything), *(percent(everything, who) for who, _ in PLAIN)]
    return [*cells, percent(half), percent(half, "frozen"), percent(first)]
