"""``headrace audit``: marks from the terminal, a pipe, a line file and a local page; results, refusals, the report."""

import codecs
import html
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.pipeline.audit.marks import add_marks, marks_file, read_marks, saved_marks
from headrace.pipeline.audit.sheet import AuditSheet, saved_sheet
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.report.audit_results import saved_results
from headrace.pipeline.run.run_files import run_file
from tests.command_line import headrace_here
from tests.other_processes import DEADLINE_SECONDS
from tests.pipeline.report.test_report import browse
from tests.small_runs import Corpus, build

__all__ = ["browse"]

DRAW = ("--number", "3", "--near", "0")


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """A finished run of the corpus ``c4`` with its report."""
    corpus = build(tmp_path, "c4")
    assert headrace_here("run", *corpus.overrides, "name=small").returncode == 0
    return corpus


def audit(corpus: Corpus, *arguments: str, text: str = "") -> str:
    """What the command prints."""
    result = headrace_here("audit", "small", *arguments, f"root={corpus.folder}/runs", text=text)
    assert (result.returncode, result.stderr) == (0, ""), result.stderr
    return result.stdout


def refusal(corpus: Corpus, *arguments: str) -> str:
    result = headrace_here("audit", "small", *arguments, f"root={corpus.folder}/runs")
    assert result.returncode == 2
    return result.stderr


def folder_of(corpus: Corpus) -> Path:
    return run_file(corpus.config.root, corpus.config.id).parent


def sheet_of(corpus: Corpus) -> AuditSheet:
    sheet = saved_sheet(folder_of(corpus))
    assert sheet is not None
    return sheet


def test_marks_from_a_pipe_give_precision_and_recall(corpus: Corpus) -> None:
    assert audit(corpus, "--show", *DRAW) == "no page of 7 is marked\n"
    sheet = sheet_of(corpus)
    keys = ["g" if page.rule in ("", "c4_lines.curly_bracket") else "b" for page in sheet.pages]
    keys[sheet.ids.index(next(page.id for page in sheet.pages if not page.rule))] = "b"
    printed = audit(corpus, *DRAW, text="\n".join(["x", *keys]) + "\n")
    assert "'x' is no key: g good" in printed
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
    assert audit(corpus, "--show") == printed[printed.index("marked by") :]


def test_the_rule_is_shown_after_the_mark_and_the_session_goes_on(corpus: Corpus) -> None:
    first = audit(corpus, *DRAW, "--marker", "ann", text="g\nq\n")
    second = audit(corpus, *DRAW, "--marker", "ann", text="p\nb\nu\n")
    sheet = sheet_of(corpus)
    reasons = [page.reason for page in sheet.pages]
    assert first.index(f"good: {sheet.ids[0]} was {reasons[0][:30]}") > first.index("page              1 of 7")
    assert "page              2 of 7, 1 marked" in second
    assert "page              1 of 7, 1 marked" in second
    assert saved_marks(folder_of(corpus), sheet) == {"ann": {sheet.ids[0]: "bad", sheet.ids[1]: "unsure"}}
    shown = audit(corpus, *DRAW, "--marker", "bob", "--show-rule", text="q\n")
    assert f"reason            {reasons[0][:30]}" in shown
    assert reasons[0][:30] not in audit(corpus, *DRAW, "--marker", "bob", text="q\n")


def test_two_markers_have_tables_of_their_own_and_an_agreement(corpus: Corpus) -> None:
    audit(corpus, *DRAW, "--marker", "ann", text="g\nb\ng\nb\nq\n")
    printed = audit(corpus, *DRAW, "--marker", "bob", text="g\nb\nb\nb\nq\n")
    assert re.findall(r"^marked by (\w+):$", printed, re.MULTILINE) == ["ann", "bob"]
    assert "ann and bob agree on 75.0 % of the 4 pages that both marked; Cohen's kappa 0.500." in printed


def test_unsure_pages_are_counted_and_are_in_no_estimate(corpus: Corpus) -> None:
    """Every stratum of cleaning has one page, so without its mark neither recall nor the sum is known."""
    printed = audit(corpus, *DRAW, text="u\n" * 7)
    rows = {cells[1]: cells for line in printed.splitlines() if (cells := line.strip("| ").split(" | "))[1:]}
    assert rows["all rules"][2:] == ["3", "0", "0", "3", "–", "–", "–"]
    assert rows["kept"][2:] == ["20", "0", "0", "3", "–", "–", "–"]


def test_any_editor_fills_in_the_lines(corpus: Corpus, tmp_path: Path) -> None:
    lines = tmp_path / "sheet.jsonl"
    audit(corpus, *DRAW, "--sheet", str(lines))
    entries = [json.loads(line) for line in lines.read_text().splitlines()]
    assert len(entries) == 7
    assert not any("reason" in entry or "rule" in entry for entry in entries)
    for entry in entries[:4]:
        entry["mark"] = "good"
    lines.write_text("".join(json.dumps(entry) + "\n\n" for entry in entries))
    assert audit(corpus, "--marks", str(lines), "--marker", "eve").startswith("4 marks by eve\n")
    assert saved_marks(folder_of(corpus), sheet_of(corpus)) == {"eve": {entry["id"]: "good" for entry in entries[:4]}}


def test_a_sheet_with_marks_is_overwritten_only_when_they_are_taken_in(corpus: Corpus, tmp_path: Path) -> None:
    lines = tmp_path / "my sheet.jsonl"
    command = f"headrace audit small --marks '{lines}' --marker eve root={corpus.folder}/runs"
    written = audit(corpus, *DRAW, "--marker", "eve", "--sheet", str(lines))
    assert written.splitlines()[:2] == [
        f"written: {lines} (7 pages)",
        f'next:    write good, bad, unsure as "mark", then {command}',
    ]
    before = sheet_of(corpus)
    marked = lines.read_text().replace('"mark": ""', '"mark": "bad"', 2) + "a damaged line\n"
    lines.write_text(marked)
    problem = f": {lines} has 2 marks that were not taken in; take them in with --marks {lines}, or name another"
    for others, option in ((DRAW, "--sheet"), (("--number", "2"), "--sheet"), (DRAW, "--page")):
        assert option + problem in refusal(corpus, *others, option, str(lines))
    assert (lines.read_text(), sheet_of(corpus)) == (marked, before)
    lines.write_text(marked.removesuffix("a damaged line\n"))
    assert "2 marks by eve" in audit(corpus, "--marks", str(lines), "--marker", "eve", "--sheet", str(lines))
    for marker, kept in (("eve", 2), ("bob", 0)):
        audit(corpus, "--marker", marker, "--sheet", str(lines))
        assert lines.read_text().count('"mark": "bad"') == kept


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sheet": "0123456789ab"}, "line 1: has marks of the sheet '0123456789ab', and the sheet of this run is"),
        ({"id": "other.jsonl:1"}, "line 1: 'other.jsonl:1' is no page of the sheet; leave ids and lines as they are"),
        ({"id": ["a"]}, "line 1: ['a'] is no page of the sheet"),
        ({"mark": "fine"}, "has the mark 'fine'; write good, bad, unsure, or nothing"),
        ({"mark": 1}, "has the mark 1; write good, bad, unsure, or nothing"),
        (None, "line 1: is no page of a sheet: '[1]'; give the file of --sheet, or the marks of the page of --page"),
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


def test_a_missing_file_and_a_bad_name_are_refused(corpus: Corpus) -> None:
    assert "none.json: cannot be read (No such file or directory); name a file" in refusal(
        corpus, "--marks", "none.json"
    )
    assert "--marker: 'a/b' is not a name; use letters" in refusal(corpus, "--marker", "a/b")
    assert "--number: must be at least 1" in refusal(corpus, "--number", "0")


def test_a_marked_sheet_is_not_drawn_again(corpus: Corpus) -> None:
    audit(corpus, *DRAW, "--show")
    drawn = sheet_of(corpus)
    audit(corpus, *DRAW, "--seed", "9", "--show")
    assert sheet_of(corpus).key != drawn.key
    audit(corpus, "--marker", "ann", text="g\nq\n")
    assert sheet_of(corpus).seed == 9
    message = refusal(corpus, "--seed", "1", "--show")
    how = "3 pages of each rule, 0 near thresholds, seed 9, of texts, clean, unique"
    assert f"sheet: was drawn otherwise ({how}) and is marked by ann; leave the options out to go on with it" in message


def test_a_kill_between_and_within_marks_loses_none(corpus: Corpus) -> None:
    """A process that marks as fast as it can is killed again and again; the file is whole, and marks only grow."""
    audit(corpus, *DRAW, "--show")
    folder, sheet = folder_of(corpus), sheet_of(corpus)
    add_marks(folder, sheet, "ann", {})
    code = (
        "from pathlib import Path; from headrace.pipeline.audit.marks import add_marks;"
        "from headrace.pipeline.audit.sheet import saved_sheet\n"
        f"folder = Path({str(folder)!r}); sheet = saved_sheet(folder)\n"
        "for n in range(10**6):\n"
        "    add_marks(folder, sheet, 'ann', {sheet.ids[n % 7]: ('good', 'bad')[n // 7 % 2]})\n"
        "    if not n: print('ready', flush=True)\n"
    )
    before: dict[str, str] = {}
    for number in range(6):
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            time.sleep(0.02 + 0.013 * number)
            process.kill()
        marker, marks = read_marks(marks_file(folder, "ann"), sheet)
        assert marker == "ann"
        assert before.keys() <= marks.keys()
        before = marks
    assert before


def test_a_terminal_session(corpus: Corpus) -> None:
    """Keys without Enter; every mark is saved before the next page; Ctrl-C ends it, and it goes on."""
    audit(corpus, *DRAW, "--show")
    sheet, folder = sheet_of(corpus), folder_of(corpus)
    command = [sys.executable, "-m", "headrace", "audit", "small", "--marker", "ann", f"root={corpus.folder}/runs"]
    process, terminal = pty.fork()
    if not process:
        os.execvpe(command[0], command, os.environ | {"TERM": "xterm", "LINES": "24", "COLUMNS": "90"})
    assert "drop" not in wait_for(terminal, "1 of 7, 0 marked", "q quit")
    os.write(terminal, b"g")
    shown = wait_for(terminal, "2 of 7, 1 marked", "q quit")
    assert f"good: {sheet.ids[0]} was" in shown
    assert "\x1b[2J" in shown
    assert saved_marks(folder, sheet) == {"ann": {sheet.ids[0]: "good"}}
    os.write(terminal, b"\x1b[D")
    wait_for(terminal, "'D' is no key", "q quit")
    os.write(terminal, b"p")
    wait_for(terminal, "1 of 7, 1 marked", "q quit")
    os.write(terminal, b"b")
    wait_for(terminal, "2 of 7, 1 marked", "q quit")
    os.write(terminal, b"\x03")
    wait_for(terminal, "run the same command again", "")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130
    os.close(terminal)
    assert saved_marks(folder, sheet) == {"ann": {sheet.ids[0]: "bad"}}


def wait_for(terminal: int, sign: str, end: str) -> str:
    """Reads the terminal's output up to ``sign``, and ``end`` after it."""
    shown, deadline = "", time.monotonic() + DEADLINE_SECONDS
    decoder = codecs.getincrementaldecoder("utf-8")()  # a read may end inside a character
    while sign not in shown or end not in shown.rpartition(sign)[2]:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.1)[0]:
            shown += decoder.decode(os.read(terminal, 4096))
    return shown


def test_the_report_shows_an_audit_and_none_without_marks(corpus: Corpus) -> None:
    reports = Path(corpus.folder, "runs/report")
    [page] = reports.glob("*/report.html")
    assert 'id="audit"' not in page.read_text()
    audit(corpus, *DRAW, "--marker", "ann", text="g\nb\nq\n")
    assert headrace_here("run", *corpus.overrides, "name=small").returncode == 0
    [later] = set(reports.glob("*/report.html")) - {page}
    section = later.read_text().partition('<section id="audit">')[2].partition("</section>")[0]
    assert "Marked by ann" in section
    assert '<a href="#audit">Audit</a>' in later.read_text()
    results = saved_results(folder_of(corpus))
    assert results is not None
    for _, rows in results.tables:
        assert all(f"<td>{row[1]}</td>" in section for row in rows)
    assert headrace_here("run", *corpus.overrides, "name=small").returncode == 0
    assert len(list(reports.glob("*/report.html"))) == 2


PRESS = """<script>addEventListener("load", () => {
    const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
    const shown = [];
    const text = (id) => document.getElementById(id).textContent;
    const see = () => shown.push(["place", "note", "reason", "text"].map(text));
    see();
    for (const key of KEYS) { press(key); see(); }
    const link = document.getElementById("save");
    document.body.dataset.saved = link.download + " " + decodeURIComponent(link.href.split(",").slice(1).join(","));
    document.body.dataset.shown = JSON.stringify(shown);
});</script>"""


@pytest.mark.slow
def test_a_browser_marks_the_page_and_its_marks_are_taken_in(
    corpus: Corpus, tmp_path: Path, browse: Callable[..., tuple[str, list[str]]]
) -> None:
    page = tmp_path / "sheet.html"
    written = audit(corpus, *DRAW, "--marker", "ann", "--page", str(page))
    command = f"headrace audit small --marks FILE root={corpus.folder}/runs"
    assert (
        f"written: {page} (7 pages)\nnext:    open it in a browser, mark, save the marks as FILE, then {command}\n"
        in written
    )
    assert command in html.unescape(page.read_text())
    sheet = sheet_of(corpus)
    tree, console = browse(page, "--dump-dom")
    assert console == []
    assert "Page 1 of 7, 0 marked" in tree
    assert page.stat().st_size < 60_000
    pressed = tmp_path / "pressed.html"
    unlocked = re.sub(r"<meta http-equiv=[^>]*>", "", page.read_text())
    pressed.write_text(unlocked.replace("</body>", PRESS.replace("KEYS", '["g", "b", "x", "p", "u"]') + "</body>"))
    tree, _ = browse(pressed, "--dump-dom")
    saved, shown = (html_value(tree, name) for name in ("saved", "shown"))
    name, _, text = saved.partition(" ")
    expected = {sheet.ids[0]: "good", sheet.ids[1]: "unsure"}
    assert name == "marks-ann.json"
    assert json.loads(text) == {"sheet": sheet.key, "marker": "ann", "marks": expected}
    first, second, _, _, back, third = json.loads(shown)
    assert (first[2], first[3]) == ("", sheet.pages[0].text)
    assert second[:3] == ["Page 2 of 7, 1 marked", f"good: {sheet.ids[0]} was {sheet.pages[0].reason}.", ""]
    assert back[2] == sheet.pages[1].reason
    assert third[0] == "Page 3 of 7, 2 marked"
    marks = tmp_path / name
    marks.write_text(text)
    assert audit(corpus, "--marks", str(marks)).startswith("2 marks by ann\n")
    assert read_json(marks_file(folder_of(corpus), "ann"))["marks"] == expected


def html_value(tree: str, name: str) -> str:
    """The attribute ``data-<name>`` of the body."""
    match = re.search(rf'data-{name}="([^"]*)"', tree)
    assert match is not None
    return html.unescape(match[1])


def test_hostile_text_cannot_leave_the_page_or_the_terminal(corpus: Corpus, tmp_path: Path) -> None:
    audit(corpus, *DRAW, "--show")
    sheet = sheet_of(corpus)
    values = read_json(folder_of(corpus) / "audit/sheet.json")
    assert values["run"] == sheet.run
    page = tmp_path / "sheet.html"
    audit(corpus, "--page", str(page))
    content = page.read_text().partition('id="values">')[2].partition("</script>")[0]
    assert "<" not in content
    assert json.loads(content)["sheet"] == sheet.key
    assert "headrace audit small --marks FILE" in page.read_text()
