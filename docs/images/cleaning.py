"""Draws docs/images/cleaning.svg from the first table of the record of `headrace study cleaning`.

python docs/images/cleaning.py

A row of the table is | arm | mean [low, high] for news | for books | for Wikipedia |, in bits per byte.
"""

import math
import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
RECORD = REPOSITORY / "benchmarks/records/study_cleaning_2core_xeon_2026-11.md"
VALUE = r" (\d\.\d+) \[(\d\.\d+), (\d\.\d+)\] \|"
ROW = re.compile(rf"^\| ([^|]+) \|{VALUE}{VALUE}{VALUE}$", re.MULTILINE)
DOMAINS = ("news", "books", "Wikipedia")
WIDTH, NAMES, PANEL, GAP, TOP, STEP = 760, 236, 160, 14, 62, 24
COLOUR = "#2563eb"
STYLE = "text{font:12px system-ui,sans-serif;fill:#222}.title{font-weight:600;font-size:13px}.note{fill:#555}"

Value = tuple[float, float, float]
"""Mean, and the ends of its interval."""


def rows() -> list[tuple[str, list[Value]]]:
    """Returns the name of each arm with its values, one for each domain."""
    found = []
    for name, *numbers in ROW.findall(RECORD.read_text(encoding="utf-8")):
        mean, low, high = (list(map(float, numbers[at::3])) for at in range(3))
        found.append((name, list(zip(mean, low, high, strict=True))))
    return found


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def text(x: float, y: float, words: str, kind: str = "note", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def drawn() -> str:
    """Returns the figure as SVG: a panel for each domain, a row for each arm."""
    arms = rows()
    values = [value for _, its_values in arms for value in its_values]
    least, most = min(low for _, low, _ in values), max(high for *_, high in values)
    bottom = TOP + STEP * len(arms)
    title = "Bits per byte of text of other sites, by how the training text was cleaned; lower is better"
    parts = [text(10, 22, title, "title")]
    parts += [text(10, TOP + STEP * (row + 0.5) + 4, name) for row, (name, _) in enumerate(arms)]
    for panel, domain in enumerate(DOMAINS):
        left = NAMES + panel * (PANEL + GAP)

        def x_of(bits: float, left: int = left) -> float:
            return left + 6 + (bits - least) / (most - least) * (PANEL - 12)

        parts.append(text(left + PANEL / 2, TOP - 12, domain, anchor="middle"))
        for fifths in range(math.ceil(5 * least), math.floor(5 * most) + 1):
            x = x_of(fifths / 5)
            parts += [line(x, TOP, x, bottom, "#e5e7eb"), text(x, bottom + 16, f"{fifths / 5:.1f}", anchor="middle")]
        for row, (_, its_values) in enumerate(arms):
            mean, low, high = its_values[panel]
            y = TOP + STEP * (row + 0.5)
            parts += [line(x_of(low), y, x_of(high), y, COLOUR, 3)]
            parts += [f'<circle cx="{x_of(mean):.1f}" cy="{y:.1f}" r="4" fill="{COLOUR}"/>']
    size = f'viewBox="0 0 {WIDTH} {bottom + 28}" width="{WIDTH}" height="{bottom + 28}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{STYLE}</style>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>\n"])


if __name__ == "__main__":
    Path(__file__).with_suffix(".svg").write_text(drawn(), encoding="utf-8")
