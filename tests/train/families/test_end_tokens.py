"""The tokens that end a text: all forms of both config files, against ``generate`` of transformers."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.end_tokens import end_tokens, tokenizer_end, write_generation_config
from headrace.train.inference.generator import generator_of
from headrace.train.inference.settings import Inference, Sampling
from headrace.train.inference.transformers_model import open_folder
from headrace.train.scores import FolderScores
from tests.train.conftest import END, bytes_tokenizer

ABSENT = "absent"
PROMPT, MOST = "the mill", 12


@pytest.fixture(scope="module", params=["llama", "phi"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that our Transformer computes, and one that transformers does."""
    folder = tmp_path_factory.mktemp(request.param)
    kind = {"llama": transformers.LlamaConfig, "phi": transformers.PhiConfig}[request.param]
    sizes = {"vocab_size": 257, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = kind(**sizes, intermediate_size=48, max_position_embeddings=64, initializer_range=0.5)
    torch.manual_seed({"llama": 3, "phi": 5}[request.param])  # no end of text comes by itself
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    bytes_tokenizer().save(str(folder / "tokenizer.json"))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": END})
    return folder


def put(folder: Path, of_generation: Any, of_config: Any) -> None:
    """Writes both files with these end tokens; ABSENT: without the field, or without generation_config.json."""
    config = {name: value for name, value in read_json(folder / "config.json").items() if name != "eos_token_id"}
    write_json(folder / "config.json", config if of_config is ABSENT else config | {"eos_token_id": of_config})
    file = folder / "generation_config.json"
    file.unlink(missing_ok=True)
    if of_generation is not ABSENT:
        file.write_text(json.dumps({} if of_generation == {} else {"eos_token_id": of_generation}))


def ours(folder: Path) -> tuple[list[int], str]:
    model = open_folder(folder, Inference(device="cpu"))
    (found,) = generator_of(model).generate([PROMPT], Sampling(max_tokens=MOST))
    return list(found.tokens), found.ending


def theirs(folder: Path) -> list[int]:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    prompt = torch.tensor([bytes_tokenizer().encode(PROMPT).ids])
    mask = torch.ones_like(prompt)
    found = model.generate(prompt, attention_mask=mask, max_new_tokens=MOST, do_sample=False, pad_token_id=0)
    return found[0, prompt.shape[1] :].tolist()


@pytest.mark.slow
def test_a_text_ends_where_that_of_transformers_does(folder: Path) -> None:
    put(folder, None, None)
    free, _ = ours(folder)
    assert len(free) == MOST, "no token ends it"
    assert free == theirs(folder)
    first, later = free[3], next(token for token in free if token not in free[:4])
    spare = next(token for token in range(1, 256) if token not in free)
    forms = [ABSENT, None, first, later, spare, [spare, later], [later, first, first], [spare], -1, 10**6]
    pairs = [*itertools.product([*forms, {}], [ABSENT, later]), *((ABSENT, form) for form in forms)]
    for of_generation, of_config in pairs:
        put(folder, of_generation, of_config)
        tokens, ending = ours(folder)
        assert tokens == theirs(folder), (of_generation, of_config)
        decides = of_config if of_generation is ABSENT else of_generation
        named = {*(decides if isinstance(decides, list) else [decides])} if decides not in (ABSENT, {}, None) else set()
        assert ending == ("end_of_text" if named & {first, later} else "max_tokens")


def test_the_end_of_the_tokenizer_ends_a_text_in_any_case(folder: Path) -> None:
    put(folder, None, None)
    free, _ = ours(folder)
    name = bytes_tokenizer().id_to_token(free[3])
    values = read_json(folder / "tokenizer_config.json")
    write_json(folder / "tokenizer_config.json", values | {"eos_token": name})
    tokens, ending = ours(folder)
    write_json(folder / "tokenizer_config.json", values)
    assert tokens == free[: free.index(free[3]) + 1]
    assert ending == "end_of_text"


@pytest.mark.parametrize("value", ["5", 5.5, True, [["a"]], {"a": 1}, [5, None]])
@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_what_is_no_id_is_refused(file: str, value: Any, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    write_json(tmp_path / file, {"model_type": "llama", "eos_token_id": value})
    with pytest.raises(ArtifactError) as error:
        end_tokens(tmp_path)
    assert str(error.value) == (
        f"{tmp_path / file}: has eos_token_id={value!r}; give the id of a token there, or a list of ids"
    )


@pytest.mark.parametrize("content", ["{", "[]", "\ud800", "5"])
def test_a_file_that_is_none_is_refused(content: str, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "llama", "eos_token_id": 3})
    (tmp_path / "generation_config.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(ArtifactError, match=r"generation_config.json"):
        end_tokens(tmp_path)


@pytest.mark.parametrize("name", ["decoder", "generator", "text_config"])
def test_a_model_of_several_parts_has_the_token_in_one_of_them(name: str, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"eos_token_id": None, name: {"eos_token_id": [4, 2]}})
    assert end_tokens(tmp_path) == (2, 4)


@pytest.mark.parametrize(
    ("given", "further", "expected"),
    [
        ({"eos_token_id": 5, "pad_token_id": 0}, (), {"eos_token_id": 5, "pad_token_id": 0}),
        ({"eos_token_id": 5}, (5,), {"eos_token_id": 5}),
        ({"eos_token_id": 5}, (9, 5, 7), {"eos_token_id": [5, 7, 9]}),
        ({"eos_token_id": [5, 6], "bos_token_id": 1}, (6, 2), {"eos_token_id": [5, 6, 2], "bos_token_id": 1}),
        ({}, (), {}),
        ({}, (3,), {"eos_token_id": [3]}),
    ],
)
def test_generation_config_has_the_tokens_of_config_json_and_further_ones(given, further, expected, tmp_path) -> None:
    write_json(tmp_path / "config.json", {"model_type": "llama", **given})
    write_generation_config(tmp_path, further)
    assert read_json(tmp_path / "generation_config.json") == expected
    assert end_tokens(tmp_path) == tuple(sorted({*further, *end_tokens(tmp_path)}))


def test_scores_have_another_address_where_files_name_further_ends(folder: Path) -> None:
    """Those of other folders keep theirs."""

    def revision() -> int:
        return FolderScores(evaluation=Evaluation(), folder=str(folder)).revision

    end = tokenizer_end(folder)
    assert end == bytes_tokenizer().token_to_id(END)
    for of_generation, of_config, expected in (
        (ABSENT, ABSENT, 0), (ABSENT, end, 0), (end, [end, 5], 0), ([end, 5], end, 1), (ABSENT, 5, 1),
    ):  # fmt: skip
        put(folder, of_generation, of_config)
        assert revision() == expected
    put(folder, "5", end)
    with pytest.raises(ConfigError, match=r"^evaluate: .*generation_config.json has eos_token_id='5'"):
        revision()
    put(folder, ABSENT, end)
