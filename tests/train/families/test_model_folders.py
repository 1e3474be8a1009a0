"""A matrix of Hugging Face folders: which files count, ties, names and types of weights, as ``transformers`` has it.

Each folder is opened here and by transformers: the logits are equal, or both refuse. Where transformers would draw
random weights for missing ones, we refuse.
"""

import dataclasses
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.pipeline.core.errors import ArtifactError
from headrace.train.data.batches import EncoderTokens
from headrace.train.families.hf_config import read_family
from headrace.train.families.hf_folder import export, load
from headrace.train.families.stored_weights import weight_files
from headrace.train.objectives.masked import CLASS, MASK, SEPARATOR
from tests.train.families.test_encoder_decoders import SHAPES as ENCODER_DECODERS
from tests.train.families.test_encoders import SHAPES as ENCODERS
from tests.train.families.test_hf_folder import SHAPES as DECODERS
from tests.train.model.test_transformer import VOCABULARY, random_model

CONFIGS = {
    **{name: DECODERS[name] for name in DECODERS if name.partition("-")[1:] == ("", "")},
    "gpt2-untied": DECODERS["gpt2-untied"],
    "llama-tied": DECODERS["llama-tied"],
    **{name: config for name, config in ENCODERS.items() if name not in ("bert-tanh", "wide-discriminator")},
    **ENCODER_DECODERS,
}
TOKENS = torch.randint(2, VOCABULARY, (1, 12), generator=torch.Generator().manual_seed(1))
TWO_MATRICES = "with different values; only one matrix for both is computed"
"""The one refusal of what transformers computes: embeddings of encoder and decoder that differ, by their precision."""
Tensors = dict[str, Tensor]


@dataclasses.dataclass
class Folder:
    """What is written: files of tensors, the index, and changes of config.json."""

    files: dict[str, Tensors]
    index: dict[str, str] | None = None
    change: dict[str, Any] = dataclasses.field(default_factory=dict)

    def write(self, given: Path, folder: Path) -> Path:
        folder.mkdir()
        config = json.loads((given / "config.json").read_text()) | self.change
        (folder / "config.json").write_text(json.dumps(config))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_bytes((given / name).read_bytes())
        for name, tensors in self.files.items():
            if name.endswith(".bin"):
                torch.save(tensors, folder / name)
            else:
                save_file({key: value.clone().contiguous() for key, value in tensors.items()}, folder / name)
        if self.index is not None:
            index = {"metadata": {"total_size": 1}, "weight_map": self.index}
            (folder / "model.safetensors.index.json").write_text(json.dumps(index))
        return folder


@dataclasses.dataclass(frozen=True)
class Model:
    """A random model of a family in a folder, and what transformers says of its weights."""

    name: str
    folder: Path
    auto: Any
    weights: Tensors
    """As transformers saves them: tied ones once."""
    ties: dict[str, str]
    """Name of a weight that the class ties → the name of the weight that it ties it to."""
    prefix: str

    @property
    def stack(self) -> str:
        return CONFIGS[self.name].stack


@pytest.fixture(scope="module", params=CONFIGS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Model:
    config, folder = CONFIGS[request.param], tmp_path_factory.mktemp("given")
    special = {"roberta": "roberta", "bart": "roberta", "v1.0": "t5", "v1.1": "t5", "umt5": "t5"}
    tokenizer = Trained(vocabulary_size=400, special_tokens=special.get(request.param, "gpt"))
    tokenizer_file = folder / "tokenizer.json"
    further = (CLASS, SEPARATOR, MASK) if config.stack in ("encoder", "discriminator") else ()
    tokenizer_file.write_text(tokenizer.train(["a mill"], further), encoding="utf-8")
    ours = random_model(config)
    export(ours.named_parameters(), config, VOCABULARY, tokenizer_file, folder / "hf")
    auto = {
        "decoder": transformers.AutoModelForCausalLM,
        "encoder": transformers.AutoModelForMaskedLM,
        "discriminator": transformers.AutoModelForPreTraining,
        "encoder_decoder": transformers.AutoModelForSeq2SeqLM,
    }[config.stack]
    theirs = auto.from_pretrained(folder / "hf")
    ties = dict(type(theirs)(theirs.config).all_tied_weights_keys)
    state = {name: value.clone() for name, value in theirs.state_dict().items()}
    weights = {name: value for name, value in state.items() if name not in theirs.all_tied_weights_keys}
    weights = {name: value for name, value in weights.items() if name != "final_logits_bias"}
    return Model(request.param, folder / "hf", auto, weights, ties, theirs.base_model_prefix)


@torch.inference_mode()
def expected(model: Model, folder: Path) -> Tensor | None:
    """The logits of transformers; None where it refuses the folder, or lacks a weight."""
    try:
        theirs, info = model.auto.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, attn_implementation="eager"
        )
    except Exception:  # noqa: BLE001  # any of transformers' errors is a refusal
        return None
    if info["missing_keys"] or info["mismatched_keys"]:
        return None
    more = {"decoder_input_ids": TOKENS} if model.stack == "encoder_decoder" else {}
    return theirs.eval()(input_ids=TOKENS, **more).logits


@torch.inference_mode()
def found(folder: Path) -> Tensor:
    ours = load(folder)
    positions, documents = torch.arange(TOKENS.shape[1])[None], torch.zeros_like(TOKENS)
    more = {"source": EncoderTokens(TOKENS, positions, documents)} if ours.has_encoder else {}
    return ours(TOKENS, positions, documents, **more)


def compare(model: Model, folder: Path) -> bool:
    """Whether both open ``folder``; then their logits are equal."""
    logits = expected(model, folder)
    if logits is None:
        with pytest.raises(ArtifactError) as error:
            found(folder)
        assert str(folder) in error.value.where
        return False
    torch.testing.assert_close(found(folder).view_as(logits), logits, rtol=0, atol=1e-4)
    return True


def other(tensors: Tensors) -> Tensors:
    """Other values of the same types and shapes."""
    draw = torch.Generator().manual_seed(7)
    return {name: torch.randn(value.shape, generator=draw).to(value.dtype) for name, value in tensors.items()}


def sharded(tensors: Tensors, draw: random.Random) -> Folder:
    """Random shards, none of them empty, and their index."""
    names, count = list(tensors), draw.randint(2, 4)
    draw.shuffle(names)
    files = [f"model-{number + 1:05d}-of-{count:05d}.safetensors" for number in range(count)]
    index = {name: files[number] if number < count else draw.choice(files) for number, name in enumerate(names)}
    return Folder({file: {n: tensors[n] for n in names if index[n] == file} for file in files}, index)


Kind = Callable[[Model, random.Random], Folder]


def stale_shard(model: Model, draw: random.Random) -> Folder:
    folder = sharded(model.weights, draw)
    folder.files["model-00009-of-00009.safetensors"] = other(model.weights)
    return folder


def missing_shard(model: Model, draw: random.Random) -> Folder:
    folder = sharded(model.weights, draw)
    del folder.files[draw.choice(list(folder.files))]
    return folder


def single_beside_shards(model: Model, draw: random.Random) -> Folder:
    folder = sharded(other(model.weights), draw)
    folder.files["model.safetensors"] = model.weights
    return folder


def shards_without_index(model: Model, draw: random.Random) -> Folder:
    return Folder(sharded(model.weights, draw).files)


def beside_bin(model: Model, draw: random.Random) -> Folder:
    folder = sharded(model.weights, draw)
    folder.files["pytorch_model.bin"] = other(model.weights)
    return folder


def index_of_other_shards(model: Model, draw: random.Random) -> Folder:
    folder = sharded(model.weights, draw)
    assert folder.index is not None
    places = list(folder.index.values())
    draw.shuffle(places)
    folder.index = dict(zip(folder.index, places, strict=True))
    return folder


def in_two_shards(model: Model, draw: random.Random) -> Folder:
    folder, (name, value) = sharded(model.weights, draw), draw.choice(list(model.weights.items()))
    for tensors in folder.files.values():
        tensors[name] = value
    return folder


def in_two_shards_with_other_values(model: Model, draw: random.Random) -> Folder:
    folder, name = sharded(model.weights, draw), draw.choice(list(model.weights))
    for number, tensors in enumerate(folder.files.values()):
        tensors[name] = model.weights[name] + number
    return folder


def in_no_shard(model: Model, draw: random.Random) -> Folder:
    folder, name = sharded(model.weights, draw), draw.choice(list(model.weights))
    for tensors in folder.files.values():
        tensors.pop(name, None)
    return folder


def further_tensors(model: Model, draw: random.Random) -> Folder:
    return Folder({"model.safetensors": {**model.weights, "vision.tower.weight": torch.ones(3)}})


def other_shape(model: Model, draw: random.Random) -> Folder:
    name = draw.choice([name for name, value in model.weights.items() if value.dim() == 2])
    return Folder({"model.safetensors": {**model.weights, name: model.weights[name][1:]}})


def other_type(dtype: torch.dtype) -> Kind:
    def kind(model: Model, draw: random.Random) -> Folder:
        tensors = {
            name: (value if dtype.is_floating_point else 3 * value).to(dtype) for name, value in model.weights.items()
        }
        return sharded(tensors, draw)

    return kind


def several_types(model: Model, draw: random.Random) -> Folder:
    types = [torch.float32, torch.bfloat16, torch.float16]
    return sharded({name: value.to(draw.choice(types)) for name, value in model.weights.items()}, draw)


def explicit_file(model: Model, draw: random.Random) -> Folder:
    files = {"mine.safetensors": model.weights, "model.safetensors": other(model.weights)}
    return Folder(files, change={"transformers_weights": "mine.safetensors"})


def copies_of_ties(model: Model, draw: random.Random) -> Folder:
    return sharded({**model.weights, **{name: model.weights[source] for name, source in sources(model)}}, draw)


def another_head(model: Model, draw: random.Random) -> Folder:
    """Config.json ties the output layer, and the files hold another."""
    return sharded({**model.weights, **{name: other(model.weights)[source] for name, source in heads(model)}}, draw)


def head_alone(model: Model, draw: random.Random) -> Folder:
    """The files hold the output layer, and not the embedding to which it is tied."""
    tensors = dict(model.weights)
    for name, source in heads(model)[:1]:
        tensors[name] = tensors.pop(source)
    return sharded(tensors, draw)


def without_prefix(model: Model, draw: random.Random) -> Folder:
    return sharded({name.removeprefix(f"{model.prefix}."): value for name, value in model.weights.items()}, draw)


def with_prefix(model: Model, draw: random.Random) -> Folder:
    return sharded({f"{model.prefix}.{name.removeprefix(f'{model.prefix}.')}": value
                    for name, value in model.weights.items()}, draw)  # fmt: skip


def older_names(model: Model, draw: random.Random) -> Folder:
    def older(name: str) -> str:
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    return sharded({older(name): value for name, value in model.weights.items()}, draw)


def names_of_the_module(model: Model, draw: random.Random) -> Folder:
    """GPT-NeoX is saved with another name of its head than the class has."""
    return sharded({name.replace("embed_out", "lm_head"): value for name, value in model.weights.items()}, draw)


def mixture(model: Model, draw: random.Random) -> Folder:
    """Several of these in one folder."""
    tensors = dict(model.weights)
    kinds = [copies_of_ties, another_head, head_alone, older_names, without_prefix, several_types]
    for change in draw.sample(kinds, 2):
        made = change(dataclasses.replace(model, weights=tensors), draw)
        tensors = {name: value for part in made.files.values() for name, value in part.items()}
    folder = sharded(tensors, draw)
    stale = draw.choice(["model-00009-of-00009.safetensors", "old.safetensors", "pytorch_model.bin", ""])
    if stale:
        folder.files[stale] = other(model.weights)
    if draw.random() < 0.3:
        folder.files["model.safetensors"] = tensors
    return folder


def sources(model: Model) -> list[tuple[str, str]]:
    """The ties to a weight that is stored."""
    stored = model.weights
    return [(name, source) for name, source in model.ties.items() if source in stored and name not in stored]


def heads(model: Model) -> list[tuple[str, str]]:
    return [(name, source) for name, source in sources(model) if "embed_tokens" not in name and "bias" not in name]


FILES: dict[str, tuple[Kind, bool]] = {
    "single": (lambda model, draw: Folder({"model.safetensors": model.weights}), True),
    "sharded": (lambda model, draw: sharded(model.weights, draw), True),
    "stale_shard": (stale_shard, True),
    "missing_shard": (missing_shard, False),
    "single_beside_shards": (single_beside_shards, True),
    "shards_without_index": (shards_without_index, False),
    "beside_bin": (beside_bin, True),
    "index_of_other_shards": (index_of_other_shards, True),
    "in_two_shards": (in_two_shards, True),
    "in_two_shards_with_other_values": (in_two_shards_with_other_values, True),
    "further_tensors": (further_tensors, True),
    "explicit_file": (explicit_file, True),
    "bf16": (other_type(torch.bfloat16), True),
    "fp16": (other_type(torch.float16), True),
    "fp64": (other_type(torch.float64), True),
    "int8": (other_type(torch.int8), True),
    "several_types": (several_types, True),
}
"""Kind of a folder → how it is made, and whether it is opened: which files and tensors count."""
NAMES: dict[str, tuple[Kind, bool]] = {
    "in_no_shard": (in_no_shard, False),
    "other_shape": (other_shape, False),
    "copies_of_ties": (copies_of_ties, True),
    "another_head": (another_head, True),
    "head_alone": (head_alone, True),
    "without_prefix": (without_prefix, True),
    "with_prefix": (with_prefix, True),
    "older_names": (older_names, True),
    "names_of_the_module": (names_of_the_module, True),
}
"""Those that depend on the names and the ties of a family."""
KINDS = {**FILES, **NAMES}


def differing(model: Model, folders: dict[str, Folder], tmp_path: Path) -> dict[str, str]:
    """Name → what differs between us and transformers."""
    wrong = {}
    for name, folder in folders.items():
        try:
            opens = compare(model, folder.write(model.folder, tmp_path / name))
        except AssertionError as error:
            wrong[name] = str(error)
        except ArtifactError as error:
            if TWO_MATRICES not in str(error) or model.stack != "encoder_decoder":
                wrong[name] = str(error)
        else:
            if name in KINDS and opens != KINDS[name][1]:
                wrong[name] = "opened" if opens else "refused"
    return wrong


def made(model: Model, kinds: dict[str, tuple[Kind, bool]]) -> dict[str, Folder]:
    return {name: make(model, random.Random(name)) for name, (make, _) in kinds.items()}


def mixtures(model: Model, seeds: range) -> dict[str, Folder]:
    return {f"mixture {seed}": mixture(model, random.Random(seed)) for seed in seeds}


def test_each_family_has_the_logits_of_transformers_or_refuses(model: Model, tmp_path: Path) -> None:
    assert differing(model, {**made(model, NAMES), **mixtures(model, range(2))}, tmp_path) == {}


@pytest.mark.parametrize("model", ["llama-tied", "v1.0"], indirect=True)
def test_each_kind_of_files_has_the_logits_of_transformers_or_is_refused(model: Model, tmp_path: Path) -> None:
    assert differing(model, {**made(model, FILES), **mixtures(model, range(2, 8))}, tmp_path) == {}


@pytest.mark.slow
def test_each_kind_of_files_with_each_family(model: Model, tmp_path: Path) -> None:
    assert differing(model, {**made(model, FILES), **mixtures(model, range(8, 30))}, tmp_path) == {}


def test_the_ties_of_the_class_are_those_of_the_family(model: Model) -> None:
    """Each weight that transformers ties is a further name of ours, or the output layer."""
    config, family = CONFIGS[model.name], read_family(model.folder)
    names = family.names(config)
    groups = [names.all_of("embedding.weight"), *([names.all_of("head.weight")] if "head" in names.outer else [])]
    groups += [(name, *further) for name, further in names.further.items()]
    known = {one for group in groups for one in group}
    assert known >= {*model.ties, *model.ties.values()}
    assert bool(model.ties) == (config.stack != "discriminator" and (config.tied or family.always_ties))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "has no map of weights to files (JSONDecodeError: "),
        ("[]", "has no map of weights to files (TypeError: "),
        ("{}", "has no map of weights to files (KeyError: 'weight_map')"),
        ('{"weight_map": []}', "has no map of weights to files (AttributeError: "),
        ('{"weight_map": {"a": ["b"]}}', "has no map of weights to files (TypeError: "),
        ('{"weight_map": {}}', "names no file; fetch it again"),
        ('{"weight_map": {"a": "../x.safetensors"}}', "has '../x.safetensors' in model.safetensors.index.json, which"),
        (
            '{"weight_map": {"a": "/x.safetensors"}}',
            "has '/x.safetensors' in model.safetensors.index.json, which is no",
        ),
        ('{"weight_map": {"a": "x.bin"}}', "has 'x.bin' in model.safetensors.index.json, which is no file of this"),
        ('{"weight_map": {"a": 5}}', "has 5 in model.safetensors.index.json, which is no file of this folder"),
        ('{"weight_map": {"a": "x.safetensors"}}', "lacks x.safetensors, which model.safetensors.index.json names;"),
    ],
)
def test_an_index_that_is_none_is_refused_by_its_fault(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ArtifactError) as error:
        weight_files(tmp_path, {})
    assert message in str(error.value)
    assert str(error.value).startswith(str(tmp_path))


@pytest.mark.parametrize("value", [5, ["a"], "../a.safetensors", "a.bin", "a.safetensors", "a.safetensors.index.json"])
def test_a_file_of_weights_that_config_json_names_and_that_is_none(value: object, tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"config.json"):
        weight_files(tmp_path, {"transformers_weights": value})
