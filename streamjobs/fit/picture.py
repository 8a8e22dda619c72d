"""Draws the report as SVG: the confusion matrix of activities, and accuracy over a person's time."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

import numpy as np

from algorithms.common.protocol import Array

FONT = "font-family='ui-sans-serif,Helvetica,Arial,sans-serif'"
INK, FAINT, GRID = "#1b1f24", "#656d76", "#d8dee4"
FILL = (9, 105, 218)  # of a cell with a share of 1
LINES = ("#0969da", "#d1570c", "#1a7f37", "#8250df", "#656d76", "#9a6700", "#cf222e", "#0b7a75")  # the first is drawn thick
SIDE, MARGIN, TOP = 380, 24, 64  # pixels: side of a panel, margin, space above the panels


def picture(title: str, names: Sequence[str], matrix: Array, best: str, curves: Mapping[str, Array], bin: int = 20) -> str:
    """An SVG with the confusion matrix (classes, classes) of `best`, and curves of the share right in each `bin` windows.

    The first curve is drawn thick. The same figures give the same text.
    """
    left = MARGIN + 7 * max(len(_short(name)) for name in names) + 10
    second = left + SIDE + 80
    legend = TOP + SIDE + 60
    width, height = (
        second + SIDE + MARGIN,
        legend + max(18 * len(curves), 8 * max(len(_short(name)) for name in names)) + MARGIN,
    )
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}' {FONT}>",
        f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
        _text(left, 28, title, 17, weight="600"),
        _text(left, TOP - 12, f"true (rows) and decided: {best}", 12, FAINT),
        _text(second, TOP - 12, f"right decisions, in every {bin} windows of a person", 12, FAINT),
        *_matrix(left, names, matrix),
        *_curves(second, legend, curves, bin),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _matrix(left: float, names: Sequence[str], matrix: Array) -> list[str]:
    """Cells with the shares of each true class; rows are true, columns decided classes."""
    size, cell = len(names), SIDE / len(names)
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    parts = []
    for i, name in enumerate(names):
        y = TOP + i * cell
        parts.append(_text(left - 8, y + cell / 2 + 4, _short(name), 12, anchor="end"))
        for j in range(size):
            share = float(shares[i, j])
            red, green, blue = (round(255 - share * (255 - full)) for full in FILL)
            place = f"x='{left + j * cell:.1f}' y='{y:.1f}' width='{cell:.1f}' height='{cell:.1f}'"
            parts.append(f"<rect {place} fill='rgb({red},{green},{blue})' stroke='{GRID}'/>")
            if share >= 0.005 and cell >= 22:
                ink = "#ffffff" if share > 0.5 else INK
                parts.append(_text(left + (j + 0.5) * cell, y + cell / 2 + 4, f"{share:.2f}", 11, ink, anchor="middle"))
    for j, name in enumerate(names):
        x, y = left + (j + 0.5) * cell + 4, TOP + SIDE + 12
        parts.append(f"<g transform='rotate(-50 {x:.1f} {y})'>{_text(x, y, _short(name), 12, anchor='end')}</g>")
    return parts


def _curves(left: float, legend: float, curves: Mapping[str, Array], bin: int) -> list[str]:
    longest = max(2, *(len(curve) for curve in curves.values()))
    parts = []
    for tenth in range(0, 11, 2):
        y = TOP + SIDE * (1 - tenth / 10)
        parts.append(f"<line x1='{left}' y1='{y:.1f}' x2='{left + SIDE}' y2='{y:.1f}' stroke='{GRID}'/>")
        parts.append(_text(left - 8, y + 4, f"{tenth / 10:.1f}", 11, FAINT, anchor="end"))
    for at in (0, longest // 2, longest):
        parts.append(_text(left + SIDE * at / longest, TOP + SIDE + 16, f"{at * bin}", 11, FAINT, anchor="middle"))
    parts.append(_text(left + SIDE / 2, TOP + SIDE + 34, "windows of the person so far", 12, FAINT, anchor="middle"))
    for number, (name, curve) in reversed(list(enumerate(curves.items()))):
        colour, thick = LINES[number % len(LINES)], 3 if number == 0 else 1.5
        places = [
            f"{left + SIDE * (i + 0.5) / longest:.1f},{TOP + SIDE * (1 - v):.1f}" for i, v in enumerate(curve.tolist())
        ]
        line = f"fill='none' stroke='{colour}' stroke-width='{thick}' stroke-linejoin='round'"
        parts.append(f"<polyline points='{' '.join(places)}' {line}/>")
        y = legend + 18 * number
        parts.append(f"<line x1='{left}' y1='{y}' x2='{left + 26}' y2='{y}' stroke='{colour}' stroke-width='{thick}'/>")
        parts.append(_text(left + 34, y + 4, name, 12))
    return parts


def _short(name: str) -> str:
    return name if len(name) <= 22 else name[:21] + "…"


def _text(x: float, y: float, text: str, size: int, ink: str = INK, *, anchor: str = "start", weight: str = "400") -> str:
    place = f"x='{x:.1f}' y='{y:.1f}' font-size='{size}' fill='{ink}' text-anchor='{anchor}' font-weight='{weight}'"
    return f"<text {place}>{escape(text)}</text>"
