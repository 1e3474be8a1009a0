"""Options of commands about a model: its folder, a text or lines of a file, and how text is sampled.

A command that names no model takes what a run exported.

generation_config.json of a Hugging Face folder may ask for such a choice:

    {"do_sample": true, "temperature": 0.6, "top_p": 0.9}    temperature 0.6, top_k 50, top_p 0.9
    {"temperature": 0.6}                                     greedy

Without ``do_sample`` the rest does not count, and with it absent values are those of ``transformers`` 5
(GenerationConfig._get_default_generation_params).
"""

import dataclasses
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import each_once
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import plain_text
from headrace.pipeline.documents.lookup import need, whole
from headrace.pipeline.run.saved_run import SavedRun, is_own, named_file
from headrace.train.families.end_tokens import GENERATION_CONFIG, generation_config
from headrace.train.finetuned import Finetuned
from headrace.train.inference.chat_template import ChatTemplate
from headrace.train.inference.settings import Sampling


def weights_of(root: str, run: str, where: str = "--model") -> Path:
    """Returns the exported model of ``run``; without it, of this user's training below ``root`` that finished last.

    Raises:
        ConfigError: at ``where``, when there is none.
        ArtifactError: when the training of the run is not finished, or a file of the model is damaged.
    """
    if run:
        return need("weights", SavedRun.read(named_file(root, run)).stages).verified_folder("hf")
    own = filter(is_own, Path(root).glob("weights/*/manifest.json"))
    finished = sorted(own, key=lambda path: path.stat().st_mtime_ns)
    if not finished:
        raise ConfigError(where, f"no training is finished below {root!r}", "name a folder with a model, or train")
    return Artifact(finished[-1].parent).verified_folder("hf")


def model_folder(root: str, model: str, run: str) -> Path:
    """Returns the folder ``model`` of a Hugging Face model, or without a name that of ``run`` (``weights_of``).

    Raises:
        ConfigError: when there is none, or it holds no model.
        ArtifactError: when the training of the run is not finished, or a file of the model is damaged.
    """
    folder = Path(model) if model else weights_of(root, run)
    if not (folder / "config.json").is_file():
        raise ConfigError("--model", f"{str(folder)!r} has no config.json", "give the folder of a Hugging Face model")
    return folder


def chat_model_of(root: str, run: str) -> Path:
    """Returns the model of ``run`` that learned conversations, else the one of its weights; see ``weights_of``.

    Raises:
        ConfigError: when there is none.
        ArtifactError: when the training of the run is not finished, or a file of the model is damaged.
    """
    if run:
        stages = SavedRun.read(named_file(root, run)).stages
        tuned = whole(stages).get(Finetuned.name)
        if tuned is not None and ChatTemplate.of_folder(folder := tuned.verified_folder("hf")) is not None:
            return folder
    return weights_of(root, run, "RUN")


def text_of(file: str) -> str:
    """Reads the text of the argument FILE: of the file, or of the standard input for ``-``.

    Raises:
        ConfigError: when it cannot be read, or is not UTF-8.
    """
    try:
        raw = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    except OSError as error:
        raise ConfigError("FILE", f"cannot read {file!r} ({error.strerror})", "name a text file, or -") from None
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise ConfigError("FILE", f"{file!r} is not UTF-8 (byte {error.start})", "convert it to UTF-8") from None


def file_lines(path: Path, option: str, field: str) -> list[str]:
    """Returns the lines of ``path``; of a .jsonl file their ``field``.

    Raises:
        ConfigError: when the file of ``option`` cannot be read or is empty, or naming a line without that field.
    """
    try:
        text = plain_text(path, "utf-8-sig")
    except OSError as error:
        raise ConfigError(option, f"cannot read {str(path)!r} ({error.strerror})", "name a text file") from None
    except UnicodeDecodeError as error:
        problem = f"{str(path)!r} is not UTF-8 (byte {error.start})"
        raise ConfigError(option, problem, "convert it to UTF-8") from None
    if not text:
        raise ConfigError(option, f"{str(path)!r} is empty", f"write one {field} a line")
    lines = text.removesuffix("\n").split("\n")
    is_json = path.suffix == ".jsonl"
    return [_field(path, number, line, field) for number, line in enumerate(lines, 1)] if is_json else lines


def _field(path: Path, number: int, line: str, field: str) -> str:
    where, remedy = f"{path}:{number}", f'write {{"{field}": "…"}}'
    try:
        values = json.loads(line, object_pairs_hook=each_once)
    except ValueError as error:
        raise ConfigError(where, f"is not JSON ({error})", remedy) from None
    if not isinstance(values, dict) or not isinstance(values.get(field), str):
        raise ConfigError(where, f"has no text in a field {field!r}", remedy)
    return str(values[field])


def given_sampling(options: Mapping[str, str]) -> dict[str, object]:
    """Returns the fields of ``Sampling`` that the ``options`` of the command line give: those that are not empty.

    Raises:
        ConfigError: naming the option that is not a number, or is out of range.
    """
    given: dict[str, object] = {name: text for name, text in options.items() if text and name != "stop"}
    given["stops"] = _stops(options["stop"])
    try:
        decode(Sampling, given)
    except ConfigError as error:
        raise ConfigError(f"--{error.where.replace('_', '-')}", error.problem, error.remedy) from None
    return given


def sampling_of(given: Mapping[str, object], folder: Path) -> Sampling:
    """Returns the ``given`` choice of tokens, the rest as the model in ``folder`` asks for it, and prints a line then.

    Beam search draws no random token, so it takes none of these defaults.

    Raises:
        ArtifactError: when generation_config.json of the folder has a value that is out of range.
    """
    defaults, sampling = SamplingDefaults.of_folder(folder), decode(Sampling, given)
    if sampling.beams == 1:
        sampling = decode(Sampling, {**defaults.values, **given})
    if line := defaults.line(sampling):
        print(line, file=sys.stderr)
    return sampling


def _stops(text: str) -> tuple[str, ...]:
    """Reads one text, or a JSON list of texts; ``\\n`` means the end of a line in both."""
    if not text.startswith("["):
        return (text.replace("\\n", "\n"),) if text else ()
    try:
        stops = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError("--stop", f"{text!r} is not JSON ({error})", """write '["one", "other"]'""") from None
    if not all(isinstance(stop, str) for stop in stops):
        raise ConfigError("--stop", f"{text!r} holds a value that is not a text", """write '["one", "other"]'""")
    return tuple(stops)


OF_TRANSFORMERS = {"temperature": 1.0, "top_k": 50, "top_p": 1.0}
"""The values of a random choice that are not in the file."""

NO_EFFECT: Mapping[str, tuple[object, ...]] = MappingProxyType(
    dict.fromkeys(("repetition_penalty", "encoder_repetition_penalty", "typical_p", "num_beams"), (1,))
    | dict.fromkeys(("no_repeat_ngram_size", "min_p", "epsilon_cutoff", "eta_cutoff", "min_length"), (0,))
    | dict.fromkeys(("bad_words_ids", "suppress_tokens", "begin_suppress_tokens", "sequence_bias"), ([], {}))
)
"""Fields of the file that choose other tokens in ``transformers``, and the values with which they do not."""


@dataclasses.dataclass(frozen=True)
class SamplingDefaults:
    """The choice of tokens that a file asks for."""

    file: str
    values: Mapping[str, Any]
    """Fields of ``Sampling``; none: greedy."""
    unused: Mapping[str, Any]
    """Fields that have no counterpart here."""

    @classmethod
    def of_folder(cls, folder: Path) -> "SamplingDefaults":
        """Returns the choice of tokens of the model in ``folder``.

        Raises:
            ArtifactError: when the file is not JSON, or a value is out of range.
        """
        file, fields = folder / GENERATION_CONFIG, generation_config(folder) or {}
        values: dict[str, Any] = {}
        if fields.get("do_sample"):
            given = {name: fields[name] for name in OF_TRANSFORMERS if fields.get(name) is not None}
            values = OF_TRANSFORMERS | given
            if values["top_k"] == 0:  # all
                values["top_k"] = None
            try:
                decode(Sampling, values)
            except ConfigError as error:
                raise ArtifactError(str(file), f"has {error.where}: {error.problem}", error.remedy) from None
        unused = {name: fields[name] for name in NO_EFFECT if fields.get(name) not in (None, *NO_EFFECT[name])}
        return cls(str(file), values, unused)

    def line(self, sampling: Sampling) -> str | None:
        """Returns a line that says what of the file counts in ``sampling``, and what does not; None: it says nothing.

        The values that the command line gives are its own.
        """
        taken = {name: value for name, value in self.values.items() if getattr(sampling, name) == value}
        parts = []
        if taken and sampling.temperature:
            parts.append(f"{_listed(taken)} (--temperature 0 is greedy)")
        if self.unused:
            parts.append(f"not used: {_listed(self.unused)}")
        return f"{self.file}: {'; '.join(parts)}" if parts else None


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {'all' if value is None else value}" for name, value in values.items())
