"""The token that ends a document: of the setting, by its name, or of tokenizer_config.json next to a tokenizer.json."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.given_tokenizer import GivenFile
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.core.errors import ConfigError
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.causal import Causal
from tests.data_prep.tokenization.test_page_tokenizer import added, described
from tests.unique_documents import unique_documents

END, OTHER = "<｜end▁of▁sentence｜>", "<|im_end|>"
NAMED = [added(256, END_OF_TEXT, special=True), added(257, OTHER, special=True)]
UNNAMED = [added(256, "<x>", special=True), added(257, END)]
"""No token has a name that ends documents; the one that does is not marked as special."""


def written(folder: Path, tokens: list[dict[str, Any]], config: object = None) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(described(*tokens)))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder / "tokenizer.json"


CASES = [
    (NAMED, None, None, END_OF_TEXT),
    (NAMED, {"eos_token": OTHER}, None, END_OF_TEXT),
    (NAMED, {"eos_token": OTHER}, OTHER, OTHER),
    (NAMED, None, OTHER, OTHER),
    (UNNAMED, {"eos_token": END}, None, END),
    (UNNAMED, {"eos_token": {"content": END, "special": True}}, None, END),
    (UNNAMED, None, END, END),
]


@pytest.mark.parametrize(("tokens", "config", "setting", "end"), CASES)
def test_from_the_given_file_to_the_exported_model(tokens, config, setting, end, tmp_path, run_stage):
    """Documents, rows and the exported folder end with one token, here and in transformers."""
    given = GivenFile(path=str(written(tmp_path / "given", tokens, config)), end_of_text=setting)
    stage, unique = Tokenizer(settings=given), unique_documents(tmp_path / "unique", [["ab", f"c{END}"]])
    stage.raw_files()
    tokenizer = run_stage(stage, {"unique": unique}, tmp_path / "tokenizer")
    stored = run_stage(Tokens(), {"unique": unique, "tokenizer": tokenizer}, tmp_path / "tokens")
    file = tokenizer.path("tokenizer.json")
    number = json.loads(file.read_text())["added_tokens"][end != END_OF_TEXT]["id"]
    ids = np.fromfile(stored.shard("tokens", 0, "bin"), "<u2").tolist()
    assert [ids[0], ids[3], ids[-1]] == [number] * 3
    assert ids.count(number) == 3
    assert Encoder.load(file).end_of_text == Vocabulary.read(Causal(), file).end == number
    sizes = {"layers": 1, "width": 8, "heads": 1, "kv_heads": 1, "context": 16, "mlp_width": 8}
    shape = ModelConfig(**sizes, positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False)
    network = Transformer(shape, 258)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(0.1)
    export(network.named_parameters(), shape, 258, file, tmp_path / "hf")
    model = open_folder(tmp_path / "hf", Inference(device="cpu"))
    assert (model.ends, model.tokenizer.end_of_text) == ((number,), number)
    assert AutoTokenizer.from_pretrained(tmp_path / "hf").eos_token == end
    assert Encoder.load(tmp_path / "hf" / "tokenizer.json").end_of_text == number


def test_the_address_depends_on_a_configuration_that_is_read(tmp_path):
    def address(folder: str, tokens: list[dict[str, Any]], config: object, **settings: Any) -> str:
        path = str(written(tmp_path / folder, tokens, config))
        return Tokenizer(settings=GivenFile(path=path, **settings)).address({"unique": "0"})

    plain = address("a", NAMED, None)
    assert plain == address("b", NAMED, {"eos_token": OTHER}) == address("c", NAMED, None, end_of_text=None)
    assert plain != address("d", NAMED, None, end_of_text=OTHER)
    assert address("e", UNNAMED, {"eos_token": END}) != address("f", UNNAMED, {"eos_token": "<x>"})


@pytest.mark.parametrize(("setting", "token"), [(None, END_OF_TEXT), ("<none>", "<none>")])
def test_a_token_that_is_not_there_is_refused(setting, token, tmp_path):
    path = str(written(tmp_path, UNNAMED, {"eos_token": "<none>"}))
    with pytest.raises(ConfigError) as error:
        GivenFile(path=path, end_of_text=setting).raw_files()
    assert str(error.value) == (
        f"{path}: the tokenizer has no token {token!r}, which ends a document; "
        "name another token (tokenizer.end_of_text=TOKEN), or train a tokenizer here (tokenizer=train)"
    )
