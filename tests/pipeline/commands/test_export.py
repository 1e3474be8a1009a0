"""export: kept and dropped documents as JSON lines and Parquet, as other programs read them."""

import bz2
import gzip
import json
import lzma
import sys
from pathlib import Path

import pytest
import zstandard
from datatrove.data import Document
from pyarrow import parquet

import headrace
from headrace.data_prep.document import read_documents
from headrace.data_prep.packed import SPLITS
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.tables import Parquet
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.papers import table_files
from headrace.pipeline.papers.table_files import columns_of, flat, write_rows
from headrace.pipeline.run.planner import save
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build


@pytest.fixture(scope="module")
def c4(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("c4"), "c4")


def documents(corpus: Corpus, stage: str, kind: str) -> list[Document]:
    return [one for path in corpus.artifact(stage).shards(kind) for one in read_documents(path)]


def export(corpus: Corpus, *arguments: object) -> str:
    result = headrace_here("export", *map(str, arguments), *corpus.overrides)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_parquet_holds_every_field(c4: Corpus, tmp_path: Path) -> None:
    printed = export(c4, "clean", tmp_path / "kept.parquet")
    rows = parquet.read_table(tmp_path / "kept.parquet").to_pylist()
    kept = documents(c4, "clean", "documents")
    assert f"{'documents':<18}{len(kept)}\n" in printed
    assert [(row["id"], row["text"]) for row in rows] == [(one.id, one.text) for one in kept]
    for row, one in zip(rows, kept, strict=True):
        assert row["url"] == one.metadata["url"]
        assert row["language_score"] == one.metadata["language_score"]
        removed = one.metadata.get("removed_lines", {}).get("c4_lines.end_mark")
        assert row["removed_lines.c4_lines.end_mark"] == removed
    assert [name.name for name in tmp_path.iterdir()] == ["kept.parquet"], "no temporary file remains"


@pytest.mark.parametrize(
    ("suffix", "opened"),
    [("", open), (".gz", gzip.open), (".zst", zstandard.open), (".bz2", bz2.open), (".xz", lzma.open)],
)
def test_json_lines_hold_the_same_rows(c4: Corpus, tmp_path: Path, suffix: str, opened) -> None:
    export(c4, "clean", tmp_path / "dropped.parquet", "--dropped")
    export(c4, "clean", tmp_path / f"dropped.jsonl{suffix}", "--dropped")
    with opened(tmp_path / f"dropped.jsonl{suffix}", "rt") as stream:
        rows = list(map(json.loads, stream))
    assert rows == parquet.read_table(tmp_path / "dropped.parquet").to_pylist()
    drops = [one.metadata["drop"] for one in documents(c4, "clean", "dropped")]
    assert [{"rule": row["drop.rule"], "value": row["drop.value"]} for row in rows] == drops


def test_one_rule(c4: Corpus, tmp_path: Path) -> None:
    for rule in ("c4_lines.sentences", "c4_lines"):
        export(c4, "clean", tmp_path / "one.jsonl", "--rule", rule, "--force")
        rules = {json.loads(line)["drop.rule"] for line in (tmp_path / "one.jsonl").open()}
        assert "c4_lines.sentences" in rules
        assert all(found == rule or found.startswith(f"{rule}.") for found in rules)


def test_duplicates_of_unique(c4: Corpus, tmp_path: Path) -> None:
    export(c4, "unique", tmp_path / "duplicates.jsonl", "--rule", "near_duplicate")
    (row,) = map(json.loads, (tmp_path / "duplicates.jsonl").open())
    assert row["drop.value"].startswith(f"{c4.second}:4 jaccard=0.") or row["drop.value"].startswith(c4.first)


def test_headrace_reads_it_again(c4: Corpus, tmp_path: Path) -> None:
    texts = [one.text for one in documents(c4, "unique", "documents")]
    for name, source in (("a.parquet", Parquet), ("a.jsonl.gz", Jsonl)):
        export(c4, "unique", tmp_path / name)
        records = source(paths=(str(tmp_path),)).read(str(tmp_path / name))
        assert [document.text for document, drop in records if drop is None] == texts


def test_fields_of_an_export_that_is_read_again_have_one_prefix(tmp_path: Path) -> None:
    row = flat(Document(text="t", id="a:0", metadata={"language": "en", "extra": {"dept": 3, "date_2": {"d": 1}}}))
    for _ in range(3):
        assert row.keys() - {"language", "extra.language"} == {"id", "text", "extra.dept", "extra.date_2.d"}
        (tmp_path / "a.jsonl").write_text(json.dumps(row) + "\n")
        ((document, _),) = Jsonl(paths=(str(tmp_path / "a.jsonl"),), id_field="none").read("a.jsonl")
        row = {name: value for name, value in flat(document).items() if name not in ("url", "extra.id")}
    assert row["extra.language"] == "en"
    clash = {"dept": 1, "extra.dept": 2}
    row = flat(Document(text="", id="a:0", metadata={"extra": clash}))
    assert (row["extra.dept"], row["extra.extra.dept"]) == (1, 2), "no field is lost"


def test_chosen_columns(c4: Corpus, tmp_path: Path) -> None:
    for name in ("a.jsonl", "a.parquet"):
        assert "columns           url, id\n" in export(c4, "unique", tmp_path / name, "--columns", "url,id")
    rows = [{"url": one.metadata["url"], "id": one.id} for one in documents(c4, "unique", "documents")]
    assert list(map(json.loads, (tmp_path / "a.jsonl").open())) == rows
    assert parquet.read_table(tmp_path / "a.parquet").to_pylist() == rows
    wrong = headrace_here("export", "unique", str(tmp_path / "b.jsonl"), "--columns", "id,langage", *c4.overrides)
    message = "headrace: --columns: there is no column 'langage'; did you mean 'language'?\n"
    assert (wrong.returncode, wrong.stderr) == (2, message)
    assert not (tmp_path / "b.jsonl").exists()


def test_held_out_documents_are_marked_wherever_documents_leave(c4: Corpus, tmp_path: Path) -> None:
    """Folders, and samples of a release: tests/pipeline/papers."""
    kept = documents(c4, "unique", "documents")
    split = {one.id: SPLITS[key_of("split", one.id) < 0.4 * 2**64] for one in kept}
    number = list(split.values()).count("validation")
    assert 0 < number < len(kept)
    for name in ("a.jsonl.gz", "a.parquet"):
        assert f"{number}, split=validation: train on none" in export(c4, "unique", tmp_path / name)
        source = Parquet if name.endswith("parquet") else Jsonl
        read = source(paths=(str(tmp_path),), id_field="id").read(str(tmp_path / name))
        assert [one.metadata["extra"]["split"] for one, drop in read if drop is None] == list(split.values())
    printed = export(c4, "unique", tmp_path / "b.jsonl", "--columns", "id,text")
    assert f"{number}, not marked: --columns leaves out split" in printed
    assert "split" not in export(c4, "clean", tmp_path / "c.jsonl", "--dropped"), "those are in no split"
    save(c4.config, c4.run.values, c4.run.stages, c4.overrides)
    opened = headrace.open_run(c4.run.id, root=c4.config.root)
    assert {row["id"]: row["split"] for row in opened.documents("unique")} == split
    assert (
        "held out"
        in headrace_here("mirror", "push", c4.run.id, str(tmp_path / "mirror"), f"root={c4.config.root}").stdout
    )


def test_datasets_reads_it(c4: Corpus, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    for name, kind in (("a.parquet", "parquet"), ("a.jsonl", "json")):
        export(c4, "clean", tmp_path / name)
        rows = datasets.load_dataset(kind, data_files=str(tmp_path / name), split="train", cache_dir=str(tmp_path))
        assert rows["text"] == [one.text for one in documents(c4, "clean", "documents")]


ROWS = [
    {"n": 1, "tags": ["a"], "mixed": "text", "deep": {"a": {"b": {"c": 1}}}, "empty": {}, "id": "theirs"},
    {"n": 2**60, "tags": [], "mixed": [1], "large": 2**63, "objects": [{"a": 1}], "nothing": None},
    {"n": 0.5, "tags": None, "large": 1, "flag": True},
]


def test_types_of_columns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers get one type; what has no common type, and deep objects, become JSON text."""
    monkeypatch.setattr(table_files, "GROUP_ROWS", 2)
    rows = [flat(Document(text=f"t{n}", id=str(n), metadata=metadata)) for n, metadata in enumerate(ROWS)]
    columns = columns_of(rows)
    for name in ("a.parquet", "a.jsonl"):
        assert write_rows(tmp_path / name, name, columns, rows) == 3
    table = parquet.read_table(tmp_path / "a.parquet").to_pylist()
    assert table == list(map(json.loads, (tmp_path / "a.jsonl").open()))
    first = {"n": 1.0, "tags": ["a"], "mixed": '"text"', "deep.a.b": '{"c":1}', "metadata.id": "theirs", "large": None}
    second = {"n": 2.0**60, "tags": [], "mixed": "[1]", "large": str(2**63), "objects": '[{"a":1}]'}
    third = {"n": 0.5, "tags": None, "large": "1", "flag": True}
    for row, expected in zip(table, (first, second, third), strict=True):
        assert row | expected == row
    assert list(columns)[:2] == ["id", "text"]
    assert not columns.keys() & {"nothing", "empty"}


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
def test_whole_numbers_that_floats_would_round_stay_exact(name: str, tmp_path: Path) -> None:
    """Beside fractions such a number is JSON text, because a float would round it; without one it is an int64."""
    values = [{"mixed": 2**53 + 1, "whole": -(2**53) - 1, "small": 2**53}, {"mixed": 0.5, "whole": 7, "small": 0.5}]
    rows = [flat(Document(text="", id=f"a:{n}", metadata=metadata)) for n, metadata in enumerate(values)]
    write_rows(tmp_path / name, name, columns_of(rows), rows)
    read = (
        parquet.read_table(tmp_path / name).to_pylist()
        if name.endswith("parquet")
        else [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
    )
    assert [row["mixed"] for row in read] == ["9007199254740993", "0.5"]
    assert [row["whole"] for row in read] == [-(2**53) - 1, 7]
    assert [row["small"] for row in read] == [float(2**53), 0.5]


def test_too_many_columns_are_refused() -> None:
    rows = (flat(Document(text="", id=str(n), metadata={"extra": {f"k{n}": 1}})) for n in range(2_000))
    with pytest.raises(ConfigError) as caught:
        columns_of(rows)
    assert str(caught.value) == (
        "export: the documents have more than 1,000 fields, such as 'extra.k998'; "
        "choose a --rule, or keep fewer fields (source.extra_field_bytes)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["clean", "a.csv"],
            "FILE: 'a.csv' names no format; end it with .jsonl, .jsonl.gz, .jsonl.zst, .jsonl.bz2, .jsonl.xz, .parquet",
        ),
        (["clean", "no/a.jsonl"], "FILE: there is no folder 'no'; make it first"),
        (["clean", "there.jsonl"], "FILE: 'there.jsonl' exists; give another name, or --force to replace it"),
        (["tokens", "a.jsonl"], "STAGE: 'tokens' does not keep or drop documents; give one of texts, clean, unique"),
        (
            ["clean", "a.jsonl", "--rule", "c4_lnes"],
            "RULE: clean dropped nothing by 'c4_lnes'; did you mean 'c4_lines'?",
        ),
    ],
)
def test_mistakes(
    c4: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("there.jsonl").touch()
    result = headrace_here("export", *arguments, *c4.overrides)
    assert (result.returncode, result.stderr) == (2, f"headrace: {message}\n")
    assert [path.name for path in tmp_path.iterdir()] == ["there.jsonl"]


def test_a_failed_export_leaves_the_old_file(c4: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("old")

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["headrace.pipeline.commands.export"], "write_rows", full)
    assert headrace_here("export", "clean", str(path), "--force", *c4.overrides).returncode == 75
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["a.jsonl"]
