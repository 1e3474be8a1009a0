"""The items of parts.py: what one is given, and how long it may take."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from headrace.train.distributed.processes import Ranks


@dataclasses.dataclass(frozen=True)
class Setting:
    """What an item is given."""

    ranks: Ranks
    is_tiny: bool
    inputs: Path
    """The folder of the tokens and rows to train on."""
    scratch: Path
    """An empty folder, which is removed afterwards."""

    @property
    def device(self) -> torch.device:
        return self.ranks.device


Work = Callable[[Setting], Mapping[str, Any]]
"""Returns what the item's line holds. A check that fails raises an AssertionError."""


@dataclasses.dataclass(frozen=True)
class Item:
    """A measurement or a check, which has a process of its own."""

    work: Work
    limit_seconds: float = 60.0
    """The time after which its process is killed."""
    is_reserved: bool = False
    """Whether the items before it leave it its time."""
