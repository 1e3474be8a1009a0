"""Hugging Face folders of any maker: transformers' logits, the harness's tokens, clear messages for broken ones."""

import json
import math
import shutil

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForMaskedLM,
    ElectraConfig,
    ElectraForCausalLM,
    PhiConfig,
    PhiForCausalLM,
    PreTrainedTokenizerFast,
)

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.prompt import encode
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Text
from headrace.train.inference.transformers_model import TransformersModel, open_folder
from headrace.train.model.transformer import Transformer
from headrace.train.scores import FolderScores
from tests.train.inference.test_causal_likelihood import one_by_one, random_queries
from tests.train.small_models import WINDOW_TOKENS, story

CPU = Evaluation(device="cpu")


@pytest.fixture(scope="module")
def ours(line):
    """The exported weights of a run."""
    return line["weights"].path("hf/config.json").parent


@pytest.fixture(scope="module")
def phi(ours, encoder, tmp_path_factory):
    """A model that our Transformer does not compute, with the run's tokenizer."""
    folder = tmp_path_factory.mktemp("phi")
    torch.manual_seed(2)
    config = PhiConfig(
        vocab_size=encoder.vocabulary_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=WINDOW_TOKENS,
        initializer_range=0.3,
    )
    PhiForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(ours / name, folder / name)
    return folder


def test_a_foreign_model_answers_as_transformers_computes_it(phi, encoder):
    subject = open_folder(phi, CPU)
    assert isinstance(subject.network, TransformersModel)
    assert subject.window_tokens == WINDOW_TOKENS
    assert subject.vocabulary == encoder.vocabulary_size
    queries = random_queries(40, encoder.vocabulary_size, 90, 12)
    answers = subject.likelihood.answers(queries)
    theirs = PhiForCausalLM.from_pretrained(phi).eval()
    expected = [one_by_one(theirs, query) for query in queries]
    assert [answer.log_likelihood for answer in answers] == pytest.approx([value for value, _ in expected], abs=1e-4)
    assert [answer.greedy for answer in answers] == [value for _, value in expected]


def test_a_model_of_our_kind_is_ours(ours, encoder):
    subject = open_folder(ours, CPU)
    assert isinstance(subject.network, Transformer)
    queries = [Text(story(1)[:40], " " + story(2)[:30]), Text("", "The old miller.")]
    assert subject.opening == ()
    for own, theirs in zip(encode(queries, encoder), encode(queries, subject.tokenizer), strict=True):
        assert own.context.tolist() == theirs.context.tolist()
        assert own.continuation.tolist() == theirs.continuation.tolist()


def test_what_a_tokenizer_puts_first_stands_before_each_context(ours, phi, tmp_path):
    folder = shutil.copytree(phi, tmp_path / "phi")
    tokenizer = PreTrainedTokenizerFast.from_pretrained(ours)
    tokenizer.add_special_tokens({"bos_token": "<s>"})
    begin = tokenizer.convert_tokens_to_ids("<s>")
    processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", begin)])
    tokenizer.backend_tokenizer.post_processor = processor
    tokenizer.save_pretrained(folder)
    subject = open_folder(folder, CPU)
    assert subject.opening == (begin,)
    after, alone_ = encode([Text("the old", " miller"), Text("", "miller")], subject.tokenizer, subject.opening)
    plain, _ = encode([Text("the old", " miller"), Text("", "miller")], subject.tokenizer)
    assert after.context.tolist() == [begin, *plain.context.tolist()]
    assert after.continuation.tolist() == plain.continuation.tolist()
    assert alone_.context.tolist() == [begin]


def broken(folder, tmp_path, **changes):
    """A copy of ``folder`` whose config.json has other values."""
    copy = shutil.copytree(folder, tmp_path / "copy")
    config = json.loads((copy / "config.json").read_text()) | changes
    (copy / "config.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    return copy


def error_of(folder) -> str:
    with pytest.raises(ArtifactError) as caught:
        open_folder(folder, CPU)
    return str(caught.value).removeprefix(str(folder))


def test_an_unknown_kind_of_model(phi, tmp_path):
    error = error_of(broken(phi, tmp_path, model_type="nonesuch"))
    assert error.startswith(": h")
    assert "that transformers opens (" in error


@pytest.mark.parametrize(("told", "window"), [(None, 2048), (40, 40)])
def test_where_no_number_of_positions_is_told_the_tokenizer_or_the_harness_tells(
    phi, tmp_path, monkeypatch, told, window
):
    monkeypatch.setattr("headrace.train.inference.transformers_model.WINDOWS", ("n_positions", "n_ctx"))
    copy = broken(phi, tmp_path)
    values = json.loads((copy / "tokenizer_config.json").read_text()) | {"model_max_length": told}
    values = {key: value for key, value in values.items() if value is not None}
    (copy / "tokenizer_config.json").write_text(json.dumps(values))
    assert open_folder(copy, CPU).window_tokens == window


def test_a_model_that_is_not_causal(ours, encoder, tmp_path):
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = ElectraConfig(vocab_size=encoder.vocabulary_size, embedding_size=16, initializer_range=0.3, **shape)
    ElectraForCausalLM(config).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(ours / name, tmp_path / name)
    assert error_of(tmp_path) == ": holds a ElectraForCausalLM whose tokens see those after them; give a causal model"


def test_an_encoder_with_the_tokenizer_of_a_decoder(ours, encoder, tmp_path):
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertForMaskedLM(BertConfig(vocab_size=encoder.vocabulary_size, **shape)).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(ours / name, tmp_path / name)
    assert error_of(tmp_path) == (
        ": holds an encoder, which needs the token '[CLS]', which the tokenizer lacks; "
        "put the tokenizer there that the encoder was trained with"
    )


@pytest.mark.parametrize("form", ["$A <|endoftext|>", "<|endoftext|> $A <|endoftext|>"])
def test_a_tokenizer_that_ends_each_text(form, phi, tmp_path, capsys):
    """The tokens after a text are left out, those before it are not."""
    copy = broken(phi, tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(copy)
    end = tokenizer.eos_token_id
    ends = [("<|endoftext|>", end)]
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single=form, special_tokens=ends)
    tokenizer.save_pretrained(copy)
    model, whole = open_folder(copy, CPU), PreTrainedTokenizerFast.from_pretrained(copy)("the mill").input_ids
    assert [*model.opening, *model.tokenizer.encode(["the mill"])[0], end] == whole
    line = f"{copy}: no text is ended with '<|endoftext|>', as its tokenizer does: it could not go on\n"
    assert line in capsys.readouterr().err


def test_no_tokenizer(phi, tmp_path):
    copy = broken(phi, tmp_path)
    (copy / "tokenizer.json").unlink()
    error = error_of(copy)
    assert error.startswith(": has no tokenizer that transformers opens (")
    assert error.endswith("); put the model's tokenizer.json and tokenizer_config.json there")


def test_a_folder_without_a_model(tmp_path):
    with pytest.raises(ConfigError) as caught:
        FolderScores(evaluation=CPU, folder=str(tmp_path)).raw_files()
    assert str(caught.value) == (
        f"evaluate: {str(tmp_path)!r} has no config.json; give the folder of a Hugging Face model"
    )


def test_benchmarks_that_need_a_run_are_left_out():
    settings = {"a": {"type": "agreement"}, "b": {"type": "validation"}, "c": {"type": "held_out_words"}}
    assert list(decode(Evaluation, {"benchmarks": settings}).without_run().benchmarks) == ["a"]
    with pytest.raises(ConfigError) as caught:
        decode(Evaluation, {"benchmarks": {"d": {"type": "held_out_sentences"}}}).without_run()
    assert str(caught.value) == (
        "evaluation.benchmarks: all are made of a run's held-out documents; take others: evaluation=standard "
        "evaluation.data=FOLDER"
    )


def test_scores_of_a_folder_are_an_artifact(phi, ours, run_stage, tmp_path, write_lines):
    path = write_lines("quiz.jsonl", *(json.dumps({"text": story(number)[:60].rstrip()}) for number in range(4)))
    benchmarks = {"quiz": {"type": "lambada", "paths": [str(path)]}, "agreement": {"type": "agreement"}}
    evaluation = decode(Evaluation, {"benchmarks": benchmarks, "device": "cpu"})
    stage = FolderScores(evaluation=evaluation, folder=str(phi))
    moved = FolderScores(evaluation=evaluation, folder=str(shutil.copytree(phi, tmp_path / "elsewhere")))
    assert stage.address({}) == moved.address({}) != FolderScores(evaluation=evaluation, folder=str(ours)).address({})
    artifact = run_stage(stage, {}, tmp_path / "scores", twice=True)
    agreement, quiz = json.loads(artifact.path("scores.json").read_text())["benchmarks"]
    rows = [json.loads(row) for row in artifact.path("samples/quiz.jsonl").read_text().splitlines()]
    mean = np.mean([row["log_likelihoods"][0] for row in rows])
    assert quiz["metrics"][1]["value"] == pytest.approx(math.exp(-mean), rel=1e-5)
    assert (agreement["items"], quiz["items"], quiz["overlap"]) == (104, 4, None)
    assert artifact.counts["items"] == 108
    assert "| quiz | 0 | acc | " in artifact.path("scores.md").read_text()
