"""Draws docs/images/pretraining.svg from the first table of the record of SST-2 with and without pretraining.

python docs/images/pretraining.py

A row of the table is | model | updates | tokens in millions | held-out loss | mean ± half of the interval | seeds |.
"""

import itertools
import re
from collections import defaultdict
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
RECORD = REPOSITORY / "benchmarks/records/sst2_pretraining_2core_epyc_2026-11.md"
ROW = re.compile(
    r"\| (?P<model>[^|]+) \| [\d,]+ \| (?P<tokens>[\d.]+) \| [^|]+ \| (?P<mean>[\d.]+) ± (?P<half>[\d.]+) \|"
)
COLOURS = ("#2563eb", "#b45309", "#6b7280")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, LEGEND = 760, 330, 60, 44, 44, 190
MOST_TOKENS, LOWEST, HIGHEST = 12.0, 0.45, 0.80
STYLE = "text{font:12px system-ui,sans-serif;fill:#222}.title{font-weight:600;font-size:13px}.note{fill:#555}"

Point = tuple[float, float, float]
"""Tokens in millions, mean accuracy, half of its interval."""


def points() -> dict[str, list[Point]]:
    """Returns the points of each model, in the order of the table."""
    found = defaultdict(list)
    for row in ROW.finditer(RECORD.read_text(encoding="utf-8")):
        found[row["model"].replace("`", "")].append((float(row["tokens"]), float(row["mean"]), float(row["half"])))
    return found


def x_of(tokens: float) -> float:
    return LEFT + tokens / MOST_TOKENS * (WIDTH - LEFT - LEGEND)


def y_of(accuracy: float) -> float:
    return TOP + (HIGHEST - accuracy) / (HIGHEST - LOWEST) * (HEIGHT - TOP - BOTTOM)


def line(x1: float, y1: float, x2: float, y2: float, colour: str, width: float = 1) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line {ends} stroke="{colour}" stroke-width="{width}"/>'


def text(x: float, y: float, words: str, kind: str = "note", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{words}</text>'


def circle(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>'


def axes() -> list[str]:
    """Returns grid, numbers and titles."""
    right = WIDTH - LEGEND
    parts = [text(LEFT, 22, "Accuracy on SST-2 by tokens of pretraining (mean and 95 % interval of 3 seeds)", "title")]
    for accuracy in (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8):
        y = y_of(accuracy)
        parts += [line(LEFT, y, right, y, "#e5e7eb"), text(LEFT - 8, y + 4, f"{accuracy:.2f}", anchor="end")]
    parts += [text(x_of(tokens), HEIGHT - BOTTOM + 18, str(tokens), anchor="middle") for tokens in range(0, 13, 2)]
    return [*parts, text(x_of(MOST_TOKENS / 2), HEIGHT - 8, "million tokens", anchor="middle")]


def curve(model: str, its_points: list[Point], number: int) -> list[str]:
    """Returns the line of a model, with its intervals, and its name in the legend."""
    colour, parts, centres = COLOURS[number], [], []
    for tokens, mean, half in its_points:
        x, y = x_of(tokens) + 3 * number, y_of(mean)  # side by side where tokens are equal
        parts += [line(x, y_of(mean - half), x, y_of(mean + half), colour, 1.5), circle(x, y, colour)]
        centres.append((x, y))
    parts += [line(*first, *second, colour, 1.5) for first, second in itertools.pairwise(centres)]
    x, y = WIDTH - LEGEND + 16, TOP + 20 * number
    return [*parts, circle(x, y, colour), text(x + 10, y + 4, model)]


def main() -> None:
    parts = axes()
    for number, (model, its_points) in enumerate(points().items()):
        parts += curve(model, its_points, number)
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img"><style>{STYLE}</style>'
    svg = "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *parts, "</svg>\n"])
    Path(__file__).with_suffix(".svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
