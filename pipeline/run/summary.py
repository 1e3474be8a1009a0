"""Prints the results of a run: the funnel of documents, the loss, the benchmark table and the path of the report.

records in          45,001
  dropped           31,002  by c4_lines 20,100, language 5,001, …
  duplicates         3,210
documents trained   10,789  8,012,345 tokens
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.terminal import terminal
from headrace.pipeline.report.formatting import decimal
from headrace.pipeline.report.score_table import ScoreTable
from headrace.pipeline.report.sections import held_out
from headrace.pipeline.run.planner import Step

DROPPED = "dropped:"
RULES_SHOWN = 6


def show(steps: Sequence[Step]) -> None:
    """Prints the results of the finished ``steps``."""
    console = terminal(width=120)
    artifacts = {step.name: Artifact(step.folder) for step in steps if step.is_whole}
    console.print(*funnel(artifacts), sep="\n")
    if "scores" in artifacts:
        table = ScoreTable.of(artifacts["scores"])
        metrics = read_metrics(artifacts["weights"].path("metrics.jsonl"))
        console.print(*losses(metrics, table), "", scores(table), *table.notes, sep="\n")
    if "report" in artifacts:
        console.print(f"\nreport: {artifacts['report'].path('report.html')}")


def funnel(artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """Yields the lines of the funnel."""
    if "clean" in artifacts:
        counts = artifacts["clean"].counts
        yield row("records in", counts["records_in"])
        yield row("  dropped", dropped(counts).total(), by_rule(counts))
        yield row("  kept by clean", counts["kept"])
    if "unique" in artifacts:
        counts = artifacts["unique"].counts
        yield row("  duplicates", dropped(counts).total(), by_rule(counts))
        yield row("  unique", counts["kept"])
    if "tokens" in artifacts:
        counts = artifacts["tokens"].counts
        yield row("tokens", counts["tokens"], f"{counts['text_bytes'] / max(counts['tokens'], 1):.2f} bytes each")


def losses(metrics: Sequence[dict[str, Any]], table: ScoreTable) -> Iterator[str]:
    """Yields the validation loss in nats per token, and in bits per byte."""
    loss, bits, text = held_out(metrics, table)
    yield f"{'validation loss':<20}{decimal(loss, 4):>12}  {text}"
    yield f"{'bits per byte':<20}{decimal(bits, 4):>12}  {text}"


def scores(table: ScoreTable) -> Table:
    """Returns the table of benchmarks, without their groups. Clean and dirty scores are shown if any exist."""
    view = Table("benchmark", "shots", "metric", box=None, header_style="bold", pad_edge=False)
    has_parts = any(line.metric.clean or line.metric.dirty for line in table.rows)
    hidden = () if has_parts else ("clean", "dirty")
    columns = [column for line in table.rows[:1] for column in line.cells if column not in hidden]
    for column in columns:
        view.add_column(column, justify="right")
    for line in table.rows:
        cells = line.cells
        view.add_row(
            line.benchmark.name, str(line.benchmark.shots), line.metric.name, *(cells[column] for column in columns)
        )
    return view


def dropped(counts: Counter[str]) -> Counter[str]:
    """Returns the number of dropped documents for each rule."""
    return Counter({key.removeprefix(DROPPED): n for key, n in counts.items() if key.startswith(DROPPED)})


def by_rule(counts: Counter[str]) -> str:
    """Returns the rules that dropped most documents, with the numbers, as text."""
    rules = dropped(counts).most_common()
    shown = ", ".join(f"{rule} {number:,}" for rule, number in rules[:RULES_SHOWN])
    return f"by {shown}" * bool(rules) + f", {len(rules) - RULES_SHOWN} more" * (len(rules) > RULES_SHOWN)


def row(label: str, number: int, note: str = "") -> str:
    return f"{label:<20}{number:>12,}  {note}".rstrip()
