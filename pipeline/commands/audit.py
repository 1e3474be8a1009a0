"""``headrace audit``: draws pages that a run kept and dropped, has a person mark them, estimates what its rules do.

headrace audit small --sheet sheet.jsonl                        a line of JSON for each of 20 pages of each rule
headrace audit small --number 50 --seed 7 --sheet sheet.jsonl   50 pages of each rule
headrace audit small --marks sheet.jsonl                        takes in the marks that were filled in
headrace audit small                                            precision and recall of each rule, with intervals

    kept, dropped by each rule ── sheet ── good | bad | unsure ──> precision, recall, good pages lost

A page is good if it should be in the corpus. The sheet has the rule only with --show-rule, so that it sways no
judgement. Sheet, marks and results lie in the run's folder, in audit/. Another number or seed draws another sheet while
no page is marked. Several people may take in their marks: the last mark of a page counts. The next report of the run
has the results.
"""

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from headrace.pipeline.command_line.declaration import NewFile, command, run_argument
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import Positive, Seed, value_of
from headrace.pipeline.documents.audit_estimates import COLUMNS
from headrace.pipeline.documents.audit_sheet import MARKS, add_marks, read_marks, saved_marks, sheet_of, update_results
from headrace.pipeline.output.terminal import show_lines


@command
@click.option("--number", metavar="NUMBER", default="", help="Pages of each rule, and of kept ones; 20 without it.")
@click.option("--seed", metavar="SEED", default="", help="The seed of the draw; 0 without it.")
@click.option("--show-rule", is_flag=True, help="Write the rule of each page to the sheet, too.")
@click.option("--sheet", metavar="FILE", type=NewFile(), help="Write a line of JSON for each page, to fill in.")
@click.option("--marks", metavar="FILE", default="", help="Take in the marks of FILE.")
@run_argument
def audit(
    overrides: Sequence[str], run: str, number: str, seed: str, show_rule: bool, sheet: Path | None, marks: str
) -> None:
    """Estimates precision and recall of a run's rules from a sample of its pages that you mark."""
    audited = run_of(overrides, run)
    folder = audited.run_json.parent
    if sheet is not None and sheet.exists() and str(sheet) != marks:
        raise ConfigError("--sheet", f"{str(sheet)!r} exists", f"take its marks in by --marks {sheet}, or name another")
    wanted = int(value_of(Positive, number, "--number")) if number else None
    drawn = sheet_of(audited, wanted, int(value_of(Seed, seed, "--seed")) if seed else None)
    if marks:
        taken = read_marks(Path(marks), drawn)
        add_marks(folder, drawn, taken)
        print(f"{len(taken):,} marks")
    if sheet is not None:
        write_file(sheet, "".join(drawn.lines(saved_marks(folder, drawn), show_rule)))
        later = shlex.join(["headrace", "audit", run or drawn.run, "--marks", str(sheet), *overrides])
        print(f"written: {sheet} ({len(drawn.pages):,} pages)")
        print(f'next:    write {", ".join(MARKS)} as "mark", then {later}')
    if (results := update_results(folder, drawn)) is None:
        print(f"no page of {len(drawn.pages):,} is marked")
    else:
        show_lines(COLUMNS, results.rows)
        print(results.note)
