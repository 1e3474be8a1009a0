"""The pipes: the decisions of the functions on rows of standard input, counted; what is no row is said."""

import gzip
import json
import shlex
import subprocess
import sys

import tokenizers
import zstandard

import headrace
from tests.command_line import headrace_here

MILL = "The mill turns in the river, and the miller grinds corn. "
TEXTS = [MILL * 30, MILL * 30, "few words", MILL * 30 + "It stands still. ", "Lorem ipsum. " * 50]
ROWS = [{"text": text, "n": number} for number, text in enumerate(TEXTS)]


def piped(data, *arguments, **options):
    """The standard output (lines of JSON) and error of a command that reads ``data``."""
    command = [sys.executable, "-m", "headrace", *map(str, arguments)]
    done = subprocess.run(command, input=data, capture_output=True, check=True, **options)
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr.decode()


def lines(rows):
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_clean(tmp_path):
    rows = [{**row, "url": f"https://example.org/{row['n']}", "big": 2**70} for row in ROWS]
    broken = b'{"text": \n[1]\n\xff\n{"n": 1}\n'
    kept, said = piped(zstandard.compress(broken + lines(rows)), "clean", "c4", "--dropped", tmp_path / "no.jsonl")
    first, *dropped = [json.loads(line) for line in (tmp_path / "no.jsonl").read_text().splitlines()]
    assert (first["n"], first["metadata"]["drop"]["rule"]) == (1, "no_text")
    verdicts = headrace.Cleaner("c4").all(TEXTS, [row["url"] for row in rows])
    both = iter(kept), iter(dropped)
    for row, verdict in zip(rows, verdicts, strict=True):
        expected = {**row, "text": verdict.text, "metadata": verdict.metadata}
        if not verdict:
            drop = {"rule": verdict.rule, "value": verdict.value, "reason": verdict.reason}
            expected["metadata"] = verdict.metadata | {"drop": drop}
        assert next(both[not verdict]) == expected
    assert [len(kept), len(dropped)] == [sum(map(bool, verdicts)), 5 - sum(map(bool, verdicts))]
    *first, counts = said.splitlines()
    assert [line.split(": ")[1:3] for line in first] == [
        ["line 1", "not_json"], ["line 2", "not_an_object"], ["line 3", "not_utf8"], ["line 4", "no_text"]
    ]  # fmt: skip
    assert first[3].endswith(": field 'text' is absent")
    assert counts.startswith(f"headrace clean: {len(kept)} of 9 rows kept; dropped: ")


def test_fields_of_rows_decide_and_stay(tmp_path):
    (tmp_path / "conf/cleaning").mkdir(parents=True)
    (tmp_path / "conf/cleaning/mine.yaml").write_text("filters: [{type: robots}, {type: one_page_per_url}]")
    page = {"text": "a", "url": "a.org", "metadata": "none"}
    kept = [page | {"date": "2020-01-02", "robots": "nofollow"}, {"text": "b", "big": 2**70}]
    rows = [{"text": "a", "robots": "noai"}, page | {"date": "2020-01-01"}, {"text": " "}, *kept]
    data = b"\n" + lines(rows).replace(b"}\n", b', "f": NaN}\n')
    found, said = piped(data, "clean", "mine", "--dropped", "no.jsonl.gz", cwd=tmp_path)
    notes = {"metadata": "none", "url": "a.org"}
    assert found == [kept[0] | {"f": None, "metadata": notes}, kept[1] | {"f": None, "metadata": {}}]
    dropped = map(json.loads, gzip.decompress((tmp_path / "no.jsonl.gz").read_bytes()).splitlines())
    assert [row["metadata"]["drop"]["rule"] for row in dropped] == ["no_text", "robots", "one_page_per_url"]
    assert said.startswith("headrace clean: line 4: no_text: field 'text' is without text\n")


def test_a_field_is_another_and_single_rules_stream():
    rows = [{"content": text} for text in TEXTS]
    rows += [{"content": "lone \ud800", "metadata": "none", "url": 3}, {"content": ""}]
    kept, said = piped(lines(rows), "clean", "pii", "--field", "content")
    assert [row["content"] for row in kept] == [*TEXTS, "lone \ufffd"]
    assert said.endswith("headrace clean: 6 of 7 rows kept; dropped: 1 no_text\n")


def test_unique(tmp_path):
    words = " ".join(map(str, range(200)))
    rows = [{"text": text, "n": number} for number, text in enumerate([words, words, f"{words} 1", "few"])]
    kept, said = piped(b"\n" + lines(rows), "unique", "--dropped", tmp_path / "no.jsonl")
    removed = {one.removed: one for one in headrace.near_duplicates(row["text"] for row in rows)}
    assert kept == [row for row in rows if row["n"] not in removed]
    dropped = [json.loads(line) for line in (tmp_path / "no.jsonl").read_text().splitlines()]
    assert [row["n"] for row in dropped] == sorted(removed)
    assert dropped[0]["metadata"]["drop"]["value"] == "line 4 jaccard=0.9949"
    assert said == "headrace unique: 2 of 4 rows kept; dropped: 2 near_duplicate\n"


def test_tokens(tmp_path):
    model = tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], unk_token="a")
    tokenizers.Tokenizer(model).save(str(tmp_path / "tokenizer.json"))
    rows, said = piped(lines([{"id": "x", "text": "abb"}]), "tokens", tmp_path)
    assert rows == [{"id": "x", "input_ids": [2, 1]}]
    assert said == "headrace tokens: 1 of 1 rows kept\n"


def test_text(tmp_path):
    page = f"<title>Mill</title><nav>Home</nav><main><h1>Mill</h1><p>{MILL * 9}".encode()
    command = [sys.executable, "-m", "headrace", "text", "--markdown"]
    done = subprocess.run(command, input=gzip.compress(page), capture_output=True, check=True)
    assert done.stdout.decode() == headrace.text(page, markdown=True) + "\n"
    assert done.stdout.startswith(b"# Mill\n")
    (tmp_path / "a.html").write_bytes(page)
    (tmp_path / "d.xhtml.gz").write_bytes(gzip.compress(f"<p><title/>{MILL * 9}</p>".encode()))
    assert headrace_here("text", str(tmp_path / "d.xhtml.gz")).stdout == (MILL * 9).strip() + "\n"
    (tmp_path / "b.html").write_bytes(b"%PDF-1.4")
    (tmp_path / "c.html").write_bytes(b"")
    done = headrace_here("text", *(f"{tmp_path}/{name}.html" for name in "abc"))
    assert (done.returncode, done.stdout) == (0, headrace.text(page) + "\n")
    unread = ("b.html: binary (application/pdf)", "c.html: no_text (Drops records without text.)")
    assert done.stderr.splitlines() == [f"headrace text: {tmp_path}/{line}" for line in unread]


def test_mistakes(tmp_path):
    for arguments, message in (
        (("clean",), "clean needs PRESET"),
        (("clean", "c5"), "cleaning: unknown option 'c5'"),
        (("clean", "c4", "--field", "metadata"), "--field: 'metadata' is the field of what rules note"),
        (("clean", "c4", "workers=1"), "'workers=1' sets nothing in clean; leave it out"),
        (("unique", "--threshold", "2"), "near_duplicates.threshold: must be at most 1 (got 2.0)"),
        (("text", str(tmp_path / "none")), "none' does not exist"),
        (("tokens", str(tmp_path / "none")), "none: cannot be read"),
        (("ready", "pages"), "ready: unknown piece 'pages'"),
    ):
        done = headrace_here(*arguments)
        assert done.returncode in (1, 2)
        assert done.stdout == ""
        assert message in done.stderr


def test_a_reader_that_goes_away_and_damage_end_a_pipe():
    command = [sys.executable, "-m", "headrace", "clean", "pii"]
    data = lines([{"text": MILL * 30}] * 2000)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        _, said = process.communicate(data)
    assert process.returncode == 141
    assert b"Traceback" not in said
    done = subprocess.run(command, input=gzip.compress(data)[:-100], capture_output=True)
    assert done.returncode == 1
    assert done.stderr.startswith(b"headrace: standard input: cannot be decompressed")
    assert done.stdout.count(b"\n") > 1000
    for closed, message in (("<&-", "input: is closed"), (">&-", "output: is closed"), (">/dev/full", "No space left")):
        done = subprocess.run(["bash", "-c", f"{shlex.join(command)} {closed}"], input=data, capture_output=True)
        assert message in done.stderr.decode()
        assert done.stderr.count(b"\n") == 1
