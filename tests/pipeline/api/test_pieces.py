"""The functions of ``import headrace`` decide on real pages as their stages do: equal texts, rules, values, bytes."""

import itertools
import json
import multiprocessing
import pickle
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import orjson
import pytest
import tokenizers
import zstandard
from datasets.fingerprint import Hasher

import headrace
from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.decontamination.overlap import read_overlaps
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.document import DOCUMENTS, read_documents
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.packed import SPLITS, Packed, Packing
from headrace.data_prep.signatures import Signatures
from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.texts import Texts
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.data_prep.unique import Unique
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.settings import decode
from tests.data_prep.decontamination.quiz import Quiz
from tests.stage_run import run_here

PAGES = 60
KEYS = ("item", "found", "ngrams", "words")


def slow(value):
    """A parameter of a test that takes seconds."""
    return pytest.param(value, marks=pytest.mark.slow)


ODD = {
    "a.html": b"%PDF-1.4",
    "b.html": b"",
    "c.html": b"<p>\xe9\xe8 caf\xe9",
    "d.html": b'{"a": 1}',
    "e.html": b"<p>&#0;",
}


@pytest.fixture(scope="module")
def pages(data_folder):
    """Real pages and odd ones, by the name of the file: bytes."""
    path = data_folder("web/wcxb_dev.jsonl.zst")
    with zstandard.open(path, "rt", dctx=zstandard.ZstdDecompressor(max_window_size=2**27)) as stream:
        rows = [json.loads(line) for line in itertools.islice(stream, 0, 10 * PAGES, 10)]
    return ODD | {f"{row['id']}.html".replace("/", "_"): row["html"].encode() for row in rows}


DEDUP = Dedup(memory_gb=0.1, buckets=3)
DUPLICATES = {
    "clean": Clean(cleaning=Cleaning(filters=())),
    "signatures": Signatures.of(DEDUP),
    "duplicates": Duplicates.of(DEDUP),
}
STAGES = DUPLICATES | {
    "unique": Unique.of(Decontamination(action="none"), {}),
    "tokenizer": Tokenizer(settings=Trained(vocabulary_size=400)),
    "tokens": Tokens(),
    "packed": Packed(packing=Packing(row_tokens=256, validation_fraction=0.3)),
}


def artifacts_of(source, stages, folder):
    """The artifacts of ``texts`` and ``stages``, by name."""
    made = {"texts": run_here(Texts(source=source), {}, folder / "texts" / "a")}
    for name, stage in stages.items():
        made[name] = run_here(stage, {needed: made[needed] for needed in stage.inputs}, folder / name / "a")
    return made


@pytest.fixture(scope="module")
def artifacts(pages, tmp_path_factory):
    """The artifacts of the stages from the pages, by name: ``clean`` keeps every text."""
    folder = tmp_path_factory.mktemp("stages")
    (folder / "pages").mkdir()
    for name, page in pages.items():
        (folder / "pages" / name).write_bytes(page)
    return artifacts_of(Html(paths=(str(folder / "pages"),)), STAGES, folder)


def documents(artifact, kind="documents"):
    """The documents of all shards."""
    return [one for path in artifact.shards(kind) for one in read_documents(path)]


def test_pages(pages, artifacts):
    stored = {one.id: one for kind in ("documents", "dropped") for one in documents(artifacts["texts"], kind)}
    assert len(stored) == len(pages) > len(documents(artifacts["texts"]))
    for name, html in pages.items():
        verdict, expected = headrace.page(html), stored[f"{name}:0"]
        drop = expected.metadata.pop("drop", {})
        assert (verdict.text, verdict.rule, verdict.value) == (expected.text, drop.get("rule"), drop.get("value"))
        expected.metadata.pop("url")
        assert orjson.loads(orjson.dumps(verdict.metadata)) == expected.metadata
        assert headrace.text(html) == verdict.text
        if name not in ODD:
            assert headrace.page(html.decode()) == verdict
    assert headrace.page(ODD["a.html"]).reason == "application/pdf"
    assert headrace.text(f"<h1>{TEXT}\ud800", extractor="all_text", text_form="markdown") == f"# {TEXT}\ufffd"


@pytest.mark.parametrize("preset", ["c4", "c4_paper", "pii", *map(slow, ("fineweb", "multilingual"))])
def test_cleaner(preset, artifacts, tmp_path):
    cleaning = decode(Cleaning, compose([f"cleaning={preset}"])["cleaning"])
    made = run_here(Clean(cleaning=cleaning), {"texts": artifacts["texts"]}, tmp_path / "clean" / "a")
    given = documents(artifacts["texts"])
    cleaner = headrace.Cleaner(preset)
    before = pickle.dumps(cleaner)
    arguments = [(one.text, one.metadata["url"] or one.id, one.metadata) for one in given]
    verdicts = cleaner.all(*zip(*arguments, strict=True))
    assert pickle.dumps(cleaner) == before
    assert len(before) < 40_000
    stored = {kind: {one.id: one for one in documents(made, kind)} for kind in ("documents", "dropped")}
    assert stored["documents"]
    for one, verdict in zip(given, verdicts, strict=True):
        expected = stored["documents" if verdict else "dropped"][one.id]
        drop = expected.metadata.pop("drop", {})
        assert (verdict.rule, verdict.value) == (drop.get("rule"), drop.get("value"))
        assert verdict.text == expected.text
        assert orjson.loads(orjson.dumps(verdict.metadata)) == expected.metadata | {"url": verdict.metadata["url"]}
        assert verdict or verdict.reason
    if not cleaner.global_rules:
        assert [*itertools.starmap(cleaner, arguments)] == verdicts
    else:
        assert cleaner(*arguments[0]).rule not in cleaner.global_rules


def test_near_duplicates(artifacts, tmp_path):
    texts = [one.text for one in documents(artifacts["clean"])]
    for number, text in enumerate(texts[:40]):
        words = text.split(" ")
        texts += [text, " ".join(words[: len(words) * (95 - number) // 100]), f"{text} {number}"]
    texts += texts[60:70]
    for number in range(3):
        lines = (orjson.dumps({"text": text}) + b"\n" for text in texts[number::3])
        (tmp_path / f"pages{number}.jsonl").write_bytes(b"".join(lines))
    made = artifacts_of(Jsonl(paths=(str(tmp_path),)), DUPLICATES, tmp_path)
    kept = documents(made["clean"])
    rows = {one.id: row for row, one in enumerate(kept)}
    sizes = [0, *map(len, map(np.load, made["signatures"].shards("ids")))]
    expected = [
        (start + int(entry["row"]), rows[entry["survivor_id"].decode()], float(entry["jaccard"]))
        for start, path in zip(np.cumsum(sizes).tolist(), made["duplicates"].shards("removed"), strict=False)
        for entry in np.load(path)
    ]
    assert len(sizes) > 2
    assert len(expected) > 60
    assert {link[2] for link in expected} > {1.0}
    by_id = sorted(range(len(kept)), key=lambda row: kept[row].id.encode())
    links = headrace.near_duplicates(kept[row].text for row in by_id)
    assert sorted((by_id[one], by_id[other], value) for one, other, value in links) == expected
    assert len(headrace.near_duplicates([one.text for one in kept])) == len(expected)
    assert headrace.near_duplicates([]) == []
    assert headrace.near_duplicates(["", "", "a"]) == [(1, 0, 1.0)]


def test_signatures(artifacts):
    stored = np.concatenate([np.load(path) for path in artifacts["signatures"].shards("signatures")])
    made = headrace.signatures(one.text for one in documents(artifacts["clean"]))
    assert made.dtype == stored.dtype
    assert (made == stored).all()
    assert headrace.signatures([]).shape == (0, 112)


def test_tokenizer_and_pack(artifacts, tmp_path):
    tokenizer = headrace.Tokenizer(artifacts["tokenizer"].folder)
    shards, unique = TokenShards(artifacts["tokens"]), artifacts["unique"]
    end = np.array([tokenizer.end_of_text], "<u2").tobytes()
    lengths, keys = [], []
    for shard in range(len(shards)):
        texts = [one.text for one in read_documents(unique.shard("documents", shard, DOCUMENTS))]
        encoded = tokenizer.encode(texts)
        assert artifacts["tokens"].shard("tokens", shard, "bin").read_bytes() == end + b"".join(
            ids.tobytes() + end for ids in encoded
        )
        assert all((tokenizer.encode(text) == ids).all() for text, ids in zip(texts, encoded, strict=True))
        assert [tokenizer.decode(ids) for ids in encoded] == texts
        lengths += [(shard, start, ids.size + 1) for start, ids in zip(shards.bounds(shard), encoded, strict=False)]
        keys += np.load(artifacts["tokens"].shard("keys", shard, "npy")).tolist()
    is_held_out = np.array(keys, np.uint64) < np.uint64(int(0.3 * 2**64))
    for split in SPLITS:
        chosen = [one for one, held in zip(lengths, is_held_out, strict=True) if held == (split == "validation")]
        spans, rows = headrace.pack([length for _, _, length in chosen], 256)
        stored = np.load(artifacts["packed"].path(f"spans/{split}-00000.npy"))
        assert (rows == np.load(artifacts["packed"].path(f"rows/{split}-00000.npy"))).all()
        where = [(chosen[number][0], chosen[number][1] + start, length) for number, start, length in spans.tolist()]
        assert where == stored.tolist()
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert len(pickle.dumps(tokenizer)) < 500
    assert (copy.encode("The mill") == tokenizer.encode("The mill")).all()
    plain = tokenizers.Tokenizer(tokenizers.models.BPE({"a": 0, "b": 1, "ab": 2}, [("a", "b")], unk_token="a"))
    plain.save(str(tmp_path / "plain.json"))
    without_end = headrace.Tokenizer(tmp_path / "plain.json")
    assert (without_end.end_of_text, without_end.encode("abb").tolist()) == (None, [2, 1])


def test_benchmarks(artifacts, tmp_path):
    texts = [one.text for one in documents(artifacts["clean"])]
    words = [text.split() for text in texts]
    items = [" ".join(own[20:60]) for own in words[::5]]
    settings = Decontamination(action="mask", window_characters=20)
    unique = Unique.of(
        settings, {"quiz": Quiz({str(number): (item,) for number, item in enumerate(items)})}, keep_duplicates=True
    )
    made = run_here(unique, {name: artifacts[name] for name in unique.inputs}, tmp_path / "unique" / "a")
    benchmarks = headrace.Benchmarks({"quiz": items}, window_characters=20)
    before = pickle.dumps(benchmarks)
    stored = {one.id: one.text for one in documents(made)}
    overlaps = [vars(overlap) for path in made.shards("overlaps") for overlap in read_overlaps(path)]
    assert len(overlaps) > 5
    for one in documents(artifacts["clean"]):
        own = [row for row in overlaps if row["document"] == one.id]
        verdict = benchmarks(one.text)
        assert verdict.metadata["overlaps"] == [{key: row[key] for key in KEYS} for row in own]
        assert (verdict.text if verdict else None) == stored.get(one.id)
        assert verdict or verdict.rule == "contaminated"
    assert pickle.dumps(benchmarks) == before


def test_language_and_pii(artifacts):
    kinds = {"langdetect": "language", "fasttext": "language_fasttext"}
    for one in documents(artifacts["clean"]):
        for model, kind in kinds.items():
            metadata = headrace.Cleaner([{"type": kind, "languages": None, "min_score": 0}])(one.text).metadata
            assert headrace.language(one.text, model) == (metadata["language"], metadata["language_score"])
        assert headrace.mask_pii(one.text) == headrace.Cleaner("pii")(one.text).text
    assert headrace.mask_pii("ann@example.org, 030 901820", ["phone_number"]) == "ann@example.org, 030 901820"
    assert headrace.mask_pii("ann@example.org, 030 901820", regions=["DE"]) == "<email>, <phone number>"


TEXT = "The mill turns in the river, and the miller grinds corn. " * 30
CLEANER = headrace.Cleaner("c4")


@pytest.mark.parametrize("start", ["fork", slow("spawn")])
def test_processes(start):
    expected = [CLEANER(TEXT), CLEANER("few words")]
    with ProcessPoolExecutor(2, multiprocessing.get_context(start)) as pool:
        assert [*pool.map(CLEANER, [TEXT, "few words"])] == expected


def test_threads_and_fingerprints():
    texts = [f"{TEXT} {number}. " * (1 + number % 3) for number in range(40)]
    cleaner = headrace.Cleaner("c4")
    before = [Hasher.hash(one) for one in (cleaner, headrace.text, headrace.language)]
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(cleaner, texts)] == [headrace.Cleaner("c4")(text) for text in texts]
    headrace.text(f"<p>{TEXT}")
    assert [Hasher.hash(one) for one in (cleaner, headrace.text, headrace.language)] == before


WHOLE = """
import gc, pathlib, sys
import headrace
from headrace.data_prep.kernel import Kernel

def compiled():
    kernels = [one for one in gc.get_objects() if isinstance(one, Kernel) and "compiled" in vars(one)]
    return {(one.__qualname__, str(signature)) for one in kernels for signature in one.compiled.signatures}

headrace.ready()
before, pages = compiled(), [path.read_bytes() for path in pathlib.Path(sys.argv[1]).iterdir()]
texts = [headrace.text(page) for page in pages] + [headrace.text(page, markdown=True) for page in pages]
for preset in ("c4", "gopher"):
    headrace.Cleaner(preset).all(texts)
headrace.near_duplicates(texts), headrace.signatures(texts), [*map(headrace.Benchmarks({"a": texts[9:12]}), texts)]
print(len(before), compiled() - before)
"""


@pytest.mark.slow
def test_ready_compiles_all_that_real_pages_need(pages, tmp_path):
    for name, page in pages.items():
        (tmp_path / name).write_bytes(page)
    done = subprocess.run([sys.executable, "-c", WHOLE, tmp_path], capture_output=True, text=True, check=True)
    number, rest = done.stdout.split(maxsplit=1)
    assert int(number) > 20
    assert rest.strip() == "set()"


def test_own_presets(tmp_path, monkeypatch):
    (tmp_path / "conf/cleaning").mkdir(parents=True)
    (tmp_path / "conf/cleaning/mine.yaml").write_text("defaults: [gopher]\n")
    (tmp_path / "conf/cleaning/broken.yaml").write_text("filters: [\n")
    monkeypatch.chdir(tmp_path)
    assert headrace.Cleaner("mine").rules == headrace.Cleaner("gopher").rules
    with pytest.raises(headrace.ConfigError, match=r"broken\.yaml: line 2"):
        headrace.Cleaner("broken")


def test_own_rules(tmp_path, monkeypatch):
    (tmp_path / "shouts.py").write_text(
        "from headrace.data_prep.document import Drop\n"
        "from headrace.data_prep.filters.filter import Filter, filter_settings\n\n\n"
        "@filter_settings\nclass Shouts(Filter):\n    '''Drops shouting.'''\n\n    most: int = 1\n\n"
        "    def judge(self, document):\n        number = document.text.count('!')\n"
        "        return Drop('shouts', str(number)) if number // (number != 9) > self.most else None\n"
    )
    monkeypatch.chdir(tmp_path)
    cleaner = headrace.Cleaner([{"type": "page_length", "max_characters": 99}, {"type": "shouts:Shouts", "most": 2}])
    assert cleaner("a!!")
    assert cleaner.rules == ("page_length", "python.Shouts")
    dropped, failed = cleaner("a!!!"), cleaner("!" * 9)
    assert (dropped.rule, dropped.value, dropped.meaning) == ("python.Shouts.shouts", "3", "Drops shouting.")
    assert (failed.rule, failed.value) == ("python.Shouts.failed", "ZeroDivisionError in shouts.py, line 13")
    assert cleaner("x" * 100).reason
    monkeypatch.chdir("/")
    assert pickle.loads(pickle.dumps(cleaner))("a!!!") == dropped


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: headrace.Cleaner("c5"), "cleaning: unknown option 'c5'; known: c4, "),
        (lambda: headrace.Cleaner(["c4_line"]), "Cleaner, rule 0: unknown type 'c4_line'; did you mean 'c4_lines'?"),
        (lambda: headrace.Cleaner([{"type": "linear_classifier", "label": "x", "min_score": 0}]), "Cleaner, rule 0: "),
        (lambda: headrace.Cleaner({"type": "c4_lines"}), "Cleaner: needs the name of a preset, or a list of rules"),
        (lambda: CLEANER(None), "Cleaner: a text must be a str (got NoneType)"),
        (lambda: CLEANER.all(["a"], urls=["b", "c"]), "Cleaner.all: 1 texts, and 2 urls; give as many of both"),
        (lambda: CLEANER("a \ud800"), "Cleaner: a text has a lone surrogate (character 2)"),
        (lambda: headrace.text(None), "text: a page must be str or bytes (got NoneType)"),
        (lambda: headrace.text("a", links=True), "text: plain text has neither emphasis nor links"),
        (lambda: headrace.text("a", extractor=["x"]), "text.extractor: must be 'blocks', "),
        (lambda: headrace.text(b"a", charset=5), "text.charset: must be a text (got 5)"),
        (lambda: headrace.text("a", xhtml="a"), "text.xhtml: must be true or false"),
        (lambda: headrace.near_duplicates("abc"), "near_duplicates: needs texts (got str)"),
        (lambda: headrace.near_duplicates(["a", 3]), "near_duplicates, text 1: a text must be a str (got int)"),
        (lambda: headrace.near_duplicates(["a"], 2), "near_duplicates.threshold: must be at most 1 (got 2)"),
        (lambda: headrace.signatures("abc"), "signatures: needs texts (got str)"),
        (lambda: headrace.language(b"x"), "language: a text must be a str (got bytes)"),
        (lambda: headrace.language("x", "fast"), "language: unknown model 'fast'; did you mean 'fasttext'?"),
        (lambda: headrace.mask_pii("x", ["mail"]), "mask_pii.kinds.0: unknown type 'mail'; did you mean 'email'?"),
        (lambda: headrace.Tokenizer("/nope"), "/nope: cannot be read"),
        (lambda: headrace.Tokenizer(__file__), "is not a tokenizer.json"),
        (lambda: headrace.pack([1.5], 3), "pack.lengths: needs one list of whole numbers"),
        (lambda: headrace.pack([1], 9, "similar"), "pack.method: is 'similar', which needs the signatures of a run"),
        (lambda: headrace.pack([1], 0), "pack.row_tokens: must be at least 1 (got 0)"),
        (lambda: headrace.ready("x"), "ready: unknown piece 'x'; known: benchmarks, "),
        (lambda: headrace.Benchmarks({"a": ["a"]}), "Benchmarks: no item has 8 words or more"),
        (lambda: headrace.Benchmarks(["a"]), "Benchmarks: needs texts by name"),  # type: ignore[arg-type]
    ],
)
def test_bad_input(call, message):
    with pytest.raises(headrace.HeadraceError) as error:
        call()
    assert message in str(error.value)
