"""A fine-tuning has the losses and the predictions of the same one by plain ``transformers``.

Same first weights, rows, order and AdamW, fp32, no dropout. The classes read the folder that our model is exported to.
"""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import nn

from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.data.order import Order
from headrace.train.finetune.session import Material
from headrace.train.finetune.tasks.task import Fitted, Row
from headrace.train.finetune.tuning import Tuning
from tests.train.finetune.small_tasks import (
    ENCODER,
    SIZES,
    SPECIAL,
    of_kind,
    stage,
    tokenizer_artifact,
    words_tokenizer,
)

SHAPES: dict[str, Any] = {
    "bert": ENCODER,
    "roberta": dataclasses.replace(ENCODER, segments=1, position_offset=2, norm_epsilon=1e-5),
    "albert": dataclasses.replace(ENCODER, activation="gelu", shared_layers=True, embedding_width=16),
    "electra": dataclasses.replace(ENCODER, stack="discriminator", output_transform=False),
    "modernbert": dataclasses.replace(
        ENCODER, segments=0, positions="rope", norm_place="pre", norm="layernorm_no_bias", norm_epsilon=1e-5,
        bias=False, activation="geglu_exact", first_attention_norm=False,
    ),
    "gpt2": dataclasses.replace(
        ENCODER, stack="decoder", segments=0, norm_place="pre", norm_epsilon=1e-5, embedding_norm=False,
        output_transform=False, activation="gelu", mlp_width=4 * SIZES["width"],
    ),
    "llama": dataclasses.replace(
        ENCODER, stack="decoder", segments=0, positions="rope", norm_place="pre", norm="rmsnorm", norm_epsilon=1e-5,
        embedding_norm=False, output_transform=False, activation="swiglu", bias=False, tied=False,
    ),
    "bart": dataclasses.replace(
        ENCODER, stack="encoder_decoder", segments=0, norm_epsilon=1e-5, output_transform=False, position_offset=2
    ),
}  # fmt: skip
CLASSES = {"classification": "SequenceClassification", "regression": "SequenceClassification"}
CLASSES |= {"multiple_choice": "MultipleChoice", "span": "QuestionAnswering"}
NAMES = {"bert": "Bert", "roberta": "Roberta", "albert": "Albert", "electra": "Electra", "modernbert": "ModernBert"}
NAMES |= {"gpt2": "GPT2", "llama": "Llama", "bart": "Bart"}
CASES = [
    *(("bert", kind) for kind in CLASSES),
    *(("roberta", kind) for kind in ("classification", "multiple_choice", "span")),
    *((name, "classification") for name in ("albert", "electra", "modernbert", "gpt2", "llama", "bart")),
]
BATCH = 8
ROBERTA_TOKENS = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
ADAM = {"type": "adamw", "learning_rate": 3e-3, "weight_decay": 0.01}


def theirs(model: nn.Module, task: Fitted, rows: list[Row], labelled: bool = True) -> Any:
    """The output of their class for ``rows``."""
    arrays = {name: torch.from_numpy(array) for name, array in task.arrays(rows).items()}
    if task.kind is None:
        mask = (arrays["encoder_documents"] >= 0).long()
        return model(input_ids=arrays["encoder_inputs"], attention_mask=mask, labels=arrays["targets"])
    tokens = arrays["encoder_inputs"] if "encoder_inputs" in arrays else arrays["inputs"]
    inputs = {"input_ids": tokens, "attention_mask": (arrays["documents"] >= 0).long()}
    if task.form.model.segments > 1:
        inputs["token_type_ids"] = arrays["segments"]
    if task.kind != "multiple_choice":
        inputs = {name: array[:, 0] for name, array in inputs.items()}
    if labelled and task.kind == "span":
        inputs |= {"start_positions": arrays["answers"][:, 0], "end_positions": arrays["answers"][:, 1]}
    elif labelled:
        inputs["labels"] = arrays["labels"]
    return model(**inputs)


def their_training(folder: Path, tuning: Tuning, material: Material, seed: int) -> tuple[nn.Module, list[float]]:
    """Trains the class that the folder's config.json names, in a plain loop; returns the losses of all updates."""
    architecture = read_json(folder / "config.json")["architectures"][0]
    model, info = getattr(transformers, architecture).from_pretrained(
        folder, output_loading_info=True, attn_implementation="eager"
    )
    assert not any(info[what] for what in ("missing_keys", "mismatched_keys", "error_msgs")), info
    training = tuning.training_of(seed, len(material.rows))
    schedule, optimizer = tuning.schedule_of(training.steps), tuning.finetune.optimizer
    for module in model.modules():
        if isinstance(module, nn.Dropout):  # ALBERT's class has a rate of its own before the classifier
            module.p = 0.0
    parameters = list(model.train().parameters())
    groups = [
        {"params": [one for one in parameters if one.dim() >= 2], "weight_decay": optimizer.weight_decay},
        {"params": [one for one in parameters if one.dim() < 2], "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(
        groups, lr=optimizer.learning_rate, betas=(optimizer.beta1, optimizer.beta2), eps=optimizer.epsilon
    )
    order, losses = Order(seed, len(material.rows)), []
    for step in range(training.steps):
        for group in adam.param_groups:
            group["lr"] = optimizer.learning_rate * schedule.factor(step, training.steps)
        rows = [material.rows[number] for number in order.batch(step * BATCH, BATCH)]
        loss = theirs(model, material.task, rows).loss
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        adam.step()
        losses.append(loss.item())
    return model.eval(), losses


@pytest.mark.slow
@pytest.mark.parametrize(("family", "kind"), CASES)
def test_transformers_has_the_same_losses_and_predictions(family, kind, tmp_path, run_stage) -> None:
    special = ROBERTA_TOKENS if family in ("roberta", "bart") else SPECIAL
    task, files = of_kind(kind, tmp_path)
    context = 24 if kind == "span" else 32
    tuning = stage(
        SHAPES[family], files, task, epochs=2, batch_rows=BATCH, context=context, evaluate_every=100, optimizer=ADAM
    )
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer", words_tokenizer(special))
    artifact = run_stage(tuning, {"tokenizer": tokenizer}, tmp_path / "finetuned")
    material = Material.read(tuning, tokenizer.path("tokenizer.json"), None)
    material.network.export(material.network.first_weights(1), tokenizer.path("tokenizer.json"), tmp_path / "first")
    model, losses = their_training(tmp_path / "first", tuning, material, seed=1)
    assert type(model).__name__ == f"{NAMES[family]}For{CLASSES[kind]}"
    ours = [row["loss"] for row in read_metrics(artifact.path("seed_1/metrics.jsonl"))]
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(losses), rtol=0, atol=1e-5)

    saved = getattr(transformers, type(model).__name__).from_pretrained(
        artifact.folder / "hf", attn_implementation="eager"
    )
    predictions = [json.loads(line) for line in artifact.path("seed_1/predictions.jsonl").read_text().splitlines()]
    for one in (model, saved.eval()):
        with torch.no_grad():
            found = theirs(one, material.task, material.validation_rows, labelled=False)
        outputs = torch.stack((found.start_logits, found.end_logits), -1) if kind == "span" else found.logits
        if kind == "regression":
            outputs = outputs[:, 0]
        expected = material.task.predictions(
            material.splits.validation, material.validation_rows, list(outputs.numpy())
        )
        if kind == "regression":
            numbers = ([row["prediction"] for row in each] for each in (predictions, expected))
            torch.testing.assert_close(*map(torch.tensor, numbers), rtol=0, atol=1e-4)
        else:
            assert [row["prediction"] for row in predictions] == [row["prediction"] for row in expected]
