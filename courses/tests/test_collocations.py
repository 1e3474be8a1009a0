"""Collocations of the tokens of a real run, and an address that has the content of their file."""

import collections
import json
import shutil
from pathlib import Path

import pytest

from courses.tests.command_line import courses_here
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.weights import Weights
from tests.small_runs import Corpus, build

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
        objective = {"type": "masked", "unit": "collocation", "collocations": str(file)}
        return decode(Weights, STAGE | {"objective": objective}).description(INPUTS)

    first = description(written)
    assert first == description(other)
    assert [file["name"] for file in first["raw_files"]] == ["objective.collocations/collocations.jsonl"]
    other.write_text(other.read_text() + "\n")
    assert description(other) != first
    with pytest.raises(ConfigError, match=r"^objective.collocations: there is no file .*; give JSON lines"):
        description(tmp_path / "none")


@pytest.mark.parametrize("option", ["--least", "--most", "--memory-mb"])
def test_numbers_below_one_are_refused(option, corpus):
    result = courses_here("collocations", option, "0", *corpus.overrides)
    assert result.returncode == 2
    assert "give numbers of at least 1" in result.stderr
