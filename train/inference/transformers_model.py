"""A causal language model in a Hugging Face folder, whoever made it, ready to be asked.

    folder/config.json ── of a kind that Transformer computes (GPT-1, GPT-2, LLaMA) ──> our model
                       ── any other ──> transformers' AutoModelForCausalLM
    folder/tokenizer…  ── transformers' AutoTokenizer ──> FolderTokenizer

Nothing is fetched, and no code that lies in a folder is run. Tokens are those of lm-evaluation-harness's HFLM: what the
tokenizer puts before a text (LLaMA's <s>, nothing in GPT-2) stands before each context, and an empty context is the
beginning-of-text token, or the end-of-text one where there is none.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerBase
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError
from headrace.pipeline.core.system_errors import explained
from headrace.train.families.hf_config import is_ours
from headrace.train.families.hf_folder import check_layers, check_memory
from headrace.train.inference.scorer import Scorer, check_finite, load_scorer, scorer_of
from headrace.train.inference.settings import Inference
from headrace.train.inference.subject import Subject

WINDOWS = ("n_positions", "max_position_embeddings", "n_ctx")
"""Where a config.json says how many positions its model has; in lm-evaluation-harness's order."""
WHOLE_MODEL = "give the folder of a whole model"
USUAL_WINDOW_TOKENS = 2048
"""What lm-evaluation-harness takes where nothing is told (models/utils.py, resolve_max_length): BLOOM, Mamba."""


class FolderTokenizer:
    """Encodes as the model of a folder expects it."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        begin = tokenizer.bos_token_id
        self.end_of_text: int = tokenizer.eos_token_id if begin is None else begin
        """What an empty context becomes."""
        self.opening: tuple[int, ...] = tuple(tokenizer("").input_ids)
        """What stands before each text that is not empty."""
        self.end: int = self.end_of_text if tokenizer.eos_token_id is None else tokenizer.eos_token_id
        """What a model ends a text with."""
        told = tokenizer.model_max_length
        self.window_tokens: int = USUAL_WINDOW_TOKENS if told == VERY_LARGE_INTEGER else told
        """Positions of a model whose config.json does not tell them."""

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, without anything added."""
        if not texts:
            return []
        return [np.array(ids, np.int64) for ids in self._tokenizer(list(texts), add_special_tokens=False).input_ids]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ``ids``, as it was before it was encoded."""
        return str(self._tokenizer.decode(list(ids), clean_up_tokenization_spaces=False))


class Foreign(torch.nn.Module):
    """A model of transformers behind the scorer's protocol (``scorer.Model``).

    It is given the tokens alone: rows begin at position 0 and are padded on the right, where a causal model does not
    look.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens_BT: torch.Tensor, positions_BT: torch.Tensor, documents_BT: torch.Tensor) -> torch.Tensor:
        return self.model(input_ids=tokens_BT, use_cache=False).logits

    @torch.inference_mode()
    def attention_weights(self, tokens_BT: torch.Tensor) -> Sequence[torch.Tensor]:
        """weights_BNTT of each layer.

        Raises:
            ConfigError: when there are layers without attention, or with one that shows no weights.
        """
        usual = self.model.config._attn_implementation
        self.model.set_attn_implementation("eager")  # the others do not tell weights
        found = self.model(input_ids=tokens_BT, use_cache=False, output_attentions=True)
        self.model.set_attn_implementation(usual)
        weights = getattr(found, "attentions", None)
        if not weights or any(layer is None for layer in weights):
            wrong = f"{type(self.model).__name__} does not tell what its heads attend to"
            raise ConfigError("evaluation.benchmarks", wrong, "leave out what measures attention (induction)")
        return weights


def open_folder(folder: Path, settings: Inference) -> Subject:
    """The model and tokenizer in ``folder``, on the device and in the precision that ``settings`` asks for.

    Raises:
        ArtifactError: when the folder holds no whole causal language model, or no tokenizer.
        RetryableError: when there is no memory for it at present.
        HeadraceError: when the system refuses to read it, or has no such device.
    """
    try:
        tokenizer = _tokenizer(folder)
        is_home = is_ours(folder) and any(folder.glob("*.safetensors"))
        scorer = load_scorer(folder, settings) if is_home else _foreign_scorer(folder, settings, tokenizer)
        return Subject(scorer, tokenizer, _vocabulary(scorer), tokenizer.opening, tokenizer.end)
    except HeadraceError:
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        wrong = f"does not fit into the memory that is free ({_first_line(error)})"
        raise RetryableError(
            str(folder), wrong, "free memory, or give another evaluation.device, and run again"
        ) from error
    except Exception as error:  # transformers runs a class of its own for each kind of model: any error may come
        wrong = f"cannot be opened ({type(error).__name__}: {_first_line(error)})"
        raise explained(error, folder) or ArtifactError(str(folder), wrong, WHOLE_MODEL) from error


def _tokenizer(folder: Path) -> FolderTokenizer:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        wrong = f"has no tokenizer that transformers opens ({_first_line(error)})"
        remedy = "put the model's tokenizer.json and tokenizer_config.json there"
        raise explained(error, folder) or ArtifactError(str(folder), wrong, remedy) from error
    if tokenizer.bos_token_id is None and tokenizer.eos_token_id is None:
        wrong = "has a tokenizer without a token for the beginning or the end of a text"
        raise ArtifactError(str(folder), wrong, "name one in tokenizer_config.json (eos_token)")
    found = FolderTokenizer(tokenizer)
    if tokenizer("a").input_ids != [*found.opening, *found.encode(["a"])[0]]:
        wrong = "has a tokenizer that ends each text with a token, so that no context could go on"
        raise ArtifactError(str(folder), wrong, "set add_eos_token to false in tokenizer_config.json")
    return found


def _foreign_scorer(folder: Path, settings: Inference, tokenizer: FolderTokenizer) -> Scorer:
    try:
        check_memory(folder, _parameters(folder))
        model, found = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, local_files_only=True, trust_remote_code=False, output_loading_info=True
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        wrong = f"holds no causal language model that transformers opens ({_first_line(error)})"
        raise explained(error, folder) or ArtifactError(str(folder), wrong, WHOLE_MODEL) from error
    if found["missing_keys"]:
        wrong = f"lacks {len(found['missing_keys'])} weights, {sorted(found['missing_keys'])[0]!r} among them"
        raise ArtifactError(str(folder), wrong, "give a folder with whole weights")
    check_finite(model, str(folder))
    foreign = Foreign(model.eval())
    if _looks_ahead(foreign):
        wrong = f"holds a {type(model).__name__} whose tokens see those behind them"
        raise ArtifactError(str(folder), wrong, "give a causal model")
    config = getattr(model.config, "text_config", None) or model.config
    windows = [getattr(config, name, None) for name in WINDOWS]
    window = next((int(size) for size in windows if size is not None), tokenizer.window_tokens)
    return scorer_of(foreign, window, settings, str(folder))


def _parameters(folder: Path) -> int:
    """The values of the model that config.json describes, counted without taking memory for them.

    Raises:
        ArtifactError: when it has more layers than the folder has weights.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    check_layers(folder, getattr(config, "num_hidden_layers", None) or 1)
    with torch.device("meta"):
        blank = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    return sum(value.numel() for value in blank.parameters())


@torch.inference_mode()
def _looks_ahead(model: Foreign) -> bool:
    """Whether what the model expects after a token depends on the token that stands there."""
    tokens_BT = torch.tensor([[0, 0], [0, 1]])
    one_V, other_V = model(tokens_BT, tokens_BT, tokens_BT)[:, 0]
    return not torch.allclose(one_V, other_V, rtol=1e-3, atol=1e-3, equal_nan=True)


@torch.inference_mode()
def _vocabulary(scorer: Scorer) -> int:
    one_BT = torch.zeros((1, 1), dtype=torch.long, device=scorer.device)
    return int(scorer.model(one_BT, one_BT, one_BT).shape[-1])


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(" :")
