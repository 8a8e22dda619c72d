"""[forecast]: the stage that the section names, and what its settings contradict."""

from collections.abc import Sequence
from typing import Any

from algorithms.common.protocol import Learner, SettingError
from algorithms.common.settings import suggestion
from algorithms.forecast.filters import FilterForecast
from algorithms.forecast.forecast import Forecast
from streamjobs.settings.events import ForecastSection
from streamjobs.settings.sections import WindowSection
from streamjobs.settings.source import SourceSection
from streamjobs.settings.types import SECONDS, Problems, seconds
from streamjobs.stages.events.forecasts import Forecasts
from streamjobs.stages.statistics import least_channels
from streamjobs.stages.statistics import names as statistic_names

MOST_FORECASTS = 256  # of a row
MOST_SEASON = 100_000  # rows
USUAL_SEASON = 4, 2880  # rows of a day that is the season if the job does not state one


class Refused(SettingError):
    """A setting of [forecast] that cannot be."""

    def __init__(self, setting: str, sentence: str) -> None:
        super().__init__(f"[forecast]: {sentence}")
        self.setting, self.sentence = setting, sentence


def forecast_contradictions(
    forecast: ForecastSection, source: SourceSection, window: WindowSection | None, learner: Learner | None
) -> Problems:
    if source.width is None:  # another rule reports it
        return
    if window is not None and source.width < least_channels(window.statistics):  # and this
        return
    try:
        forecasts_of(forecast, source, window, learner)
    except Refused as problem:
        yield f"forecast.{problem.setting}", problem.sentence


def forecasts_of(
    forecast: ForecastSection, source: SourceSection, window: WindowSection | None, learner: Learner | None
) -> Forecasts:
    """The stage of these sections; learner: that of [forecast]. Raises Refused."""
    every = _every(forecast, source, window)
    columns = _columns("fields", forecast.fields, source, window)
    inputs: list[int] = []
    for setting in ("inputs", "lags"):
        if learner is None and getattr(forecast, setting) is not None:
            raise Refused(setting, f"{setting} needs learner, such as 'rls'; the experts forecast each field by itself.")
    if forecast.inputs is not None:
        inputs = _columns("inputs", forecast.inputs, source, window)
    others = [one for one in inputs if one not in columns]
    floored = _columns("not_negative", forecast.not_negative, source, window) if forecast.not_negative else []
    if beyond := [name for name, one in zip(forecast.not_negative or (), floored, strict=True) if one not in columns]:
        raise Refused("not_negative", f"not_negative: {beyond[0]!r} is not forecast; add it to fields.")
    ahead = [_rows("ahead", one, every) for one in forecast.ahead]
    same: dict[str, Any] = {
        "ahead": tuple(ahead),
        "season": season_of(forecast.season, every),
        "coverage": tuple(forecast.coverage),
        "cautious": forecast.cautious,
        "floored": tuple(sorted(columns.index(one) for one in floored)),
    }
    try:
        model: Forecast | FilterForecast = Forecast(**same)
        if learner is not None:
            seen, lags = tuple((columns + others).index(one) for one in inputs), forecast.lags
            model = FilterForecast(learner=learner, lags=8 if lags is None else lags, inputs=seen, **same)
    except SettingError as problem:
        sentence = str(problem).partition(": ")[2]
        raise Refused(sentence.partition(" ")[0], sentence) from None
    if len(columns) * len(ahead) > MOST_FORECASTS:
        many = f"{len(columns)} columns and {len(ahead)} numbers of rows ahead"
        raise Refused("fields", f"a row has {MOST_FORECASTS} forecasts at most; got {many}. Set fields, or fewer in ahead.")
    return Forecasts(learner=model, columns=tuple(columns), every=every, others=tuple(others))


def _every(forecast: ForecastSection, source: SourceSection, window: WindowSection | None) -> float:
    """Seconds from row to row; 0: any."""
    if window is not None or source.sensors is not None:
        if forecast.every is not None:
            where = "[window]" if window is not None else "[source.sensors]"
            raise Refused("every", f"every has no meaning with {where}, which decides how often rows come; remove it.")
        if window is not None:
            return window.hop or window.length
        assert source.sensors is not None
        return 0.0 if source.sensors.rate is None else 1.0 / source.sensors.rate
    if forecast.every is not None and forecast.every < 1e-6:
        raise Refused("every", f"every must be above 0; got {forecast.every:g} s.")
    return forecast.every or 0.0


def _columns(setting: str, named: Sequence[str] | None, source: SourceSection, window: WindowSection | None) -> list[int]:
    """Places of these numbers in a row; None: those of every field."""
    assert source.width is not None
    fields = source.column_names(source.width)
    known = fields if window is None else statistic_names(fields, window.statistics)
    if named is None:
        coded = {column for column, field in source.columns if field in source.categories_of}
        wanted: Sequence[str] = [field for field in fields if field not in coded]
    else:
        wanted = named
    if not wanted:
        raise Refused(setting, f"{setting} must name at least one number of a row; got none.")
    found = []
    for name in wanted:
        place = name if name in known else f"{name}_mean"
        if place not in known:
            hint = suggestion(name, known)
            if name in fields:
                hint = f", which have no mean of it with [window] statistics = 'gravity'; name others, such as {known[0]!r}."
            raise Refused(setting, f"{setting}: {name!r} is not one of the numbers of a row{hint}")
        if name in source.categories_of:
            raise Refused(setting, f"{setting}: {name!r} has categories, which are not forecast; remove it.")
        found.append(known.index(place))
    if len(set(found)) < len(found):
        raise Refused(setting, f"{setting} must differ; got {list(wanted)!r:.80}.")
    return found


def season_of(stated: int | str | None, every: float) -> int:
    """Rows of a season; 0: none. every: seconds from row to row, 0: any."""
    if stated is not None:
        rows = _rows("season", stated, every)
        if rows > MOST_SEASON:
            raise Refused("season", f"season must have at most {MOST_SEASON:,} rows; got {rows:,}.")
        return rows
    least, most = USUAL_SEASON
    day = SECONDS["d"] / every if every else 0.0
    return round(day) if least <= day <= most and abs(day - round(day)) < 1e-6 else 0


def _rows(setting: str, one: int | str, every: float) -> int:
    if isinstance(one, int):
        return one
    try:
        span: Any = seconds(one)
    except ValueError as problem:
        raise Refused(setting, f"{setting} must be rows, or {problem}; got {one!r:.40}.") from None
    if not every:
        raise Refused(
            setting,
            f"{setting}: {one!r} can be counted in rows only if they come at equal intervals; set every, or state rows.",
        )
    rows = float(span) / every
    if rows < 0.5 or abs(rows - round(rows)) > 1e-6 * max(1.0, rows):
        raise Refused(setting, f"{setting} must be a multiple of the interval of rows ({every:g} s); got {one!r}.")
    return round(rows)
