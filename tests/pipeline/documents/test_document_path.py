"""why and trace on two small corpora that went through the real stages."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest
from datatrove.data import Document
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.data_prep.dedup.shingles import shingle_set
from headrace.data_prep.document import read_documents
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.documents import document_path, lookup, passages
from headrace.pipeline.output import terminal
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build, page
from tests.unique_documents import unique_documents


@pytest.fixture(scope="module")
def c4(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("c4"), "c4")


@pytest.fixture(scope="module")
def plain(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("plain"), "none")


def test_a_page_dropped_by_a_rule(c4: Corpus) -> None:
    clean = c4.artifact("clean").folder
    assert c4.why(f"{c4.second}:2") == [
        ("id", f"{c4.second}:2"),
        ("source file", f"{c4.folder}/{c4.second}"),
        ("record", "2"),
        ("url", "https://b.example/?page=2"),
        ("dropped by", "clean"),
        ("rule", "c4_lines.sentences"),
        ("value", "0"),
        ("meaning", "0 sentences left, 3 needed"),
        ("characters", "10"),
        ("texts", f"{c4.artifact('texts').folder}/documents/00001.jsonl.zst, line 3"),
        ("clean", f"{clean}/dropped/00001.jsonl.zst, line 1"),
    ]


def test_what_cleaning_took_from_a_kept_page(c4: Corpus) -> None:
    found = c4.why(f"{c4.second}:6")
    assert ("kept by", "unique") in found
    assert ("removed lines", "2 by c4_lines.end_mark") in found
    assert next(value for key, value in found if key == "language").startswith("en, score 0.99")


def test_a_record_that_cannot_be_read(plain: Corpus) -> None:
    assert plain.why(f"{plain.second}:10") == [
        ("id", f"{plain.second}:10"),
        ("source file", f"{plain.folder}/{plain.second}"),
        ("record", "10"),
        ("url", "https://d.example/?page=10"),
        ("dropped by", "texts"),
        ("rule", "no_text"),
        ("value", "field 'text' is empty"),
        ("characters", "0"),
        ("texts", f"{plain.artifact('texts').folder}/dropped/00001.jsonl.zst, line 1"),
    ]


def test_what_was_masked_is_said() -> None:
    document = Document("<email>", "a:0", metadata={"masked_pii": {"email": 2}})
    assert list(document_path.cleaning(document)) == [("characters", "7"), ("masked", "2 × email")]


def test_every_page_of_a_url_is_explained(c4: Corpus) -> None:
    """Several documents share it, in two shards; a URL may hold a = sign."""
    found = c4.why("https://a.example/?page=3")
    assert [value for key, value in found if key == "id"] == [f"{c4.first}:3", f"{c4.second}:3"]
    verdicts = [(key, value) for key, value in found if key in ("kept by", "dropped by", "rule")]
    assert sorted(verdicts) == [("dropped by", "clean"), ("kept by", "unique"), ("rule", "one_page_per_url")]


def jaccard(first: str, second: str) -> float:
    one, other = (set(shingle_set(text, 5).tolist()) for text in (first, second))
    return len(one & other) / len(one | other)


def test_a_near_duplicate_and_its_survivor_name_each_other(c4: Corpus) -> None:
    (short,), (long,) = ([page(5)], [page(5) + " Once more."])
    exact = f"{jaccard(short, long):.4f}"
    removed, survivor = f"{c4.first}:5", f"{c4.second}:4"
    assert 0.9 < float(exact) < 1
    assert c4.values(removed, "rule") == ["near_duplicate"]
    assert c4.values(removed, "dropped by") == ["unique"]
    assert c4.values(removed, "duplicate of") == [survivor]
    assert c4.values(removed, "jaccard") == [exact]
    assert c4.values(survivor, "survivor of") == [f"{removed}  jaccard {exact}"]
    assert c4.values(survivor, "kept by") == ["unique"]
    assert c4.values(survivor, "cluster") == c4.values(removed, "cluster") == ["2 documents"]
    assert c4.values(f"{c4.first}:6", "duplicates") == ["none"]


def test_a_cluster_over_shards_with_equal_texts(plain: Corpus) -> None:
    """The longest text survives, and equal texts share a similarity with it."""
    survivor, copies = f"{plain.second}:9", [f"{plain.first}:1", f"{plain.first}:4", f"{plain.second}:0"]
    similarity = f"{jaccard(page(201), page(201) + ' One sentence more than the others.'):.4f}"
    assert plain.values(survivor, "survivor of") == [f"{copy}  jaccard {similarity}" for copy in copies]
    assert plain.values(copies[2], "duplicate of") == [survivor]
    assert plain.values(copies[2], "also removed") == [f"{copy}  jaccard {similarity}" for copy in copies[:2]]
    assert plain.values(copies[2], "cluster") == ["4 documents"]


def entry(similarity: float, exact: bool) -> np.void:
    return np.array([(similarity, exact)], dtype=[("jaccard", "<f8"), ("exact", "?")])[0]


def test_the_kind_of_a_similarity() -> None:
    assert document_path.likeness(entry(1, True)) == "1.0000 (equal texts)"
    assert document_path.likeness(entry(0.8, False)) == "0.8000"


@pytest.mark.parametrize("name", ["c4", "plain"])
def test_the_rows_of_a_document_hold_its_text(name: str, request: pytest.FixtureRequest) -> None:
    """The spans that ``why`` names for every kept document, read from the tokens, give the text; splits agree."""
    corpus: Corpus = request.getfixturevalue(name)
    tokens, packed = corpus.artifact("tokens"), corpus.artifact("packed")
    encoder = Encoder.load(corpus.artifact("tokenizer").path("tokenizer.json"))
    splits = []
    for shard, path in enumerate(corpus.artifact("unique").shards("documents")):
        stored = np.fromfile(tokens.shard("tokens", shard, "bin"), dtype=encoder.dtype)
        for document in read_documents(path):
            found = corpus.why(document.id)
            splits += [value for key, value in found if key == "split"]
            pieces = [re.fullmatch(r"(\d+) of (\w+): ([\d,]+) tokens from (\d+) on", v) for k, v in found if k == "row"]
            spans = [(int(start), int(length.replace(",", ""))) for _, _, length, start in (p.groups() for p in pieces)]
            ids = np.concatenate([stored[start : start + length] for start, length in spans])
            assert encoder.decode(ids) == "<|endoftext|>" + document.text
            for row, split, _, start in (p.groups() for p in pieces):
                assert (shard, int(start)) in row_of(packed, split, int(row))
    counts = packed.counts
    assert (splits.count("train"), splits.count("validation")) == (
        counts["train_documents"],
        counts["validation_documents"],
    )


def row_of(packed: Artifact, split: str, row: int) -> list[tuple[int, int]]:
    """(shard, start) of the spans of a row, counted through all files, without the code under test."""
    for group in range(packed.manifest["phases"]["rows"]):
        offsets = np.load(packed.path(f"rows/{split}-{group:05d}.npy")).tolist()
        if row < len(offsets) - 1:
            spans = np.load(packed.path(f"spans/{split}-{group:05d}.npy"))[offsets[row] : offsets[row + 1]]
            return list(zip(spans["shard"].tolist(), spans["start"].tolist(), strict=True))
        row -= len(offsets) - 1
    raise AssertionError("no such row")


def owners(corpus: Corpus, shard: int) -> list[str]:
    """The document of each stored token of a shard, by walking over it: an end of text begins the next one."""
    ids = [document.id for document in read_documents(corpus.artifact("unique").shards("documents")[shard])]
    stored = np.fromfile(corpus.artifact("tokens").shard("tokens", shard, "bin"), dtype="<u2").tolist()
    current, found = -1, []
    for token in stored:
        current += token == 0
        found.append(ids[min(current, len(ids) - 1)])
    return found


@settings(max_examples=25)
@given(data=st.data())
def test_a_token_is_traced_to_its_document(plain: Corpus, data: st.DataObject) -> None:
    shard = data.draw(st.integers(0, 1))
    expected = owners(plain, shard)
    ends = [n for n in range(1, len(expected)) if expected[n] != expected[n - 1]]
    offset = data.draw(st.integers(0, len(expected) - 1) | st.sampled_from([0, len(expected) - 1, *ends]))
    found = dict(passages.token_facts(plain.steps, str(shard), str(offset)))
    assert found["id"] == expected[offset]
    name = (plain.first, plain.second)[shard]
    assert found["source file"] == f"{plain.folder}/{name}"
    assert found["id"] == f"{name}:{found['record']}"


def test_a_trace_shows_the_token_and_its_surroundings(plain: Corpus) -> None:
    encoder = Encoder.load(plain.artifact("tokenizer").path("tokenizer.json"))
    stored = np.fromfile(plain.artifact("tokens").shard("tokens", 0, "bin"), dtype="<u2")
    last = int(np.load(plain.artifact("tokens").shard("bounds", 0, "npy"))[1])
    texts, clean, unique = (plain.artifact(stage).folder for stage in ("texts", "clean", "unique"))
    expected = [
        ("id", f"{plain.first}:0"),
        ("source file", f"{plain.folder}/{plain.first}"),
        ("record", "0"),
        ("url", "https://c.example/?page=0"),
        ("token", f"{stored[5]}, {encoder.decode([stored[5]])!r}"),
        ("position", f"token 5 of {last - 1:,} of the document"),
        ("before", encoder.decode(stored[1:5])),
        ("after", encoder.decode(stored[6:22])),
        ("texts", f"{texts}/documents/00000.jsonl.zst, line 1"),
        ("clean", f"{clean}/documents/00000.jsonl.zst, line 1"),
        ("unique", f"{unique}/documents/00000.jsonl.zst, line 1"),
    ]
    assert list(passages.token_facts(plain.steps, "0", "5")) == expected
    ends = {"0": "begins", str(len(stored) - 1): "ends"}
    for offset, does in ends.items():
        found = dict(passages.token_facts(plain.steps, "0", offset))
        assert found["position"] == f"the end of text that {does} the document"
        assert found["token"] == "0, '<|endoftext|>'"
    behind_last = dict(passages.token_facts(plain.steps, "0", str(last - 1)))["after"]
    assert behind_last == "", "nothing of the next document"


MISTAKES = [
    (["why", "{second}:12"], "document: '{second}' has no record 12; its records go from {second}:0 to {second}:11"),
    (["why", "{folder}/secnd.jsonl:7"], "document: the run {run} has no id or URL '{folder}/secnd.jsonl:7'; did you mean '{second}:7'?"),  # noqa: E501
    (["why", "secnd.jsonl:7"], "document: the run {run} has no id or URL 'secnd.jsonl:7'; did you mean '{second}:7'?"),
    (["why", "x:7"], "document: the run {run} has no id or URL 'x:7'; an id reads like '{first}:0', a URL must be exact, and --run NAME asks another run (headrace runs lists them)"),  # noqa: E501
    (["why", "http://www.a.example/?page=0/"], "document: the run {run} has no id or URL 'http://www.a.example/?page=0/'; did you mean 'https://a.example/?page=0'?"),  # noqa: E501
    (["why", ""], "document: '' is neither an id nor a URL; give one as the shards hold it"),
    (["token", "2", "0"], "SHARD: '2' is none of the 2 token shards; give a number from 0 to 1"),
    (["token", "-1", "0"], "SHARD: '-1' is none of the 2 token shards; give a number from 0 to 1"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "message"), MISTAKES)
def test_mistakes(c4: Corpus, words: list[str], message: str) -> None:
    names = {
        "first": c4.first,
        "second": c4.second,
        "folder": c4.folder,
        "run": "small",
    }
    command, *rest = (word.format(**names) for word in words)
    explained = {
        "why": lambda word: document_path.document_facts(c4.steps, word, "small"),
        "token": lambda *two: passages.token_facts(c4.steps, *two),
    }[command](*rest)
    with pytest.raises(ConfigError) as error:
        list(explained)
    assert str(error.value) == message.format(**names)


def test_a_file_that_was_read_in_sections(run_stage, tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_text('{"text": "one"}\n\n{"text": "two"}\n{"text": 3}\n{"text": "four"}\n')
    source = Jsonl(paths=(str(path),), section_bytes=15)
    stage = Texts(source=source)
    texts = run_stage(stage, {}, tmp_path / "texts")
    found = [lookup.find(texts, stage, f"{path}:{record}")[0] for record in range(4)]
    assert [one.document.text for one in found] == ["one", "two", "", "four"]
    assert [one.shard for one in found] == [0, 1, 2, 2]
    with pytest.raises(ConfigError) as error:
        lookup.find(texts, stage, f"{path}:4")
    wrong = "document: 'pages.jsonl' has no record 4; its records go from pages.jsonl:0 to pages.jsonl:3"
    assert str(error.value) == wrong


def test_an_offset_behind_the_end(c4: Corpus) -> None:
    tokens = len(owners(c4, 0))
    with pytest.raises(ConfigError, match=f"OFFSET: '{tokens}' is none of the {tokens:,} tokens of shard 0"):
        list(passages.token_facts(c4.steps, "0", str(tokens)))


def test_what_is_not_finished_is_named(c4: Corpus, tmp_path: Path) -> None:
    """First only texts and clean are finished, then no stage is."""
    nowhere = [dataclasses.replace(step, folder=tmp_path / step.name) for step in c4.steps]
    steps = [*c4.steps[:2], *nowhere[2:]]
    found = list(document_path.document_facts(steps, f"{c4.first}:5"))
    assert ("kept by", "clean") in found
    assert found[-1] == (
        "not finished",
        "signatures, duplicates, unique, overlaps, tokens, packed; run them to know more",
    )
    with pytest.raises(ArtifactError, match=r"^tokens: is not finished .*; give the run's own overrides, or run it"):
        list(passages.token_facts(steps, "0", "0"))
    with pytest.raises(ArtifactError, match=r"^texts: is not finished"):
        list(document_path.document_facts(nowhere, "x:0"))
    with pytest.raises(
        ConfigError, match=r"^until: the run ends before 'tokens', which is needed here; give until=tokens$"
    ):
        list(passages.token_facts(steps[:2], "0", "0"))


def test_a_value_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show([("value", "one\ntwo\u2028three\x85four\r[bold]five"), ("", ""), ("long", "x" * 2000)])
    first, empty, long = capsys.readouterr().out.rstrip("\n").split("\n")
    assert first == f"{'value':<18}one ⏎ two ⏎ three�four�[bold]five"
    assert (empty, long) == ("", f"{'long':<18}{'x' * 1000}…")


def test_a_long_name_does_not_touch_its_value(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show([("frequencies of tokens alone", "5.98 nats")])
    assert capsys.readouterr().out == "frequencies of tokens alone 5.98 nats\n"


def test_long_lists_are_cut() -> None:
    found = list(terminal.few((("row", str(n)) for n in range(1025)), "row"))
    assert found[:20] == [("row", str(n)) for n in range(20)]
    assert found[20:] == [("row", "and 1,005 more")]


def test_the_command_line_prints_one_fact_a_line(c4: Corpus) -> None:
    word = f"{c4.first}:5"
    result = headrace_here("why", word, *c4.overrides)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "".join(f"{name:<18}{value}\n" for name, value in c4.why(word))
    traced = headrace_here("why", "1:7", "--as", "token", *c4.overrides)
    assert traced.stdout.startswith(f"{'id':<18}{c4.second}:0\n"), traced.stderr


def test_the_command_line_says_what_is_wrong(c4: Corpus) -> None:
    result = headrace_here("why", f"{c4.first}:99", *c4.overrides)
    wrong = f"document: '{c4.first}' has no record 99; its records go from {c4.first}:0 to {c4.first}:11"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", f"headrace: {wrong}\n")


def test_what_leads_back_to_a_document_takes_at_most_24_bytes_of_each(run_stage, tmp_path: Path) -> None:
    """Counts all bytes in tokens except the tokens, but with the files' headers, from 100 documents a shard on."""
    for documents in (100, 1000):
        folder = tmp_path / str(documents)
        inputs = {"unique": unique_documents(folder / "unique", [["A page of words."] * documents] * 2)}
        inputs["tokenizer"] = run_stage(Tokenizer(settings=Trained(vocabulary_size=257)), inputs, folder / "tokenizer")
        tokens = run_stage(Tokens(), inputs, folder / "tokens")
        sizes = {name: file["bytes"] for name, file in tokens.manifest["files"].items()}
        index_bytes = sum(size for name, size in sizes.items() if not name.startswith("tokens/"))
        assert index_bytes == 2 * (20 * documents + 3 * 128 + 8), "three columns, their headers, one bound more"
        assert index_bytes <= 24 * 2 * documents
