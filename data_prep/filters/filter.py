"""What every filter is: one rule, its constructor fields its settings, its reason counted.

    Filter         sees one document:   judge(document) -> Drop | None      (it may rewrite document.text)
    GlobalFilter   sees all documents:  keys(document)  ->  which of equal keys stay  ->  trim(document, losers)

A ``Filter`` is a datatrove ``BaseFilter``, so ours drop into anybody's datatrove pipeline; ``DatatroveFilter``
(datatrove_filter.py) is the other direction. A global filter cannot be one: datatrove shows a filter one document.
"""

import abc
import dataclasses
from typing import ClassVar, TypeVar

import numpy as np
from datatrove.data import Document
from datatrove.pipeline.filters.base_filter import BaseFilter
from typing_extensions import dataclass_transform

from headrace.data_prep.document import Drop
from headrace.pipeline.core.settings import STRICT
from headrace.pipeline.core.stage import RawFile

F = TypeVar("F")


@dataclass_transform(kw_only_default=True)
def filter_settings(cls: type[F]) -> type[F]:
    """Like ``settings``, but not frozen: datatrove hangs its statistics on every block."""
    cls.__pydantic_config__ = STRICT  # type: ignore[attr-defined]
    return dataclasses.dataclass(kw_only=True)(cls)


class Filter(BaseFilter, abc.ABC):  # type: ignore[misc]
    """Judges one document at a time. Subclasses are ``@filter_settings`` classes with a ``type`` tag."""

    def __post_init__(self) -> None:
        self.name = str(self.type)
        BaseFilter.__init__(self)

    @abc.abstractmethod
    def judge(self, document: Document) -> Drop | None:
        """Why ``document`` is dropped, or None. Only a document that stays may have been changed."""

    def filter(self, doc: Document) -> "bool | tuple[bool, str]":
        """``judge`` in datatrove's form: True, or False with the rule that decided."""
        drop = self.judge(doc)
        return True if drop is None else (False, drop.rule)

    def raw_files(self) -> tuple[RawFile, ...]:
        """Files outside the project whose content decides the result."""
        return ()


class GlobalFilter(abc.ABC):
    """Compares all documents. Every document yields keys; of equal keys the one of least rank stays, the others lose.

    Ties of rank go to the first in the order (shard, document, part). Subclasses are ``@settings`` classes.
    """

    rank_words: ClassVar[int]
    """The width of a rank in uint64 words, compared from left to right."""

    @abc.abstractmethod
    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        """The ``document``'s keys uint64 (n, 2), its one rank uint64 (rank_words,), and the keys' parts uint32 (n,)."""

    @abc.abstractmethod
    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        """Take away the parts ``losers`` (uint32, ascending, may be empty) of the document that gave ``keys``."""

    def raw_files(self) -> tuple[RawFile, ...]:
        """Files outside the project whose content decides the result."""
        return ()


def count_removed(document: Document, rule: str, number: int, unit: str = "lines") -> None:
    """Add ``number`` to ``metadata["removed_lines"][rule]`` (or ``removed_<unit>``)."""
    if number:
        removed = document.metadata.setdefault(f"removed_{unit}", {})
        removed[rule] = removed.get(rule, 0) + number
