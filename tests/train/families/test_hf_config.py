"""config.json with fields that are missing, null or of another name: what ``transformers`` makes of it, or refused."""

import contextlib
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import transformers
from huggingface_hub.errors import StrictDataclassError

from headrace.pipeline.core.errors import ArtifactError, HeadraceError
from headrace.train.config import ModelConfig
from headrace.train.families.hf_config import read_model_config
from headrace.train.families.registry import families
from tests.train.families.test_families import preset_config

OF_EVERY_CLASS = {"model_type", "architectures", "dtype"}
VOCABULARY = 60_000
BLOOM_560M = {
    "model_type": "bloom", "apply_residual_connection_post_layernorm": False, "attention_dropout": 0.0,
    "attention_softmax_in_fp32": True, "bos_token_id": 1, "eos_token_id": 2, "hidden_dropout": 0.0,
    "initializer_range": 0.02, "layer_norm_epsilon": 1e-5, "masked_softmax_fusion": True, "n_embed": 1024,
    "n_inner": None, "n_layer": 24, "num_attention_heads": 16, "offset_alibi": 100, "pad_token_id": 3,
    "pretraining_tp": 1, "seq_length": 2048, "skip_bias_add": True, "use_cache": True, "vocab_size": 250_880,
}  # fmt: skip
"""The fields of huggingface.co/bigscience/bloom-560m."""


def read(folder: Path, fields: dict[str, Any]) -> ModelConfig:
    (folder / "config.json").write_text(json.dumps(fields))
    return read_model_config(folder)[0]


def written(name: str) -> dict[str, Any]:
    """The config.json of a preset; that of LLaMA with biases, because no preset has them."""
    config = dataclasses.replace(preset_config(name), bias=True) if name == "llama_1b" else preset_config(name)
    family = next(family for family in families() if name in family.presets)
    return family.to_hf_config(config) | {"vocab_size": VOCABULARY}


@pytest.mark.parametrize("name", [next(iter(family.presets)) for family in families() if family.presets])
def test_a_field_that_is_left_out_has_the_default_of_the_class_or_is_named(name, tmp_path):
    fields = written(name)
    for left_out in fields.keys() - OF_EVERY_CLASS:
        given = {field: value for field, value in fields.items() if field != left_out}
        try:
            filled = transformers.AutoConfig.for_model(**given).to_dict() | {"architectures": given["architectures"]}
        except (
            ValueError,
            StrictDataclassError,
        ):  # a list with a value for each layer does not fit the default number of layers
            with pytest.raises(HeadraceError):
                read(tmp_path, given)
            continue
        try:
            found = read(tmp_path, given)
        except HeadraceError as error:
            if str(error).startswith(f"{tmp_path}: has no {left_out} in config.json; give the config.json"):
                continue
            with pytest.raises(HeadraceError):
                read(tmp_path, filled)
        else:
            assert found == read(tmp_path, filled), left_out


@pytest.mark.parametrize("name", [next(iter(family.presets)) for family in families() if family.presets])
def test_a_null_or_a_list_is_read_or_refused(name, tmp_path):
    fields = written(name)
    for field in fields.keys() - OF_EVERY_CLASS:
        for value in (None, [3, 4]):
            with contextlib.suppress(HeadraceError):
                read(tmp_path, fields | {field: value})


def test_a_published_bloom_is_read(tmp_path):
    config = read(tmp_path, BLOOM_560M)
    assert config == dataclasses.replace(preset_config("bloom_560m"), context=2048)
    assert config.parameters(BLOOM_560M["vocab_size"]) == 559_214_592


@pytest.mark.parametrize("given", [{"attention_bias": True}, {"attention_bias": True, "mlp_bias": None}])
def test_biases_of_attention_alone_are_refused(given, tmp_path):
    fields = written("llama_1b")
    del fields["mlp_bias"]
    with pytest.raises(ArtifactError) as error:
        read(tmp_path, fields | given)
    wrong = "has attention_bias=True and mlp_bias=False in config.json (left out: False)"
    assert str(error.value) == f"{tmp_path}: {wrong}; only both or none are computed"
