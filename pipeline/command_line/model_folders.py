"""Finds the folder of the model that a run exported."""

from pathlib import Path

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.lookup import need, whole
from headrace.pipeline.run.saved_run import SavedRun, is_own, named_file
from headrace.train.finetuned import Finetuned
from headrace.train.inference.chat_template import ChatTemplate


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
