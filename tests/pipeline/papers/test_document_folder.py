"""Documents as folders: equal rows in every format, sizes, parts, the card, checksums, and what a kill leaves."""

import contextlib
import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from operator import itemgetter
from pathlib import Path

import pyarrow
import pytest
import yaml
import zstandard
from pyarrow import parquet

from headrace.data_prep.document import read_documents
from headrace.data_prep.packed import SPLITS
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.papers import document_folder
from headrace.pipeline.papers.cards import Exported, dataset_card
from headrace.pipeline.papers.document_folder import DocumentFolder, part_name
from headrace.pipeline.papers.table_files import columns_of, flat, schema_of
from headrace.pipeline.papers.whole_folder import new_folder
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build

FORMS = ("jsonl", "parquet")


@pytest.fixture(scope="module")
def c4(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("c4"), "c4")


def export(corpus: Corpus, *arguments: object) -> str:
    result = headrace_here("export", *map(str, arguments), *corpus.overrides)
    assert result.returncode == 0, result.stderr
    return result.stdout


def stored(corpus: Corpus, stage: str, kind: str = "documents") -> list[dict]:
    paths = corpus.artifact(stage).shards(kind)
    rows = [flat(document) for path in paths for document in read_documents(path)]
    if kind == "documents":
        rows = [row | {"split": SPLITS[key_of("split", row["id"]) < 0.4 * 2**64]} for row in rows]
        rows.sort(key=itemgetter("split"))
    columns = columns_of(rows)
    return [{name: row.get(name) for name in columns} for row in rows]


def of_splits(folder: Path, form: str) -> list[dict]:
    """The rows of the two splits, which are told apart by their folders."""
    read = {split: rows_of(folder / "data" / split, form) for split in SPLITS}
    assert all(row.get("split", split) == split for split, rows in read.items() for row in rows)
    assert all(read.values())
    return read["train"] + read["validation"]


def rows_of(part: Path, form: str) -> list[dict]:
    rows: list[dict] = []
    for file in sorted(part.glob("*.jsonl.zst" if form == "jsonl" else "*.parquet")):
        if form == "parquet":
            rows += parquet.read_table(file).to_pylist()
        else:
            with zstandard.open(file, "rt", encoding="utf-8") as stream:
                rows += map(json.loads, stream)
    return rows


@pytest.mark.parametrize("size", ["3kB", ""])
@pytest.mark.parametrize("form", FORMS)
def test_each_format_holds_every_document_with_all_fields(c4: Corpus, tmp_path: Path, form: str, size: str) -> None:
    export(c4, "clean", "--format", form, "--to", tmp_path / "out", *(["--shard-size", size] if size else []))
    assert of_splits(tmp_path / "out", form) == stored(c4, "clean")
    files = [file for file in (tmp_path / "out/data/train").iterdir() if file.name.startswith("0")]
    assert len(files) > 3 if size else len(files) == 1
    assert [file.name for file in tmp_path.iterdir()] == ["out"], "no temporary folder remains"


@pytest.mark.parametrize("form", FORMS)
def test_dropped_documents_of_a_rule_with_chosen_columns(c4: Corpus, tmp_path: Path, form: str) -> None:
    rule = ("--rule", "c4_lines", "--columns", "id,drop.rule")
    export(c4, "clean", "--format", form, "--to", tmp_path / "out", *rule)
    dropped = [row for row in stored(c4, "clean", "dropped") if row["drop.rule"].startswith("c4_lines.")]
    rows = rows_of(tmp_path / "out/data", form)
    assert rows == [{"id": row["id"], "drop.rule": row["drop.rule"]} for row in dropped]
    assert "Only those that the rule c4_lines dropped." in (tmp_path / "out/README.md").read_text()


VALUES = ["de", "en", None, "zh-Hans", "a/b", "..", ".x", "de", "ü %", "", "en"]


def split_rows() -> list[dict]:
    rows = [{"id": f"a:{n}", "text": f"text {n}", "source": value} for n, value in enumerate(VALUES)]
    return [{key: value for key, value in row.items() if value is not None} for row in rows if row["source"] != ""]


@pytest.mark.parametrize("form", FORMS)
def test_a_folder_for_each_value_of_a_column(tmp_path: Path, form: str) -> None:
    rows = split_rows()
    columns = columns_of(rows)
    parts = DocumentFolder(tmp_path, form, columns, "source", 10**6).write(rows)
    assert sum(parts.values()) == len(rows)
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == sorted(parts)
    for name in parts:
        values = [row for row in rows if part_name(row.get("source", document_folder.NO_VALUE)) == name]
        full = [{column: row.get(column) for column in columns} for row in values]
        assert rows_of(tmp_path / "data" / name, form) == full
    assert "__HIVE_DEFAULT_PARTITION__" in parts
    assert {"de", "en", "zh-Hans", "a%2Fb", "%2E%2E", "%2Ex", "%C3%BC %25"} < set(parts)


def test_rows_of_all_parts_wait_in_bounded_memory(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(document_folder, "WAITING_BYTES", 2_000)
    most = 0

    class Watched(DocumentFolder):
        def _add(self, part, row) -> None:
            nonlocal most
            super()._add(part, row)
            most = max(most, sum(other.waiting_bytes for other in self._parts.values()))
            assert self._waiting_bytes == sum(other.waiting_bytes for other in self._parts.values())

    rows = [{"id": f"a:{n}", "text": "x" * (n % 300), "source": f"s{n % 17}"} for n in range(600)]
    Watched(tmp_path, "parquet", columns_of(rows), "source", 10**6).write(rows)
    assert 1_000 < most <= 2_000
    read = [row for part in (tmp_path / "data").iterdir() for row in rows_of(part, "parquet")]
    assert sorted(read, key=lambda row: int(row["id"][2:])) == rows


@pytest.mark.parametrize(
    ("value", "problem"),
    [("x" * 201, "gives no name of a folder"), (["en"], "has lists, such as"), ("many", "has more than 2 values")],
)
def test_a_column_that_gives_no_folders_is_refused(tmp_path: Path, monkeypatch, value: object, problem: str) -> None:
    monkeypatch.setattr(document_folder, "MOST_PARTS", 2)
    rows = [{"id": f"a:{n}", "text": "", "source": f"v{n}" if value == "many" else value} for n in range(3)]
    with pytest.raises(ConfigError, match=f"--split-by: .*{problem}"):
        DocumentFolder(tmp_path, "jsonl", columns_of(rows), "source", 1000).write(rows)


def test_a_column_that_no_document_has_is_refused(c4: Corpus, tmp_path: Path) -> None:
    arguments = ("unique", "--format", "jsonl", "--to", str(tmp_path / "out"), "--split-by", "langage", *c4.overrides)
    result = headrace_here("export", *arguments)
    message = "headrace: --split-by: there is no column 'langage'; did you mean 'language'?\n"
    assert (result.returncode, result.stderr, list(tmp_path.iterdir())) == (2, message, [])


def test_row_groups_fit(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(document_folder, "GROUP_ROWS", 7)
    rows = [{"id": f"a:{n}", "text": "x" * n} for n in range(40)]
    DocumentFolder(tmp_path, "parquet", columns_of(rows), "", 10**6).write(rows)
    metadata = parquet.read_metadata(tmp_path / "data/00000.parquet")
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    assert sizes == [7, 7, 7, 7, 7, 5]


@pytest.mark.parametrize("form", FORMS)
def test_no_document_is_a_file_without_rows(tmp_path: Path, form: str) -> None:
    columns = {"id": pyarrow.string(), "text": pyarrow.string()}
    assert DocumentFolder(tmp_path, form, columns, "", 10**6).write([]) == {"": 0}
    assert rows_of(tmp_path / "data", form) == []
    assert len(list((tmp_path / "data").iterdir())) == 1


def test_the_checksums_are_those_of_every_file_and_two_exports_are_equal(c4: Corpus, tmp_path: Path) -> None:
    for name in ("a", "b"):
        export(c4, "unique", "--format", "parquet", "--to", tmp_path / name, "--shard-size", "3kB")
    sums = (tmp_path / "a/SHA256SUMS").read_text()
    assert (tmp_path / "b/SHA256SUMS").read_text() == sums
    listed = {name: checksum for checksum, name in (line.split("  ") for line in sums.splitlines())}
    files = [path for path in (tmp_path / "a").rglob("*") if path.is_file() and path.name != "SHA256SUMS"]
    assert listed == {
        path.relative_to(tmp_path / "a").as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files
    }


def test_the_card_has_the_funnel_of_the_run(c4: Corpus, tmp_path: Path) -> None:
    export(c4, "unique", "--format", "jsonl", "--to", tmp_path / "out", "--split-by", "language")
    _, front, text = (tmp_path / "out/README.md").read_text().split("---\n", 2)
    values = yaml.safe_load(front)
    kept = stored(c4, "unique")
    assert values["language"] == ["en"]
    assert [config["config_name"] for config in values["configs"]] == ["default", "en"]
    for number, name in enumerate(("*", "en")):
        files = [{"split": split, "path": f"data/{split}/{name}/*.jsonl.zst"} for split in SPLITS]
        assert values["configs"][number]["data_files"] == files
    for stage, kind in (("texts", "texts"), ("clean", "clean"), ("unique", "unique")):
        counts = {name: len(stored(c4, kind, name)) for name in ("documents", "dropped")}
        read = sum(counts.values())
        assert f"| {stage} | {read} | {counts['dropped']} | {counts['documents']} |\n" in text
    rules = [row["drop.rule"] for row in stored(c4, "clean", "dropped")]
    for rule in rules:
        assert f"| clean | {rule} | {rules.count(rule)} |\n" in text
    counts = Counter(row["split"] for row in kept)
    for split in SPLITS:
        assert f"| {split}/en | {counts[split]} |\n" in text
    assert "`validation` has the documents that the run holds out (0.4 of all, by a hash of the id)" in text
    assert "| texts | a.jsonl |" in text
    assert "| language_score | double |" in text


def test_the_card_counts_licences_and_keeps_its_tables(c4: Corpus) -> None:
    licences = {"extra.license": Counter({"cc-by|4.0": 3, "not stated": 1})}
    exported = Exported("texts", "0123456789ab", "documents", "parquet", {"": 4}, {"id": "string"}, (), licences)
    card = dataset_card('a "name"\n# no heading', exported, {"texts": c4.artifact("texts")})
    assert "Licences, from the column `extra.license`:" in card
    assert "| cc-by\\|4.0 | 3 |\n" in card
    assert yaml.safe_load(card.split("---\n")[1])["pretty_name"] == 'a "name"\n# no heading'


@pytest.mark.parametrize("split", [(), ("--split-by", "language")])
@pytest.mark.parametrize("form", FORMS)
def test_datasets_opens_it(c4: Corpus, tmp_path: Path, form: str, split: tuple[str, ...]) -> None:
    datasets = pytest.importorskip("datasets")
    export(c4, "unique", "--format", form, "--to", tmp_path / "out", "--shard-size", "4kB", *split)
    configuration = ("en",) if split else ()
    opened = datasets.load_dataset(str(tmp_path / "out"), *configuration, cache_dir=str(tmp_path / "cache"))
    assert [*opened["train"], *opened["validation"]] == stored(c4, "unique")


def test_datasets_reads_lists_and_columns_without_values_in_the_first_file(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    late = {"extra.tags": ["x"], "extra.pairs": [[1], [2, 3]], "extra.score": 0.5, "extra.seen": True}
    rows = [{"id": f"a:{n}", "text": "x" * 50} | (late if n > 4 else {}) for n in range(8)]
    columns = columns_of(rows)
    parts = DocumentFolder(tmp_path / "out", "jsonl", columns, "", 60).write(rows)
    types = {field.name: str(field.type) for field in schema_of(columns)}
    card = dataset_card("lists", Exported("texts", "0123456789ab", "documents", "jsonl", parts, types), {})
    (tmp_path / "out/README.md").write_text(card)
    read = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "cache"))["train"]
    assert list(read) == [{name: row.get(name) for name in columns} for row in rows]


def test_force_replaces_an_export_and_nothing_else(c4: Corpus, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    asked = ("unique", "--format", "jsonl", "--to")
    result = headrace_here("export", *asked, str(tmp_path / "mine"), "--force", *c4.overrides)
    assert result.returncode == 2
    assert "is no earlier export" in result.stderr
    assert (tmp_path / "mine/letter.txt").read_text() == "dear"
    export(c4, *asked, tmp_path / "out")
    again = headrace_here("export", *asked, str(tmp_path / "out"), *c4.overrides)
    assert again.stderr == f"headrace: --to: '{tmp_path}/out' exists; give the name of a new folder\n"
    export(c4, "clean", "--format", "parquet", "--to", tmp_path / "out", "--force")
    assert of_splits(tmp_path / "out", "parquet") == stored(c4, "clean")
    assert rows_of(tmp_path / "out/data/train", "jsonl") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


KILLED = """
import os, pathlib, signal, sys
from headrace.pipeline.papers.whole_folder import new_folder
with new_folder(pathlib.Path(sys.argv[1])) as folder:
    (folder / "half.parquet").write_bytes(b"PAR1")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_folder_that_another_process_made_meanwhile_stays(tmp_path: Path) -> None:
    files = contextlib.ExitStack()
    (files.enter_context(new_folder(tmp_path / "out")) / "ours").touch()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/theirs").touch()
    with pytest.raises(ConfigError, match=r"--to: '.*/out' cannot be made \(Directory not empty\)"):
        files.close()
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["out", "theirs"]


def test_after_a_kill_the_next_export_is_whole(c4: Corpus, tmp_path: Path) -> None:
    result = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "out")], check=False)
    assert result.returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name != "out"
    assert (left / "half.parquet").exists()
    (tmp_path / "tmp-of-another").mkdir()
    (tmp_path / f"{left.name}-replaced").mkdir()
    export(c4, "unique", "--format", "parquet", "--to", tmp_path / "out")
    assert sorted(os.listdir(tmp_path)) == ["out", "tmp-of-another"]
    assert of_splits(tmp_path / "out", "parquet") == stored(c4, "unique")


def test_an_error_leaves_no_folder(c4: Corpus, tmp_path: Path) -> None:
    corpus = build(tmp_path / "corpus", "c4")
    damaged = corpus.artifact("unique").shards("documents")[1]
    damaged.write_bytes(damaged.read_bytes()[:-1])
    (tmp_path / "exports").mkdir()
    to = str(tmp_path / "exports/out")
    result = headrace_here("export", "unique", "--format", "parquet", "--to", to, *corpus.overrides)
    assert result.returncode != 0
    assert "is damaged or missing" in result.stderr
    assert os.listdir(tmp_path / "exports") == []
