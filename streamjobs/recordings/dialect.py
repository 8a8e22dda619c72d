"""How a CSV file is written: its encoding, what stands between cells, the decimal sign, a row of units below the names.

Decided once per file, from its first rows. Where two readings are possible the file is refused, with both of them.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple

from streamjobs.errors import ConfigError
from streamjobs.recordings.columns import CLOCK, MOST_TEXTS, MOST_UNREAD, reads_as_number, says_time

HEAD = 64 << 10  # bytes that are looked at
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
SPACES = " "  # any number of them; only where nothing else separates
_CONTROLS = "".join(chr(n) for n in range(32) if chr(n) not in "\t\r\n\f")
MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
DECIMALS = {".": "points", ",": "commas"}
LONGEST_UNIT = 15  # characters
PAIR = 2  # cells of a line above the names, such as "made on" and a date
NOTHING = {  # cells without a number, also errors of spreadsheets
    *("", "-", "--", "---", "----", "?", "n/a", "na", "nan", "null", "none", "nil", "n.a.", "k.a."),
    *("#n/a", "#nv", "#div/0!", "#value!", "#wert!", "#valeur!", "#ref!", "#bezug!", "#num!", "#zahl!", "#name?"),
}
_COMMA = re.compile(r"[+-]?[0-9]+,[0-9]+(?:[eE][+-]?[0-9]+)?")
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:,[0-9]{3})+")
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}(?:,[0-9]{3})+\.[0-9]+")  # commas between thousands
_GROUPED_BY_POINTS = re.compile(r"[+-]?[1-9][0-9]{0,2}(?:\.[0-9]{3})+(?:,[0-9]+)?")
_SPACED = re.compile(
    r"[+-]?[1-9][0-9]{0,2}([ '\u2019\u00a0\u202f])[0-9]{3}(?:\1[0-9]{3})*(?:[.,][0-9]+)?"
)  # also apostrophes
_POINT = re.compile(r"[+-]?[0-9]*\.[0-9]+(?:[eE][+-]?[0-9]+)?")
_DATE = re.compile(r"[0-9]{1,4}([./-])[0-9]{1,2}\1[0-9]{2,4}")
_SEPARATOR_LINE = re.compile(r"sep=(.)\r?\n", re.IGNORECASE)


class Dialect(NamedTuple):
    encoding: str = "utf-8-sig"
    separator: str = ","
    decimal: str = "."
    first: int = 0  # lines before that with the names: Excel's own with the separator, titles and comments
    titles: int = 0  # of them: titles and comments
    units: dict[str, str] | None = None  # by column, where the line below the names has them
    clock: tuple[int, int] | None = None  # places of a column of dates and of one of times of day, next to each other
    time: str = ""  # name of the column that has both
    numbers: frozenset[int] = frozenset()  # places of columns of numbers, where words such as n/a mean a missing one
    names: tuple[str, ...] = ()  # of the columns, where not one line has them
    spaced: str = ""  # a number with spaces or apostrophes between thousands
    ending: str = ""  # what stands behind the last cell of every line
    padded: bool = False  # spaces stand around names and cells, and belong to none
    lines: int = 1  # that have the names, without blank ones

    @property
    def said(self) -> str | None:
        """What should be known of it; None for plain CSV."""
        usual = Dialect()
        parts = []
        if self.titles:
            parts.append(f"the names of columns in line {self.first + 1}, below a title")
        if self.lines > 1:
            parts.append(f"two lines of names joined, as in {max(self.names, key=len)!r}")
        elif self.names:
            parts.append(f"no line of names: the columns are {self.names[0]} to {self.names[-1]}")
        if self.separator != usual.separator or self.decimal != usual.decimal:
            between = "spaces" if self.separator == SPACES else SEPARATORS.get(self.separator, repr(self.separator))
            parts.append(f"{between} between cells")
            parts.append(f"decimal {DECIMALS[self.decimal]}")
        if self.padded:
            parts.append("spaces around cells left out")
        if self.spaced:
            parts.append(f"{self.spaced!r} read as {plain_number(self.spaced, self.decimal)}")
        if self.encoding not in ("utf-8-sig", "utf-8"):
            parts.append(self.encoding.upper())
        if self.units is not None:
            listed = ", ".join(f"{name} {unit}" for name, unit in self.units.items())
            parts.append(f"the line below the names has units and is not a row ({listed:.200})")
        if self.clock is not None:
            parts.append(f"a column {self.time!r} joins each row's date and time of day")
        return f"read as CSV with {'; '.join(parts)}" if parts else None


@lru_cache(maxsize=100)  # a command reads the head of a file several times
def dialect_of(head: bytes, where: str, separator: str | None = None, decimal: str | None = None) -> Dialect:
    """The dialect of a file by its first bytes (HEAD of them). separator, decimal: as the user says.

    Raises ConfigError, with both readings where two are possible.
    """
    text, encoding = _decoded(head, where)
    line = _SEPARATOR_LINE.match(text)
    if line is not None:
        text, separator = text[line.end() :], separator or line[1]
    lines = text if len(head) < HEAD else text[: text.rfind("\n") + 1]  # the last line may be cut
    separator = separator or _separator(lines, where)
    ending = _ending(lines, separator)
    body = "".join(without_ending(lines.splitlines(True), ending, separator))
    titles, rows = _rows(body, separator)
    first = titles + int(line is not None)
    if len(rows) < 2:
        return Dialect(encoding, separator, decimal or ".", first, titles)
    named, above = tuple[str, ...](), 1
    if first == 0 and _is_row(rows[0], rows[1:], decimal):
        named, above = tuple(f"c{n}" for n in range(1, len(rows[0]) + 1)), 0
        rows = [[*named], *rows]
    padded = separator != SPACES and len(rows[0]) > 1 and all(name[:1] == " " for name in rows[0][1:])
    if padded:
        rows = [[cell.strip() for cell in row] for row in _rows(body, separator, padded)[1]] or rows
    names, rows = rows[0], rows[1:]
    if above and (named := _joined(names, rows)):
        names, rows, above = [*named], rows[1:], 2
    decimal = decimal or _decimal(names, rows, separator, where)
    units = _units(names, rows, decimal)
    clock = _clock(names, rows if units is None else rows[1:])
    time = "" if clock is None else " ".join(names[place].strip() for place in clock)
    clock = None if time in names else clock
    numbers = _numbers(names, rows if units is None else rows[1:], decimal)
    cells = (row[n].strip() for row in rows for n in sorted(numbers) if n < len(row))
    spaced = next(filter(_SPACED.fullmatch, cells), "")
    about = (units, clock, time, numbers, named, spaced, ending, padded, above)
    return Dialect(encoding, separator, decimal, first, titles, *about)


def _joined(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The names of two lines, where the first has them for groups of columns of numbers; empty for other tables.

    A column without a name before all groups is the number of the row, as pandas writes it, or the time.

    >>> _joined(["day", "oven 1", "", "note"], [["", "top", "base", ""], ["2", "220.5", "200.5", ""]])
    ('day', 'oven 1 top', 'oven 1 base', 'note')
    >>> _joined(["", "temp"], [["s", "°C"], ["1", "20.5"]]), _joined(["ts", "a", ""], [["", "", "n/a"], ["1", "2", "3"]])
    ((), ())
    """
    below, group = rows[0], ""
    if len(below) != len(names):
        return ()
    begin = next((n for n, name in enumerate(names) if name.strip()), 0)
    unclear = [n for n, name in enumerate(names) if n > begin and (names.count(name) > 1 or not name.strip())]
    cells = [cell.strip() for cell in (*names, *below)]
    sign = max(DECIMALS, key=lambda one: len(_numbers(names, rows[1:], one)))
    if any("\n" in cell or _reads(cell, sign) for cell in cells):
        return ()
    named = {n for n in _numbers(names, rows[1:], sign) if below[n].strip().lower() not in NOTHING}
    if not unclear or not {*unclear} <= named:
        return ()
    joined = list[str]()
    for name, cell in zip(names, below, strict=True):
        group = name.strip() or group
        joined.append(f"{group} {cell.strip()}".strip())
    return tuple(joined) if len({*joined}) == len(joined) else ()


def _ending(text: str, separator: str) -> str:
    """A semicolon that every line ends with, though other signs separate cells."""
    lines = [line for line in text.splitlines() if line.strip()]
    return ";" if separator != ";" and len(lines) > 1 and all(line.rstrip().endswith(";") for line in lines) else ""


def without_ending(lines: Iterable[str], ending: str, separator: str) -> Iterable[str]:
    """The lines without what stands behind their last cell.

    >>> list(without_ending(["1,2; \\n", "3,4;\\n"], ";", ",")), list(without_ending([" 1  2 \\n"], "", " "))
    (['1,2\\n', '3,4\\n'], [' 1  2\\n'])
    """
    if not ending and separator != SPACES:
        return lines
    bodies = ((line, line.rstrip("\r\n")) for line in lines)
    return (body.rstrip().removesuffix(ending) + line[len(body) :] for line, body in bodies)


def _is_row(first: Sequence[str], rows: Sequence[Sequence[str]], decimal: str | None) -> bool:
    """Whether the first line is a sample: it has numbers in every column of numbers. pandas names columns 0, 1, 2 ..."""
    sign = max(DECIMALS if decimal is None else decimal, key=lambda one: len(_numbers(first, rows, one)))
    places = sorted(_numbers(first, rows, sign))
    cells = [first[place].strip() for place in places]
    numbers = [cell for cell in cells if _reads(cell, sign)]
    columns = [[cell.strip() for cell in first if cell.strip()]]
    others = {cell.strip() for place, cell in enumerate(first) if place not in places}  # names of texts, if not in the rows
    if len(numbers) > 2 and others.isdisjoint(cell.strip() for row in rows for cell in row):
        columns.append([cell for cell in cells if cell])
    counted = any(names == [str(n) for n in range(len(names))] for names in columns)
    return bool(numbers) and not counted and all(_reads(cell, sign) or cell.lower() in NOTHING for cell in cells)


def _decoded(head: bytes, where: str) -> tuple[str, str]:
    """The text, and its encoding; raises ConfigError for an unknown encoding."""
    names = [name for mark, name in MARKS if head.startswith(mark)]
    if not names and b"\0" in head:  # of Latin letters every second byte is zero
        both = ("utf-16-le", head[1::2]), ("utf-16-be", head[::2])
        names = [name for name, half in both if len(head) > 1 and not half.strip(b"\0")]
        if not names:
            raise ConfigError(f"{where}: expected CSV in UTF-8, UTF-16 or Windows-1252, got zero bytes; save it as UTF-8.")
    for name in names[:1] or ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            text = codecs.getincrementaldecoder(name)().decode(head)
            odd = "\0" if name.startswith("utf-16") else _CONTROLS if name == "cp1252" else ""  # of UTF-32, of binary files
            if not set(odd) & set(text):
                return text, name
    raise ConfigError(
        f"{where}: expected CSV in UTF-8, UTF-16 or Windows-1252, got bytes of another encoding; save it as UTF-8."
    )


def _rows(text: str, separator: str, padded: bool = False) -> tuple[int, list[list[str]]]:
    """The rows that have cells, and the lines of titles above them; none where the text cannot be cut.

    A title or comment has cells for few of the columns, or begins with #. The names below it are texts in most columns.
    """
    skips = padded or separator == SPACES
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, skipinitialspace=skips)
    rows, above = list[list[str]](), list[int]()
    try:
        lines = 0
        for cells in reader:
            if cells:
                rows.append(cells)
                above.append(lines)
            lines = reader.line_num
    except csv.Error:
        return 0, []
    columns, used = ((Counter(map(width, rows)).most_common(1) or [(0, 0)])[0][0] for width in (len, _used))
    least = 0
    for at, row in enumerate(rows):
        filled = [cell for cell in map(str.strip, row) if cell]
        few = columns // 2 if columns > 2 else int(len(row) < columns)
        if few < PAIR and _used(row) < min(used, PAIR + 1) and not _begins(row):
            if len(filled) > few and len(row) == columns and not row[0].startswith("#"):
                least = used - 1  # below such a line each column has a name: else it may have those of groups
            few = PAIR
        named = len(filled) > max(few, least) and len(row) == columns > 1
        if at and named and not any(one[0].isdigit() or reads_as_number(one) for one in filled):
            return above[at], rows[at:]
        if len(filled) > few and not row[0].startswith("#"):
            break
    return 0, rows


def _begins(row: Sequence[str]) -> bool:
    """Whether a row begins as a sample does, with a digit, or as names do, with that of a time and not its value."""
    return row[0][:1].isdigit() or (says_time(row[0]) and not any(cell.strip()[:1].isdigit() for cell in row))


def _used(row: Sequence[str]) -> int:
    """The cells of a row up to its last that is not empty."""
    return max((n for n, cell in enumerate(row, 1) if cell.strip()), default=0)


def _separator(text: str, where: str) -> str:
    """What stands between the cells; raises ConfigError where two readings are possible."""
    readings = {one: rows for one in SEPARATORS if (rows := _rows(text, one)[1]) and len(rows[0]) > 1}
    if not readings:
        widths = {*map(len, _rows("".join(without_ending(text.splitlines(True), "", SPACES)), SPACES)[1])}
        return SPACES if len(widths) == 1 and widths != {1} else ","
    if len(readings) < 2:
        return next(iter(readings))
    whole = {one: rows for one, rows in readings.items() if all(len(row) == len(rows[0]) for row in rows)}
    shares = {one: _share_of_numbers(rows) for one, rows in (whole or readings).items()}
    best = max(shares.values())
    found = [one for one, share in shares.items() if share == best]
    if len(found) > 1:
        both = " or ".join(
            f"{len(rows[0])} columns with {SEPARATORS[one]} between cells ({', '.join(map(repr, rows[0][:3]))})"
            for one, rows in readings.items()
            if one in found
        )
        raise ConfigError(f"{where}: can be read as {both}; choose with --separator.")
    return found[0]


def _share_of_numbers(rows: Sequence[Sequence[str]]) -> float:
    cells = [cell.strip() for row in rows[1:] for cell in row]
    return sum(_reads(cell, ".") or _reads(cell, ",") for cell in cells) / max(1, len(cells))


def _decimal(names: Sequence[str], rows: Sequence[Sequence[str]], separator: str, where: str) -> str:
    """The decimal sign; raises ConfigError where two readings are possible.

    Between commas a number with a comma is quoted, and a text unless all numbers are written so.
    """
    point: tuple[str, str] | None = None  # a number and its column
    comma: tuple[str, str] | None = None
    sure = False  # whether a comma cannot stand between thousands
    both = {sign for row in rows for cell in row if (sign := _sign_beside_thousands(cell.strip()))}
    for row in rows:
        for name, cell in zip_longest(names, row, fillvalue=""):
            text = _unspaced(cell.strip())
            if "," in both and _GROUPED_BY_POINTS.fullmatch(text):
                comma, sure = comma or (text, name), True
            elif "," in text and _COMMA.fullmatch(text) and not (both == {"."} and _THOUSANDS.fullmatch(text)):
                comma, sure = comma or (text, name), sure or _THOUSANDS.fullmatch(text) is None
            elif "." in text and (_POINT.fullmatch(text) or _GROUPED.fullmatch(text)):
                point = point or (text, name)
    if comma is None or (separator == "," and (point is not None or not sure)):
        return "."
    if point is not None:
        raise ConfigError(
            f"{where}: column {comma[1]!r} has numbers such as {comma[0]}, and column {point[1]!r} such as "
            f"{point[0]}; choose the decimal sign with --decimal."
        )
    if not sure:
        number = comma[0]
        raise ConfigError(
            f"{where}: {number} in column {comma[1]!r} can be {number.replace(',', '.')} with a decimal comma, or "
            f"{number.replace(',', '')} with commas between thousands, which is a text here; choose with --decimal "
            ", or --decimal ."
        )
    return ","


def _units(names: Sequence[str], rows: Sequence[Sequence[str]], decimal: str) -> dict[str, str] | None:
    """The units by column, where the first row holds such and no sample."""
    first = [cell.strip() for cell in rows[0]]
    if len(rows) < 2 or any(len(cell) > LONGEST_UNIT or _reads(cell, decimal) for cell in first):
        return None
    units = {name: cell for name, cell in zip(names, first, strict=False) if cell}
    of_numbers = [name for name, cells in _columns(names, rows[1:]) if cells and all(_reads(one, decimal) for one in cells)]
    stated = [units[name] for name in of_numbers if name in units]
    return units if stated and not all(unit.lower() in NOTHING for unit in stated) else None


def _clock(names: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[int, int] | None:
    """The places of the first neighbours of which one has dates and the other times of day, but for a few mistyped cells."""
    columns = [cells for _, cells in _columns(names, rows)]
    dates, clocks = (
        {n for n, cells in enumerate(columns) if sum(map(bool, map(one.fullmatch, cells))) > (1 - MOST_UNREAD) * len(cells)}
        for one in (_DATE, CLOCK)
    )
    return next(((date, clock) for date in sorted(dates) for clock in (date + 1, date - 1) if clock in clocks), None)


def _numbers(names: Sequence[str], rows: Sequence[Sequence[str]], decimal: str) -> frozenset[int]:
    """The places of columns in which numbers are usual."""
    columns, least = enumerate(cells for _, cells in _columns(names, rows)), 1 - MOST_TEXTS
    return frozenset(n for n, cells in columns if cells and sum(_reads(one, decimal) for one in cells) >= least * len(cells))


def _columns(names: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[str]]]:
    for place, name in enumerate(names):
        yield name, [cell for row in rows if place < len(row) and (cell := row[place].strip()).lower() not in NOTHING]


def _reads(text: str, decimal: str) -> bool:
    return reads_as_number(plain_number(text, decimal))


def _sign_beside_thousands(text: str) -> str:
    """The decimal sign of a number that shows also what stands between thousands."""
    if "," in text and "." in text:
        return "." if _GROUPED.fullmatch(text) else "," if _GROUPED_BY_POINTS.fullmatch(text) else ""
    return ""


def _unspaced(text: str) -> str:
    """Without spaces or apostrophes between the thousands of a number."""
    found = _SPACED.fullmatch(text)
    return text if found is None else text.replace(found[1], "")


def plain_number(text: str, decimal: str) -> str:
    """A number with a point, and nothing between thousands; another text as it is.

    >>> plain_number("1.234,5", ","), plain_number("1.234", ","), plain_number("1,234.5", "."), plain_number("1.2,5", ",")
    ('1234.5', '1234', '1234.5', '1.2,5')
    >>> plain_number("1 234,5", ","), plain_number("1'234'567.5", "."), plain_number("12 34", ".")
    ('1234.5', '1234567.5', '12 34')
    """
    text = _unspaced(text)
    if decimal == ",":
        text = text.replace(".", "") if _GROUPED_BY_POINTS.fullmatch(text) else text
        return text.replace(",", ".") if _COMMA.fullmatch(text) else text
    return text.replace(",", "") if _GROUPED.fullmatch(text) else text
