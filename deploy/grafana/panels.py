"""Queries, panels and the frame that all dashboards share."""

from typing import NamedTuple, TypeVar

from grafana_foundation_sdk.builders.common import ReduceDataOptions, VizLegendOptions
from grafana_foundation_sdk.builders.dashboard import (
    AnnotationQuery,
    Dashboard,
    DashboardLink,
    DatasourceVariable,
    QueryVariable,
    ThresholdsConfig,
)
from grafana_foundation_sdk.builders.prometheus import Dataquery
from grafana_foundation_sdk.builders.stat import Panel as Stat
from grafana_foundation_sdk.builders.text import Panel as Text
from grafana_foundation_sdk.builders.timeseries import Panel as Chart
from grafana_foundation_sdk.models.common import BigValueGraphMode, LegendDisplayMode, LegendPlacement, VisibilityMode
from grafana_foundation_sdk.models.dashboard import (
    DashboardCursorSync,
    DashboardLinkType,
    DataSourceRef,
    Threshold,
    VariableOption,
    VariableRefresh,
    VariableSort,
)
from grafana_foundation_sdk.models.text import TextMode

PREFIX = "streamjobs_"
CHOSEN = 'instance=~"$instance"'  # the variable lists the workers of the chosen job
DATASOURCE = DataSourceRef(type_val="prometheus", uid="${datasource}")
Panel = TypeVar("Panel", Chart, Stat)
WIDTH = 24  # columns of Grafana's grid
HEIGHT = 8  # rows of a chart


class Query(NamedTuple):
    """PromQL, and what a series of its result is called."""

    expr: str
    legend: str = "{{instance}}"
    exemplars: bool = False


def of(metric: str, labels: str = "") -> str:
    """A metric of the chosen workers. metric: name without the prefix; labels: further matchers."""
    name = metric if metric.startswith("process_") else PREFIX + metric
    return f"{name}{{{CHOSEN}{', ' + labels if labels else ''}}}"


def rate(metric: str, by: str = "instance", labels: str = "") -> str:
    """A counter's rate a second, summed by labels."""
    return f"sum by ({by}) (rate({of(metric, labels)}[$__rate_interval]))"


def quantile(share: float, histogram: str, by: str = "") -> str:
    """A quantile of a histogram, of all chosen workers together or by a label."""
    return f"histogram_quantile({share}, {rate(histogram + '_bucket', 'le' + (', ' + by if by else ''))})"


def middle_and_tail(histogram: str, *, exemplars: bool = False) -> list[Query]:
    return [Query(quantile(0.5, histogram), "median"), Query(quantile(0.99, histogram), "99 %", exemplars)]


def chart(title: str, description: str, unit: str, queries: list[Query], *, span: int = 8) -> Chart:
    """A chart over time. unit: one of Grafana's; span: columns of WIDTH."""
    panel = Chart().title(title).description(description).unit(unit).datasource(DATASOURCE).span(span).height(HEIGHT)
    panel.min(0).line_width(1).fill_opacity(8).show_points(VisibilityMode.NEVER)
    legend = VizLegendOptions().show_legend(True).display_mode(LegendDisplayMode.LIST)
    panel.legend(legend.placement(LegendPlacement.BOTTOM).calcs([]))
    return _with(panel, queries)


def figure(
    title: str, description: str, unit: str, expr: str, *, bad_above: float | None = None, bad_below: float | None = None
) -> Stat:
    """The newest value as a number. bad_above, bad_below: where it turns red."""
    panel = Stat().title(title).description(description).unit(unit).datasource(DATASOURCE).span(4).height(4)
    panel.graph_mode(BigValueGraphMode.AREA).reduce_options(ReduceDataOptions().calcs(["lastNotNull"]).values(False))
    good, bad = ("red", "green") if bad_below is not None else ("green", "red")
    steps = [Threshold(value=None, color=good)]
    edge = bad_below if bad_below is not None else bad_above
    if edge is not None:
        steps.append(Threshold(value=edge, color=bad))
    panel.thresholds(ThresholdsConfig().steps(steps))
    return _with(panel, [Query(expr, title)])


def text(title: str, description: str, content: str, *, span: int = WIDTH, height: int = HEIGHT) -> Text:
    """Markdown."""
    return Text().title(title).description(description).mode(TextMode.MARKDOWN).content(content).span(span).height(height)


def _with(panel: Panel, queries: list[Query]) -> Panel:
    for letter, query in zip("ABCDEFGH", queries, strict=False):
        target = Dataquery().expr(query.expr).legend_format(query.legend).ref_id(letter).datasource(DATASOURCE)
        panel.with_target(target.exemplar(True) if query.exemplars else target)
    return panel


def frame(uid: str, title: str, description: str) -> Dashboard:
    """An empty dashboard with the variables job and instance, alarms as annotations, and links to the others."""
    board = Dashboard(f"streamjobs: {title}").uid(uid).description(description).tags(["streamjobs"]).editable()
    board.time("now-1h", "now").refresh("30s").tooltip(DashboardCursorSync.CROSSHAIR).timezone("browser")
    board.with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
    board.with_variable(_values("job", "Job", f"label_values({PREFIX}build_info, job_name)"))
    board.with_variable(_values("instance", "Worker", f'label_values({PREFIX}build_info{{job_name=~"$job"}}, instance)'))
    alerts = f'ALERTS{{alertname=~"Streamjobs.+", alertstate="firing", {CHOSEN}}}'
    of_jobs = 'ALERTS{alertname=~"Streamjobs.+", alertstate="firing", job_name=~"$job", instance=""}'
    drift = f"sum by (instance) (increase({of('drift_events_total')}[1m])) > 0"
    for name, expr, colour in (
        ("Alerts of workers", alerts, "red"),
        ("Alerts of jobs", of_jobs, "red"),
        ("Drift alarms", drift, "orange"),
    ):
        board.annotation(AnnotationQuery().name(name).datasource(DATASOURCE).expr(expr).icon_color(colour).enable(True))
    others = DashboardLink("streamjobs").type(DashboardLinkType.DASHBOARDS).tags(["streamjobs"])
    return board.link(others.include_vars(True).keep_time(True))


def _values(name: str, label: str, query: str) -> QueryVariable:
    variable = QueryVariable(name).label(label).query(query).datasource(DATASOURCE).multi(True).include_all(True)
    variable.current(VariableOption(selected=True, text=["All"], value=["$__all"]))
    return variable.refresh(VariableRefresh.ON_TIME_RANGE_CHANGED).sort(VariableSort.ALPHABETICAL_ASC)
