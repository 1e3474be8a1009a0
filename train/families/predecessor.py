"""The parts that an export takes over from the Hugging Face folder that its training began from.

    tokenizer.json, tokenizer_config.json, …     byte for byte: training has the same tokenizer (initial_weights.py)
    generation_config.json                       byte for byte: the tokens that end a text, ways of sampling
    config.json                                  its ids of special tokens
    spare_rows.safetensors                       rows of the embedding and the output layer that no token has

Published vocabularies are rounded up: Pythia has 50,304 rows for 50,277 tokens. A training has the rows of tokens
alone, so no other is predicted, trained or decayed; its export has all rows again.
"""

import dataclasses
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headrace.pipeline.core.json_files import read_json
from headrace.train.families.end_tokens import OF_TOKENS
from headrace.train.families.family import Family
from headrace.train.families.initial_weights import PREDECESSOR, TOKENIZER_FILES
from headrace.train.families.registry import family_of_type

SPARE_ROWS = "spare_rows.safetensors"
ROWS_OF_TOKENS = frozenset(("embedding.weight", "head.weight", "head.bias"))
"""Our weights with a row for each token."""


@dataclasses.dataclass(frozen=True)
class Predecessor:
    """The files of a folder, and the rows of its weights that no token has."""

    folder: Path
    spare_rows: Mapping[str, Tensor]
    """Our name of a weight → its rows after those of tokens; empty where there are none."""

    @classmethod
    def of(cls, training: Path) -> "Predecessor | None":
        """Returns what the folder of a ``training`` keeps; None: its first weights were random."""
        folder = training / PREDECESSOR
        if not folder.is_dir():
            return None
        rows = folder / SPARE_ROWS
        return cls(folder, load_file(rows) if rows.is_file() else {})

    def keep(self, training: Path) -> None:
        """Copies all of it to the folder of a ``training``, for its exports: the original may be removed.

        A copy that was interrupted before is replaced.
        """
        folder = training / PREDECESSOR
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("config.json", *TOKENIZER_FILES):
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)
        if self.spare_rows:
            save_file(dict(self.spare_rows), folder / SPARE_ROWS, {"format": "pt"})

    @property
    def rows(self) -> int:
        """The number of rows of the embedding that no token has."""
        return max(map(len, self.spare_rows.values()), default=0)

    def with_spare_rows(self, weights: Iterable[tuple[str, Tensor]]) -> Iterator[tuple[str, Tensor]]:
        """Yields ``weights`` (our names) with the rows of the folder below those of tokens."""
        for name, value in weights:
            rows = self.spare_rows.get(name)
            yield name, value if rows is None else torch.cat((value, rows.to(value.dtype)))

    def token_ids(self) -> dict[str, Any]:
        """Returns the special tokens that its config.json has."""
        config = read_json(self.folder / "config.json")
        return {name: config[name] for name in OF_TOKENS if config.get(name) is not None}

    def family(self) -> Family | None:
        """Returns the family of its config.json; None for a model that Headrace does not compute."""
        return family_of_type(read_json(self.folder / "config.json").get("model_type"))

    def copy_files(self, folder: Path) -> None:
        """Copies the files of tokenizer and generation to an exported ``folder``."""
        for name in TOKENIZER_FILES:
            if (self.folder / name).is_file():
                shutil.copyfile(self.folder / name, folder / name)


def cut(name: str, value: Tensor, tokens: int, published: int) -> Tensor:
    """Returns the rows of tokens of our weight ``name``, which has a row for each of the ``published`` ones."""
    return value[:tokens] if name in ROWS_OF_TOKENS and len(value) == published else value


def spare_rows(weights: Iterable[tuple[str, Tensor]], tokens: int) -> dict[str, Tensor]:
    """Returns the rows of stored ``weights`` (our names) after those of ``tokens``."""
    return {name: value[tokens:].clone() for name, value in weights if name in ROWS_OF_TOKENS and len(value) > tokens}
