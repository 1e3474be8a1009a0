"""``headrace audit``: sheets, marks that were filled in, results, refusals, the report."""

import json
import shutil
from pathlib import Path

import pytest

from headrace.pipeline.documents.audit_estimates import saved_results
from headrace.pipeline.documents.audit_sheet import AuditSheet, saved_marks
from headrace.pipeline.documents.audit_sheet import sheet_of as sheet_of_run
from headrace.pipeline.run.saved_run import run_file
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build

DRAW = ("--number", "3")
WORDS = {"g": "good", "b": "bad", "u": "unsure"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """A finished run of the corpus ``c4`` with its report."""
    corpus = build(tmp_path_factory.mktemp("audit"), "c4")
    assert headrace_here("run", *corpus.overrides, "name=small").returncode == 0
    return corpus


@pytest.fixture
def corpus(finished: Corpus) -> Corpus:
    """The same without a sheet, and without marks."""
    shutil.rmtree(folder_of(finished) / "audit", ignore_errors=True)
    (finished.folder / "filled.jsonl").unlink(missing_ok=True)
    return finished


def audit(corpus: Corpus, *arguments: str) -> str:
    """What the command prints."""
    result = headrace_here("audit", "small", *arguments, f"root={corpus.folder}/runs")
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def marked(corpus: Corpus, letters: str) -> str:
    """What the command prints when the first pages of a sheet are marked with these ``letters``."""
    sheet = Path(corpus.folder, "filled.jsonl")
    audit(corpus, *DRAW, "--sheet", str(sheet))
    lines = [json.loads(line) for line in sheet.read_text().splitlines()]
    for line, letter in zip(lines, letters, strict=False):
        line["mark"] = WORDS[letter]
    sheet.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return audit(corpus, "--marks", str(sheet))


def refusal(corpus: Corpus, *arguments: str) -> str:
    result = headrace_here("audit", "small", *arguments, f"root={corpus.folder}/runs")
    assert result.returncode == 2
    return result.stderr


def folder_of(corpus: Corpus) -> Path:
    return run_file(corpus.config.root, corpus.config.id).parent


def sheet_of(corpus: Corpus) -> AuditSheet:
    return sheet_of_run(corpus.run)


def test_marks_give_precision_and_recall(corpus: Corpus) -> None:
    assert audit(corpus, *DRAW) == "no page of 7 is marked\n"
    sheet = sheet_of(corpus)
    kept = [page.reason.startswith("kept") for page in sheet.pages]
    keys = ["g" if kept[n] or "c4_lines.curly_bracket" in page.reason else "b" for n, page in enumerate(sheet.pages)]
    keys[kept.index(True)] = "b"
    printed = marked(corpus, "".join(keys))
    rows = {cells[1]: cells for line in printed.splitlines() if (cells := line.strip("| ").split(" | "))[1:]}
    assert rows["c4_lines.sentences"] == [
        *("clean", "c4_lines.sentences", "1", "0", "1", "0"),
        *("100.0 % [100.0 %, 100.0 %]", rows["c4_lines.sentences"][7], "0.0 % [0.0 %, 0.0 %]"),
    ]
    # two of three pages that cleaning dropped are bad, and a third of the 20 kept ones: 1 / (2 + 20 / 3)
    assert rows["c4_lines.sentences"][7].startswith("11.5 % [")
    assert rows["c4_lines.curly_bracket"][6:] == [
        *("0.0 % [0.0 %, 0.0 %]", "0.0 % [0.0 %, 0.0 %]", "5.0 % [5.0 %, 5.0 %]"),
    ]
    assert rows["all rules"][7].startswith("23.1 % [")
    assert rows["near_duplicate"][7] == "–"
    assert rows["kept"][:7] == ["unique", "kept", "20", "2", "1", "0", rows["kept"][6]]
    assert rows["kept"][6].startswith("66.7 % [")
    assert audit(corpus) == printed.partition(" marks\n")[2]


def test_unsure_pages_are_counted_and_are_in_no_estimate(corpus: Corpus) -> None:
    """Every stratum of cleaning has one page, so without its mark neither recall nor the sum is known."""
    printed = marked(corpus, "u" * 7)
    rows = {cells[1]: cells for line in printed.splitlines() if (cells := line.strip("| ").split(" | "))[1:]}
    assert rows["all rules"][2:] == ["3", "0", "0", "3", "–", "–", "–"]
    assert rows["kept"][2:] == ["20", "0", "0", "3", "–", "–", "–"]


def test_any_editor_fills_in_the_lines(corpus: Corpus, tmp_path: Path) -> None:
    lines = tmp_path / "sheet.jsonl"
    audit(corpus, *DRAW, "--sheet", str(lines))
    entries = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(entries) == 7
    assert not any("reason" in entry or "rule" in entry for entry in entries)
    audit(corpus, *DRAW, "--sheet", str(tmp_path / "with_rules.jsonl"), "--show-rule")
    reasons = [json.loads(line)["reason"] for line in (tmp_path / "with_rules.jsonl").read_text().splitlines()]
    assert reasons == [page.reason for page in sheet_of(corpus).pages]
    for entry in entries[:4]:
        entry["mark"] = "good"
    lines.write_text("".join(json.dumps(entry) + "\n\n" for entry in entries))
    assert audit(corpus, "--marks", str(lines)).startswith("4 marks\n")
    shutil.move(folder_of(corpus) / "audit/marks.json", folder_of(corpus) / "audit/marks-eve.json")  # an older name
    assert saved_marks(folder_of(corpus), sheet_of(corpus)) == {entry["id"]: "good" for entry in entries[:4]}


def test_a_sheet_is_written_over_only_with_its_marks(corpus: Corpus, tmp_path: Path) -> None:
    lines = tmp_path / "my sheet.jsonl"
    command = f"headrace audit small --marks '{lines}' root={corpus.folder}/runs"
    written = audit(corpus, *DRAW, "--sheet", str(lines))
    assert written.splitlines()[:2] == [
        f"written: {lines} (7 pages)",
        f'next:    write good, bad, unsure as "mark", then {command}',
    ]
    before, filled = sheet_of(corpus), lines.read_text().replace('"mark": ""', '"mark": "bad"', 2)
    lines.write_text(filled)
    problem = f"--sheet: '{lines}' exists; take its marks in by --marks {lines}, or name another"
    assert problem in refusal(corpus, "--number", "2", "--sheet", str(lines))
    assert (lines.read_text(), sheet_of(corpus)) == (filled, before)
    again = ("--marks", str(lines), "--sheet", str(lines))
    assert "2 marks" in audit(corpus, *again)
    assert lines.read_text().count('"mark": "bad"') == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sheet": "0123456789ab"}, "line 1: has marks of the sheet '0123456789ab', and the sheet of this run is"),
        ({"id": "other.jsonl:1"}, "line 1: 'other.jsonl:1' is no page of the sheet; leave ids and lines as they are"),
        ({"mark": "fine"}, "has the mark 'fine'; write good, bad, unsure, or nothing"),
        (None, "line 1: is no page of a sheet: '[1]'; give the file of --sheet"),
    ],
)
def test_marks_of_other_pages_are_refused(
    corpus: Corpus, tmp_path: Path, change: dict[str, object] | None, message: str
) -> None:
    lines = tmp_path / "sheet.jsonl"
    audit(corpus, *DRAW, "--sheet", str(lines))
    first, *others = lines.read_text().splitlines()
    changed = "[1]" if change is None else json.dumps({**json.loads(first), **change})
    lines.write_text("\n".join([changed, *others]))
    assert message in refusal(corpus, "--marks", str(lines))
    assert saved_marks(folder_of(corpus), sheet_of(corpus)) == {}


def test_a_missing_file_and_a_bad_number_are_refused(corpus: Corpus) -> None:
    missing = refusal(corpus, "--marks", "none.json")
    assert "none.json: cannot be read (No such file or directory); name a file" in missing
    assert "--number: must be at least 1" in refusal(corpus, "--number", "0")


def test_a_marked_sheet_is_not_drawn_again(corpus: Corpus) -> None:
    audit(corpus, *DRAW)
    drawn = sheet_of(corpus)
    audit(corpus, *DRAW, "--seed", "9")
    assert sheet_of(corpus).key != drawn.key
    marked(corpus, "g")
    assert sheet_of(corpus).seed == 9
    message = refusal(corpus, "--seed", "1")
    how = "3 pages of each rule, seed 9, of texts, clean, unique"
    assert f"sheet: was drawn otherwise ({how}) and is marked; leave the options out to go on with it" in message


def test_the_report_shows_an_audit_and_none_without_marks(corpus: Corpus) -> None:
    reports = Path(corpus.folder, "runs/report")
    [page] = reports.glob("*/report.html")
    assert 'id="audit"' not in page.read_text()
    marked(corpus, "gb")
    assert headrace_here("run", *corpus.overrides, "name=small").returncode == 0
    [later] = set(reports.glob("*/report.html")) - {page}
    section = later.read_text().partition('<section id="audit">')[2].partition("</section>")[0]
    assert '<a href="#audit">Audit</a>' in later.read_text()
    results = saved_results(folder_of(corpus))
    assert results is not None
    assert all(f"<td>{row[1]}</td>" in section for row in results.rows)
    assert headrace_here("run", *corpus.overrides, "name=small").returncode == 0
    assert len(list(reports.glob("*/report.html"))) == 2
