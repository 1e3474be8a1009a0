"""Names of settings: the filter that a name in an override means, and the setting that an unknown key means.

cleaning.filters.c4_lines.min_sentences=5   ──> cleaning.filters.2.min_sentences=5, by the list of the chosen preset
optimizer.lr                                ──> did you mean 'optimizer.learning_rate'?     its name in other tools
learning_rate                               ──> did you mean 'optimizer.learning_rate'?     its group is missing
traning.stpes                               ──> did you mean 'training.steps'?              its spelling

A filter or rule is named by its type, a filter of one's own by its class. Numbers are possible, too.
"""

import difflib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.gone import GONE

FILTERS = "cleaning.filters"
BELOW_FILTERS = re.compile(rf"([+~]*){re.escape(FILTERS)}\.([^=]+)(=.*)?", re.DOTALL)
"""An override of one filter, or of a field of it."""
OF_ANY_PRESET = {"language": "language_fasttext"}
"""A name that holds for the identification of languages in each preset → the filter that it means where that of the
name itself is not in the list."""
OTHER_NAMES = {
    "optimizer.learning_rate": "lr max_lr peak_lr base_lr",
    "optimizer.weight_decay": "wd decay",
    "optimizer.beta1": "adam_beta1 betas",
    "optimizer.beta2": "adam_beta2",
    "optimizer.epsilon": "eps adam_eps adam_epsilon",
    "schedule": "lr_scheduler lr_scheduler_type lr_schedule scheduler lr_decay_style",
    "schedule.warmup_steps": "warmup warmup_iters num_warmup_steps warmup_ratio lr_warmup_iters lr_warmup_steps",
    "schedule.final_fraction": "min_lr min_lr_ratio",
    "training.steps": "max_steps num_steps train_steps total_steps train_iters max_iters iterations updates epochs "
    "num_epochs max_epochs num_train_epochs",
    "training.batch_rows": "batch_size train_batch_size global_batch_size total_batch_size",
    "training.micro_batch_rows": "micro_batch_size per_device_train_batch_size per_device_batch_size device_batch_size "
    "gradient_accumulation_steps grad_accum",
    "training.precision": "dtype torch_dtype mixed_precision amp",
    "training.precision=bf16": "bf16 bfloat16",
    "training.precision=fp16": "fp16 float16",
    "training.precision=fp32": "fp32 float32",
    "training.gradient_clip": "grad_clip clip_grad max_grad_norm gradient_clipping clip gradient_clip_val",
    "training.save_every": "save_steps save_interval checkpoint_every checkpoint_interval save_freq",
    "training.validate_every": "eval_steps eval_interval eval_every val_check_interval eval_freq",
    "training.log_every": "log_interval logging_steps log_freq",
    "training.keep_last": "save_total_limit",
    "training.seed": "random_seed",
    "training.compile": "torch_compile",
    "training.initial_weights": "init_from pretrained checkpoint load model_name_or_path pretrained_model_name_or_path",
    "model.context": "seq_len seq_length sequence_length max_seq_len max_seq_length max_length block_size n_ctx "
    "context_length n_positions max_position_embeddings",
    "model.layers": "n_layer n_layers num_layers num_hidden_layers depth",
    "model.heads": "n_head n_heads num_heads num_attention_heads",
    "model.kv_heads": "num_key_value_heads n_kv_heads num_kv_heads",
    "model.width": "hidden_size d_model n_embd dim embed_dim hidden_dim",
    "model.mlp_width": "intermediate_size ffn_hidden_size d_ff n_inner",
    "model.tied": "tie_word_embeddings",
    "tokenizer.vocabulary_size": "vocab_size n_vocab",
    "packing.row_tokens": "row_length pack_length",
    "zero.stage": "zero_stage",
    "zero": "deepspeed",
    "ranks": "gpus n_gpus num_gpus world_size nproc nproc_per_node n_devices num_devices",
    "workers": "num_workers n_workers num_proc processes jobs",
    "root": "output_dir out_dir run_dir save_dir",
    "name": "run_name experiment_name exp_name",
    "until": "stage last_stage stop_at",
    "source.paths": "input input_dir inputs data data_path data_dir files dataset train_file",
    "tracking.project": "wandb_project project",
    "tracking=file": "report_to no_wandb",
    "evaluation.shots": "num_fewshot n_shot fewshot",
    "evaluation.limit": "num_examples max_samples",
}
"""Settings of ours → their names in other tools (Hugging Face, nanoGPT, Megatron-LM, lm-evaluation-harness)."""


def _plain(name: str) -> str:
    return re.sub(r"[_-]", "", name).lower()


_OURS = {_plain(other): ours for ours, others in OTHER_NAMES.items() for other in others.split()}


def key_remedy(key: str, known: Collection[str], siblings: Collection[str]) -> str:
    """Returns the remedy for the unknown ``key``.

    ``known`` are the dotted paths of all settings. ``siblings`` are the names that are possible instead of the
    last part of ``key``; all of them are listed when nothing is near.
    """
    meant = [] if key in GONE else _meant(key, [name for name in known if not _contains(name, key)])
    nearest = suggestion(key.rpartition(".")[2], siblings, key)
    return f"did you mean {' or '.join(map(repr, meant))}?" if meant else nearest


def _contains(name: str, key: str) -> bool:
    """Whether ``name`` is the unknown ``key`` itself, or one of the two holds the other: it is no suggestion."""
    return f"{key}.".startswith(f"{name}.") or name.startswith(f"{key}.")


def neighbours(key: str, known: Collection[str]) -> list[str]:
    """Returns the last parts of the settings among ``known`` in the group of ``key``, else of the group around it."""
    above = key.rpartition(".")[0]
    siblings = [name.rpartition(".")[2] for name in known if name.rpartition(".")[0] == above]
    return siblings if siblings or not above else neighbours(above, known)


def with_types(key: str, values: Mapping[Any, Any]) -> str:
    """Returns ``key``, a dotted path into ``values``, with types instead of the numbers of entries of lists."""
    names = list[str]()
    at: Any = values
    for part in key.split("."):
        is_entry = isinstance(at, list) and part.isdigit() and int(part) < len(at)
        inner: Any = at[int(part)] if is_entry else at.get(part) if isinstance(at, Mapping) else None
        names.append(str(inner["type"]) if is_entry and isinstance(inner, Mapping) and "type" in inner else part)
        at = inner
    return ".".join(names)


def _meant(key: str, known: Collection[str]) -> list[str]:
    """Returns the settings among ``known`` that the unknown ``key`` may mean: the first guess that gives some."""
    group, last = key.partition(".")[0] if "." in key else "", key.rpartition(".")[2]
    in_group = _in_group(group, key, known)
    elsewhere = [ours for ours in [_OURS.get(_plain(last))] if ours and not _contains(ours, key)]
    guesses = {
        "its name in another tool, of its group": [ours for ours in elsewhere if ours.partition(".")[0] == group],
        "its spelling within its group": [in_group[near] for near in difflib.get_close_matches(last, in_group, n=1)],
        "its name in another tool": elsewhere,
        "its longest suffix": _ending(key, known)[:4],
        "its spelling as a whole": [] if in_group else difflib.get_close_matches(key, sorted(known), n=1),
        "its last part alone": [last] if last in known else [],
    }
    return next(filter(None, guesses.values()), [])


def _in_group(group: str, key: str, known: Collection[str]) -> dict[str, str]:
    """Returns last part → setting of those among ``known`` in ``group``; of equal ones, the sibling of ``key``."""
    above = key.rpartition(".")[0]
    siblings_last = sorted(sorted(known, reverse=True), key=lambda name: name.rpartition(".")[0] == above)
    return {name.rpartition(".")[2]: name for name in siblings_last if name.startswith(f"{group}.")}


def _ending(key: str, known: Collection[str]) -> list[str]:
    """Returns the settings among ``known`` that share the longest dotted suffix with ``key``."""
    parts = key.split(".")
    tails = (".".join(parts[start:]) for start in range(len(parts)))
    return next(filter(None, (outermost(tail, known) for tail in tails)), [])


def outermost(tail: str, known: Collection[str]) -> list[str]:
    """Returns the settings among ``known`` below a group that end in the parts ``tail``; of these, those with the
    fewest parts: ``optimizer.learning_rate`` before ``finetune.optimizer.learning_rate``."""
    names = [name for name in known if name.endswith(f".{tail}")]
    fewest = min((name.count(".") for name in names), default=0)
    return sorted(name for name in names if name.count(".") == fewest)


def dotted(values: Mapping[Any, Any], prefix: str = "") -> Iterator[str]:
    """Yields every dotted path into ``values``, also to mappings. An entry of a list has its ``type`` for a name."""
    for key, value in values.items():
        yield f"{prefix}{key}"
        entries = {f"{prefix}{key}.": value}
        if isinstance(value, list):
            entries = {
                f"{prefix}{key}.{entry['type']}.": entry
                for entry in value
                if isinstance(entry, Mapping) and "type" in entry
            }
        for path, entry in entries.items():
            if isinstance(entry, Mapping):
                yield from dotted(entry, path)


def names_filter(override: str) -> bool:
    """Whether ``override`` changes or removes one filter."""
    return BELOW_FILTERS.fullmatch(override) is not None


def numbered(override: str, filters: Any) -> str:
    """Returns ``override`` with numbers instead of names, by the list ``filters`` of the chosen preset.

    Raises:
        ConfigError: when the list has no filter or rule of that name, or several.
    """
    if not (match := BELOW_FILTERS.fullmatch(override)):
        return override
    values, typed, numbers = filters, FILTERS, [match[1] + FILTERS]
    is_new = match[1].startswith("+") and "." not in match[2]  # an entry that is added, not a field of one
    for part in match[2].split("."):
        if isinstance(values, list):
            index = _index_of(part, values, typed, is_new)
            numbers.append(str(index))
            values = values[index]
        else:
            numbers.append(part)
            values = values.get(part) if isinstance(values, dict) else None
        typed += f".{part}"
    return ".".join(numbers) + (match[3] or "")


def _index_of(part: str, entries: Sequence[Any], where: str, adds: bool) -> int:
    """Returns the index of the entry that ``part`` names: its number, its type, or the name of one's own class."""
    names = [{str(index), *_entry_names(entry)} for index, entry in enumerate(entries)]
    indices = [index for index, known in enumerate(names) if part in known]
    indices = indices or [index for index, known in enumerate(names) if OF_ANY_PRESET.get(part) in known]
    if not indices:
        known = [name for some in names for name in some if not name.isdigit()]
        remedy = (
            "list all filters in a preset of your own, conf/cleaning/NAME.yaml" if adds else suggestion(part, known)
        )
        raise ConfigError(where, f"has no entry {part!r}", remedy)
    if len(indices) > 1:
        remedy = f"give the number of one of them: {where}.{indices[0]}"
        raise ConfigError(where, f"has {len(indices)} entries {part!r} ({', '.join(map(str, indices))})", remedy)
    return indices[0]


def _entry_names(entry: Any) -> set[str]:
    """Returns the type of a filter or rule, and for a class of the user's own its name."""
    if not isinstance(entry, dict) or "type" not in entry:
        return set()
    kind = str(entry["path"] if entry["type"] == "python" and "path" in entry else entry["type"])
    return {str(entry["type"]), kind.rpartition(":")[2]}


def split_removals(overrides: Sequence[str]) -> tuple[list[str], list[int]]:
    """Returns the ``overrides`` for Hydra, which removes no entry of a list, and the numbers of filters to remove, in
    descending order.
    """
    matches = {override: re.fullmatch(rf"~{re.escape(FILTERS)}\.(\d+)", override) for override in overrides}
    removed = {int(match[1]) for match in matches.values() if match}
    return [override for override in overrides if not matches[override]], sorted(removed, reverse=True)
