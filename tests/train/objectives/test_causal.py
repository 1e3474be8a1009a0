"""Joined documents, and the prefix LM: its rows, its loss in plain PyTorch, a model that reads contexts as prefixes."""

import dataclasses

import numpy as np
import pytest
import torch
from torch.nn import functional

from headrace.data_prep.tokenization.encode import Encoder
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.context import ContextForm
from headrace.train.data.batches import IGNORED
from headrace.train.data.rows import Rows
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.hf_folder import load
from headrace.train.inference.inference_model import open_exported
from headrace.train.inference.queries import TokenQuery
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.causal import Causal, Prefix
from headrace.train.objectives.row_reader import Reader
from tests.command_line import headrace_here
from tests.train.model.test_transformer import GPT2, LLAMA, VOCABULARY, random_model
from tests.train.test_weights import stage

NONE = Vocabulary(VOCABULARY, {})


@dataclasses.dataclass
class Splits:
    """A generator that draws what it is given, and records from which numbers."""

    draws: list[int]
    ranges: list[tuple[int, int]] = dataclasses.field(default_factory=list)

    def integers(self, low: int, high: int) -> int:
        self.ranges.append((low, high))
        return self.draws[len(self.ranges) - 1]


def test_a_row_by_hand():
    pieces = [np.array(tokens) for tokens in ([9, 1, 2, 3, 4, 9], [9, 5], [9, 6, 9])]
    splits = Splits([2, 1])
    row = Prefix().row(pieces, 10, NONE, splits)
    assert {name: array.tolist() for name, array in row.items()} == {
        "inputs": [9, 1, 2, 3, 4, 9, 9, 6, 0, 0],
        "targets": [-100, -100, 3, 4, 9, -100, -100, 9, -100, -100],
        "positions": [0, 1, 2, 3, 4, 0, 0, 1, 0, 0],
        "documents": [0, 0, 0, 0, 0, 1, 2, 2, -1, -1],
        "prefix": [1, 1, 1, 0, 0, 1, 1, 1, 0, 0],
    }
    assert splits.ranges == [(1, 5), (1, 2)], "a piece of one position draws nothing"
    assert all(array.dtype == np.int64 for array in row.values())


def test_joined_documents_are_one_text():
    """The end of a document is also the beginning of the next one, as where they stand in the tokens."""
    pieces = [np.array(tokens) for tokens in ([1, 2, 9], [9, 5, 9], [9, 6])]
    row = Causal(documents="joined").row(pieces, 7, NONE, np.random.default_rng())
    assert {name: array.tolist() for name, array in row.items()} == {
        "inputs": [1, 2, 9, 5, 9, 0, 0],
        "targets": [2, 9, 5, 9, 6, -100, -100],
        "positions": [0, 1, 2, 3, 4, 0, 0],
        "documents": [0, 0, 0, 0, 0, -1, -1],
    }
    assert set(Causal(documents="joined").row([], 7, NONE, np.random.default_rng())["documents"].tolist()) == {-1}


def test_a_split_is_uniform_and_a_function_of_the_row_alone(inputs):
    piece = [np.arange(9)]
    generator = np.random.default_rng(0)
    kept = [int((Prefix().row(piece, 8, NONE, generator)["targets"] != IGNORED).sum()) for _ in range(7000)]
    numbers, counts = np.unique(kept, return_counts=True)
    assert numbers.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert abs(counts - 1000).max() < 130, "more than 4 standard deviations"
    rows, reader = Rows(inputs["packed"], inputs["tokens"], "train"), Reader(Prefix(), NONE, 3, "training")
    together = reader.read(rows, [0, 1, 2], 40).arrays
    alone = [reader.read(rows, [row], 40 + row).arrays for row in range(3)]
    assert all(np.array_equal(array, np.concatenate([one[name] for one in alone])) for name, array in together.items())


@torch.no_grad()
def logits_after(model: Transformer, prefix: list[int], rest: list[int]) -> torch.Tensor:
    """Logits at the last token of ``prefix`` and at each of ``rest``, by training's forward."""
    tokens = torch.tensor([prefix + rest])
    length = tokens.shape[1]
    is_prefix_BT = (torch.arange(length) < len(prefix))[None]
    logits = model(tokens, torch.arange(length)[None], torch.zeros_like(tokens), prefix_BT=is_prefix_BT)
    return logits[0, len(prefix) - 1 :]


@pytest.mark.parametrize("config", [GPT2, LLAMA], ids=["gpt2", "llama"])
def test_the_prefix_sees_itself_and_the_rest_sees_back(config):
    """A change of a token changes exactly the logits that may see it; packed documents do not see each other."""
    model = random_model(config)
    tokens = [3, 14, 15, 9, 2, 6, 5]
    whole = logits_after(model, tokens[:4], tokens[4:])
    for index in range(7):
        other = [*tokens]
        other[index] = 1
        differs = (logits_after(model, other[:4], other[4:]) - whole).abs().amax(1) > 1e-6
        assert differs.tolist() == [index <= max(3, position) for position in range(3, 7)]
    pieces = [np.array([3, 14, 15, 9, 2]), np.array([7, 1, 8])]
    row = Prefix().row(pieces, 8, NONE, Splits([2, 1]))
    batch = {name: torch.from_numpy(array)[None] for name, array in row.items()}
    packed = Prefix().losses(model, batch)["nll"].item()
    first = functional.cross_entropy(logits_after(model, [3, 14, 15], [9]), torch.tensor([9, 2]), reduction="sum")
    second = functional.cross_entropy(logits_after(model, [7, 1], []), torch.tensor([8]), reduction="sum")
    assert packed == pytest.approx((first + second).item(), rel=1e-5)
    assert Prefix().counts({name: array[None] for name, array in row.items()}) == {"nll": 3}


@pytest.fixture(scope="module")
def trained(tmp_path_factory, inputs, run_stage):
    """The artifact of a short training, with a scoring in the loop."""
    settings = stage(steps=60, validate_every=30, save_every=60, evaluate_every=60)
    weights = dataclasses.replace(settings, objective=Prefix())
    return run_stage(weights, inputs, tmp_path_factory.mktemp("prefix") / "weights")


@pytest.mark.slow
def test_a_trained_model_reads_contexts_as_prefixes(trained, inputs):
    rows = read_metrics(trained.path("metrics.jsonl"))
    assert rows[-1]["validation_loss"] < 3.2 < rows[0]["loss"]
    assert rows[-1]["bits_per_byte"] == pytest.approx(rows[-1]["validation_loss"] * 1.4427 * 1.01, rel=0.05)
    folder = trained.path("hf/config.json").parent
    saved = read_json(folder / "config.json")
    assert (saved["model_type"], saved["context_form"]) == ("headrace", {"looks_ahead": True})
    model = load(folder)
    assert model.context_form == ContextForm(looks_ahead=True)
    encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
    generator = np.random.default_rng(1)
    contexts = [generator.integers(0, 256, size) for size in (1, 9, 20, 20)]
    contexts.append(np.append(contexts[1], 7))
    queries = [TokenQuery(one, generator.integers(0, 256, size)) for one in contexts for size in (1, 1, 3, 12)]
    likelihood = open_exported(folder, encoder, Evaluation(device="cpu")).likelihood
    for query, answer in zip(queries, likelihood.answers(queries), strict=True):
        context, rest = query.context.tolist(), query.continuation.tolist()
        log_probs = logits_after(model, context, rest[:-1]).log_softmax(1)
        expected = log_probs[torch.arange(len(rest)), torch.tensor(rest)].sum().item()
        assert answer.log_likelihood == pytest.approx(expected, abs=1e-4)


def test_generate_gives_the_prompt_as_the_prefix(trained, inputs):
    folder = trained.path("hf/config.json").parent
    asked = ("--model", str(folder), "--prompt", "the mill stands by", "--max-tokens", "9")
    done = headrace_here("generate", *asked, "evaluation.device=cpu")
    assert done.returncode == 0, done.stderr
    model, encoder = load(folder), Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
    (prompt,) = encoder.encode(["the mill stands by"])
    new: list[int] = []
    while len(new) < 9:
        new.append(int(logits_after(model, prompt.tolist(), new)[-1].argmax()))
    assert done.stdout == encoder.decode(new) + "\n"
