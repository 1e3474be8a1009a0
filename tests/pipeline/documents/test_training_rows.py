"""``headrace why STEP --as step``: what a step sees, against what training reads, for a run alone and for a mixture."""

import dataclasses
import re
from collections import Counter
from pathlib import Path

import pytest

from headrace.data_prep.document import read_documents
from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import write_sealed
from headrace.pipeline.documents import training_rows
from headrace.pipeline.documents.training_rows import INPUTS
from headrace.pipeline.output.terminal import Fact
from headrace.pipeline.run.planner import Run, plan
from headrace.train.data.batches import IGNORED
from headrace.train.data.mixture import Mix, training_data
from tests.command_line import headrace_here
from tests.small_runs import Corpus, build, with_more
from tests.train.causal_rows import causal

BATCH_ROWS, STEPS = 8, 12
TRAINING = [f"training.batch_rows={BATCH_ROWS}", f"training.steps={STEPS}", "training.seed=3"]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Corpus:
    """A run on pages that C4's rules cleaned."""
    corpus = build(tmp_path_factory.mktemp("alone"), "c4")
    values = compose([*corpus.overrides, *TRAINING])
    return dataclasses.replace(corpus, run=Run(decoded(values), values, corpus.steps, [*corpus.overrides, *TRAINING]))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory, alone) -> Corpus:
    """The plain corpus, and one row of ``alone`` for every three of its own."""
    folder = tmp_path_factory.mktemp("mixed")
    plain = build(folder, "none")
    other = alone.artifact("packed").folder
    more = [f"mixture.sources=[{{name: crawl, weight: 3}}, {{name: other, weight: 1, packed: '{other}'}}]"]
    tokenizer = alone.artifact("tokenizer").path("tokenizer.json")
    return with_more(plain, [*TRAINING, *more], tokenizer)


def rows_of(facts: list[Fact]) -> dict[int, list[Fact]]:
    """Place → the facts of the row there."""
    found: dict[int, list[Fact]] = {}
    for name, value in facts:
        if name == "row":
            place = int(re.search(r"at position (\d+) of", value)[1])
            assert place not in found
            found[place] = []
        if name in ("row", "span"):
            found[place].append((name, value))
    return found


def texts_of(corpus: Corpus) -> dict[tuple[str, str], str]:
    """Id and URL → text of every document of its ``unique``. Files of two corpora have the same names, so the same
    ids."""
    documents = (one for path in corpus.artifact("unique").shards("documents") for one in read_documents(path))
    return {(one.id, one.metadata["url"]): one.text for one in documents}


@pytest.mark.parametrize("which", ["alone", "mixed"])
def test_the_pages_are_those_that_training_reads(request, which, alone, mixed):
    """Every row's targets, decoded, are in the texts of the documents that are named, in their order."""
    corpus = request.getfixturevalue(which)
    config = corpus.config
    inputs = {name: corpus.artifact(name) for name in INPUTS}
    rows, numbers = training_data(3, inputs, Mix.of(config.mixture, config.packing.row_tokens))
    encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
    texts = texts_of(alone) | texts_of(mixed)
    for step in (1, 5, STEPS):
        seen = rows_of(list(training_rows.step_facts(corpus.run, str(step))))
        first = (step - 1) * BATCH_ROWS
        assert list(seen) == list(range(first, first + BATCH_ROWS))
        batch = causal(rows, numbers.batch(first, BATCH_ROWS))
        for b, place in enumerate(seen):
            spans = [value for name, value in seen[place] if name == "span"]
            assert len(spans) == batch.documents[b].max() + 1
            for number, span in enumerate(spans):
                targets = batch.targets[b][batch.documents[b] == number]
                length, identity, url = re.fullmatch(r"([\d,]+) tokens from .*: (\S+) (\S+)", span).groups()
                assert len(targets) == int(length)
                assert encoder.decode(targets[targets != encoder.end_of_text]) in texts[identity, url]
                assert IGNORED not in targets


def test_an_epoch_shows_every_training_document(alone):
    rows = len(training_data(3, {name: alone.artifact(name) for name in INPUTS}, Mix())[0])
    assert rows < STEPS * BATCH_ROWS
    seen: Counter[str] = Counter()
    for step in range(1, -(-rows // BATCH_ROWS) + 1):
        for place, facts in rows_of(list(training_rows.step_facts(alone.run, str(step)))).items():
            seen.update(value.split()[-2] for name, value in facts if name == "span" and place < rows)
    train = {one for one, _ in texts_of(alone) if ("split", "train") in alone.why(one)}
    assert set(seen) == train


@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_ranks_share_what_all_of_them_see(mixed, ranks):
    everything = rows_of(list(training_rows.step_facts(mixed.run, "7", ranks=str(ranks))))
    parts = [rows_of(list(training_rows.step_facts(mixed.run, "7", str(rank), str(ranks)))) for rank in range(ranks)]
    assert [len(part) for part in parts] == [BATCH_ROWS // ranks] * ranks
    assert {place: facts for part in parts for place, facts in part.items()} == everything


def test_the_sources_of_a_mixture_are_named(mixed):
    facts = list(training_rows.step_facts(mixed.run, "4"))
    named = Counter(re.search(r"^\d+ of (\w+),", value)[1] for name, value in facts if name == "row")
    assert named == {"crawl": 6, "other": 2}
    assert facts[:2] == [("step", f"4 of {STEPS}: rows 24 to 31 of the training"), ("ranks", "all 1")]
    assert [name for name, _ in facts[2:4]] == ["epoch:crawl", "epoch:other"]


def test_an_update_that_was_left_out_is_told_by_the_newest_checkpoint(alone, tmp_path):
    steps = plan(decoded(compose([*alone.overrides, *TRAINING, "until=weights"])))[:-1]
    weights = dataclasses.replace(steps[-1], folder=tmp_path)
    run = dataclasses.replace(alone.run, stages=[*steps[:-1], weights])
    for step, left_out in ((8, []), (11, [[4, 4], [6, 8], [6, 10]])):
        (tmp_path / f"checkpoints/step_{step:08d}").mkdir(parents=True)
        write_sealed(tmp_path / f"checkpoints/step_{step:08d}/manifest.json", {"left_out": left_out})
    told = [dict(training_rows.step_facts(run, str(step))).get("update") for step in range(1, 12)]
    spikes = [None, None, None, 4, None, 8, 8, 8, 10, 10, None]
    assert told == [spike and f"left out: the loss of step {spike} was a spike" for spike in spikes]
    (tmp_path / "checkpoints/step_00000012").mkdir()
    write_sealed(tmp_path / "checkpoints/step_00000012/manifest.json", {"left_out": [], "without_targets": [2]})
    assert dict(training_rows.step_facts(run, "2"))["update"] == "none: no row of the step has a target"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("0",), "STEP: '0' is not a number from 1 to 12; give one"),
        (("13",), "STEP: '13' is not a number from 1 to 12; give one"),
        (("1", "2", "2"), "RANK: '2' is not a number from 0 to 1; give one"),
        (("1", "x", "2"), "RANK: 'x' is not a number from 0 to 1; give one"),
        (("1", "", "9"), "RANKS: '9' is not a number from 1 to 8; give one"),
        (("1", "", "3"), "training.batch_rows: 8 rows cannot be dealt to 3 ranks; give a multiple of 3"),
    ],
)
def test_what_is_no_step_or_rank_is_refused(alone, words, message):
    with pytest.raises(ConfigError) as error:
        list(training_rows.step_facts(alone.run, *words))
    assert str(error.value) == message


def test_the_command(mixed):
    """The mixture as command-line arguments gives the library's result, without a training."""
    done = headrace_here("why", "2", "--as", "step", "--rank=1", "--ranks", "4", *mixed.overrides)
    assert done.returncode == 0, done.stderr
    expected = [value for _, value in training_rows.step_facts(mixed.run, "2", "1", "4")]
    assert [re.sub(r"^\S*\s+", "", line) for line in done.stdout.splitlines()] == expected
    assert "weights" not in {path.name for path in Path(mixed.config.root).iterdir()}


def test_the_number_of_ranks_is_that_of_the_training(alone):
    values = compose([*alone.overrides, *TRAINING, "cluster=slurm", "cluster.nodes=2", "cluster.ranks_per_node=4"])
    run = dataclasses.replace(alone.run, config=decoded(values))
    assert ("ranks", "all 8") in list(training_rows.step_facts(run, "1"))
    local = dataclasses.replace(alone.run, config=decoded(compose([*alone.overrides, *TRAINING, "ranks=2"])))
    assert ("ranks", "1 of 2") in list(training_rows.step_facts(local, "1", "1"))
