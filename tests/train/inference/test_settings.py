"""The choice of tokens of a folder's generation_config.json is that of ``generate`` of transformers."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from headrace.pipeline.command_line.model_options import SamplingDefaults
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.settings import decode
from headrace.train.families.end_tokens import GENERATION_CONFIG
from headrace.train.inference.generator import choose
from headrace.train.inference.settings import Sampling

VOCABULARY, DRAWS = 97, 4000


class Evenly:
    """Numbers from 0 to 1 at equal distances: a token comes as often as its probability, up to one draw at each end."""

    def __init__(self, number: int) -> None:
        self.number = number

    def random(self) -> float:
        return (self.number + 0.5) / DRAWS


@pytest.fixture(scope="module")
def model() -> transformers.LlamaForCausalLM:
    torch.manual_seed(0)
    sizes = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 48, "initializer_range": 0.6}
    config = transformers.LlamaConfig(**sizes, num_hidden_layers=1, num_attention_heads=2)
    return transformers.LlamaForCausalLM(config).eval()


@pytest.mark.parametrize(
    "fields",
    [
        {"do_sample": True},
        {"do_sample": True, "temperature": 0.6, "top_p": 0.9},
        {"do_sample": True, "temperature": 1.5, "top_k": 7},
        {"do_sample": True, "top_k": 0, "top_p": 0.3},
        {"do_sample": True, "top_k": None, "temperature": None, "top_p": 1.0},
        {"do_sample": False, "temperature": 0.6, "top_k": 5},
        {"temperature": 0.6},
        {},
    ],
)
def test_tokens_are_as_likely_as_in_transformers(fields: dict[str, Any], model, tmp_path: Path) -> None:
    write_json(tmp_path / GENERATION_CONFIG, fields)
    ids = torch.tensor([[3, 5, 8]])
    theirs = model.generate(
        ids,
        generation_config=transformers.GenerationConfig.from_pretrained(tmp_path),
        max_new_tokens=1,
        output_scores=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    sampling = decode(Sampling, SamplingDefaults.of_folder(tmp_path).values)
    randoms: list[Any] = [Evenly(number) for number in range(DRAWS)]
    counts = Counter(choose(theirs.logits[0].expand(DRAWS, -1), sampling, randoms))
    if fields.get("do_sample"):
        expected = theirs.scores[0][0].double().softmax(-1)
    else:
        expected = torch.nn.functional.one_hot(theirs.sequences[0, -1], VOCABULARY).double()
    shares = torch.tensor([counts[token] / DRAWS for token in range(VOCABULARY)], dtype=torch.float64)
    assert torch.allclose(shares, expected, rtol=0, atol=2 / DRAWS)


def test_a_line_says_what_counts(tmp_path: Path) -> None:
    fields = {"do_sample": True, "temperature": 0.6, "top_k": 0, "repetition_penalty": 1.1, "num_beams": 1}
    write_json(tmp_path / GENERATION_CONFIG, fields)
    defaults, file = SamplingDefaults.of_folder(tmp_path), tmp_path / GENERATION_CONFIG
    unused = "not used: repetition_penalty 1.1"
    sampling = decode(Sampling, {**defaults.values, "top_p": 0.5})
    drawn = "temperature 0.6, top_k all (--temperature 0 is greedy)"
    assert defaults.line(sampling) == f"{file}: {drawn}; {unused}"
    assert defaults.line(Sampling()) == f"{file}: {unused}"
    write_json(file, {"eos_token_id": 0})
    assert SamplingDefaults.of_folder(tmp_path).line(Sampling()) is None
    file.unlink()
    assert SamplingDefaults.of_folder(tmp_path).line(Sampling()) is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": "hot"}, "has temperature: must be a number (got 'hot'); correct the value"),
        ({"top_p": 1.5}, "has top_p: must be at most 1 (got 1.5); correct the value"),
    ],
)
def test_a_value_out_of_range_is_refused(fields: dict[str, Any], message: str, tmp_path: Path) -> None:
    write_json(tmp_path / GENERATION_CONFIG, {"do_sample": True} | fields)
    with pytest.raises(ArtifactError) as error:
        SamplingDefaults.of_folder(tmp_path)
    assert str(error.value) == f"{tmp_path / GENERATION_CONFIG}: {message}"
