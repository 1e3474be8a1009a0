"""Opens any causal language model in a Hugging Face folder.

    folder/config.json ── of a family that Transformer computes (train/families) ──> our model
                       ── any other ──> AutoModelForCausalLM of transformers
    folder/tokenizer…  ── AutoTokenizer of transformers (folder_tokenizer) ──> FolderTokenizer

Nothing is downloaded, and no code in a folder is run. Tokens are those of lm-evaluation-harness's HFLM: the tokens that
the tokenizer puts before a text (LLaMA's <s>, nothing in GPT-2) come before each context, and an empty context is the
beginning-of-text token, or the end-of-text token if there is none.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM

from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError
from headrace.pipeline.core.system_errors import explained
from headrace.train.families.end_tokens import end_tokens
from headrace.train.families.hf_config import (
    check_layers,
    check_memory,
    is_ours,
    read_hf_config,
    read_model_config,
    read_weight_files,
)
from headrace.train.families.stored_weights import check_loaded
from headrace.train.families.task_heads import TaskKind
from headrace.train.inference.folder_tokenizer import OPENED, FolderTokenizer, first_line, model_tokenizer
from headrace.train.inference.inference_model import InferenceModel, check_finite, open_exported, prepared
from headrace.train.inference.settings import Inference
from headrace.train.model.empty import without_values

if TYPE_CHECKING:  # it loads torch's compiler: 2.6 s of CPU time that our own models do not need
    from transformers import PreTrainedModel

WINDOWS = ("n_positions", "max_position_embeddings", "n_ctx")
"""The names in config.json of the number of positions, in lm-evaluation-harness's order."""
TASK_CLASSES = ("ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering", "ForMultipleChoice")
"""The ends of the names of classes that have a head for a task."""
HEADS = get_args(TaskKind)
"""The kinds of head of models that Headrace fine-tuned."""
WHOLE_MODEL = "give the folder of a whole model"


class TransformersModel(torch.nn.Module):
    """A model of ``transformers`` with the interface of ours (``recomputing.Model``).

    It gets the tokens alone: rows begin at position 0 and are padded on the right, where a causal model does not look.
    """

    def __init__(self, model: "PreTrainedModel") -> None:
        super().__init__()
        self.model = model

    def forward(self, tokens_BT: torch.Tensor, positions_BT: torch.Tensor, documents_BT: torch.Tensor) -> torch.Tensor:
        logits_BTV: torch.Tensor = self.model(input_ids=tokens_BT, use_cache=False).logits
        return logits_BTV

    @torch.inference_mode()
    def attention_weights(self, tokens_BT: torch.Tensor) -> Sequence[torch.Tensor]:
        """Returns weights_BNTT of each layer.

        Raises:
            ConfigError: when there are layers without attention, or with attention that returns no weights.
        """
        usual = self.model.config._attn_implementation
        self.model.set_attn_implementation("eager")  # the others return no weights
        output = self.model(input_ids=tokens_BT, use_cache=False, output_attentions=True)
        self.model.set_attn_implementation(usual)
        weights: Sequence[torch.Tensor | None] = getattr(output, "attentions", None) or ()
        shown = [layer for layer in weights if layer is not None]
        if not shown or len(shown) < len(weights):
            problem = f"{type(self.model).__name__} does not return the attention weights of its heads"
            remedy = "leave out what measures attention (induction), or take a model of a family that Headrace computes"
            raise ConfigError("attention", problem, remedy)
        return shown


def open_folder(folder: Path, settings: Inference) -> InferenceModel:
    """Returns the model and tokenizer in ``folder``, on the device and in the precision of ``settings``.

    Raises:
        ArtifactError: when the folder holds no whole causal language model, or no tokenizer.
        RetryableError: when there is not enough free memory at present.
        HeadraceError: when the system refuses to read it, or has no such device.
    """
    try:
        _refuse_task_head(folder)
        is_computed_here = is_ours(folder) and bool(read_weight_files(folder))
        stack = read_model_config(folder)[0].stack if is_computed_here else "decoder"
        tokenizer = model_tokenizer(folder, stack)
        opened = (open_exported if is_computed_here else _open_with_transformers)(folder, tokenizer, settings)
        ends = {*end_tokens(folder), *([] if tokenizer.end is None else [tokenizer.end])}
        return dataclasses.replace(opened, tokens=tokenizer.tokens, opening=tokenizer.opening, ends=tuple(sorted(ends)))
    except HeadraceError:
        raise
    except (MemoryError, torch.OutOfMemoryError) as error:
        problem = f"does not fit into the memory that is free ({first_line(error)})"
        raise RetryableError(
            str(folder), problem, "free memory, or give another evaluation.device, and run again"
        ) from error
    except Exception as error:  # transformers has a class for each kind of model: any error may come
        problem = f"cannot be opened ({type(error).__name__}: {first_line(error)})"
        raise explained(error, folder) or ArtifactError(str(folder), problem, WHOLE_MODEL) from error


def _refuse_task_head(folder: Path) -> None:
    """Refuses a model whose output is for a task: it would be scored as a language model with a random output layer.

    Raises:
        ArtifactError: naming its class, or the kind of its head.
    """
    hf_config = read_hf_config(folder) if (folder / "config.json").is_file() else {}
    for name in (*(hf_config.get("architectures") or ()), hf_config.get("task_kind")):
        if name in HEADS or str(name).endswith(TASK_CLASSES):
            problem = f"holds a model with a head for a task ({name}), not a language model"
            raise ArtifactError(str(folder), problem, "give the model that it was fine-tuned from")


def _open_with_transformers(folder: Path, tokenizer: FolderTokenizer, settings: Inference) -> InferenceModel:
    network = _loaded(folder)
    vocabulary = _vocabulary(network, folder)
    config: Any = getattr(network.model.config, "text_config", None) or network.model.config
    windows = [getattr(config, name, None) for name in WINDOWS]
    window = next((int(size) for size in windows if size is not None), tokenizer.window_tokens)
    return prepared(network, tokenizer, vocabulary, window, settings, str(folder))


def _loaded(folder: Path) -> TransformersModel:
    """Returns the network in ``folder``, in fp32 on the CPU, in evaluation mode."""
    try:
        check_memory(folder, _parameters(folder))
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True, ignore_mismatched_sizes=True, **OPENED
        )
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        problem = f"holds no causal language model that transformers opens ({first_line(error)})"
        raise explained(error, folder) or ArtifactError(str(folder), problem, WHOLE_MODEL) from error
    model, info = loaded
    check_loaded(folder, *(sorted(info[name]) for name in ("missing_keys", "mismatched_keys", "unexpected_keys")))
    check_finite(model, str(folder))
    return TransformersModel(model.eval())


def _parameters(folder: Path) -> int:
    """Returns the number of values of the model that config.json describes, without taking memory for them.

    Raises:
        ArtifactError: when it has more layers than the folder has weights.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    check_layers(folder, getattr(config, "num_hidden_layers", None) or 1)
    with without_values():
        blank: torch.nn.Module = AutoModelForCausalLM.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]  # transformers does not annotate it
    return sum(value.numel() for value in blank.parameters())


@torch.inference_mode()
def _vocabulary(network: TransformersModel, folder: Path) -> int:
    """Returns the number of tokens that ``network`` distinguishes.

    Raises:
        ArtifactError: when its prediction after a token depends on the token that follows: it is not causal.
    """
    tokens_BT = torch.tensor([[0, 0], [0, 1]])
    one_V, other_V = network(tokens_BT, tokens_BT, tokens_BT)[:, 0]
    if not torch.allclose(one_V, other_V, rtol=1e-3, atol=1e-3, equal_nan=True):
        problem = f"holds a {type(network.model).__name__} whose tokens see those after them"
        raise ArtifactError(str(folder), problem, "give a causal model")
    return len(one_V)
