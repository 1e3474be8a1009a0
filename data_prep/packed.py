"""The stage ``packed``: assigns spans of tokens to training rows, for both splits. No token is copied.

    keys/00007.npy ── < validation_fraction ──> validation | train
    bounds/00007.npy ── best fit ──> spans/train-00000.npy      (shard, start, length), 16 bytes each
                                     rows/train-00000.npy       row r is spans[rows[r] : rows[r+1]]

One task packs ``group_shards`` token shards together, because best fit needs many documents to choose from, as does an
order by similarity. Each stored token except the first of a shard is the target of exactly one position of exactly one
row. Forgotten documents are in no row; their tokens are not changed. With a ``selection`` a document has as many spans
as copies, or none.
"""

import dataclasses
import itertools
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from headrace.data_prep.document import document_ids
from headrace.data_prep.selected import COPIES, Selected
from headrace.data_prep.shuffle.records import save_array
from headrace.data_prep.tokenization.packing import (
    SPAN,
    DocumentSpans,
    best_fit,
    concatenate,
    padded,
    similar_order,
    split_documents,
)
from headrace.data_prep.tokenization.shards import key_of
from headrace.pipeline.core.artifact import Artifact, Balance, TaskOutput, handed
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import read_json, write_json
from headrace.pipeline.core.settings import FilePath, Positive, canonical, plain, settings
from headrace.pipeline.core.stage import Inputs, Phase, RawFile, Stage, raw_file
from headrace.pipeline.core.text_files import plain_text

SPLITS = ("train", "validation")
SURELY_SOME = 40
"""Documents of a split that are expected, from which on it has some: the probability of none is below e^-40."""

SIMILAR, SIGNATURES = "similar", "signatures"
"""The method that concatenates documents in the order of their similarity, and the stage that it needs for it."""
METHODS = {"best_fit": best_fit, "concatenate": concatenate, "padded": padded, SIMILAR: concatenate}

Keys = NDArray[np.uint64]
"""Hashes of documents' ids, as in ``keys/*.npy`` of stage ``tokens``."""


@settings
class Packing:
    """The settings of packing."""

    row_tokens: Positive = 1024
    """Positions of a row, which is the context length in training."""
    validation_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.01
    """Share of the documents held out for validation, selected by a hash of their ids."""
    group_shards: Positive = 64
    """Number of token shards that one task packs together."""
    method: Literal["best_fit", "concatenate", "padded", "similar"] = "best_fit"
    """``best_fit`` splits only documents longer than a row; ``concatenate`` fills every row, as GPT did; ``padded`` has
    one document in a row, or a piece of one that is longer, and pads the rest; ``similar`` concatenates each document
    with one that is like it, by their signatures."""
    forget: FilePath | None = None
    """A file with ids of documents to leave out of all rows, one a line. ``headrace forget`` writes it."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Packed(Stage):
    """Packs the rows of both splits.

    Counts for each split documents (each copy is one), split documents, text bytes, rows, tokens and padding. If
    ``forget`` is given, also ``forgotten_documents`` (and ``forgotten_copies``, with a selection) and
    ``forgotten_ids_not_in_tokens``, the listed ids that no document of tokens has.
    """

    name: ClassVar[str] = "packed"
    headline: ClassVar[tuple[str, ...]] = ("train_rows", "validation_rows")
    card_counts: ClassVar[Mapping[str, str]] = {"train_rows": "training rows", "validation_rows": "held-out rows"}
    describes_documents: ClassVar[bool] = True

    packing: Packing
    frame_tokens: int = 0
    """Positions that the objective of the run needs besides the spans: for each row of ``concatenate`` and ``similar``,
    else for each span. They count as padding."""
    selects: bool = False
    """Whether the stage ``selected`` says how often each document is packed; else each is packed once."""

    @property
    def inputs(self) -> tuple[str, ...]:
        signatures = [SIGNATURES] if self.packing.method == SIMILAR else []
        return ("tokens", *signatures, *([Selected.name] if self.selects else []))

    def raw_files(self) -> tuple[RawFile, ...]:
        if self.packing.forget is None:
            return ()
        forgotten_ids(self.packing.forget)
        return (raw_file("forget", Path(self.packing.forget)),)

    def without_raw_files(self, addresses: Mapping[str, str]) -> dict[str, object]:
        """Leaves out the path of the list of forgotten documents: ``raw_files`` has its content."""
        stage = dataclasses.replace(self, packing=dataclasses.replace(self.packing, forget=None))
        return super().without_raw_files(addresses) | {"settings": plain(stage), "hashed": canonical(stage)}

    def phases(self, shards: Mapping[str, int]) -> tuple[Phase, ...]:
        groups = -(-shards["tokens"] // self.packing.group_shards)
        return (Phase("rows", groups, self._rows), Phase("splits", 1, self._check_splits))

    def balances(self, counts: "Counter[str]", inputs: Inputs) -> Iterable[Balance]:
        tokens = inputs["tokens"]
        for split in SPLITS:
            positions = counts[f"{split}_rows"] * self.packing.row_tokens
            filled = counts[f"{split}_tokens"] + counts[f"{split}_padding"]
            yield f"{split}_rows · row_tokens = {split}_tokens + {split}_padding", positions, filled
        both = {
            what: sum(counts[f"{split}_{what}"] for split in SPLITS) for what in ("documents", "text_bytes", "tokens")
        }
        if self.selects:
            copies = both["documents"] + counts["forgotten_copies"]
            of_selected = inputs[Selected.name].counts["copies"]
            yield "documents of both splits + forgotten_copies = copies of selected", copies, of_selected
            return
        documents = both["documents"] + counts["forgotten_documents"]
        yield (
            "documents of both splits + forgotten_documents = documents of tokens",
            documents,
            tokens.counts["documents"],
        )
        if self.packing.forget is None:
            targets = tokens.counts["tokens"] - tokens.shard_count
            yield "tokens of both splits = tokens of tokens without the first of each shard", both["tokens"], targets
            yield "text_bytes of both splits = those of tokens", both["text_bytes"], tokens.counts["text_bytes"]

    def _rows(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        tokens = inputs["tokens"]
        first = task * self.packing.group_shards
        group = range(first, min(first + self.packing.group_shards, tokens.shard_count))
        forgotten = forgotten_keys(self.packing.forget)
        counts: Counter[str] = Counter()
        for split in SPLITS:
            spans, text_bytes = self._documents(inputs, group, split, forgotten)
            counts.update({f"{split}_{what}": n for what, n in self._pack(spans, split, task, out).items()})
            counts[f"{split}_text_bytes"] += text_bytes
        with out.scratch("documents", "json") as path:
            write_json(path, {split: counts[f"{split}_documents"] for split in SPLITS})
        if self.packing.forget is not None:
            keys = np.concatenate([np.load(tokens.shard("keys", shard, "npy")) for shard in group])
            is_forgotten = np.isin(keys, forgotten)
            counts["forgotten_documents"] = int(is_forgotten.sum())
            if self.selects:
                copies = np.concatenate([self._copies(inputs, shard) for shard in group])
                counts["forgotten_copies"] = int(copies[is_forgotten].sum(dtype=np.int64))
            with out.scratch("forgotten", "npy") as path:
                save_array(path, keys[is_forgotten])
        return counts

    def _copies(self, inputs: Inputs, shard: int) -> NDArray[np.uint32]:
        """Returns how often each document of ``shard`` is packed."""
        if self.selects:
            selected: NDArray[np.uint32] = np.load(inputs[Selected.name].shard(COPIES, shard, "npy"))
            return selected
        return np.ones(len(np.load(inputs["tokens"].shard("keys", shard, "npy"))), dtype=np.uint32)

    def _documents(self, inputs: Inputs, group: range, split: str, forgotten: Keys) -> tuple[DocumentSpans, int]:
        """Returns the documents of ``split`` in the shards ``group``, each copy as one span, and the bytes of texts.

        Documents whose keys are ``forgotten`` are left out. The copies of a document are in one split: that of its key.
        They follow one another; ``similar`` begins the order again with the second copies, then with the third ones.
        """
        tokens = inputs["tokens"]
        spans, numbers, signatures = list[DocumentSpans](), list[NDArray[np.uint32]](), list[NDArray[np.uint32]]()
        text_bytes = 0
        for shard in group:
            keys, copies = np.load(tokens.shard("keys", shard, "npy")), self._copies(inputs, shard)
            is_chosen = held_out(keys, self.packing.validation_fraction) == (split == "validation")
            is_chosen &= (copies > 0) & ~np.isin(keys, forgotten)
            bounds = np.load(tokens.shard("bounds", shard, "npy"))
            documents = np.full(int(is_chosen.sum()), shard, dtype=SPAN)
            documents["start"], documents["length"] = bounds[:-1][is_chosen], np.diff(bounds)[is_chosen]
            spans.append(documents)
            numbers.append(copies[is_chosen])
            sizes = np.load(tokens.shard("text_bytes", shard, "npy"))[is_chosen]
            text_bytes += int(sizes.astype(np.int64) @ numbers[-1])
            if self.packing.method == SIMILAR:
                signatures.append(signatures_of(inputs[SIGNATURES], shard, keys[is_chosen]))
        documents, copies = np.concatenate(spans), np.concatenate(numbers)
        if self.packing.method != SIMILAR:
            return np.repeat(documents, copies), text_bytes
        rounds = [similar_order(np.concatenate(signatures))]
        while rounds[-1].size:  # each is shorter, so all have as many documents as there are copies
            rounds.append(rounds[-1][copies[rounds[-1]] > len(rounds)])
        return documents[np.concatenate(rounds)], text_bytes

    def _pack(self, documents: DocumentSpans, split: str, task: int, out: TaskOutput) -> dict[str, int]:
        row_tokens = self.packing.row_tokens
        spans, offsets = METHODS[self.packing.method](documents, row_tokens, self.frame_tokens)
        for kind, array in (("spans", spans), ("rows", offsets.astype("<u8"))):
            with out.file(f"{kind}/{split}-{task:05d}.npy") as path:
                save_array(path, array)
        rows, tokens = len(offsets) - 1, int(spans["length"].sum(dtype=np.int64))
        return {
            "documents": len(documents),
            "split_documents": split_documents(documents, spans),
            "rows": rows,
            "tokens": tokens,
            "padding": rows * row_tokens - tokens,
        }

    def _check_splits(self, task: int, inputs: Inputs, out: TaskOutput) -> "Counter[str]":
        groups = self.phases({"tokens": inputs["tokens"].shard_count})[0].tasks
        documents: Counter[str] = Counter()
        for group in range(groups):
            documents.update(read_json(handed(out, "rows/documents", group, "json")))
        self._refuse_empty(documents)
        return self._check_forgotten(groups, out) if self.packing.forget is not None else Counter()

    def check_after(self, stage: str, artifact: Artifact) -> None:
        """Refuses so few documents of ``unique`` that a split has none, before they are tokenized."""
        fraction, documents = self.packing.validation_fraction, artifact.counts["kept"]
        if stage != "unique" or not 0 < documents * min(fraction, 1 - fraction) <= SURELY_SOME:
            return
        ids = itertools.chain.from_iterable(map(document_ids, artifact.shards("documents")))
        is_held_out = held_out(np.array([key_of("split", identity) for identity in ids], np.uint64), fraction)
        self._refuse_empty(Counter(train=int((~is_held_out).sum()), validation=int(is_held_out.sum())))

    def _refuse_empty(self, documents: "Counter[str]") -> None:
        """Raises ConfigError if a split has none of the ``documents``, which are counted by split."""
        fraction, remedies = self.packing.validation_fraction, {"train": "lower it", "validation": "raise it"}
        for split in SPLITS:
            if not documents[split]:
                problem = f"{fraction} of {documents.total()} documents leaves no document for the split {split!r}"
                raise ConfigError("packing.validation_fraction", problem, f"{remedies[split]}, or give more documents")

    def _check_forgotten(self, groups: int, out: TaskOutput) -> "Counter[str]":
        """Counts and prints how many of the ids to forget no document of tokens has.

        Raises:
            ConfigError: when no document has any of them: ids of another set of ``source.paths`` are other ids.
        """
        listed = np.unique(forgotten_keys(self.packing.forget))
        forgotten = np.concatenate([np.load(handed(out, "rows/forgotten", group, "npy")) for group in range(groups)])
        missing = len(listed) - len(np.intersect1d(listed, forgotten))
        if not missing:
            return Counter()
        if missing == len(listed):
            problem = f"none of the {missing:,} ids in {self.packing.forget!r} is a document of tokens"
            remedy = "ids depend on source.paths: write the list again (headrace forget), or set packing.forget=null"
            raise ConfigError("packing.forget", problem, remedy)
        print(
            f"packed: {missing:,} of the {len(listed):,} ids in {self.packing.forget} are no documents of tokens",
            file=sys.stderr,
        )
        return Counter(forgotten_ids_not_in_tokens=missing)


def held_out(keys: Keys, fraction: float) -> NDArray[np.bool_]:
    """Returns for each key whether its document is in validation: the key is below ``fraction`` · 2^64."""
    return keys < np.uint64(int(fraction * 2**64))


def signatures_of(signatures: Artifact, shard: int, keys: Keys) -> NDArray[np.uint32]:
    """Returns the signatures of the documents of ``shard`` with these ``keys``, in the order of its documents.

    Tokens and signatures have the same shards; signatures are also those of documents that were removed later.
    """
    ids = np.load(signatures.shard("ids", shard, "npy")).tolist()
    is_theirs = np.isin(np.array([key_of("split", identity.decode()) for identity in ids], np.uint64), keys)
    rows: NDArray[np.uint32] = np.load(signatures.shard("signatures", shard, "npy"))[is_theirs]
    return rows


def split_of(document_id: str, fraction: float) -> str:
    """Returns the split of a document, one of SPLITS."""
    return SPLITS[int(held_out(np.array([key_of("split", document_id)], np.uint64), fraction)[0])]


def forgotten_keys(path: str | None) -> Keys:
    """Returns the keys of the ids in the file ``path``, one a line; none without a file.

    Raises:
        ConfigError: if the file cannot be read, or a line is not an id.
    """
    return np.array([key_of("split", identity) for identity in forgotten_ids(path)], dtype=np.uint64)


def forgotten_ids(path: str | None) -> list[str]:
    """Reads the ids in the file ``path``, one a line; none without a file.

    Raises:
        ConfigError: if the file cannot be read, or a line is not an id.
    """
    try:
        lines = plain_text(Path(path)).split("\n") if path else []
    except (OSError, UnicodeDecodeError, ArtifactError) as error:
        raise ConfigError("packing.forget", f"cannot read {path!r} ({error})", "give a list of ids") from None
    for number, line in enumerate(lines, start=1):
        if line and not re.fullmatch(r".+:[0-9]+", line):
            problem = f"line {number} of {path!r}, {line[:80]!r}, is not an id"
            raise ConfigError("packing.forget", problem, "create the list with `headrace forget`")
    return [line for line in lines if line]
