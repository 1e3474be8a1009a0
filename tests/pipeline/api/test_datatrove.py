"""The blocks of ``headrace.datatrove`` in datatrove's own executor: the decisions and files of the functions."""

import itertools
import json
import pickle

import numpy as np
import pytest
import zstandard
from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.dedup.minhash import MinhashDedupBuckets, MinhashDedupCluster, MinhashDedupFilter
from datatrove.pipeline.readers import JsonlReader
from datatrove.pipeline.writers import JsonlWriter

import headrace
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenizer import Tokenizer
from headrace.datatrove import Clean, Pii, Signature, Text, Tokens, Unique
from headrace.pipeline.core.errors import ConfigError
from tests.stage_run import run_here
from tests.unique_documents import unique_documents

RULES = ["gopher_repetition", {"type": "c4_lines", "rules": [{"type": "end_mark"}], "min_sentences": 3}]


@pytest.fixture(scope="module")
def pages(data_folder):
    """Real pages: id → HTML."""
    path = data_folder("web/wcxb_dev.jsonl.zst")
    with zstandard.open(path, "rt", dctx=zstandard.ZstdDecompressor(max_window_size=2**27)) as stream:
        rows = [json.loads(line) for line in itertools.islice(stream, 0, 300, 10)]
    return {row["id"]: row["html"] for row in rows} | {"empty": "<p>"}


def written(folder):
    """The documents in a folder of JsonlWriter, by id."""
    lines = [line for path in sorted(folder.rglob("*.jsonl")) for line in path.read_text().splitlines()]
    return {row["id"]: row for row in map(json.loads, lines)}


def written_pages(pages, folder):
    rows = [json.dumps({"text": html, "id": name}) for name, html in pages.items()]
    folder.mkdir()
    for number in range(2):
        (folder / f"{number}.jsonl").write_text("\n".join(rows[number::2]) + "\n")
    return JsonlReader(str(folder))


def test_pages_to_tokens(pages, tmp_path):
    unique = unique_documents(tmp_path / "unique", [["the cat sat on the mat"]])
    trained = run_here(Tokenizer(settings=Trained(vocabulary_size=280)), {"unique": unique}, tmp_path / "tokenizer")
    rejected = {name: JsonlWriter(str(tmp_path / name), compression=None) for name in ("text", "clean")}
    steps = [
        written_pages(pages, tmp_path / "pages"),
        Text(exclusion_writer=rejected["text"]),
        Clean(RULES, exclusion_writer=rejected["clean"]),
        Pii(),
        JsonlWriter(str(tmp_path / "kept"), compression=None),
        Tokens(str(tmp_path / "tokens"), str(trained.folder), shuffle_documents=False),
    ]
    assert len(pickle.dumps(steps[1:4])) < 20_000
    executor = LocalPipelineExecutor(steps, tasks=2, workers=1, logging_dir=str(tmp_path / "logs"))
    stats = {one.name: one for one in executor.run().stats}
    tokenizer, cleaner = headrace.Tokenizer(trained.folder), headrace.Cleaner(RULES)
    kept, without_text, dropped = (written(tmp_path / name) for name in ("kept", "text", "clean"))
    assert len(kept) > 5
    assert len(dropped) > 3
    for name, html in pages.items():
        page = headrace.page(html)
        verdict = cleaner(page.text) if page else None
        if verdict is None:
            assert without_text[name]["metadata"]["filter_reason"] == page.rule
        elif verdict:
            assert kept[name]["text"] == headrace.mask_pii(verdict.text)
        else:
            assert dropped[name]["metadata"]["filter_reason"] == verdict.rule
    stored = np.concatenate([np.fromfile(path, "<u2") for path in sorted((tmp_path / "tokens").glob("*.ds"))])
    ids = [part for row in kept.values() for part in (tokenizer.encode(row["text"]), [tokenizer.end_of_text])]
    assert stored.tolist() == np.concatenate(ids).tolist()
    (clean,) = (one.stats for name, one in stats.items() if "Headrace gopher_repetition, c4_lines" in name)
    rules = [row["metadata"]["filter_reason"] for row in dropped.values()]
    assert {name: clean[f"dropped_{name}"].total for name in rules} == {name: rules.count(name) for name in rules}


def test_signatures_go_on_with_the_steps_of_datatrove(tmp_path):
    words = np.random.default_rng(1).integers(0, 3000, (40, 120))
    texts = [" ".join(f"w{number}" for number in row) for row in words]
    texts += [f"{text} again" for text in texts[:15]]
    reader = written_pages({f"d{number}": text for number, text in enumerate(texts)}, tmp_path / "pages")
    folders = {name: str(tmp_path / name) for name in ("signatures", "buckets", "clusters", "kept")}

    def run(tasks, *steps):
        logs = str(tmp_path / "logs" / str(steps[-1]))
        LocalPipelineExecutor([*steps], tasks=tasks, workers=1, logging_dir=logs).run()

    run(2, reader, Signature(folders["signatures"]))
    run(28, MinhashDedupBuckets(folders["signatures"], folders["buckets"]))
    run(1, MinhashDedupCluster(folders["buckets"], folders["clusters"]))
    run(2, reader, MinhashDedupFilter(folders["clusters"]), JsonlWriter(folders["kept"], compression=None))
    assert len(written(tmp_path / "kept")) == 40
    sizes = [path.stat().st_size for path in (tmp_path / "signatures").rglob("*.sig")]
    assert len(sizes) == 28
    assert min(sizes) > 0


def test_unique():
    text = " ".join(map(str, range(200)))
    documents = [Document(text, "b"), Document(text, "a"), Document(f"{text} 1", "c"), Document("other", "d")]
    step = Unique()
    assert [one.id for one in step(iter(documents))] == ["c", "d"]
    assert {name: value.total for name, value in step.stats.stats.items() if "dropped" in name} == {
        "dropped": 2,
        "dropped_near_duplicate": 2,
    }


def test_ids_or_texts_are_sampled():
    rules = [{"type": "bad_words", "filter_fraction": 0.5}]
    by_text = sum(map(bool, map(headrace.Cleaner(rules), [f"ass {number}" for number in range(100)])))
    by_id = [*map(Clean(rules).filter, [Document("ass", str(number)) for number in range(100)])].count(True)
    assert 30 < by_text < 70 > by_id > 30


def test_bad_arguments(tmp_path):
    for call in (
        lambda: Text(markdwn=True),
        lambda: Clean("c5"),
        lambda: Pii(["mail"]),
        lambda: Unique(3),
        lambda: Tokens(str(tmp_path), str(tmp_path), save_loss_metadata=True),
    ):
        with pytest.raises((ConfigError, TypeError)):
            call()
