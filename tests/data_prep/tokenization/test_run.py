"""Kinds of tokenizers through the command line: a run of the data stages, its report, and settings that cannot work."""

import json
import re

import numpy as np
import pytest

from tests.command_line import headrace_here
from tests.small_runs import overrides, plain_corpus, run_with

WORDPIECE = ["tokenizer=wordpiece", "tokenizer.vocabulary_size=200", "tokenizer.alphabet_size=15"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kinds")
    for name, rows in zip(("a", "second"), plain_corpus(), strict=True):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return run_with(folder, [*overrides(folder, "none"), *WORDPIECE])


def test_a_run_with_wordpiece(corpus):
    found = headrace_here("why", "0:3", "--as", "token", *corpus.overrides)
    assert (found.returncode, found.stderr) == (0, "")
    assert re.search(r"position +token 3 of", found.stdout)
    tokens = corpus.artifact("tokens")
    assert tokens.counts["unknown_tokens"] > 0
    for shard in range(2):
        ids = np.fromfile(tokens.shard("tokens", shard, "bin"), "<u2")
        bounds = np.load(tokens.shard("bounds", shard, "npy"))
        assert np.flatnonzero(ids == 3).tolist() == bounds.tolist()  # [SEP] ends a document, and only that


def test_the_plan_knows_the_vocabulary_before_the_training():
    def vocabulary(*settings: str) -> str:
        (line,) = [line for line in headrace_here("plan", *settings).stdout.splitlines() if "vocabulary" in line]
        return line.rpartition(" ")[2]

    assert vocabulary("tokenizer=byte") == "257"
    assert vocabulary("tokenizer=byte", "tokenizer.special_tokens=t5") == "359"
    assert vocabulary("tokenizer=word") == "32,768"
