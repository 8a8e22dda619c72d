"""Guesses column by column what a recording's columns mean: time first, then key, label and what is left for x."""

import itertools
import math
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

from streamjobs.recordings.clocks import flat, in_order, ticks, unit_of_uptime, unit_since_1970, usual_pause
from streamjobs.recordings.columns import (
    COUNTER_ROWS,
    KEYS,
    LABELS,
    TIMES,
    Column,
    Times,
    names_label,
    plain_name,
    rank_of,
    says_duration,
    says_time,
    unit_of_cells,
    unit_of_name,
    why_no_number,
)
from streamjobs.recordings.exports import TIME
from streamjobs.recordings.files import SECONDS
from streamjobs.recordings.guess.keys import OWNER, key_by_turns
from streamjobs.recordings.guess.result import NONE_CHOSEN, Chosen, Gaps, Guess, windowed
from streamjobs.recordings.guess.rows import MOST_FALLS, largest_of, oddities, parts_of_times, rates_apart, rises
from streamjobs.recordings.guess.texts import OTHER_WORDS, categories_of
from streamjobs.recordings.guess.x import BAD_NAME, X, in_turns, is_bad, quoted_names, x_of
from streamjobs.settings.presets import Preset
from streamjobs.settings.times import example_of
from streamjobs.settings.types import UNIT_NAMES, many

DAY = 86_400.0
_WORD = re.compile(r"[^\W\d_]{3}")  # in a time: the name of a month
CLASSES, MOST_CLASSES = 32, 1024  # most different whole numbers that are treated as classes; most classes of a head


class Columns:
    """The columns of a recording, and what was decided about each so far."""

    def __init__(
        self,
        rows: list[dict[str, Any]],
        columns: list[Column],
        times: Times,
        chosen: Chosen,
        preset: Preset | None,
        owners: Sequence[Any] | None,
    ) -> None:
        self.owners = owners
        self.rows, self.columns, self.chosen, self.preset = rows, columns, chosen, preset
        self.texts, self.formats, self.unread = times
        self.numbers = {plain_name(column.name) for column in columns if column.kind == "number"}
        parts = parts_of_times(times.zoned, {c.name for c in columns})
        self.left_out = {name: f"a part of the time {whole!r}" for name, whole in parts.items()}
        self.left_out |= {c.name: BAD_NAME for c in columns if c.name and is_bad(c.name)}
        self.choose: dict[str, str] = {}
        self.candidates: dict[str, list[str]] = {}
        self.because: dict[str, str] = {}
        self.pause: float | None = None
        self.remarks: list[str] = []

    def guess(self) -> Guess:
        time, start_time, unit = self._time()
        key = self._key(time)
        label = self._label(key)
        if time is not None and (unread := self.unread.get(time)):
            self.remarks.append(
                f"{unread:,} of {len(self.rows):,} rows have a text in {time!r} that is not a time as the others; they "
                "would be dead letters"
            )
        if time is not None and not self.texts.get(time, True):
            self.choose["time_zone"] = f"the times in {time!r} have no zone; set time_zone to their zone"
        if len(formats := self.formats.get(time or "", [])) > 1:
            dates = " or ".join(map(repr, formats))
            self._unsure("time_format", formats, f"the times in {time!r} are {dates}: the sample has no day above 12")
        task, classes = self._task(label)
        x = self._x({time, key, label and label.name}, time, label is None)
        clock = time or start_time
        rate = self._rate(key, clock, unit, time is not None) if clock is not None else None
        categories = self._categories(x, key, rate, label)
        odd, lacking = oddities(self.rows, self.columns, [*x.fields, *categories], x.x)
        self.remarks += odd
        there = {*x.fields, *categories, label and label.name}
        if x.x is None and x.fields and (bare := sum(there.isdisjoint(row) for row in self.rows)):
            self.remarks.append(f"{bare:,} of {len(self.rows):,} rows have none of the fields; they would be dead letters")
        largest, said = largest_of([column for column in self.columns if column.name in {*x.fields, x.x}])
        self.remarks += said
        return Guess(
            rows=len(self.rows),
            fields=x.fields,
            x=x.x,
            dim=x.dim,
            key=key,
            time=time,
            written=time in self.texts,
            start_time=start_time,
            time_unit=unit or "s",
            rate=rate,
            label=label.name if label else None,
            task=task,
            classes=classes,
            left_out=self.left_out,
            choose=self.choose,
            candidates=self.candidates,
            because=self.because,
            remarks=self.remarks,
            preset=self.preset,
            gaps=Gaps(len(self.rows), lacking),
            pause=self.pause,
            time_format=next(iter(self.formats.get(time or "", ())), None),
            largest=largest,
            categories=categories,
            turns=x.turns,
        )

    def _categories(self, x: X, key: str | None, rate: float | None, label: Column | None) -> dict[str, list[str]]:
        """Columns of texts that may predict the label next to the fields; windows have none."""
        stated = self.preset is not None or self.chosen.fields is not None
        if stated or x.x is not None or x.choose is not None or windowed(rate):
            return {}
        found = categories_of(self.columns, self.rows, self.left_out, key, label and label.name)
        names = self.candidates.get("key", [])
        if label is not None and (
            keys := [name for name in names if not self.left_out.get(name, "").startswith(OTHER_WORDS)]
        ):
            self.choose["key"] = self.choose["key"].replace(quoted_names(names), quoted_names(keys))
            self.candidates["key"] = keys
        elif names and label is not None:  # each names the label
            self.candidates.pop("key")
        return found

    def _time(self) -> tuple[str | None, str | None, str | None]:
        """The column with the event time, or one that counts from somewhere else, and its unit where that is known."""
        named = [c for c in self.columns if says_time(c.name) and c.name not in self.left_out and not self._varies(c)]
        named = named or [c for c in self.columns if c.name in self.texts and c.name not in self.left_out]
        named = named or [c for c in self.columns if c.kind == "number" and unit_since_1970(c) and self._counts(c)]
        named = named or [c for c in self.columns if c.rises and ticks(c)][:1]
        if self.chosen.time is not None:
            named = [c for c in self.columns if c.name == self.chosen.time]
        by = "by its name" if any(says_time(c.name) for c in named) else "by its values"
        self.left_out |= dict.fromkeys([column.name for column in named], f"a time, {by}")
        numeric = [column for column in named if column.kind == "number" or column.depth == 1]
        dated = {column.name: unit for column in numeric if (unit := unit_since_1970(column)) is not None}
        dated |= {column.name: "s" for column in numeric if column.name in self.texts}
        if (clock := self._date_and_clock(dated)) is not None:
            self.left_out |= dict.fromkeys([c.name for c in named], f"a time, {by}")
            self.choose["time"] = (
                f"{clock[0]!r} has the date and {clock[1]!r} the time of day; a record needs both in one column, such as "
                "'24.10.2025 02:00:15'; without time, the records' own timestamps are used"
            )
            return None, None, None
        if dated:
            time = min(dated, key=lambda name: (name != TIME, "." in name, rank_of(name, TIMES)))
            self.left_out |= dict.fromkeys([c.name for c in named], f"a time, {by}; {time!r} is read")
            self.left_out.pop(time)
            unit = dated[time]
            form = (
                "all its values are ISO 8601" if time in self.texts else f"only in {UNIT_NAMES[unit]} are its years possible"
            )
            if time in self.formats:
                form = f"all its values are such as {example_of(self.formats[time][0])}"
            form = f"the name of a time, and {form}" if says_time(time) else form
            self.because["time"] = "as chosen" if self.chosen.time else form
            return time, None, unit
        if numeric:
            first = min(numeric, key=lambda column: rank_of(column.name, TIMES))
            self.choose["time"] = (
                f"{first.name!r} begins at {flat(first.values)[0]:.16g}, so it does not count from 1970; without time, the "
                "records' own timestamps are used"
            )
            parts = any(value % 1 for value in flat(first.values))
            unit = self.chosen.time_unit or unit_of_name(first.name) or ("s" if parts else unit_of_uptime(first))
            return None, first.name, unit
        texts = [column.name for column in named if column.kind != "empty"]
        rising = [column.name for column in self.columns if column.rises]
        if texts:
            first = next(column for column in named if column.kind != "empty").values[0]
            what = f"texts such as {first!r:.40}" if all(one.kind == "text" for one in named) else "more than numbers"
            months = "; write months as numbers" if isinstance(first, str) and _WORD.search(first) else ""
            self.choose["time"] = (
                f"{quoted_names(texts)} holds {what}; time is read as ISO 8601, or a number of seconds (or ms, us, ns) "
                f"since 1970, or with one time_format for all{months}"
            )
        elif rising:
            why = f"no column has the name of a time; candidates, which rise in every row: {quoted_names(rising)}"
            self._unsure("time", rising, why)
        else:
            self.choose["time"] = (
                "no column has the name of a time (time, ts, ...); a file's rows come at [window] rate. If they are samples "
                "of a sensor, add one, such as the number of the row divided by the samples a second: windows need it"
            )
        return None, None, None

    def _date_and_clock(self, dated: Collection[str]) -> tuple[str, str] | None:
        """A column of dates and one of times of day, where no column has both."""
        if not dated or not all(self._of_dates(column) for column in self.columns if column.name in dated):
            return None
        clock = next((column.name for column in self.columns if column.has_clocks), None)
        return None if clock is None else (next(iter(dated)), clock)

    def _of_dates(self, column: Column) -> bool:
        """Whether its texts are dates alone."""
        if (formats := self.formats.get(column.name)) is not None:
            return not any("%H" in form or "%I" in form for form in formats)
        return column.name in self.texts and not any(moment % DAY for moment in flat(column.values))

    def _counts(self, column: Column) -> bool:
        """Whether numbers never fall, or seldom by key: without a name of a time, values may still be times."""
        if column.kind != "number" or column.missing or column.distinct < 2 or len(self.rows) < COUNTER_ROWS:
            return False
        return plain_name(column.name) not in (*KEYS, *LABELS) and self._rises(column, lambda _: False)

    def _rises(self, column: Column, may_own: Callable[[Column], bool]) -> bool:
        """As `rises`, by key: of texts, or of the columns that may own the rows."""
        keys = [one.name for one in self.columns if one.kind == "text" or (one is not column and may_own(one))]
        return rises(column.values, [*([row.get(name) for row in self.rows] for name in keys), self.owners or ()])

    def _varies(self, column: Column) -> bool:
        """Whether a column called t, or with the name of a duration, is a signal: its numbers do not count on."""
        if column.kind != "number" or column.name == self.chosen.time or unit_since_1970(column) is not None:
            return False
        falls = sum(a > b for a, b in itertools.pairwise(column.values))
        if plain_name(column.name) == "t":
            return falls > MOST_FALLS * len(column.values) and not self._rises(column, lambda one: one.is_whole)
        return falls > 0 and says_duration(column.name)

    def _unsure(self, what: str, candidates: list[str], why: str) -> None:
        self.choose[what], self.candidates[what] = why, candidates

    def _key(self, time: str | None) -> str | None:
        if self.chosen.key is not None:
            (self.because if self.chosen.key else self.choose)["key"] = "as chosen" if self.chosen.key else "none was chosen"
            return self.chosen.key or None
        found: list[Column] = []
        for column in sorted(self._unused(KEYS), key=lambda column: rank_of(column.name, KEYS)):
            if column.kind != "text" and not column.is_whole:
                continue
            if column.distinct == len(self.rows) >= COUNTER_ROWS:
                self.left_out[column.name] = "is different in every row, so it cannot be the key"
                continue
            self.left_out[column.name] = OWNER
            found.append(column)
        several = [column for column in found if column.distinct > 1]
        if 0 < len(several) < len(found):  # one value names the site or the tool rather than the device
            found = several
        elif len(found) > 1 and plain_name(found[-1].name) == "id":  # the weakest name
            found.pop()
        names = [column.name for column in found]
        if len(found) == 1:
            self.left_out.pop(names[0])
            values = many(found[0].distinct, "different value")
            self.because["key"] = f"the name of a key, and {values} in {many(len(self.rows), 'row')}"
            return names[0]
        if found:
            self._unsure("key", names, f"{quoted_names(names)} have names of keys")
            return None
        if self.owners is not None:
            self.because["key"] = "the records have keys"
            return None
        turns = key_by_turns(self.rows, self.columns, time, self.chosen.label)
        if turns.key is not None and self.preset is None:
            self.left_out.pop(turns.key, None)
            self.because["key"] = turns.why
            return turns.key
        some, states = turns.candidates, turns.states
        why = "no column has the name of a key (person, user, subject, device, machine, ...)"
        if self.preset is not None and self.preset.export is not None:
            self.choose["key"] = (
                f"an export of {self.preset.tool} has the data of one device; give its key with --key-from or --key-is"
            )
        elif some:
            self._unsure(
                "key",
                list(some),
                f"{why}; candidates: {quoted_names(some)}; or replay --key-is NAME, if all is of one device",
            )
        else:
            of_states = (
                f"{quoted_names(states)} changes "
                f"{'while rows come at their usual pause, ' * (time is not None)}as the state of one device; "
                if states
                else ""
            )
            why += f"; {of_states}for a recording of one device, produce and replay take --key-from or --key-is"
            self.choose["key"] = why
        return None

    def _label(self, key: str | None) -> Column | None:
        if self.chosen.label is not None:
            (self.because if self.chosen.label else self.choose)["label"] = "as chosen" if self.chosen.label else NONE_CHOSEN
            return next((column for column in self.columns if column.name == self.chosen.label), None)
        events = self.preset.export.events if self.preset is not None and self.preset.export is not None else None
        noted = next((c for c in self.columns if events and c.name == events["name"] and c.kind == "text"), None)
        if noted is not None and events is not None:
            self.because["label"] = f"the texts of {events['file']}, each from its time on"
            return noted
        found = [column for column in self._unused(LABELS) if not self._is_axis(column)] or self._worded()
        usable = []
        for column in found:
            if column.kind == "text" and column.distinct > MOST_CLASSES:
                self.left_out[column.name] = f"a label by its name, but with {column.distinct:,} different texts"
            elif column.kind in ("text", "bool", "number") or column.depth == 1:
                usable.append(column)
            else:
                self.left_out[column.name] = f"a label by its name, but {why_no_number(column)}"
        if len(usable) > 1:
            names = [column.name for column in usable]
            self.left_out |= dict.fromkeys(names, "a label, by its name")
            self._unsure("label", names, f"{quoted_names(names)} have names of labels")
            return None
        if usable:
            self.because["label"] = f"the name of a label, and {many(usable[0].distinct, 'different value')}"
            return usable[0]
        most = len(self.rows) / 2
        some = [
            c.name
            for c in self.columns
            if c.kind in ("text", "bool")
            and 2 <= c.distinct <= min(most, CLASSES)
            and not self._names_owner(c)
            and unit_of_cells(c) is None
        ]
        others = {*self.left_out, key, self.chosen.key}
        some = [name for name in some if name not in others and plain_name(name) not in KEYS]
        why = "no column has the name of a label (label, activity, class, target, ...)"
        self.choose["label"] = why + (f"; candidates: {quoted_names(some)}" if some else "") + "; --label NAME chooses one"
        if some:
            self.candidates["label"] = some
        return None

    def _worded(self) -> list[Column]:
        """Columns such as 'Activity Label'; texts rather than their codes."""
        free = [c for c in self.columns if c.name not in self.left_out and names_label(c.name) and c.distinct <= CLASSES]
        return [c for c in free if c.kind == "text"] or [c for c in free if c.is_whole]

    def _names_owner(self, column: Column) -> bool:
        """Whether it has one text for each of the records' keys, as their names."""
        pairs = {(owner, row.get(column.name)) for owner, row in zip(self.owners or (), self.rows, strict=False)}
        return len(pairs) == column.distinct == len({owner for owner, _ in pairs})

    def _is_axis(self, column: Column) -> bool:
        """Whether a column called y is one of the axes x, y and z; unsure next to x alone, unless one object has both."""
        if plain_name(column.name) != "y":
            return False
        if column.name.endswith(".y") and any(one.name == column.name[:-1] + "x" for one in self.columns):
            return True
        if "z" not in self.numbers and "x" in self.numbers:
            self.choose["fields"] = f"{column.name!r} may be an axis in addition to x, or the label"
        return bool(self.numbers & {"x", "z"})

    def _task(self, label: Column | None) -> tuple[str, int]:
        """Classes for texts and a few whole numbers, else a regression; and how many different labels there are."""
        if label is None:
            return "classification", 0
        if label.kind == "list" or (
            label.kind == "number"
            and (label.distinct > CLASSES or not all(float(value).is_integer() for value in label.values))
        ):
            return "regression", 0
        return "classification", label.distinct

    def _unused(self, usual: Sequence[str]) -> list[Column]:
        return [c for c in self.columns if plain_name(c.name) in usual and c.name not in self.left_out]

    def _x(self, used: set[str | None], time: str | None, unlabelled: bool) -> X:
        """The fields, or the list that holds x and its length."""
        if self.chosen.fields is not None:
            self.choose.pop("fields", None)
            self.because["fields"] = "as chosen"
            taken = {*used, *self.chosen.fields, *self.left_out}
            self.left_out |= {c.name: "not chosen" for c in self.columns if c.name not in taken}
            turns = in_turns(self.columns, self.rows)
            return X(list(self.chosen.fields), turns=[name for name in self.chosen.fields if name in turns])
        columns = [column for column in self.columns if column.name not in used]
        stated = self.preset.source["fields"] if self.preset is not None else []
        if self.preset is not None and {column.name for column in columns} >= set(stated):
            others = [column.name for column in columns if column.name not in stated and column.name not in self.left_out]
            self.left_out |= dict.fromkeys(others, f"not among the fields of the preset {self.preset.name!r}")
            self.because["fields"] = f"those of the preset {self.preset.name!r}"
            return X(list(stated))
        times = next((column for column in self.columns if column.name == time), None)
        meters = unlabelled and time is not None
        x = x_of(columns, times, self.rows, self.left_out, meters=meters, fills=self.chosen.fills)
        if x.choose is not None:
            self.choose["fields"] = x.choose
        self.because["fields"] = "all columns of numbers without another meaning"
        return x

    def _rate(self, key: str | None, time: str, unit: str | None, dated: bool) -> float | None:
        """Hz, rounded to two digits. dated: the time counts from 1970."""
        if unit is None:
            self.choose["rate"] = f"the unit of {time!r} is not known: --time-unit; or set time_unit, and [window] rate"
            return None
        rows: Sequence[dict[str, Any]] = self.rows
        owners = self.owners or [None if key is None else row.get(key) for row in rows]
        if dated and (key is not None or self.owners):
            odd, rows, owners = in_order(rows, owners, time, SECONDS[unit])
            self.remarks += odd
        pause = usual_pause(rows, owners, time)
        if pause is None:
            self.choose["rate"] = (
                f"the times of {many(len(self.rows), 'row')} have too few pauses to guess it; set [window] rate"
            )
            return None
        rate = 1 / (pause * SECONDS[unit]) if pause else math.inf
        if not 0 < rate < math.inf:
            self.choose["rate"] = f"no rate has pauses of {pause:.3g} {unit}; set [window] rate"
            return None
        if key is not None and (rates := rates_apart(rows, key, time, SECONDS[unit])):
            self.remarks.append(rates)
        self.because["rate"] = f"the median pause between a key's samples is {1 / rate:.3g} s"
        self.pause = pause * SECONDS[unit]
        return round(rate, 1 - math.floor(math.log10(rate)))
