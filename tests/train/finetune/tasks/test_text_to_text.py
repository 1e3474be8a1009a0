"""Text-to-text: stacks that write learn a task, greedy answers equal the generator's, and rows are those of T5."""

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.data.batches import IGNORED
from headrace.train.finetune.files.examples import Example
from headrace.train.finetune.session import Material
from headrace.train.finetune.tasks.sequences import Form
from headrace.train.finetune.tasks.text_to_text import TextToText
from headrace.train.inference.language_model import LanguageModel
from headrace.train.inference.settings import Inference
from tests.train.finetune.small_tasks import BAD, FILLERS, GOOD, SIZES, sentiment, stage
from tests.train.finetune.test_parity import ADAM, BATCH, their_training

WORDS = ("sst2", "sentence", ":", "negative", "positive", *FILLERS, *GOOD, *BAD)
T5 = ModelConfig(
    **SIZES, stack="encoder_decoder", attention_scale_width=1, positions="t5", norm="rmsnorm", norm_epsilon=1e-6,
    activation="relu", bias=False, scaled_output=True, initialization="t5",
)  # fmt: skip
DECODER = dataclasses.replace(T5, stack="decoder")
CLASSES = {"0": "negative", "1": "positive"}
TASK = {
    "type": "text_to_text",
    "prefix": "sst2",
    "format": {"type": "fields", "texts": ["sentence"], "label": "label", "labels": CLASSES},
}


def words_tokenizer(words: Sequence[str] = WORDS) -> Tokenizer:
    """Words after T5's special tokens."""
    special = ["<pad>", "</s>", "<unk>"]
    vocabulary = {word: number for number, word in enumerate([*special, *words])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.add_special_tokens(special)
    return tokenizer


def words_artifact(folder: Path, words: Sequence[str]) -> Artifact:
    out = TaskOutput(folder, "tokenizer", 0)
    with out.file("tokenizer.json") as path:
        words_tokenizer(words).save(str(path))
    out.done({})
    return finish(folder, {"stage": "tokenizer"}, {"tokenizer": 1})


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return words_artifact(tmp_path_factory.mktemp("tokenizer"), WORDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["t5", "causal", "prefix"])
def test_a_model_that_writes_learns_the_words(kind, tmp_path, tokenizer, run_stage) -> None:
    """The predictions equal what ``generate`` writes with the exported folder after the same text."""
    files = sentiment(tmp_path)
    task = TASK | {"looks_ahead": kind == "prefix"}
    model = T5 if kind == "t5" else DECODER
    recipe = {"context": 24, "epochs": 8}
    artifact = run_stage(stage(model, files, task, **recipe), {"tokenizer": tokenizer}, tmp_path / "finetuned")
    scores = read_json(artifact.path("scores.json"))
    assert scores["scores"]["accuracy"]["mean"] > 0.9
    lines = [line.split("\t") for line in (tmp_path / "validation.tsv").read_text().splitlines()[1:]]
    found = artifact.path("seed_1/predictions.jsonl").read_text().splitlines()
    predictions = [json.loads(line)["prediction"] for line in found]
    assert set(predictions) <= {"positive", "negative"}
    prompts = [f"sst2 sentence: {text}" for text, _ in lines]
    written = LanguageModel.open(artifact.folder / "hf", Inference(device="cpu")).generate(prompts, max_tokens=2)
    assert [text.strip() for text in written] == predictions


def fitted(model: ModelConfig, context: int, examples: list[Example], **more: object):
    task = decode(TextToText, TASK | more)
    task.check(examples, examples)
    return task.fitted(examples, Form(Encoder(words_tokenizer()), model, context))


EXAMPLES = [
    Example(id="1", texts={"sentence": "a good b"}, label="positive"),
    Example(id="2", texts={"sentence": "c " * 20}, label="negative"),
]


def test_rows_of_two_stacks_are_a_prompt_and_an_answer():
    task = fitted(T5, 8, EXAMPLES)
    rows = task.rows(EXAMPLES, True)
    arrays = task.arrays(rows)
    decoder = words_tokenizer()
    assert decoder.decode(arrays["encoder_inputs"][0][:7].tolist(), skip_special_tokens=False) == (
        "sst2 sentence : a good b </s>"
    )
    assert arrays["encoder_documents"].tolist() == [[0] * 7 + [-1], [0] * 8]
    assert rows[1].cut_tokens == 16
    positive, end = decoder.token_to_id("positive"), 1
    assert arrays["inputs"][0][:2].tolist() == [0, positive]
    assert arrays["targets"][0].tolist() == [positive, end] + [IGNORED] * 6
    assert task.counts(arrays) == {"nll": 4}
    assert task.answer_tokens == 2


def test_rows_of_one_stack_are_trained_on_the_answer_alone():
    task = fitted(DECODER, 12, EXAMPLES, looks_ahead=True)
    rows = task.rows(EXAMPLES, True)
    arrays = task.arrays(rows, 12)
    decoder = words_tokenizer()
    assert decoder.decode(arrays["inputs"][0][:10].tolist(), skip_special_tokens=False) == (
        "</s> sst2 sentence : a good b </s> positive </s>"
    )
    positive = decoder.token_to_id("positive")
    assert np.flatnonzero(arrays["targets"][0] != IGNORED).tolist() == [7, 8]
    assert arrays["targets"][0][7:9].tolist() == [positive, 1]
    assert arrays["prefix"].sum(1).tolist() == arrays["prompts"].tolist() == [8, 10]
    assert (arrays["documents"][1] == 0).all()


def test_examples_without_a_result_are_not_trained_on():
    with pytest.raises(ConfigError) as caught:
        fitted(T5, 8, [Example(id="dev.tsv:2", texts={"sentence": "a"})])
    assert str(caught.value) == (
        "finetune.train: example dev.tsv:2 has no result to write; give files with results, and name their field "
        "(label, value, gold or answer) in the format"
    )


@pytest.mark.parametrize(("model", "context"), [(T5, 4), (DECODER, 6)])
def test_the_context_has_room_for_prompt_and_answer(model, context):
    with pytest.raises(ConfigError) as caught:
        fitted(model, context, EXAMPLES, answer_tokens=4)
    assert str(caught.value) == (
        f"finetune.context: is {context}, and an answer of up to 4 tokens leaves none for the text before it; "
        "give a larger one, or finetune.task.answer_tokens"
    )


def test_f1_needs_two_classes():
    three = {"type": "fields", "texts": ["sentence"], "label": "label", "labels": CLASSES | {"2": "neutral"}}
    with pytest.raises(ConfigError) as caught:
        fitted(T5, 8, EXAMPLES, format=three, metrics=["f1"])
    assert str(caught.value) == (
        "finetune.task.metrics: f1 is that of two classes, and the format knows 3; give the classes as format.labels, "
        "or take macro_f1"
    )


@pytest.mark.slow
def test_t5_of_transformers_has_the_same_losses_and_predictions(tmp_path, tokenizer, run_stage) -> None:
    recipe = {"context": 24, "epochs": 2, "batch_rows": BATCH, "evaluate_every": 100, "optimizer": ADAM}
    tuning = stage(T5, sentiment(tmp_path), TASK, **recipe)
    artifact = run_stage(tuning, {"tokenizer": tokenizer}, tmp_path / "finetuned")
    file = tokenizer.path("tokenizer.json")
    material = Material.read(tuning, file, None)
    material.network.export(material.network.first_weights(1), file, tmp_path / "first")
    model, losses = their_training(tmp_path / "first", tuning, material, seed=1)
    assert type(model).__name__ == "T5ForConditionalGeneration"
    ours = [row["loss"] for row in read_metrics(artifact.path("seed_1/metrics.jsonl"))]
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(losses), rtol=0, atol=1e-5)

    predictions = artifact.path("seed_1/predictions.jsonl").read_text().splitlines()
    saved = transformers.T5ForConditionalGeneration.from_pretrained(artifact.folder / "hf").eval()
    arrays = material.task.arrays(material.validation_rows)
    mask = torch.from_numpy(arrays["encoder_documents"] >= 0).long()
    for one in (model, saved):
        found = one.generate(
            torch.from_numpy(arrays["encoder_inputs"]), attention_mask=mask, do_sample=False, num_beams=1,
            max_new_tokens=material.task.answer_tokens,
        )  # fmt: skip
        texts = [material.task.text(row) for row in found[:, 1:].numpy()]
        assert texts == [json.loads(line)["prediction"] for line in predictions]
