"""The table of docs/models.md: what can be done with a folder of each type that ``transformers`` wrote."""

import dataclasses
import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError
from headrace.train.config import ModelConfig
from headrace.train.data.batches import EncoderTokens
from headrace.train.families import initial_weights
from headrace.train.families.hf_config import read_context_form, read_model_config
from headrace.train.families.hf_folder import export, load_into, read_predecessor
from headrace.train.families.registry import families
from headrace.train.families.task_heads import TaskKind
from headrace.train.finetune.network import Network
from headrace.train.finetune.tuning import Tuning
from headrace.train.inference.generator import generator_of
from headrace.train.inference.queries import TokenQuery
from headrace.train.inference.settings import Inference, Sampling
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.transformer import Transformer
from headrace.train.objectives.masked import CLASS, MASK, SEPARATOR
from headrace.train.parts import WRITING

ROOT = Path(__file__).parents[3]
HEADER = "| `model_type` | score | generate | continue | fine-tune | export |"
ROWS = 448
"""Rows of the embedding: more than the tokenizer has tokens."""
CPU = Inference(device="cpu")
SIZES = {
    "vocab_size": ROWS, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
GROUPED = SIZES | {"num_key_value_heads": 2}
N_SIZES = {"vocab_size": ROWS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
OF_T5 = {"vocab_size": ROWS, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
OF_BART = {
    f"{stack}_{name}": value
    for stack in ("encoder", "decoder")
    for name, value in {"layers": 2, "attention_heads": 4, "ffn_dim": 64}.items()
}
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}  # fmt: skip
CONFIGS: Mapping[str, Mapping[str, Any]] = {
    "openai-gpt": N_SIZES,
    "gpt2": N_SIZES,
    "gpt_neo": {
        "vocab_size": ROWS, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64,
        "attention_types": [[["global", "local"], 1]], "window_size": 8,
    },
    "opt": {
        "vocab_size": ROWS, "hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 64, "word_embed_proj_dim": 32,
    },
    "bloom": {"vocab_size": ROWS, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "mpt": {"vocab_size": ROWS, "d_model": 32, "n_heads": 4, "n_layers": 2, "max_seq_len": 64},
    "gpt_neox": SIZES | {"rotary_pct": 0.25},
    "starcoder2": GROUPED | {"sliding_window": 8},
    "llama": GROUPED | {"rope_parameters": LLAMA3},
    "mistral": GROUPED | {"sliding_window": None},
    "qwen2": GROUPED | {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1},
    "qwen3": GROUPED | {"head_dim": 16},
    "olmo": GROUPED,
    "olmo2": GROUPED,
    "gemma": GROUPED | {"head_dim": 16},
    "gemma2": GROUPED | {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 8},
    "bert": SIZES,
    "roberta": SIZES | {"max_position_embeddings": 66, "type_vocab_size": 1},
    "modernbert": SIZES | {"local_attention": 8, "global_attn_every_n_layers": 2, "pad_token_id": 0},
    "albert": SIZES | {"embedding_size": 16},
    "electra": SIZES | {"embedding_size": 16},
    "t5": OF_T5,
    "umt5": OF_T5 | {"tie_word_embeddings": False},
    "bart": {"vocab_size": ROWS, "d_model": 32, "max_position_embeddings": 64, **OF_BART},
    "gptj": N_SIZES | {"rotary_dim": 4},
    "gpt_bigcode": N_SIZES,
    "falcon": {"vocab_size": ROWS, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4},
    "phi": SIZES | {"partial_rotary_factor": 0.5},
    "phi3": GROUPED | {"pad_token_id": 0},
    "stablelm": GROUPED,
    "granite": GROUPED | {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0},
    "olmo3": GROUPED | {"sliding_window": 8},
    "gemma3_text": GROUPED | {"head_dim": 16, "sliding_window": 8},
    "smollm3": GROUPED | {"pad_token_id": 0},
    "cohere": GROUPED | {"pad_token_id": 0},
}  # fmt: skip
"""``model_type`` → the fields of a small model."""
OURS = {family.model_type for family in families()}
ENCODERS = {family.model_type for family in families() if not {*family.stacks} & {*WRITING}}
PAIRS = {family.model_type for family in families() if "encoder_decoder" in family.stacks}
OTHER_NAMES = {"bloom", "bart"}
"""The types that transformers stores under names without their first part, or with a bias that is 0."""
SMALL = {"layers": 1, "width": 8, "heads": 1, "kv_heads": 1, "context": 8, "mlp_width": 8}
SPECIAL = {"roberta": "roberta", "bart": "roberta", "t5": "t5", "umt5": "t5"}
TEXTS = ["the mill turns", "a river by the old mill"]


@dataclasses.dataclass(frozen=True)
class Published:
    """A folder that transformers wrote, and its model."""

    kind: str
    folder: Path
    theirs: Any
    tokens: int
    """The number of tokens of its tokenizer."""


def auto_class(kind: str) -> Any:
    if kind == "electra":
        return transformers.AutoModelForPreTraining
    if kind in ENCODERS:
        return transformers.AutoModelForMaskedLM
    return transformers.AutoModelForSeq2SeqLM if kind in PAIRS else transformers.AutoModelForCausalLM


def write(kind: str, folder: Path) -> Published:
    further = (CLASS, SEPARATOR, MASK) if kind in ENCODERS else ()
    trained = Trained(vocabulary_size=400, special_tokens=SPECIAL.get(kind, "gpt"))
    folder.mkdir()
    (folder / "tokenizer.json").write_text(trained.train([*TEXTS, "the wheel"] * 3, further), encoding="utf-8")
    encoder = Encoder.load(folder / "tokenizer.json")
    end = str(encoder.backend.id_to_token(encoder.end_of_text))
    names = {"eos_token": end, "bos_token": end} if kind not in ENCODERS else {}
    names |= {"sep_token": SEPARATOR, "cls_token": CLASS, "mask_token": MASK} if kind in ENCODERS else {}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **names, "chat_template": "{{ messages }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=7))
    fields = dict(CONFIGS[kind]) | {"eos_token_id": encoder.end_of_text, "bos_token_id": encoder.end_of_text}
    padding = encoder.backend.token_to_id("<pad>")
    if kind in SPECIAL:
        fields |= {"pad_token_id": padding}
    if kind in PAIRS:
        fields |= {"decoder_start_token_id": encoder.end_of_text if kind == "bart" else padding}
    theirs = auto_class(kind).from_config(transformers.AutoConfig.for_model(kind, **fields))
    if kind == "umt5":  # its class ties the output layer unless a folder has another one, as published folders do
        theirs.lm_head.weight = torch.nn.Parameter(theirs.lm_head.weight.clone())
    draw = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=draw) * 0.1)
    theirs.save_pretrained(folder)
    loaded = auto_class(kind).from_pretrained(folder, attn_implementation="eager").eval()
    return Published(kind, folder, loaded, encoder.vocabulary_size)


@pytest.fixture(scope="module", params=CONFIGS)
def published(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Published:
    return write(request.param, tmp_path_factory.mktemp("published") / request.param)


def tokens_of(published: Published) -> torch.Tensor:
    """Rows of tokens that are no padding."""
    return torch.randint(8, published.tokens, (2, 20), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def their_logits(theirs: Any, tokens_BT: torch.Tensor) -> torch.Tensor:
    more = {"decoder_input_ids": tokens_BT} if theirs.config.is_encoder_decoder else {}
    logits: torch.Tensor = theirs(input_ids=tokens_BT, **more).logits
    return logits


@torch.no_grad()
def our_logits(network: Any, tokens_BT: torch.Tensor) -> torch.Tensor:
    positions, documents = torch.arange(tokens_BT.shape[1]).expand_as(tokens_BT), torch.zeros_like(tokens_BT)
    has_encoder = isinstance(network, Transformer) and network.has_encoder
    more = {"source": EncoderTokens(tokens_BT, positions, documents)} if has_encoder else {}
    logits: torch.Tensor = network(tokens_BT, positions, documents, **more)
    return logits


def close(found: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(found.view_as(expected), expected, rtol=0, atol=1e-4)


def check_score(published: Published, tmp_path: Path) -> None:
    """All logits, also of the rows without a token, and the log-likelihoods of decoders."""
    model, tokens_BT = open_folder(published.folder, CPU), tokens_of(published)
    logits_BTV = their_logits(published.theirs, tokens_BT)
    close(our_logits(model.network, tokens_BT), logits_BTV)
    if published.kind in {*ENCODERS, *PAIRS}:
        return
    queries = [TokenQuery(np.array(row[:-6]), np.array(row[-6:])) for row in tokens_BT.tolist()]
    at = logits_BTV[:, 13:19].double().log_softmax(-1).gather(2, tokens_BT[:, 14:, None])
    answers = model.likelihood.answers(queries)
    assert [answer.log_likelihood for answer in answers] == pytest.approx(at.sum((1, 2)).tolist(), abs=1e-4)


@torch.no_grad()
def check_generate(published: Published, tmp_path: Path) -> None:
    """Greedy tokens, without the rows that no token has."""
    model, theirs = open_folder(published.folder, CPU), published.theirs
    found = generator_of(model).generate([TEXTS[0]], Sampling(max_tokens=8))[0].tokens
    prompt = model.tokenizer.encode([TEXTS[0]])[0].tolist()
    source, texts = list[int](), [*model.opening, *prompt]
    if published.kind in PAIRS:
        form = model.network.context_form  # type: ignore[attr-defined]  # our own model
        source, texts = form.read(prompt), form.begun(prompt)
    for token in found:
        row = torch.tensor([texts])
        more = {"input_ids": torch.tensor([source]), "decoder_input_ids": row} if source else {"input_ids": row}
        assert int(theirs(**more).logits[0, -1, : published.tokens].argmax()) == token
        texts.append(token)


def continued(published: Published) -> tuple[Transformer, ModelConfig]:
    """The model that a training begins with."""
    config, _ = read_model_config(published.folder)
    model = Transformer(config, published.tokens)
    load_into(model, published.folder)
    return model, config


def check_continue(published: Published, tmp_path: Path) -> None:
    """The first logits of a training are those of the tokens, and have a gradient."""
    is_known = published.kind in OURS
    config = read_model_config(published.folder)[0] if is_known else ModelConfig(**SMALL)
    names = {file.name for file in initial_weights.raw_files(published.folder, config)}
    initial_weights.check_tokenizer(published.folder, published.folder / "tokenizer.json", published.tokens)
    assert "initial_weights/tokenizer_config.json" in names
    model, _ = continued(published)
    tokens_BT = tokens_of(published)
    logits = their_logits(published.theirs, tokens_BT)
    close(our_logits(model.eval(), tokens_BT), logits if logits.dim() == 2 else logits[..., : published.tokens])


@dataclasses.dataclass(frozen=True)
class Classes:
    """What a network asks a fitted task."""

    kind: TaskKind | None = "classification"
    outputs_per_position: int = 3
    context_form: None = None
    hf_fields: Mapping[str, Any] = dataclasses.field(default_factory=lambda: {"num_labels": 3})

    def complete(self, folder: Path) -> None:
        return


def check_finetune(published: Published, tmp_path: Path) -> None:
    """What is tuned begins with the weights of the folder, and its export has the rows and files of it."""
    finetune: Any = types.SimpleNamespace(folder=str(published.folder))  # its other settings do not matter here
    config = Tuning.model_of(finetune, ModelConfig(**SMALL))
    task: Any = Classes() if published.kind not in PAIRS - {"bart"} else Classes(kind=None)
    network = Network(config, published.tokens, task, published.folder)
    first = dict(network.first_weights(1))
    network.export(first.items(), published.folder / "tokenizer.json", tmp_path / "tuned")
    same_files(published.folder, tmp_path / "tuned")
    if published.kind == "electra":  # a folder of its class for a task is read by transformers alone
        before, after = (load_file(folder / "model.safetensors") for folder in (published.folder, tmp_path / "tuned"))
        shared = {name for name in before if name.startswith("electra.")}
        assert shared <= after.keys()
        assert all(torch.equal(before[name], after[name]) for name in shared)
        return
    again = dict(dataclasses.replace(network, weights_folder=tmp_path / "tuned").first_weights(1))
    assert first.keys() == again.keys()
    assert all(torch.equal(again[name], value) for name, value in first.items())
    assert read_model_config(tmp_path / "tuned") == (config, ROWS)


def same_files(folder: Path, exported: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        if (folder / name).is_file():
            assert (exported / name).read_bytes() == (folder / name).read_bytes()


def check_export(published: Published, tmp_path: Path) -> None:
    """The same model in several files, with all rows, for transformers and for us."""
    model, config = continued(published)
    export(
        model.named_parameters(), config, published.tokens, published.folder / "tokenizer.json", tmp_path / "exported",
        read_context_form(published.folder), file_bytes=20_000, predecessor=read_predecessor(model, published.folder),
    )  # fmt: skip
    exported = tmp_path / "exported"
    index = json.loads((exported / "model.safetensors.index.json").read_text())
    assert len({*index["weight_map"].values()}) > 1
    theirs, info = auto_class(published.kind).from_pretrained(
        exported, output_loading_info=True, attn_implementation="eager"
    )
    assert type(theirs) is type(published.theirs)
    assert not any(info[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"))
    before = published.theirs.state_dict()
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0)
    tokens_BT = tokens_of(published)
    close(our_logits(open_folder(exported, CPU).network, tokens_BT), their_logits(published.theirs, tokens_BT))
    same_files(published.folder, exported)
    stored, given = (
        {name for file in folder.glob("*.safetensors") for name in load_file(file)}
        for folder in (exported, published.folder)
    )
    assert stored == given or published.kind in OTHER_NAMES


CHECKS = {
    "score": check_score,
    "generate": check_generate,
    "continue": check_continue,
    "fine-tune": check_finetune,
    "export": check_export,
}
REFUSED = {
    "generate": (HeadraceError, "which continues no text"),
    "continue": (ConfigError, "holds a model of type"),
    "fine-tune": (ConfigError, "holds a model of type"),
    "export": (ArtifactError, "holds a model of type"),
}


def is_done(kind: str, column: str) -> bool:
    if kind in ENCODERS:
        return column != "generate"
    return kind in OURS or column in ("score", "generate")


@pytest.mark.parametrize("column", CHECKS)
def test_each_cell_is_that_of_transformers_or_is_refused(published, column, tmp_path):
    if is_done(published.kind, column):
        CHECKS[column](published, tmp_path)
    else:
        error, message = REFUSED[column]
        with pytest.raises(error, match=message):
            CHECKS[column](published, tmp_path)


def test_the_table_has_these_cells():
    text = (ROOT / "docs/models.md").read_text()
    columns = [cell.strip() for cell in HEADER.strip("|").split("|")][1:]
    lines = text[text.index(HEADER) :].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    rows = [(kind.strip("`"), marks) for kinds, *marks in cells for kind in kinds.split()]
    assert len(rows) == len(CONFIGS)
    assert dict(rows) == {kind: ["✓" if is_done(kind, column) else "–" for column in columns] for kind in CONFIGS}
    assert CONFIGS.keys() >= OURS
