"""Opens any causal language model in a Hugging Face folder.

    folder/config.json ── of a family that Transformer computes (train/families) ──> our model
                       ── any other ──> AutoModelForCausalLM of transformers
    folder/tokenizer…  ── AutoTokenizer of transformers, of tokenizer.json as it is ──> FolderTokenizer
                       ── built by a class (GPT2Tokenizer) ── same ids ──> FolderTokenizer
                                                           ── other ids, none ──> that of tokenizer.json as it is

``transformers`` 5 takes only the vocabulary from tokenizer.json for a class that it knows, and the splitting into words
from the class. A model was trained with the tokenizer of the file, which may split otherwise: digits one by one, say.

Nothing is downloaded, and no code in a folder is run. Tokens are those of lm-evaluation-harness's HFLM: the tokens that
the tokenizer puts before a text (LLaMA's <s>, nothing in GPT-2) come before each context, and an empty context is the
beginning-of-text token, or the end-of-text token if there is none.
"""

import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedConfig,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from headrace.data_prep.tokenization.encode import parsed
from headrace.data_prep.tokenization.page_tokenizer import (
    check_texts,
    is_of_library,
    library_errors,
    library_ids,
    probe_texts,
)
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
from headrace.train.families.registry import Own
from headrace.train.families.stored_weights import check_loaded
from headrace.train.families.task_heads import TaskKind
from headrace.train.inference.chat_template import ChatTemplate
from headrace.train.inference.inference_model import InferenceModel, check_finite, open_exported, prepared
from headrace.train.inference.settings import Inference
from headrace.train.model.initialization import without_values
from headrace.train.parts import WRITING, StackName

OPENED = {"local_files_only": True, "trust_remote_code": False}
USUAL_WINDOW_TOKENS = 2048
"""lm-evaluation-harness's window of models without such a number (models/utils.py, resolve_max_length), as BLOOM."""


def opened_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    """Returns the tokenizer in ``folder``. Prints a line where it is not the one that AutoTokenizer builds.

    Raises:
        ArtifactError: when ``transformers`` gives a token of tokenizer.json another id, its ids are random, or the
            library cannot encode a text.
    """
    file = folder / "tokenizer.json"
    if not file.is_file():
        return _of_class(folder)
    library = _library(file)
    try:
        opened = _of_class(folder)
    except BaseException as error:  # a class takes a vocabulary of its own kind alone, and says so in its own words
        if not is_of_library(error):
            raise
        return _of_file(folder, "no class that its configuration names takes its vocabulary")
    built: Tokenizer | None = getattr(opened, "backend_tokenizer", None)
    if built is None:
        return opened
    _check_numbers(built, library, folder)
    text = _differing(built, library, str(file))
    # The folder may ask for another tokenizer than its file.
    if text is None or opened.init_kwargs.get("add_prefix_space") or type(opened) is PreTrainedTokenizerFast:
        return opened
    return _of_file(folder, f"{type(opened).__name__} would give other ids, to {text!r}, say")


def _library(file: Path) -> Tokenizer:
    """Returns the tokenizer of the ``file`` as the library reads it, after checking that it encodes every text."""
    try:
        library = parsed(file.read_text(encoding="utf-8"), str(file))
        library.no_truncation()
        library.no_padding()
        check_texts(library, str(file))
        for text in probe_texts(library):
            library_ids(library, text, str(file))
    except UnicodeDecodeError:
        raise ArtifactError(str(file), "is not UTF-8 text", "fetch it again") from None
    except ConfigError as error:
        raise ArtifactError(error.where, error.problem, error.remedy) from None
    return library


def _of_class(folder: Path) -> PreTrainedTokenizerBase:
    known = {"config": PreTrainedConfig()} if _is_own_format(folder) else {}  # transformers warns of unknown types
    opened: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(folder, **known, **OPENED)
    return opened


def _of_file(folder: Path, reason: str) -> PreTrainedTokenizerBase:
    opened = PreTrainedTokenizerFast.from_pretrained(folder, **OPENED)
    print(f"{folder}: tokenizer.json is used as it is; {reason}", file=sys.stderr)
    return opened


def _is_own_format(folder: Path) -> bool:
    is_described = (folder / "config.json").is_file()
    return is_described and read_hf_config(folder).get("model_type") == Own.model_type


def _check_numbers(built: Tokenizer, library: Tokenizer, folder: Path) -> None:
    theirs, ours = (tokenizer.get_vocab(with_added_tokens=True) for tokenizer in (built, library))
    if differing := min((token for token, number in ours.items() if theirs.get(token) != number), default=None):
        problem = (
            f"gives {differing!r} the id {theirs.get(differing)} in transformers, and {ours[differing]} in its file"
        )
        remedy = 'set "tokenizer_class" to "PreTrainedTokenizerFast" in tokenizer_config.json'
        raise ArtifactError(str(folder / "tokenizer.json"), problem, remedy)


def _differing(built: Tokenizer, library: Tokenizer, where: str) -> str | None:
    """Returns a text to which the two tokenizers give different ids, or ``built`` none; None if none was found."""
    try:
        check_texts(built, where)
    except ConfigError:  # it might never end
        return next(iter(probe_texts(library)))
    for text in ("a 1234", *probe_texts(library)):
        expected = library_ids(library, text, where)
        try:
            is_same = library_ids(built, text, where) == expected
        except ConfigError:
            is_same = False
        if not is_same:
            return text
    return None


class FolderTokenizer:
    """The tokenizer of a folder, as its model expects it."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, opening: tuple[int, ...], end_of_text: int) -> None:
        self._tokenizer = tokenizer
        self.end_of_text = end_of_text
        """The token that an empty context becomes."""
        self.opening = opening
        """Tokens before each text that is not empty; an encoder adds its own."""
        self.end: int | None = tokenizer.eos_token_id
        """The token that ends a text; None: it names none."""
        longest = tokenizer.model_max_length
        self.window_tokens: int = USUAL_WINDOW_TOKENS if longest == VERY_LARGE_INTEGER else longest
        """Positions of a model whose config.json does not give their number."""

    @property
    def backend(self) -> Tokenizer:
        """The tokenizer of the tokenizers library."""
        backend: Tokenizer = self._tokenizer.backend_tokenizer  # type: ignore[attr-defined]  # of fast tokenizers
        return backend

    @property
    def tokens(self) -> int:
        """The ids of its tokens are below this number."""
        return 1 + max(map(int, self._tokenizer.get_vocab().values()))

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """Returns the ids of each text, without special tokens."""
        if not texts:
            return []
        with library_errors(self._tokenizer.name_or_path):
            encodings = self._tokenizer(list(texts), add_special_tokens=False).input_ids
        return [np.array(ids, np.int64) for ids in encodings]

    @property
    def special(self) -> dict[str, str]:
        """The special tokens by their role (``eos_token``, …), for chat templates."""
        return {role: token for role, token in self._tokenizer.special_tokens_map.items() if isinstance(token, str)}

    @property
    def template(self) -> ChatTemplate | None:
        """The chat template of the folder; None: it has none."""
        if self._tokenizer.chat_template is None:
            return None
        return ChatTemplate(self._tokenizer.get_chat_template(), self.special)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = False) -> str:
        """Returns the text that was encoded or, without special tokens, as ``transformers`` shows it."""
        cleans = None if skip_special_tokens else False
        return str(self._tokenizer.decode(list(ids), skip_special_tokens, clean_up_tokenization_spaces=cleans))


def model_tokenizer(folder: Path, stack: StackName) -> FolderTokenizer:
    """Returns the tokenizer in ``folder`` for a model of this ``stack``.

    Raises:
        ArtifactError: when there is none that ``transformers`` opens, or it names no token for an end of a text.
    """
    try:
        tokenizer = opened_tokenizer(folder)
    except (OSError, ValueError, KeyError) as error:
        problem = f"has no tokenizer that transformers opens ({first_line(error)})"
        remedy = "put the model's tokenizer.json and tokenizer_config.json there"
        raise explained(error, folder) or ArtifactError(str(folder), problem, remedy) from error
    if stack not in WRITING:
        return FolderTokenizer(tokenizer, (), tokenizer.sep_token_id)
    if tokenizer.bos_token_id is None and tokenizer.eos_token_id is None:
        problem = "has a tokenizer without a token for the beginning or the end of a text"
        raise ArtifactError(str(folder), problem, "name one in tokenizer_config.json (eos_token)")
    if stack == "encoder_decoder":  # the form of its contexts has the token at their end
        return FolderTokenizer(tokenizer, (), tokenizer.eos_token_id)
    end = tokenizer.eos_token_id if tokenizer.bos_token_id is None else tokenizer.bos_token_id
    opening, ending = _frame(tokenizer)
    if ending:
        named = ", ".join(map(repr, tokenizer.convert_ids_to_tokens(list(ending))))
        print(f"{folder}: no text is ended with {named}, as its tokenizer does: it could not go on", file=sys.stderr)
    return FolderTokenizer(tokenizer, opening, end)


def _frame(tokenizer: PreTrainedTokenizerBase) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the tokens that ``tokenizer`` puts before a text, and those after it."""
    whole, text = tokenizer("a").input_ids, tokenizer("a", add_special_tokens=False).input_ids
    starts = (start for start in range(len(whole)) if text and whole[start : start + len(text)] == text)
    start = next(starts, len(whole) - len(text))
    return tuple(whole[:start]), tuple(whole[start + len(text) :])


def first_line(error: BaseException) -> str:
    """Returns the first line of what ``error`` says, for a message."""
    return str(error).strip().partition("\n")[0].rstrip(" :")


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
