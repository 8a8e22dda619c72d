"""The report of people's recognition as one HTML file: no script, nothing loaded, dark and light."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from algorithms.common.protocol import Array

STYLE = """
:root { --back:#f6f6f4; --panel:#fff; --text:#1b1e23; --muted:#5a616c; --line:#e2e3e6; --heat:#0072b2; --miss:#d55e00;
 --c0:#0072b2; --c1:#c14f00; --c2:#00805d; --c3:#9b4a8b; --c4:#5a616c; --c5:#8a5a00; color-scheme:light dark; }
@media (prefers-color-scheme:dark) { :root { --back:#121418; --panel:#1a1d22; --text:#e9ebee; --muted:#a3abb6;
 --line:#2d3138; --heat:#3d97d3; --miss:#e5742a; --c0:#5cb8ee; --c1:#f0a63a; --c2:#35c79a; --c3:#d99bc6; --c4:#a3abb6;
 --c5:#f0e442; } }
body { margin:0 auto; max-width:1180px; padding:20px 24px; background:var(--back); color:var(--text);
 font:14px/1.5 system-ui,"Segoe UI",Roboto,"Noto Sans","DejaVu Sans",sans-serif; font-variant-numeric:tabular-nums; }
h1 { font-size:22px; margin:0 0 8px; } h2 { font-size:16px; margin:0 0 10px; } p { margin:6px 0; max-width:90ch; }
section { background:var(--panel); border:1px solid var(--line); border-radius:10px; padding:14px 16px; margin:16px 0;
 overflow-x:auto; }
table { border-collapse:collapse; } td,th { padding:3px 9px; text-align:right; font-weight:400; white-space:nowrap; }
th { color:var(--muted); } td:first-child,th:first-child { text-align:left; color:var(--text); }
tr.own td { font-weight:650; } tbody tr+tr td { border-top:1px solid var(--line); }
.advice { border-left:4px solid var(--c0); padding-left:12px; font-weight:550; }
.matrix td,.matrix th { padding:0; }
.matrix tbody td { border:1px solid var(--panel); width:34px; height:27px; text-align:center; font-size:12px; }
.matrix tbody th { padding-right:10px; color:var(--text); text-align:right; }
.matrix thead th { vertical-align:bottom; text-align:left; color:var(--text); }
.matrix thead div { writing-mode:vertical-rl; transform:rotate(180deg); max-height:120px; overflow:hidden; margin:auto; }
.matrix td.full { color:var(--panel); } .matrix td.zero { color:transparent; }
svg text { fill:var(--muted); font-size:12px; } svg .grid { stroke:var(--line); } svg polyline { fill:none; }
.key span { margin-right:18px; white-space:nowrap; } .key i { display:inline-block; width:18px; height:3px; margin-right:6px;
 vertical-align:middle; }
"""
WIDTH, HEIGHT, LEFT, BELOW = 1080, 260, 44, 40  # of a chart
CHARTS = 6  # colours
_OWN = ' class="own"'
VISIBLE = 0.005  # share that a cell of the matrix shows


class Table(NamedTuple):
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | float | int]]
    own: int = -1  # row that is emphasised


class Chart(NamedTuple):
    title: str
    below: str  # what the horizontal axis counts
    lines: Mapping[str, tuple[Sequence[float], Sequence[float]]]  # by name: places and shares


def page(
    title: str, said: Sequence[str], tables: Sequence[Table], counts: Array, names: Sequence[str], charts: Sequence[Chart]
) -> str:
    """said: paragraphs, the last one the advice. counts (classes, classes): windows by true and decided class."""
    paragraphs = [f"<p>{escape(one)}</p>" for one in said[:-1]] + [f'<p class="advice">{escape(said[-1])}</p>']
    first, *rest = [_table(one) for one in tables]
    parts = ["".join(paragraphs), first, _matrix(counts, names), *rest, *(_chart(one) for one in charts)]
    body = "".join(f"<section>{part}</section>\n" for part in parts)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><h1>{escape(title)}</h1>\n{body}</body></html>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(one)}</th>" for one in table.columns)
    rows = []
    for number, row in enumerate(table.rows):
        cells = "".join(f"<td>{escape(_cell(value))}</td>" for value in row)
        rows.append(f"<tr{_OWN if number == table.own else ''}>{cells}</tr>")
    return f"<h2>{escape(table.title)}</h2><table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(value: str | float | int) -> str:
    if isinstance(value, float):
        return f"{value:.3f}" if np.isfinite(value) else "-"
    return f"{value:,}" if isinstance(value, int) else value


def _matrix(counts: Array, names: Sequence[str]) -> str:
    """Percent of the windows of each true class."""
    head = "".join(f"<th><div>{escape(name)}</div></th>" for name in names)
    rows = []
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for i, name in enumerate(names):
        cells = []
        for j, share in enumerate(shares[i].tolist()):
            kind = "zero" if share < VISIBLE else "full" if share > 0.5 else ""
            colour = "heat" if i == j else "miss"
            back = f"color-mix(in srgb, var(--{colour}) {100 * share:.0f}%, var(--back))"
            about = f"{escape(name)}, decided as {escape(names[j])}: {share:.1%} of {int(counts[i].sum()):,}"
            cells.append(f'<td class="{kind}" style="background:{back}" title="{about}">{100 * share:.0f}</td>')
        rows.append(f"<tr><th>{escape(name)}</th>{''.join(cells)}</tr>")
    return (
        "<h2>Percent of the windows of each activity (rows) by what was decided (columns)</h2>"
        f'<table class="matrix"><thead><tr><th></th>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _chart(chart: Chart) -> str:
    """Lines over shares of 0 to 1; of places with the same numbers for all."""
    last = max((max(at) for at, _ in chart.lines.values() if len(at)), default=1.0) or 1.0
    across, up = WIDTH - LEFT - 10, HEIGHT - BELOW - 10
    drawn = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = 10 + up * (1 - share)
        drawn.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - 10}" y1="{y:.0f}" y2="{y:.0f}"/>')
        drawn.append(f'<text x="{LEFT - 8}" y="{y + 4:.0f}" text-anchor="end">{100 * share:.0f} %</text>')
    for part in (0.25, 0.5, 0.75, 1.0):
        x = LEFT + across * part
        drawn.append(f'<text x="{x:.0f}" y="{HEIGHT - 22}" text-anchor="end">{round(last * part, 2):,.9g}</text>')
    drawn.append(f'<text x="{LEFT + across / 2:.0f}" y="{HEIGHT - 4}" text-anchor="middle">{escape(chart.below)}</text>')
    key = []
    for number, (name, (at, shares)) in enumerate(chart.lines.items()):
        places = zip(at, shares, strict=True)
        points = " ".join(f"{LEFT + across * x / last:.1f},{10 + up * (1 - y):.1f}" for x, y in places)
        colour, thick = f"var(--c{number % CHARTS})", 3 if number == 0 else 1.5
        drawn.append(f'<polyline points="{points}" style="stroke:{colour};stroke-width:{thick}"/>')
        key.append(f'<span><i style="background:{colour}"></i>{escape(name)}</span>')
    return (
        f"<h2>{escape(chart.title)}</h2><p class='key'>{''.join(key)}</p>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="100%" role="img">{"".join(drawn)}</svg>'
    )
