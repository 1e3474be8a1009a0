"""What a run came to, in the terminal: the funnel of documents, the loss, the benchmark table, the way to the report.

    records in          45,001
      dropped           31,002  by c4_lines 20,100, language 5,001, …
      duplicates         3,210
    documents trained   10,789  8,012,345 tokens
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console
from rich.table import Table

from pipeline.core.artifact import Artifact
from pipeline.core.tracker import read_metrics
from pipeline.runner import Step

DROPPED = "dropped:"
RULES_SHOWN = 6


def show(steps: Sequence[Step]) -> None:
    """Print the results of those ``steps`` that are whole."""
    console = Console(soft_wrap=True, width=120)
    artifacts = {step.name: Artifact(step.folder) for step in steps if step.is_whole}
    console.print()
    for line in [*funnel(artifacts), *losses(artifacts)]:
        console.print(line, highlight=False, markup=False)
    if "scores" in artifacts:
        console.print()
        console.print(scores(artifacts["scores"]))
    if "report" in artifacts:
        console.print(f"\nreport: {artifacts['report'].path('report.html')}", highlight=False, markup=False)


def funnel(artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """The lines of the funnel."""
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


def losses(artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """The last validation's loss and bits per byte."""
    if "weights" not in artifacts:
        return
    rows = [row for row in read_metrics(artifacts["weights"].path("metrics.jsonl")) if "validation_loss" in row]
    if rows:
        yield f"{'validation loss':<20}{rows[-1]['validation_loss']:>12.4f}  after {rows[-1]['step']:,} steps"
        yield f"{'bits per byte':<20}{rows[-1]['bits_per_byte']:>12.4f}"


def scores(artifact: Artifact) -> Table:
    """The first table of scores.md: every benchmark, without its groups."""
    lines = artifact.path("scores.md").read_text(encoding="utf-8").partition("\n\n")[0].splitlines()
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    view = Table(*header, box=None, header_style="bold", pad_edge=False)
    for cells in rows:
        view.add_row(*cells)
    return view


def dropped(counts: Counter[str]) -> Counter[str]:
    """Rule → documents it dropped."""
    return Counter({key.removeprefix(DROPPED): n for key, n in counts.items() if key.startswith(DROPPED)})


def by_rule(counts: Counter[str]) -> str:
    """The rules that dropped most, with their numbers."""
    rules = dropped(counts).most_common()
    shown = ", ".join(f"{rule} {number:,}" for rule, number in rules[:RULES_SHOWN])
    return f"by {shown}" * bool(rules) + f", {len(rules) - RULES_SHOWN} more" * (len(rules) > RULES_SHOWN)


def row(label: str, number: int, note: str = "") -> str:
    return f"{label:<20}{number:>12,}  {note}".rstrip()
