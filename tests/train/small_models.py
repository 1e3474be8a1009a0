"""A small tokenizer, known or random models, and a run's artifacts up to weights, made by the real stages."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from headrace.data_prep.overlaps import Overlaps
from headrace.data_prep.packed import Packed, Packing
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export
from headrace.train.inference import queries
from headrace.train.inference.causal_likelihood import CausalLikelihood
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Answer, Tally, TextEncoder
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from tests.unique_documents import unique_documents

WINDOW_TOKENS = 64
SUBJECTS = ("miller", "river", "wheel", "farmer", "garden", "letter", "teacher", "window")
VERBS = ("turns", "follows", "watches", "needs", "finds", "carries")


def story(number: int) -> str:
    """Returns about 20 sentences that repeat their words, different for each ``number``."""
    generator = np.random.default_rng(number)
    subjects, verbs = generator.choice(SUBJECTS, (20, 2)).tolist(), generator.choice(VERBS, 20).tolist()
    places = generator.integers(0, 40, 20).tolist()
    return " ".join(
        f"On day {place} of story {number} the old {a} {verb} the {b}."
        for (a, b), verb, place in zip(subjects, verbs, places, strict=True)
    )


class OfHuggingFace:
    """A Hugging Face causal model with the interface of ours."""

    def __init__(self, model: GPT2LMHeadModel) -> None:
        self.model = model

    def __call__(self, tokens_BT, positions_BT, documents_BT):
        mask_BT = (documents_BT >= 0).long()
        return self.model(input_ids=tokens_BT, position_ids=positions_BT, attention_mask=mask_BT).logits


class Uniform:
    """A model for which every token is equally likely."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary

    def __call__(self, tokens_BT, positions_BT, documents_BT):
        return torch.full((*tokens_BT.shape, self.vocabulary), 1.5)


def likelihood_of(network, window_tokens: int = WINDOW_TOKENS, batch_tokens: int = 512) -> CausalLikelihood:
    device = torch.device("cpu")
    return CausalLikelihood(network=network, window_tokens=window_tokens, batch_tokens=batch_tokens, device=device)


def asked(likelihood: CausalLikelihood, given: list[queries.TokenQuery]) -> tuple[list[Answer], Tally]:
    return likelihood.answers(given), likelihood.tally(given)


def model_of(
    network, tokenizer: TextEncoder, vocabulary: int = 0, window_tokens: int = WINDOW_TOKENS
) -> InferenceModel:
    """A model ready for inference; its vocabulary is the tokenizer's, unless another is given."""
    return InferenceModel(
        network=network,
        device=torch.device("cpu"),
        likelihood=likelihood_of(network, window_tokens),
        tokenizer=tokenizer,
        vocabulary=vocabulary or tokenizer.vocabulary_size,
    )


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """These models are too small for two threads to help, and threads that wait for a busy core cost seconds."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def line(tmp_path_factory, run_stage) -> dict[str, Artifact]:
    """The artifacts unique, overlaps (empty), tokenizer, tokens and packed of 120 stories in 3 shards, a quarter held
    out, and random weights."""
    folder = tmp_path_factory.mktemp("line")
    texts = [[story(40 * shard + number) for number in range(40)] for shard in range(3)]
    inputs = {"unique": unique_documents(folder / "unique", texts)}
    packing = Packing(row_tokens=WINDOW_TOKENS, validation_fraction=0.25, group_shards=2)
    stages = (
        Overlaps(ngram_words=13),
        Tokenizer(settings=Trained(vocabulary_size=400)),
        Tokens(),
        Packed(packing=packing),
    )
    for stage in stages:
        inputs[stage.name] = run_stage(stage, inputs, folder / stage.name)
    inputs["weights"] = random_weights(folder / "weights", inputs["tokenizer"].path("tokenizer.json"))
    return inputs


def random_weights(folder: Path, tokenizer_file: Path, seed: int = 3) -> Artifact:
    """The part of a ``weights`` artifact that scores reads."""
    config = ModelConfig(layers=2, width=32, heads=2, kv_heads=2, context=WINDOW_TOKENS, mlp_width=64)
    model = Transformer(config, Encoder.load(tokenizer_file).vocabulary_size)
    initialize(model, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4 if parameter.dim() >= 2 else 1)
    exported = folder / "exported"
    export(model.named_parameters(), config, model.vocabulary, tokenizer_file, exported)
    out = TaskOutput(folder, "weights", 0)
    for file in sorted(exported.iterdir()):
        with out.file(f"hf/{file.name}") as path:
            shutil.copyfile(file, path)
    out.done({})
    return finish(folder, {"stage": "weights"}, {"weights": 1})


@pytest.fixture(scope="session")
def encoder(line) -> Encoder:
    return Encoder.load(line["tokenizer"].path("tokenizer.json"))


@pytest.fixture(scope="session")
def gpt2(encoder) -> GPT2LMHeadModel:
    """A random GPT-2 whose predictions are far from uniform."""
    torch.manual_seed(11)
    config = GPT2Config(
        vocab_size=encoder.vocabulary_size,
        n_positions=WINDOW_TOKENS,
        n_embd=32,
        n_layer=2,
        n_head=2,
        initializer_range=0.3,
    )
    return GPT2LMHeadModel(config).eval()


@pytest.fixture(scope="session")
def write_lines(tmp_path_factory) -> Callable[..., Path]:
    """``write_lines("a.jsonl", *lines)``: a file with these lines in a new folder."""

    def write(name: str, *lines: str) -> Path:
        path = tmp_path_factory.mktemp("lines") / name
        path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
        return path

    return write
