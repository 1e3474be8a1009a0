"""Tasks that write texts: prompts by templates, BLEU and ROUGE, beam search, label smoothing, averaged checkpoints."""

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
import torch
from rouge_score.rouge_scorer import RougeScorer

from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import decode
from headrace.pipeline.report.training_section import FinetunedScores
from headrace.train.checkpoint.saver import assembled, averaged, shapes_of
from headrace.train.data.batches import IGNORED
from headrace.train.families.hf_folder import read_weights
from headrace.train.finetune.session import Material
from headrace.train.finetune.settings import Finetune
from headrace.train.finetune.tasks.text_to_text import TextToText
from headrace.train.inference.language_model import LanguageModel
from headrace.train.inference.settings import Inference
from tests.train.finetune.small_tasks import FILLERS, stage
from tests.train.finetune.tasks.test_text_to_text import DECODER, T5, words_artifact

WORDS = ("say", "in", "capitals", ":", *FILLERS, *(word.upper() for word in FILLERS))
FORMAT = {"type": "templates", "prompt": "say in capitals: {low}", "answer": "{high}", "lines": ["low", "high"]}
TASK = {"type": "text_to_text", "format": FORMAT, "metrics": ["bleu", "chrf", "rougeL"]}
BEAMS = {"beams": 3, "length_penalty": 0.6}


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return words_artifact(tmp_path_factory.mktemp("tokenizer"), WORDS)


def capitals(folder: Path, rows: int = 96, held_out: int = 16) -> dict[str, list[str]]:
    """Aligned files: the second line has the words of the first one in capitals, the last word first."""
    chosen, lines = random.Random(0), dict[str, None]()
    while len(lines) < rows + held_out:
        lines[" ".join(chosen.choices(FILLERS[:6], k=chosen.randint(2, 5)))] = None
    of_split = {"train": list(lines)[:rows], "validation": list(lines)[rows:]}
    for split, texts in of_split.items():
        answers = [" ".join(reversed(text.upper().split())) for text in texts]
        for name, own in (("low", texts), ("high", answers)):
            (folder / f"{split}.{name}").write_text("".join(f"{text}\n" for text in own))
    return {split: [str(folder / f"{split}.{name}") for name in ("low", "high")] for split in of_split}


def predictions_of(artifact: Artifact) -> list[dict[str, Any]]:
    return [json.loads(line) for line in artifact.path("seed_1/predictions.jsonl").read_text().splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize("model", [T5, DECODER], ids=["two stacks", "one stack"])
def test_texts_of_beam_search_are_scored_as_the_packages_do(model, tmp_path, tokenizer, run_stage) -> None:
    """They equal those that the generator finds with the exported folder."""
    files = capitals(tmp_path)
    tuning = stage(model, files, TASK | BEAMS, context=24, epochs=4, evaluate_every=24)
    artifact = run_stage(tuning, {"tokenizer": tokenizer}, tmp_path / "finetuned")
    predictions = predictions_of(artifact)
    written, right = ([row[name] for row in predictions] for name in ("prediction", "label"))
    assert right == Path(files["validation"][1]).read_text().splitlines()
    assert len(set(written)) > 2
    prompts = [f"say in capitals: {text}" for text in Path(files["validation"][0]).read_text().splitlines()]
    opened = LanguageModel.open(artifact.folder / "hf", Inference(device="cpu"))
    texts = opened.generate(prompts, max_tokens=6, **BEAMS)
    assert [text.strip() for text in texts] == written

    scores = read_json(artifact.path("scores.json"))
    bleu, chrf = sacrebleu.metrics.BLEU(), sacrebleu.metrics.CHRF()
    rouge = RougeScorer(["rougeL"])
    f = [rouge.score(truth, text)["rougeL"].fmeasure for truth, text in zip(right, written, strict=True)]
    assert {name: row["mean"] for name, row in scores["scores"].items()} == {
        "bleu": bleu.corpus_score(written, [right]).score,
        "chrf": chrf.corpus_score(written, [right]).score,
        "rougeL": pytest.approx(sum(f) / len(f), abs=1e-12),
    }
    assert scores["metric"] == "bleu"
    signatures = {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}
    assert scores["seeds"][0]["signatures"] == signatures
    assert f"bleu of sacrebleu: {signatures['bleu']}" in FinetunedScores.of(artifact).notes


def material_of(tuning: Any, tokenizer: Artifact) -> Material:
    return Material.read(tuning, tokenizer.path("tokenizer.json"), None)


@pytest.mark.parametrize("looks_ahead", [False, True])
@pytest.mark.parametrize("model", [T5, DECODER], ids=["two stacks", "one stack"])
def test_label_smoothing_is_that_of_torch(model, looks_ahead, tmp_path, tokenizer) -> None:
    """The gradient of the first term is that of torch's smoothed cross-entropy, and validation has both terms."""
    task = TASK | {"label_smoothing": 0.1, "looks_ahead": looks_ahead and model is DECODER, "answer_tokens": 6}
    material = material_of(stage(model, capitals(tmp_path), task, context=24), tokenizer)
    network = material.network
    built = assembled(network.first_weights(1), network.model, network.vocabulary, material.task.context_form)
    fitted = dataclasses.replace(material.task, answer_tokens=0)
    batch = {name: torch.from_numpy(values) for name, values in fitted.arrays(material.rows[:8]).items()}
    losses = fitted.losses(built, batch)
    assert set(losses) == set(fitted.weights) == {"nll", "label_smoothing"}
    losses["nll"].backward()
    gradient = {name: value.grad.clone() for name, value in built.named_parameters()}
    built.zero_grad()
    outputs = fitted.outputs(built, batch)
    sums = fitted.sums(outputs, batch)
    torch.testing.assert_close(sums["nll"], losses["nll"])
    torch.testing.assert_close(sums["label_smoothing"], losses["label_smoothing"])
    sum(sums.values()).backward()
    for name, value in built.named_parameters():
        torch.testing.assert_close(gradient[name], value.grad, rtol=1e-4, atol=1e-5)
    targets = batch["targets"]
    assert fitted.counts({"targets": targets.numpy()})["label_smoothing"] == int((targets != IGNORED).sum())


@pytest.mark.slow
def test_the_result_is_the_mean_of_the_last_checkpoints(tmp_path, tokenizer, run_stage) -> None:
    tuning = stage(T5, capitals(tmp_path), TASK, context=24, epochs=4, evaluate_every=6, average_last=3)
    kept = dict[str, torch.Tensor]()

    def keep(paths: list[Path], shapes: Any) -> dict[str, torch.Tensor]:
        assert len(paths) == 3
        kept.update(averaged(paths, shapes))
        return kept

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.train.finetune.session.averaged", keep)
        artifact = run_stage(tuning, {"tokenizer": tokenizer}, tmp_path / "finetuned")
    result = read_json(artifact.path("seed_1/result.json"))
    assert result["averaged_steps"] == [12, 18, 24]
    model = material_of(tuning, tokenizer).network.empty()
    assert {name: value.shape for name, value in kept.items()} == shapes_of(model)
    for name, value in read_weights(model, artifact.folder / "hf"):
        torch.testing.assert_close(value, kept[name], rtol=0, atol=0)
    rows = read_metrics(artifact.path("seed_1/metrics.jsonl"))
    assert [row["step"] for row in rows if "validation_bleu" in row] == [6, 12, 18, 24]
    assert "mean of the last 3 checkpoints; the model of seed 1 is in hf/" in FinetunedScores.of(artifact).notes


def test_settings_that_contradict_each_other_are_refused():
    with pytest.raises(ConfigError) as caught:
        decode(TextToText, TASK | {"length_penalty": 0.6})
    assert str(caught.value) == (
        "finetune.task.length_penalty: is 0.6 without beam search; give finetune.task.beams, such as 4"
    )


PRESETS = {
    "cnn_dm": ({"article": "A.", "highlights": "B."}, "A."),
    "xsum": ({"document": "A.", "summary": "B."}, "A."),
}
"""Preset → a record, and the text that the model reads."""


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_read_published_records(preset, tmp_path) -> None:
    published(preset, PRESETS[preset], tmp_path)


def published(preset: str, expected: tuple[dict[str, str], str], tmp_path: Path) -> None:
    """Asserts that ``preset`` reads the record and makes the prompt that are ``expected``."""
    record, prompt = expected
    (tmp_path / "a.jsonl").write_text(json.dumps(record) + "\n")
    settings = compose([f"finetune={preset}", "finetune.train=[a]", "finetune.validation=[a]"])["finetune"]
    finetune = decode(Finetune, settings)
    ((example,), dropped) = finetune.task.read([str(tmp_path / "a.jsonl")])
    assert finetune.task.inputs(example) == prompt
    assert finetune.task.text_form.targets(example) == (list(record.values())[1],)
    assert dropped == {}


@pytest.mark.parametrize("preset", ["translation", "translation_2017"])
def test_presets_of_aligned_files(preset, tmp_path) -> None:
    files = capitals(tmp_path, 8, 4)
    settings = compose([f"finetune={preset}", "finetune.train=[a]", "finetune.validation=[a]"])["finetune"]
    task = decode(Finetune, settings).task
    examples, _ = task.read(files["train"])
    assert [task.inputs(example) for example in examples] == Path(files["train"][0]).read_text().splitlines()
    assert task.used_metrics == ("bleu", "chrf")
