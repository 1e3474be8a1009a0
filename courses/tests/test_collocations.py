"""Collocations of the tokens of a real run, and an address that has the content of their file."""

import collections
import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from courses.tests.command_line import courses_here
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.data.batches import IGNORED
from headrace.train.data.order import row_generator
from headrace.train.objectives.masked import words_of
from headrace.train.weights import Weights
from headrace_courses.collocation_masks import MaskedCollocations, collocations_of, read_collocations
from tests.small_runs import Corpus, build
from tests.train.objectives.test_masked import END, FIRST, LAST, ROW, SIZE, VOCABULARY

STAGE = {
    "model": {
        "layers": 1, "width": 16, "heads": 2, "kv_heads": 2, "context": 64, "mlp_width": 32, "stack": "encoder",
    },
    "optimizer": {"type": "adamw", "learning_rate": 1e-3},
    "schedule": {"type": "cosine", "warmup_steps": 2},
    "training": {"steps": 2, "batch_rows": 2},
}  # fmt: skip
INPUTS = {"tokenizer": "a", "tokens": "b", "packed": "c"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory) -> Corpus:
    return build(tmp_path_factory.mktemp("collocations"), "none")


@pytest.fixture(scope="module")
def written(corpus, tmp_path_factory) -> Path:
    """The file that the command wrote."""
    file = tmp_path_factory.mktemp("out") / "collocations.jsonl"
    result = courses_here("collocations", "--least", "5", "--most", "300", "--to", str(file), *corpus.overrides)
    assert result.returncode == 0, result.stderr
    assert "300 of " in result.stdout
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    return file


def test_counts_are_those_of_the_tokens(corpus, written):
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert len(lines) == 300
    assert [line["pmi"] for line in lines] == sorted((line["pmi"] for line in lines), reverse=True)
    artifacts = {step.name: Artifact(step.folder) for step in corpus.run.stages if step.name in ("tokens", "tokenizer")}
    vocabulary = json.loads(artifacts["tokenizer"].path("tokenizer.json").read_text())["model"]["vocab"]
    shards, counts = TokenShards(artifacts["tokens"]), collections.Counter()
    wanted = {tuple(vocabulary[token] for word in line["words"] for token in word): line for line in lines}
    for shard in range(len(shards)):
        tokens = shards.slice(shard, 0, int(shards.bounds(shard)[-1])).tolist()
        for length in {len(gram) for gram in wanted}:
            counts.update(tuple(tokens[first : first + length]) for first in range(len(tokens) - length + 1))
    for gram, line in wanted.items():
        assert 2 <= len(line["words"]) <= 5
        assert 5 <= line["count"] <= counts[gram]  # a gram of tokens may end inside a word
    assert sum(line["count"] == counts[gram] for gram, line in wanted.items()) > 250


def test_the_address_has_the_content_of_the_file(written, tmp_path):
    other = tmp_path / written.name
    shutil.copyfile(written, other)

    def description(file: Path) -> dict:
        objective = {"type": "masked_collocations", "collocations": str(file)}
        return decode(Weights, STAGE | {"objective": objective}).description(INPUTS)

    first = description(written)
    assert first == description(other)
    assert [file["name"] for file in first["raw_files"]] == ["objective/collocations.jsonl"]
    other.write_text(other.read_text() + "\n")
    assert description(other) != first
    with pytest.raises(ConfigError, match=r"^objective.collocations: there is no file .*; give JSON lines"):
        description(tmp_path / "none")


@pytest.mark.parametrize("option", ["--least", "--most", "--memory-mb"])
def test_numbers_below_one_are_refused(option, corpus):
    result = courses_here("collocations", option, "0", *corpus.overrides)
    assert result.returncode == 2
    assert "give numbers of at least 1" in result.stderr


def test_collocations_are_hidden_as_a_whole(tmp_path):
    """The units are those of a plain walk that takes the longest n-gram; each is hidden in whole or not at all."""
    tokens = [62, 61, 63, 66, 70, 71, 62, 61, 64, 67, 71, 10, 13, 62, 61, 63, 66]
    file = tmp_path / "collocations.jsonl"
    grams = [
        [["62"], ["61", "63", "66"]],
        [["62"], ["61"]],
        [["62"], ["61", "63"]],
        [["61", "63", "66"], ["70"]],
        [["70"], ["71"]],
    ]
    file.write_text("".join(json.dumps({"words": gram, "count": 1, "pmi": 0.0}) + "\n" for gram in grams))
    masked = MaskedCollocations(collocations=str(file), rate=0.4, mask_share=1.0, random_share=0.0)
    ids = {str(number): number for number in range(SIZE)}
    vocabulary = dataclasses.replace(VOCABULARY, files=masked.read(ids))
    piece = np.array([END, *tokens, END])
    units = [{1, 2, 3, 4}, {5, 6}, {7, 8}, {9}, {10}, {11}, {12}, {13}, {14, 15, 16, 17}]
    assert [sorted(unit) for unit in units] == [
        sorted(unit)
        for unit in collocations_of(
            words_of(np.array([FIRST, *tokens, LAST]), np.arange(1, 18), VOCABULARY),
            np.array([FIRST, *tokens, LAST]),
            vocabulary.files,
        )
    ]
    hidden_units = set()
    for number in range(200):
        arrays = masked.row([piece], ROW, vocabulary, row_generator(1, "training", number))
        hidden = set(arrays["masked"][arrays["targets"] != IGNORED].tolist())
        chosen = [unit for unit in units if unit & hidden]
        assert set().union(*chosen) == hidden
        hidden_units.update(map(frozenset, chosen))
    assert hidden_units == set(map(frozenset, units))


def test_a_file_that_is_none_of_collocations_is_refused(tmp_path):
    file = tmp_path / "collocations.jsonl"
    with pytest.raises(ConfigError, match=r"^objective.collocations: .* cannot be read \(No such file .*\); give"):
        read_collocations(file, {})
    file.write_text('{"words": [["mill"], ["stone"]]}\n')
    with pytest.raises(ConfigError, match=r"^objective.collocations: .* has 'stone', which the tokenizer lacks"):
        read_collocations(file, {"mill": 1})
    file.write_text("mill stone\n")
    with pytest.raises(ConfigError, match=r"^objective.collocations: line 1 of .* is no collocation; give"):
        read_collocations(file, {"mill": 1})
