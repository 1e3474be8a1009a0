"""A fine-tuning begins with the weights that it is given: its first loss is that of ``transformers`` with them."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.command_line import request
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.config import ModelConfig
from headrace.train.data.order import Order
from headrace.train.families.hf_folder import export
from headrace.train.finetune.session import Material
from headrace.train.model.initialization import first_weights, without_values
from headrace.train.model.transformer import Transformer
from tests.command_line import headrace_here
from tests.small_runs import TRAINING, build
from tests.train.finetune.small_tasks import ENCODER, of_kind, sentiment, stage, tokenizer_artifact
from tests.train.finetune.tasks.test_text_to_text import T5, TASK, WORDS, words_artifact
from tests.train.finetune.test_parity import theirs

BATCH = 8
HEADS = ("classifier.", "qa_outputs.", "score.", "bert.pooler.")


def pretrained(model: ModelConfig, tokenizer: Artifact, vocabulary: int, folder: Path) -> Path:
    """A Hugging Face folder with weights that no seed of a fine-tuning draws."""
    with without_values():
        empty = Transformer(model, vocabulary)
    weights = ((name, 4 * value) for name, value in first_weights(empty, 77))
    export(weights, model, vocabulary, tokenizer.path("tokenizer.json"), folder)
    return folder


def weights_artifact(hf: Path, folder: Path) -> Artifact:
    """The artifact ``weights`` of a run that has exported ``hf``."""
    out = TaskOutput(folder, "weights", 0)
    for path in sorted(hf.iterdir()):
        with out.file(f"hf/{path.name}") as copy:
            shutil.copyfile(path, copy)
    out.done({})
    return finish(folder, {"stage": "weights"}, {"weights": 1})


def their_first_loss(material: Material, folder: Path, scratch: Path) -> float:
    """The loss of the first batch by the class of ``transformers`` that reads ``folder``, with our head."""
    network = material.network
    network.export(network.first_weights(1), material.tokenizer_file, scratch)
    kind = getattr(transformers, read_json(scratch / "config.json")["architectures"][0])
    first = kind.from_pretrained(scratch, attn_implementation="eager")
    model, info = kind.from_pretrained(folder, config=first.config, output_loading_info=True)
    ours = first.state_dict()
    assert all(name.startswith(HEADS) for name in info["missing_keys"])
    model.load_state_dict({name: ours[name] for name in info["missing_keys"]}, strict=False)
    rows = [material.rows[number] for number in Order(1, len(material.rows)).batch(0, BATCH)]
    with torch.no_grad():
        return float(theirs(model.eval(), material.task, rows).loss)


def learned(kind: str, folder: Path) -> tuple[Any, Any, Any, Artifact]:
    """Returns model, task, files and tokenizer of a fine-tuning of this kind."""
    if kind == "text_to_text":
        return T5, TASK, sentiment(folder, 32, 16), words_artifact(folder / "tokenizer", WORDS)
    return ENCODER, *of_kind(kind, folder), tokenizer_artifact(folder / "tokenizer")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["classification", "text_to_text"])
def test_the_first_loss_is_that_of_the_given_weights(kind, tmp_path, run_stage) -> None:
    """From the weights of a run, and from a folder."""
    model, task, files, tokenizer = learned(kind, tmp_path)
    recipe = {"steps": 1, "batch_rows": BATCH, "context": 24, "evaluate_every": 1}
    of_run = stage(model, files, task, **recipe, from_scratch=False)
    vocabulary = Material.read(of_run, tokenizer.path("tokenizer.json"), None).network.vocabulary
    folder = pretrained(model, tokenizer, vocabulary, tmp_path / "pretrained")
    of_folder = stage(model, files, task, **recipe, folder=str(folder))
    weights = weights_artifact(folder, tmp_path / "weights")
    artifacts = [
        run_stage(of_run, {"tokenizer": tokenizer, "weights": weights}, tmp_path / "of_run"),
        run_stage(of_folder, {}, tmp_path / "of_folder"),
    ]
    ours = [read_metrics(artifact.path("seed_1/metrics.jsonl"))[0]["loss"] for artifact in artifacts]
    material = Material.read(of_run, tokenizer.path("tokenizer.json"), folder)
    assert ours == pytest.approx([their_first_loss(material, folder, tmp_path / "first")] * 2, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("kind", ["classification", "text_to_text"])
def test_rows_that_no_token_has_and_files_of_the_tokenizer_are_kept(kind, tmp_path, run_stage) -> None:
    model, task, files, tokenizer = learned(kind, tmp_path)
    tokens = Encoder.load(tokenizer.path("tokenizer.json")).vocabulary_size
    folder = pretrained(model, tokenizer, tokens + 32, tmp_path / "pretrained")
    (folder / "special_tokens_map.json").write_text('{"a":   1}')
    tuning = stage(model, files, task, steps=2, batch_rows=BATCH, context=24, evaluate_every=2, folder=str(folder))
    artifact = run_stage(tuning, {}, tmp_path / "tuned")
    assert artifact.path("hf/special_tokens_map.json").read_text() == '{"a":   1}'
    assert read_json(artifact.path("hf/config.json"))["vocab_size"] == tokens + 32
    before, after = (load_file(file) for file in (folder / "model.safetensors", artifact.path("hf/model.safetensors")))
    rows = [name for name, value in after.items() if len(value) == tokens + 32]
    assert rows
    for name in rows:
        assert torch.equal(after[name][tokens:], before[name][tokens:])
        assert not torch.equal(after[name][:tokens], before[name][:tokens])


@pytest.mark.slow
def test_the_whole_line_fine_tunes_its_own_weights(tmp_path) -> None:
    """From documents to the scores of a task, by the command; a second one does nothing."""
    files = sentiment(tmp_path, 32, 16)
    corpus = [one for one in build(tmp_path / "corpus", "none").overrides if not one.startswith(("root=", "until="))]
    words = [
        *corpus, *TRAINING[1:], f"root={tmp_path / 'runs'}", "model=bert_demo", "objective=masked", "training.steps=3",
        "evaluation=pairs", "evaluation.limit=2", "workers=1",
        "finetune=sst2", f"finetune.train={files['train']}", f"finetune.validation={files['validation']}",
        "finetune.steps=3", "finetune.batch_rows=8", "finetune.context=32", "finetune.dropout=0.0",
    ]  # fmt: skip
    done = headrace_here(*words)
    assert done.returncode == 0, done.stderr
    run = request.planned(request.composed(words), words)
    steps = {step.name: step for step in run.stages}
    assert list(steps)[-4:] == ["weights", "finetuned", "scores", "report"]
    weights, tokenizer = (Artifact(steps[name].folder) for name in ("weights", "tokenizer"))
    folder = weights.path("hf/model.safetensors").parent
    material = Material.read(steps["finetuned"].stage, tokenizer.path("tokenizer.json"), folder)
    metrics = Artifact(steps["finetuned"].folder).path("seed_1/metrics.jsonl")
    expected = their_first_loss(material, folder, tmp_path / "first")
    assert read_metrics(metrics)[0]["loss"] == pytest.approx(expected, abs=1e-5)
    assert headrace_here(*words).stderr.count("done before") == len(steps)
