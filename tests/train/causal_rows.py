"""Rows as the causal objective reads them, and their loss, for tests."""

from collections.abc import Iterable
from types import SimpleNamespace

import numpy as np
import torch

from headrace.pipeline.core.artifact import Artifact
from headrace.train.data.rows import MixedRows, Rows
from headrace.train.families.hf_folder import load
from headrace.train.objectives.base import Vocabulary
from headrace.train.objectives.causal import Causal
from headrace.train.objectives.row_reader import Reader

READER = Reader(Causal(), Vocabulary(0, {}), 0, "test")


def causal(rows: Rows | MixedRows, numbers: Iterable[int]) -> SimpleNamespace:
    """inputs, targets, positions and documents of the rows ``numbers``, each (rows, row_tokens)."""
    return SimpleNamespace(**READER.read(rows, [int(number) for number in numbers], 0).arrays)


def plain_loss(artifact: Artifact, rows: Rows | MixedRows, numbers: Iterable[int]) -> float:
    """Returns the mean loss of the rows ``numbers``, by the exported model in one plain pass."""
    batch, model = causal(rows, numbers), load(artifact.path("hf/config.json").parent)
    with torch.no_grad():
        arrays = (torch.from_numpy(np.asarray(one)) for one in (batch.inputs, batch.positions, batch.documents))
        logits_NV = model(*arrays).flatten(0, 1)
        return float(torch.nn.functional.cross_entropy(logits_NV, torch.from_numpy(batch.targets).flatten()))
