"""The table of families: presets have their published sizes, and a family is added by one line of the table."""

import dataclasses
import re
from pathlib import Path

import pytest
import yaml

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.configuration.options import about, groups
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.families import registry
from headrace.train.families.family import Family, Preset, WeightNames, common_fields, require
from headrace.train.families.hf_config import is_ours
from headrace.train.families.hf_folder import export, load
from headrace.train.model.initialization import without_values
from headrace.train.model.transformer import Transformer
from tests.train.families.test_initial_weights import SHAPES, VOCABULARY, folder_of

ROOT = Path(__file__).parents[3]
PUBLISHED = {
    name: (family, preset) for family in (*registry.families(), registry.OWN) for name, preset in family.presets.items()
}
WITHOUT_PUBLICATION = {
    "demo",
    "llama_demo",
    "bert_demo",
    "modernbert_demo",
    "t5_demo",
    "albert_demo",
    "bart_demo",
}


def preset_config(name: str) -> ModelConfig:
    return decode(ModelConfig, option_values("model", name))


@pytest.mark.parametrize(("name", "family", "preset"), [(n, *both) for n, both in PUBLISHED.items()], ids=PUBLISHED)
def test_presets_have_the_published_number_of_parameters(name: str, family: Family, preset: Preset) -> None:
    config = preset_config(name)
    counted = config.parameters(preset.vocabulary)
    assert counted == pytest.approx(preset.parameters, rel=preset.rounding, abs=0)
    assert registry.family_of(config) is family
    with without_values():
        model = Transformer(config, preset.vocabulary)
    assert sum(p.numel() for p in model.parameters()) == counted
    if name != "llama_1b":
        assert f"{counted:,} parameters" in about("model", name.removesuffix("_banded"))


def test_every_preset_belongs_to_a_family() -> None:
    names = set(groups()["model"])
    assert names == PUBLISHED.keys() | WITHOUT_PUBLICATION
    mixtures = {name for name in names if registry.family_of(preset_config(name)) is registry.OWN}
    assert mixtures == registry.OWN.presets.keys()


@pytest.mark.parametrize("name", [name for name in registry.OWN.presets if name.endswith("_banded")])
def test_the_banded_sizes_of_gpt3_are_the_dense_ones_with_windows(name: str) -> None:
    banded = preset_config(name)
    assert dataclasses.replace(banded, attention_pattern=("full",), window=None) == preset_config(
        name[: -len("_banded")]
    )
    assert banded.layer_attention[:4] == ("full", "window", "full", "window")


def test_every_preset_says_where_its_sizes_are_from() -> None:
    for name in groups()["model"]:
        origin = "two CPU cores" if name in WITHOUT_PUBLICATION else r"(19|20)\d\d|sizes of its config.json|TinyLlama"
        assert re.search(origin, about("model", name)), name


class Added(Family):
    """A throw-away family: LLaMA's parts with normalization after each addition, under names of its own."""

    model_type = "added"
    weight_names = WeightNames(
        block="layers",
        inner={"attention.qkv": ("q", "k", "v"), "attention_norm": ("first_norm",), "mlp.down": ("out",)},
        outer={"embedding": "words"},
        transposed=True,
    )
    special_tokens = {"eos_token": "<|endoftext|>"}  # noqa: RUF012

    def computes(self, config: ModelConfig) -> bool:
        return config.positions == "rope" and config.norm_place == "post"

    def to_hf_config(self, config: ModelConfig) -> dict[str, object]:
        return common_fields(self.model_type, "AddedModel", config) | {
            "act": "swish",
            "sizes": dataclasses.asdict(config),
        }

    def from_hf_config(self, hf_config, folder) -> ModelConfig:
        require(folder, hf_config, {"act": "swish"})
        return decode(ModelConfig, hf_config["sizes"])


CONFIG = dataclasses.replace(SHAPES["llama"], norm_place="post")


@pytest.fixture
def added(monkeypatch) -> None:
    """Only the table names the throw-away family."""
    monkeypatch.setitem(registry.FAMILIES.places, Added.model_type, f"{__name__}:Added")


@pytest.mark.usefixtures("added")
def test_an_added_family_is_exported_and_loaded(tmp_path) -> None:
    folder = folder_of(CONFIG, tmp_path)
    assert is_ours(folder)
    model = load(folder)
    assert model.config == CONFIG
    export(model.named_parameters(), CONFIG, VOCABULARY, tmp_path / "given.json", tmp_path / "again")
    for name in ("model.safetensors", "config.json", "tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    settings = yaml.safe_load((folder / "config.json").read_text())
    assert {"eos_token_id"} == {name for name in settings if name.endswith("_id")}


def test_an_encoder_of_llamas_parts_is_no_llama(tmp_path) -> None:
    config = dataclasses.replace(SHAPES["llama"], stack="encoder")
    assert registry.family_of(config) is registry.OWN
    assert load(folder_of(config, tmp_path)).config == config


def test_without_its_line_in_the_table_the_parts_are_a_mixture(tmp_path) -> None:
    assert registry.family_of(CONFIG) is registry.OWN
    assert load(folder_of(CONFIG, tmp_path)).config == CONFIG
