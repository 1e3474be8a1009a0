"""Computes the cost of a crawl of any size from measured unit costs. Prints the tables of docs/scaling.md.

    python -m benchmarks.data.scaling_table [TERABYTES ...]          (default: 1 100)

A figure is a quantity times a unit cost. Quantities follow from the assumptions in ``Crawl``; unit costs are those of
the records (benchmarks/records), each with the benchmark that measures it. For another crawl or other hardware, change
the numbers here and print again; a test compares the document with what this prints.
"""

import dataclasses
import sys

DEDUP, STAGES, HTML = "dedup_scale.py", "stage_costs.py", "html_extraction.py"
"""The benchmarks."""


@dataclasses.dataclass(frozen=True)
class Crawl:
    """A crawl of ``bytes`` of raw text (UTF-8), and what is assumed of it."""

    bytes: float
    page_bytes: float = 6_000
    kept_pages: float = 0.25
    kept_bytes: float = 0.20
    lines_per_mb: float = 3_100
    shingles: float = 600
    candidates: float = 0.20
    unique: float = 0.90
    bytes_per_token: float = 4.3

    def quantities(self) -> dict[str, float]:
        kept, documents = self.bytes * self.kept_bytes, self.bytes / self.page_bytes * self.kept_pages
        return {
            "page": self.bytes / self.page_bytes,
            "raw MB": self.bytes / 1e6,
            "line key": self.bytes / 1e6 * self.lines_per_mb,
            "kept MB": kept / 1e6,
            "document": documents,
            "candidate MB": kept / 1e6 * self.candidates,
            "candidate shingle": documents * self.candidates * self.shingles,
            "unique MB": kept / 1e6 * self.unique,
            "unique document": documents * self.unique,
            "token": kept * self.unique / self.bytes_per_token,
        }


@dataclasses.dataclass(frozen=True)
class Cost:
    """Seconds of one core, or bytes of disk, for one of ``of`` (a name of ``Crawl.quantities``)."""

    what: str
    of: str
    each: float
    measured: str


SECONDS = (
    Cost("HTML to text (WARC only)", "page", 1.72 / 263 / 2.9, HTML),
    Cost("texts", "raw MB", 0.76 / 70.6, STAGES),
    Cost("clean, conf/cleaning/c4.yaml", "raw MB", 4.60 / 64.6, STAGES),
    Cost("clean: global line deduplication", "line key", 0.98e-6, DEDUP),
    Cost("signatures", "kept MB", 0.84 / 44.4, STAGES),
    Cost("duplicates: digests, exact", "document", 1.2e-6, DEDUP),
    Cost("duplicates: bands, groups", "document", 8.1e-6, DEDUP),
    Cost("duplicates: sets, reading", "kept MB", 0.43 / 44.4, STAGES),
    Cost("duplicates: sets, shingling", "candidate MB", 0.84 / 44.4, STAGES),
    Cost("duplicates: pairs, survivors", "candidate shingle", 0.41e-6, DEDUP),
    Cost("duplicates: stars to components, removed", "document", 0.92e-6, DEDUP),
    Cost("unique", "kept MB", 0.43 / 44.4, STAGES),
    Cost("tokens", "unique MB", 0.52 / 42.0, STAGES),
    Cost("packed", "unique document", 4e-6, STAGES),
)

BYTES = (
    Cost("texts: documents, dropped", "raw MB", 0.390e6, STAGES),
    Cost("clean: documents, dropped", "raw MB", 0.273e6, STAGES),
    Cost("clean: scratch", "raw MB", 0.84e6, STAGES),
    Cost("signatures", "document", 522, STAGES),
    Cost("duplicates", "document", 14, STAGES),
    Cost("duplicates: scratch, without sets", "document", 420, DEDUP),
    Cost("duplicates: scratch, shingle sets", "candidate shingle", 8, DEDUP),
    Cost("unique: documents, dropped", "kept MB", 0.356e6, STAGES),
    Cost("tokens", "token", 2.02, STAGES),
    Cost("packed", "unique document", 31, STAGES),
)


def table(costs: tuple[Cost, ...], unit: str, scale: float, sizes: list[float]) -> list[str]:
    """A row for each cost, the sizes as columns, in ``unit`` = ``scale`` seconds or bytes."""
    heads = [f"{unit} for {size:g} TB" for size in sizes]
    lines = [f"| | for each | {' | '.join(heads)} | measured by |", f"|---|---|{'---|' * len(sizes)}---|"]
    totals = [0.0] * len(sizes)
    for cost in costs:
        values = [Crawl(size * 1e12).quantities()[cost.of] * cost.each / scale for size in sizes]
        totals = [total + value for total, value in zip(totals, values, strict=True)]
        lines.append(f"| {cost.what} | {unit_cost(cost, unit)} | {' | '.join(map(number, values))} | {cost.measured} |")
    return [*lines, f"| **sum** | | {' | '.join(f'**{number(total)}**' for total in totals)} | |"]


def unit_cost(cost: Cost, unit: str) -> str:
    """``3.8 ms a page``, ``270 kB a raw MB``."""
    if unit == "TB":
        return f"{scaled(cost.each, {'MB': 1e6, 'kB': 1e3, 'B': 1.0})} a {cost.of}"
    return f"{scaled(cost.each, {'s': 1.0, 'ms': 1e-3, 'µs': 1e-6})} a {cost.of}"


def scaled(value: float, units: dict[str, float]) -> str:
    """Formats ``value`` in the first of ``units`` of which it is at least one, else in the last."""
    name, scale = next((item for item in units.items() if value >= item[1]), list(units.items())[-1])
    return f"{number(value / scale)} {name}"


def number(value: float) -> str:
    """Two significant digits: 0.031, 1.3, 1,200; from a million on 4.2 M, 4.2 G, 4.2 T."""
    digits = float(f"{value:.2g}")
    if digits >= 1e6:
        return scaled(digits, {"T": 1e12, "G": 1e9, "M": 1e6})
    return f"{digits:,.0f}" if digits >= 10 else f"{digits:g}"


def quantities(sizes: list[float]) -> list[str]:
    columns = [Crawl(size * 1e12).quantities() for size in sizes]
    lines = [f"| | {' | '.join(f'{size:g} TB' for size in sizes)} |", f"|---|{'---|' * len(sizes)}"]
    names = {"pages": "page", "keys of lines": "line key", "kept documents": "document", "kept MB": "kept MB"}
    names |= {"tokens": "token"}
    return lines + [
        f"| {what} | {' | '.join(number(column[name]) for column in columns)} |" for what, name in names.items()
    ]


def tables(sizes: list[float]) -> str:
    parts = (quantities(sizes), table(SECONDS, "core-hours", 3600, sizes), table(BYTES, "TB", 1e12, sizes))
    return "\n\n".join("\n".join(part) for part in parts)


if __name__ == "__main__":
    print(tables([float(size) for size in sys.argv[1:]] or [1, 100]))
