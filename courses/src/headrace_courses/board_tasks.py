"""The tasks of GLUE (Wang et al. 2018) and SuperGLUE (Wang et al. 2019): their files, and the score of the board.

score of a task     the mean of its metrics: F1 and accuracy of MRPC, say; of MNLI that of both validation files
score of the board  the mean over its tasks
diagnostics         AX of GLUE by the model of MNLI; AX-b and AX-g of SuperGLUE by that of RTE; not in the score
"""

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.text_files import stored_path
from headrace.train.evaluation.metrics import matthews, share_equal
from headrace.train.finetune.files.examples import Example

BoardMetric = Callable[[Sequence[Example], Sequence[str]], float]
"""A metric of labelled examples and the classes that were predicted."""


def equal_groups(predicted: Sequence[str], groups: Sequence[str]) -> float:
    """Returns the share of ``groups`` all of whose predictions are equal: the gender parity of AX-g (Wang et al. 2019,
    SuperGLUE, section 3)."""
    given = defaultdict[str, set[str]](set)
    for label, group in zip(predicted, groups, strict=True):
        given[group].add(label)
    return float(np.mean([len(labels) == 1 for labels in given.values()]))


def _truth(examples: Sequence[Example]) -> list[str]:
    return [str(example.label) for example in examples]


METRICS: Mapping[str, BoardMetric] = {
    "accuracy": lambda examples, predicted: share_equal(_truth(examples), predicted),
    "matthews": lambda examples, predicted: matthews(_truth(examples), predicted),
    "gender_parity": lambda examples, predicted: equal_groups(predicted, [example.group for example in examples]),
}


@dataclasses.dataclass(frozen=True)
class FurtherFile:
    """A labelled file that the model of a task is also scored on, after its training."""

    name: str
    files: tuple[str, ...]
    """Its path in the folder of the board; of several, the first one that exists."""
    metrics: tuple[str, ...]
    counts: bool = False
    """Whether it belongs to the score of the task."""


@dataclasses.dataclass(frozen=True)
class BoardTask:
    """A task of a board; the metrics are those of its preset."""

    name: str
    """Its name, and that of its preset in conf/finetune where ``preset`` gives no other."""
    train: tuple[str, ...]
    """The path of the file in the folder of the board; of several, the first one that exists."""
    validation: tuple[str, ...]
    further: tuple[FurtherFile, ...] = ()
    preset: str = ""

    def option(self, as_text: bool) -> str:
        """Returns the value of ``finetune``."""
        return f"t5_{self.preset or self.name}" if as_text else self.preset or self.name


def _glue(name: str, folder: str, *further: FurtherFile, dev: str = "dev") -> BoardTask:
    return BoardTask(name, (f"{folder}/train.tsv",), (f"{folder}/{dev}.tsv",), further)


def _superglue(name: str, folder: str) -> BoardTask:
    return BoardTask(name, (f"{folder}/train.jsonl",), (f"{folder}/val.jsonl",))


DIAGNOSTIC = "diagnostic-full.tsv"
BOARDS: Mapping[str, tuple[BoardTask, ...]] = {
    "glue": (
        _glue("cola", "CoLA"),
        _glue("sst2", "SST-2"),
        BoardTask(
            "mrpc",
            ("MRPC/train.tsv", "MRPC/msr_paraphrase_train.txt"),
            ("MRPC/dev.tsv", "MRPC/msr_paraphrase_test.txt"),
        ),
        _glue("stsb", "STS-B"),
        _glue("qqp", "QQP"),
        _glue(
            "mnli",
            "MNLI",
            FurtherFile("mnli_mm", ("MNLI/dev_mismatched.tsv",), ("accuracy",), counts=True),
            FurtherFile("ax", (f"AX/{DIAGNOSTIC}", f"diagnostic/{DIAGNOSTIC}", f"MNLI/{DIAGNOSTIC}"), ("matthews",)),
            dev="dev_matched",
        ),
        _glue("qnli", "QNLI"),
        _glue("rte", "RTE"),
        _glue("wnli", "WNLI"),
    ),
    "superglue": (
        _superglue("boolq", "BoolQ"),
        _superglue("cb", "CB"),
        _superglue("copa", "COPA"),
        _superglue("multirc", "MultiRC"),
        _superglue("record", "ReCoRD"),
        BoardTask(
            "rte",
            ("RTE/train.jsonl",),
            ("RTE/val.jsonl",),
            (
                FurtherFile("axb", ("AX-b/AX-b.jsonl",), ("matthews",)),
                FurtherFile("axg", ("AX-g/AX-g.jsonl",), ("accuracy", "gender_parity")),
            ),
            preset="superglue_rte",
        ),
        _superglue("wic", "WiC"),
        _superglue("wsc", "WSC"),
    ),
}
"""Board → its tasks, in the order of its table."""
ADVERSARIAL = "wnli"
"""The task whose validation examples contradict those of training, which Devlin et al. 2019 leave out (table 1)."""


def tasks_of(board: str) -> tuple[BoardTask, ...]:
    """Returns the tasks of ``board``.

    Raises:
        ConfigError: when there is no such board.
    """
    if board not in BOARDS:
        raise ConfigError("board", f"unknown board {board!r}", suggestion(board, BOARDS))
    return BOARDS[board]


def first_file(folder: Path, names: Sequence[str]) -> Path | None:
    """Returns the first of the files ``names`` in ``folder``, in any compression; None: there is none."""
    paths = (stored_path(folder / name) for name in names)
    return next((path for path in paths if path.is_file()), None)


def mean_score(parts: Sequence[Sequence[float]]) -> float:
    """Returns the mean over ``parts``, each of which is the mean of its values."""
    return statistics.fmean(statistics.fmean(values) for values in parts)
