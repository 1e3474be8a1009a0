"""A blank query is asked after the token that begins a text, as in lm-evaluation-harness.

Its rule (api/model.py, TemplateLM.loglikelihood): an empty context is ``prefix_token_id``, the beginning of a text or,
without one, its end, and the continuation is tokenized alone.
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.benchmarks.choices import MultipleChoice
from headrace.train.evaluation.benchmarks.field_choice import FieldChoice
from headrace.train.evaluation.prompt import encode
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from tests.train.conftest import END, bytes_tokenizer

BEGIN = "<s>"
CHOICES = ("the mill", "a river")


@pytest.fixture(scope="module", params=[True, False], ids=["with a beginning", "without"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model whose tokenizer has a token that begins a text, or none."""
    folder, tokenizer = tmp_path_factory.mktemp("model"), bytes_tokenizer()
    tokenizer.add_special_tokens([BEGIN])
    named = {"eos_token": END}
    if request.param:
        ids = [(BEGIN, tokenizer.token_to_id(BEGIN))]
        tokenizer.post_processor = TemplateProcessing(single=f"{BEGIN} $A", special_tokens=ids)
        named["bos_token"] = BEGIN
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast"} | named
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    torch.manual_seed(0)
    sizes = {"vocab_size": 258, "hidden_size": 32, "intermediate_size": 48, "initializer_range": 0.3}
    shape = LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=2, max_position_embeddings=64)
    LlamaForCausalLM(shape).save_pretrained(folder)
    return folder


def harness(folder: Path, continuation: str) -> float:
    """The log-likelihood of ``continuation`` after an empty context, by the harness's rule, with transformers."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), LlamaForCausalLM.from_pretrained(folder)
    prefix = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    own = tokenizer(continuation, add_special_tokens=False).input_ids
    with torch.inference_mode():
        log_probs = model(torch.tensor([[prefix, *own]])).logits[0].double().log_softmax(-1)
    return float(sum(log_probs[place, token] for place, token in enumerate(own)))


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (MultipleChoice, {"paths": ("x.jsonl",)}),
        (FieldChoice, {"paths": ("x.jsonl",), "prompt": "{query}", "choices": ("{choices}",), "gold": "gold"}),
    ],
)
def test_a_blank_query(kind: Any, settings: dict[str, Any], folder: Path, tmp_path: Path) -> None:
    line = json.dumps({"query": "", "choices": CHOICES, "gold": 1})
    (tmp_path / "x.jsonl").write_text(f"{line}\n")
    benchmark = kind(**settings)
    (item,) = benchmark.items(Sources(tmp_path, None, "0"))
    model = open_folder(folder, Inference(device="cpu"))
    answers = model.likelihood.answers(encode(item.queries, model.tokenizer, model.opening))
    expected = [harness(folder, benchmark.delimiter + choice) for choice in CHOICES]
    assert [answer.log_likelihood for answer in answers] == pytest.approx(expected, abs=1e-4)
