"""Figures with their goals."""

DAY = 86_400  # seconds


def goal(name: str, figure: float, most: float, unit: str, *, least: bool = False) -> None:
    """least: the goal is a lower bound."""
    met = figure >= most if least else figure <= most
    print(
        f"goal {'met   ' if met else 'MISSED'}  {name}: {figure:,.3g} {unit} ({'>=' if least else '<='} {most:,g})",
        flush=True,
    )
