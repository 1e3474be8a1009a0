"""The stage packed: both splits together hold every position of every token shard once."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from headrace.data_prep.packed import Packed, Packing
from headrace.data_prep.selected import COPIES
from headrace.data_prep.shuffle.records import save_array
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenization.packing import similar_order
from headrace.data_prep.tokenization.shards import PackedRows, TokenShards, key_of
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.errors import ConfigError
from tests.unique_documents import unique_documents

LENGTHS = np.random.default_rng(7).lognormal(3, 1, (5, 30)).astype(int)
TEXTS = [["x" * n for n in lengths] for lengths in LENGTHS.tolist()]
IDS = [[f"page:{shard}:{i}" for i in range(30)] for shard in range(5)]


def tokens_of(texts, ids, folder: Path, run_stage) -> Artifact:
    """Tokens of ``texts`` in bytes: a text of n characters has n tokens."""
    inputs = {"unique": unique_documents(folder / "unique", texts, ids)}
    stage = Tokenizer(settings=Trained(vocabulary_size=257))
    inputs["tokenizer"] = run_stage(stage, inputs, folder / "tokenizer")
    return run_stage(Tokens(), inputs, folder / "tokens")


@pytest.fixture(scope="module")
def tokens(tmp_path_factory, run_stage) -> Artifact:
    return tokens_of(TEXTS, IDS, tmp_path_factory.mktemp("tokens"), run_stage)


def settings(**values) -> Packing:
    return Packing(**{"row_tokens": 64, "validation_fraction": 0.2, "group_shards": 2} | values)


def spans_of(packed: Artifact, split: str) -> list[tuple[int, int, int]]:
    rows = PackedRows(packed, split)
    return [span for row in range(len(rows)) for span in rows.spans(row).tolist()]


@pytest.mark.parametrize("method", ["best_fit", "concatenate", "padded"])
def test_every_token_but_the_first_of_a_shard_is_a_target_once(tokens, tmp_path, run_stage, method):
    packed = run_stage(Packed(packing=settings(method=method)), {"tokens": tokens}, tmp_path / "packed")
    spans = spans_of(packed, "train") + spans_of(packed, "validation")
    found = sorted((shard, p) for shard, start, length in spans for p in range(start + 1, start + length + 1))
    shards = TokenShards(tokens)
    assert found == [(s, p) for s in range(5) for p in range(1, int(shards.bounds(s)[-1]) + 1)]


def test_a_document_is_in_one_split_and_its_id_decides_which(tokens, tmp_path, run_stage):
    packed = run_stage(Packed(packing=settings()), {"tokens": tokens}, tmp_path / "packed")
    shards = TokenShards(tokens)
    split_of = {
        split: {(shard, shards.document(shard, start)) for shard, start, _ in spans_of(packed, split)}
        for split in ("train", "validation")
    }
    held = {(s, i) for s in range(5) for i in range(30) if key_of("split", IDS[s][i]) < 0.2 * 2**64}
    assert split_of["validation"] == held
    assert split_of["train"] == {(s, i) for s in range(5) for i in range(30)} - held


def test_the_split_does_not_depend_on_sharding(tokens, tmp_path, run_stage):
    one_shard = tokens_of(
        [[t for texts in TEXTS for t in texts]], [[i for ids in IDS for i in ids]], tmp_path, run_stage
    )
    counts = [
        run_stage(Packed(packing=settings()), {"tokens": artifact}, tmp_path / f"packed{i}").counts
        for i, artifact in enumerate((tokens, one_shard))
    ]
    for what in ("documents", "text_bytes", "tokens", "split_documents"):
        for split in ("train", "validation"):
            assert counts[0][f"{split}_{what}"] == counts[1][f"{split}_{what}"] > 0


def test_padding_is_counted(tokens, tmp_path, run_stage):
    packed = run_stage(Packed(packing=settings(method="padded"), frame_tokens=2), {"tokens": tokens}, tmp_path)
    rows = -(-(LENGTHS + 1) // 62)
    assert packed.counts["train_rows"] + packed.counts["validation_rows"] == rows.sum()
    padding = packed.counts["train_padding"] + packed.counts["validation_padding"]
    assert padding == 64 * rows.sum() - (LENGTHS + 1).sum()


def test_counts_and_files(tokens, tmp_path, run_stage):
    packed = run_stage(Packed(packing=settings()), {"tokens": tokens}, tmp_path / "packed")
    assert sorted(packed.manifest["files"]) == sorted(
        f"{kind}/{split}-0000{group}.npy"
        for kind in ("spans", "rows")
        for split in ("train", "validation")
        for group in range(3)
    )
    counts = packed.counts
    assert counts["train_documents"] + counts["validation_documents"] == 150
    assert counts["train_tokens"] + counts["validation_tokens"] == LENGTHS.sum() + 150
    assert counts["train_text_bytes"] + counts["validation_text_bytes"] == LENGTHS.sum()
    assert counts["train_split_documents"] + counts["validation_split_documents"] == (LENGTHS + 1 > 64).sum() > 0
    for split in ("train", "validation"):
        rows = PackedRows(packed, split)
        assert len(rows) == counts[f"{split}_rows"]
        assert counts[f"{split}_padding"] == 64 * len(rows) - counts[f"{split}_tokens"]


def test_order_and_repetition_of_tasks_do_not_matter(tokens, tmp_path, run_stage):
    first = run_stage(Packed(packing=settings()), {"tokens": tokens}, tmp_path / "a")
    second = run_stage(Packed(packing=settings()), {"tokens": tokens}, tmp_path / "b", backwards=True, twice=True)
    assert first.manifest == second.manifest


def test_a_group_without_documents_leaves_empty_files(tmp_path, run_stage):
    tokens = tokens_of([*TEXTS, []], [*IDS, []], tmp_path, run_stage)
    packed = run_stage(Packed(packing=settings(group_shards=1)), {"tokens": tokens}, tmp_path / "packed")
    rows = PackedRows(packed, "train")
    assert np.load(packed.path("rows/train-00005.npy")).tolist() == [0]
    assert len(rows.spans(len(rows) - 1)) > 0


def test_rows_outside_are_refused(tokens, tmp_path, run_stage):
    rows = PackedRows(run_stage(Packed(packing=settings()), {"tokens": tokens}, tmp_path / "packed"), "train")
    for row in (-1, len(rows)):
        with pytest.raises(IndexError, match=f"row {row} of {len(rows)}"):
            rows.spans(row)


@pytest.mark.parametrize(
    ("fraction", "split", "remedy"), [(1e-9, "validation", "raise it"), (1 - 1e-9, "train", "lower it")]
)
def test_an_empty_split_says_what_to_do(tokens, tmp_path, run_stage, fraction, split, remedy):
    with pytest.raises(ConfigError) as error:
        run_stage(Packed(packing=settings(validation_fraction=fraction)), {"tokens": tokens}, tmp_path / "packed")
    assert str(error.value) == (
        f"packing.validation_fraction: {fraction} of 150 documents leaves no document for the split '{split}'; "
        f"{remedy}, or give more documents"
    )


def test_an_empty_split_is_refused_before_documents_are_tokenized(tmp_path):
    unique = unique_documents(tmp_path / "unique" / "u", [["a text"] * 7, [], ["a text"] * 3])
    packed = Packed(packing=settings(validation_fraction=1e-9))
    with pytest.raises(ConfigError, match="1e-09 of 10 documents leaves no document for the split 'validation'"):
        packed.check_after("unique", unique)
    packed.check_after("clean", unique)
    Packed(packing=settings(validation_fraction=0.5)).check_after("unique", unique)
    packed.check_after("unique", unique_documents(tmp_path / "unique" / "v", [[]]))


def test_choices_for_different_purposes_are_independent():
    pairs = [(key_of("split", str(i)) >> 63, key_of("sample", str(i)) >> 63) for i in range(4_000)]
    assert abs(sum(a == b for a, b in pairs) / 4_000 - 0.5) < 0.04


def test_forgotten_documents_are_in_no_row_and_all_others_once(tokens, tmp_path, run_stage):
    gone = {(0, 3), (0, 4), (2, 0), (4, 29)}
    listed = tmp_path / "list.txt"
    listed.write_text("".join(f"{IDS[shard][i]}\n" for shard, i in sorted(gone)) + "elsewhere:7\n")
    before = {path: path.stat().st_mtime_ns for path in tokens.folder.rglob("*")}
    packed = run_stage(Packed(packing=settings(forget=str(listed))), {"tokens": tokens}, tmp_path / "packed")
    assert {path: path.stat().st_mtime_ns for path in tokens.folder.rglob("*")} == before
    spans = spans_of(packed, "train") + spans_of(packed, "validation")
    found = sorted((shard, p) for shard, start, length in spans for p in range(start, start + length))
    bounds = [TokenShards(tokens).bounds(shard).tolist() for shard in range(5)]
    stay = [(s, i) for s in range(5) for i in range(30) if (s, i) not in gone]
    assert found == [(s, p) for s, i in stay for p in range(bounds[s][i], bounds[s][i + 1])]
    assert packed.counts["forgotten_documents"] == len(gone)
    assert packed.counts["forgotten_ids_not_in_tokens"] == 1
    assert packed.counts["train_documents"] + packed.counts["validation_documents"] == len(stay)
    again = run_stage(
        Packed(packing=settings(forget=str(listed))), {"tokens": tokens}, tmp_path / "b", backwards=True, twice=True
    )
    assert again.manifest == packed.manifest


def test_ids_that_no_document_has_are_printed(tokens, tmp_path, run_stage, capsys):
    """Ids of another set of source.paths name other documents, or none."""
    listed = tmp_path / "listed"
    listed.write_text(f"{IDS[0][3]}\n{IDS[0][3]}\ncrawl/a.jsonl:1\ncrawl/a.jsonl:2\n")
    run_stage(Packed(packing=settings(forget=str(listed))), {"tokens": tokens}, tmp_path / "packed")
    assert capsys.readouterr().err == f"packed: 2 of the 3 ids in {listed} are no documents of tokens\n"


def test_a_list_of_other_documents_is_refused(tokens, tmp_path, run_stage):
    listed = tmp_path / "listed"
    listed.write_text("crawl/a.jsonl:1\ncrawl/a.jsonl:2\n")
    with pytest.raises(ConfigError) as error:
        run_stage(Packed(packing=settings(forget=str(listed))), {"tokens": tokens}, tmp_path / "packed")
    assert str(error.value) == (
        f"packing.forget: none of the 2 ids in '{listed}' is a document of tokens; ids depend on source.paths: write "
        "the list again (headrace forget), or set packing.forget=null"
    )


def test_the_address_depends_on_the_forgotten_ids_not_on_the_path_of_the_list(tmp_path):
    lists = {"a": "p:1\np:2\n", "b": "p:1\np:2\n", "c": "p:1\n"}
    for name, text in lists.items():
        (tmp_path / name).write_text(text)
    address = {name: Packed(packing=settings(forget=str(tmp_path / name))).address({"tokens": "0"}) for name in lists}
    none = Packed(packing=settings()).address({"tokens": "0"})
    assert address["a"] == address["b"]
    assert len({address["a"], address["c"], none}) == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot read '{path}' ([Errno 2] No such file or directory: '{path}'); give a list of ids"),
        ("p:1\np\n", "line 2 of '{path}', 'p', is not an id; create the list with `headrace forget`"),
    ],
)
def test_files_that_are_not_lists_of_ids(tmp_path, text, message):
    path = tmp_path / "list"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as error:
        Packed(packing=settings(forget=str(path))).raw_files()
    assert str(error.value) == "packing.forget: " + message.format(path=path)


def selected_of(copies, folder: Path) -> Artifact:
    """A stand-in for the stage ``selected``: the number of copies of each document."""
    for shard, numbers in enumerate(copies):
        out = TaskOutput(folder, "selected", shard)
        with out.shard(COPIES, "npy") as path:
            save_array(path, np.array(numbers, dtype="<u4"))
        out.done({"copies": sum(numbers)})
    return finish(folder, {"stage": "selected"}, {"selected": len(copies)})


def signatures_of(ids, folder: Path) -> Artifact:
    """A stand-in for the stage ``signatures``: documents of ``tokens``, and one before each that was removed since."""
    for shard, names in enumerate(ids):
        out = TaskOutput(folder, "signatures", shard)
        both = [name for kept in names for name in (f"removed:{kept}", kept)]
        values = np.random.default_rng(shard).integers(0, 9, (len(both), 6), dtype=np.uint32)
        for kind, array in {"ids": np.array([name.encode() for name in both]), "signatures": values}.items():
            with out.shard(kind, "npy") as path:
                save_array(path, array)
        out.done({})
    return finish(folder, {"stage": "signatures"}, {"signatures": len(ids)})


def test_similar_documents_are_concatenated_by_their_signatures(tokens, tmp_path, run_stage):
    """Those of two token shards together, the second copies after all first ones."""
    copies = [[number % 3 for number in range(30)]] * 5
    inputs = {"tokens": tokens, "signatures": signatures_of(IDS, tmp_path / "s")}
    inputs["selected"] = selected_of(copies, tmp_path / "c")
    stage = Packed(packing=settings(method="similar"), selects=True)
    assert {*stage.inputs} == {*inputs}
    packed = run_stage(stage, inputs, tmp_path / "packed")
    again = run_stage(stage, inputs, tmp_path / "again", backwards=True, twice=True)
    assert again.manifest == packed.manifest
    expected = []
    for group in ((0, 1), (2, 3), (4,)):
        documents = [(s, i) for s in group for i in range(30) if i % 3 and key_of("split", IDS[s][i]) >= 0.2 * 2**64]
        rows = [np.load(inputs["signatures"].shard("signatures", s, "npy"))[2 * i + 1] for s, i in documents]
        order = [documents[number] for number in similar_order(np.array(rows))]
        expected += [*order, *(one for one in order if one[1] % 3 == 2)]
    shards = TokenShards(tokens)
    bounds = [shards.bounds(shard).tolist() for shard in range(5)]
    begun = [(s, bounds[s].index(start)) for s, start, _ in spans_of(packed, "train") if start in bounds[s][:-1]]
    assert begun == expected


@pytest.mark.parametrize("method", ["best_fit", "concatenate", "padded", "similar"])
def test_each_position_is_in_as_many_rows_as_its_document_has_copies(tokens, tmp_path, run_stage, method):
    copies = np.random.default_rng(3).integers(0, 4, (5, 30)).tolist()
    forgotten = [IDS[0][3], IDS[4][29]]
    (tmp_path / "forget").write_text("\n".join(forgotten))
    for forget in (None, str(tmp_path / "forget")):
        inputs = {"tokens": tokens, "selected": selected_of(copies, tmp_path / "s" / str(bool(forget)))}
        inputs["signatures"] = signatures_of(IDS, tmp_path / "signatures" / str(bool(forget)))
        packed = run_stage(
            Packed(packing=settings(method=method, forget=forget), selects=True), inputs, tmp_path / str(bool(forget))
        )
        shards = TokenShards(tokens)
        for split in ("train", "validation"):
            found = Counter(
                (shard, p)
                for shard, start, length in spans_of(packed, split)
                for p in range(start + 1, start + length + 1)
            )
            expected = Counter()
            for shard, row in ((s, i) for s in range(5) for i in range(30)):
                is_held_out = key_of("split", IDS[shard][row]) < 0.2 * 2**64
                if is_held_out == (split == "validation") and not (forget and IDS[shard][row] in forgotten):
                    first, last = shards.bounds(shard)[row : row + 2].tolist()
                    expected.update({(shard, p): copies[shard][row] for p in range(first + 1, last + 1)})
            assert found == +expected
            assert packed.counts[f"{split}_text_bytes"] == found.total() - packed.counts[f"{split}_documents"]
        left = sum(map(sum, copies)) - (copies[0][3] + copies[4][29] if forget else 0)
        assert packed.counts["train_documents"] + packed.counts["validation_documents"] == left


def test_without_a_selection_the_address_is_as_before(tokens):
    packed = Packed(packing=settings())
    assert packed.inputs == ("tokens",)
    assert "selects" not in packed.without_raw_files({"tokens": "t"})["hashed"]
    assert Packed(packing=settings(), selects=True).inputs == ("tokens", "selected")
