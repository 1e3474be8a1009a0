"""Mixtures: training on the rows of several runs at once, with weights, as GPT-3 did (Brown et al. 2020, table 2.2).

    Mixture ── of ──> Mix ── training_data ──> rows of all sources, and their order (train/data/apportionment.py)
    folders           addresses

    <root>/packed/b8e44e9d7440    what a source names; its manifest leads to its inputs below <root>
        └─ tokens ── tokenizer, unique

Validation uses this run's own held-out rows. Other sources give only their training rows; with ``training.source_rows``
the loss of their held-out rows is computed, too.
"""

import dataclasses
import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import FilePath, Fraction, NaturalNumber, Positive, digest, settings, unhashed
from headrace.pipeline.core.stage import Inputs
from headrace.train.data.apportionment import SETTING, MixedOrder, Sizing, Stretch, stretches, whole_numbers
from headrace.train.data.order import Order
from headrace.train.data.rows import MixedRows, Rows


@settings
class SourceSettings:
    """One source of rows."""

    name: str
    """Its name in the metrics."""
    packed: FilePath | None = None
    """The folder of another run's artifact ``packed``; null: the rows of this run."""
    weight: NaturalNumber
    """Its part of the rows, relative to the weights of the others; any unit."""


@settings
class Change:
    """New weights from some point of the training on."""

    from_tokens: Positive
    """The number of positions, padding included, after which they apply; the current cycle of weights ends first."""
    weights: Mapping[str, NaturalNumber]
    """The weight of every source, by its name."""


@settings
class Mixture:
    """The sources to train on in addition to the rows of this run, and the share of each."""

    sources: tuple[SourceSettings, ...] = ()
    """The sources of rows, this run among them; empty: this run alone."""
    curriculum: tuple[Change, ...] = ()
    """Changes of the weights during the training, in the order of from_tokens."""
    exponent: Fraction = 0.0
    """The power of a source's rows to train on that its weight is multiplied by. 1: in proportion to them; 0.7: between
    that and equal shares (multilingual BERT); 1/T of T5's temperature T; 0: the weights alone."""
    limit_rows: Positive | None = None
    """The most rows of a source that count for ``exponent``: T5's limit K; null: none."""

    def __post_init__(self) -> None:
        names = [source.name for source in self.sources]
        for name in names:
            if not re.fullmatch(r"[\w.-]+", name, re.ASCII) or names.count(name) > 1:
                raise ConfigError(SETTING, f"{name!r} is no name of its own", "give letters and digits, each name once")
        of_run = sum(source.packed is None for source in self.sources)
        if names and of_run != 1:
            problem = f"{of_run} of them are this run's own rows (packed: null)"
            raise ConfigError(SETTING, problem, "name it once, with weight 0 if need be")
        if self.curriculum and not names:
            raise ConfigError("mixture.curriculum", "changes the weights of no source", "name mixture.sources")
        for change in self.curriculum:
            if set(change.weights) != set(names):
                problem = f"weights from {change.from_tokens} tokens on are those of {sorted(change.weights)}"
                raise ConfigError("mixture.curriculum", problem, f"give a weight to each of {sorted(names)}")
        starts = [0, *(change.from_tokens for change in self.curriculum)]
        if any(before >= after for before, after in itertools.pairwise(starts)):
            raise ConfigError("mixture.curriculum", f"from_tokens are {starts[1:]}", "give rising numbers above 0")
        if self.limit_rows is not None and not (self.exponent and names):
            problem = f"is {self.limit_rows}, and no weight depends on rows"
            raise ConfigError("mixture.limit_rows", problem, "give mixture.exponent=1, say, or null")
        if self.exponent and not names:
            raise ConfigError("mixture.exponent", f"is {self.exponent}, and there is no source", "name mixture.sources")
        for weights in self.weights():
            whole_numbers(weights)

    def weights(self) -> list[dict[str, float]]:
        """Returns source → weight, at the start and after each change."""
        first = {source.name: source.weight for source in self.sources}
        return [first, *({name: change.weights[name] for name in first} for change in self.curriculum)] if first else []


@dataclasses.dataclass(frozen=True)
class MixSource:
    """One source, described by what determines its rows."""

    name: str
    packed: str | None
    """The address of its artifact ``packed``; None: this run's."""
    root: str = unhashed("")
    """The folder below which its artifacts lie; empty for this run's."""

    @classmethod
    def at(cls, source: SourceSettings, row_tokens: int, frame_tokens: int) -> "MixSource":
        """Finds the artifact that ``source`` names.

        Raises:
            ConfigError: when that is no finished artifact ``packed``, or its rows have not ``row_tokens`` positions,
                ``frame_tokens`` of them for the objective.
            ArtifactError: when what it was made from is gone.
        """
        if source.packed is None:
            return cls(source.name, None)
        path = Path(source.packed).resolve()
        if not (path / "manifest.json").is_file() or Artifact(path).manifest["stage"] != "packed":
            remedy = "give the folder of another run's artifact, like runs/packed/b8e44e9d7440"
            raise ConfigError(SETTING, f"{source.packed!r} is no finished artifact of stage packed", remedy)
        theirs = Artifact(path).settings["packing"]["row_tokens"]
        if theirs != row_tokens:
            problem = f"rows of {source.packed!r} have {theirs} tokens, this run's {row_tokens}"
            raise ConfigError(SETTING, problem, "pack both with the same packing.row_tokens")
        their_frame = Artifact(path).settings.get("frame_tokens", 0)
        if their_frame != frame_tokens:
            problem = (
                f"rows of {source.packed!r} leave {their_frame} positions to the objective, this run's {frame_tokens}"
            )
            raise ConfigError(SETTING, problem, "pack both for the same objective")
        mix_source = cls(source.name, path.name, str(path.parents[1]))
        mix_source.inputs()
        return mix_source

    def inputs(self) -> Inputs:
        """Returns the artifacts ``packed``, ``tokens`` and ``tokenizer`` of a source that is not this run's own.

        Raises:
            ArtifactError: when one of them is gone.
        """
        packed = Artifact(Path(self.root, "packed", str(self.packed)))
        tokens = self.made_from(packed, "tokens")
        return {"packed": packed, "tokens": tokens, "tokenizer": self.made_from(tokens, "tokenizer")}

    def made_from(self, artifact: Artifact, stage: str) -> Artifact:
        """Returns the artifact of ``stage`` from which ``artifact`` was made."""
        folder = Path(self.root, stage, artifact.manifest["inputs"][stage])
        if not (folder / "manifest.json").is_file():
            problem = f"{artifact.folder} was made from {folder}, which is not there"
            raise ArtifactError(SETTING, problem, "keep what a source was made from below the same root")
        return Artifact(folder)


@dataclasses.dataclass(frozen=True)
class Mix:
    """A mixture, described by what determines its rows: addresses of its sources, and a schedule in whole numbers."""

    sources: tuple[MixSource, ...] = ()
    """Empty: this run's rows alone."""
    stretches: tuple[Stretch, ...] = ()
    """Empty where they depend on rows."""
    sizing: Sizing | None = None

    @classmethod
    def of(cls, mixture: Mixture, row_tokens: int, frame_tokens: int = 0) -> "Mix":
        """Describes ``mixture`` for rows of ``row_tokens`` positions, ``frame_tokens`` of them for the objective.

        Raises:
            ConfigError, ArtifactError: when a source cannot be used (see ``MixSource.at``), or sources do not share
                their tokenizer.
        """
        sources = tuple(MixSource.at(source, row_tokens, frame_tokens) for source in mixture.sources)
        others = {source.name: source.inputs()["tokenizer"] for source in sources if source.packed is not None}
        for (first, tokenizer), (second, other) in itertools.pairwise(others.items()):
            _check_tokenizers(repr(first), tokenizer, second, other)
        times = tuple(-(-change.from_tokens // row_tokens) for change in mixture.curriculum)
        weights = [tuple(values.values()) for values in mixture.weights()]
        if mixture.exponent:
            return cls(sources, sizing=Sizing(mixture.exponent, mixture.limit_rows, tuple(weights), (0, *times)))
        return cls(sources, stretches(map(whole_numbers, mixture.weights()), (0, *times)))

    def stretches_of(self, rows: Sequence[int]) -> tuple[Stretch, ...]:
        """Returns the schedule of sources with so many ``rows`` to train on."""
        return self.stretches if self.sizing is None else self.sizing.stretches(rows)

    def artifacts(self, inputs: Inputs) -> dict[str, Inputs]:
        """Returns the input artifacts of each source by its name; those of this run are ``inputs``.

        Raises:
            ConfigError: when a source has another tokenizer than this run.
        """
        inputs_of = {source.name: inputs if source.packed is None else source.inputs() for source in self.sources}
        for name, artifacts in inputs_of.items():
            _check_tokenizers("this run", inputs["tokenizer"], name, artifacts["tokenizer"])
        return inputs_of


def _check_tokenizers(who: str, tokenizer: Artifact, name: str, other: Artifact) -> None:
    """Refuses two tokenizers that are not the same, byte for byte."""
    ours, theirs = (artifact.manifest["files"]["tokenizer.json"]["sha256"] for artifact in (tokenizer, other))
    if ours != theirs:
        problem = f"the tokenizer of {name!r} ({other.folder}) is not that of {who} ({tokenizer.folder})"
        raise ConfigError(
            SETTING, problem, "make all with one tokenizer: tokenizer=file tokenizer.path=…/tokenizer.json"
        )


def parts_of_order(seed: int, inputs: Inputs, mix: Mix, unique_rows: int | None = None) -> dict[str, str]:
    """Returns a hash of each thing that determines the order of rows, and under ``order`` one hash of them all."""
    artifacts = dict(inputs)
    for source in mix.sources:
        if source.packed is not None:
            theirs = source.inputs()
            artifacts |= {f"{stage} of {source.name}": theirs[stage] for stage in ("packed", "tokens")}
    parts = {name: digest(artifact.identity) for name, artifact in artifacts.items()}
    parts |= {"training.seed": digest(seed), "mixture": digest(mix)}
    if unique_rows is not None:
        parts["training.unique_rows"] = digest(unique_rows)
    return parts | {"order": digest(parts)}


def sources_of(inputs: Inputs, mix: Mix) -> Mapping[str, Inputs]:
    """Returns the artifacts ``packed`` and ``tokens`` of each source by its name; the only one is called packed."""
    return mix.artifacts(inputs) or {"packed": inputs}


def training_data(
    seed: int, inputs: Inputs, mix: Mix, unique_rows: int | None = None
) -> tuple[Rows | MixedRows, Order | MixedOrder]:
    """Returns the rows to train on and their order.

    Raises:
        ArtifactError: when a source has no row.
        ConfigError: when sources do not share a tokenizer, or there are fewer than ``unique_rows``.
    """
    sources = sources_of(inputs, mix)
    rows = {name: Rows(artifacts["packed"], artifacts["tokens"], "train") for name, artifacts in sources.items()}
    for name, rows_of_source in rows.items():
        if not len(rows_of_source):
            raise ArtifactError(name, "has no row to train on", "give more text, or shorter rows")
    if not mix.sources:
        return _own_rows(rows["packed"], seed, unique_rows)
    sizes: Sequence[int] = [len(rows_of_source) for rows_of_source in rows.values()]
    return MixedRows(list(rows.values())), MixedOrder(seed, list(rows), sizes, mix.stretches_of(sizes))


def held_out_rows(inputs: Inputs, mix: Mix, limit: int) -> dict[str, Rows]:
    """Returns the first ``limit`` held-out rows of each source of ``mix`` by its name; nothing with a limit of 0."""
    if not limit:
        return {}
    sources = {
        name: Rows(artifacts["packed"], artifacts["tokens"], "validation")
        for name, artifacts in mix.artifacts(inputs).items()
    }
    return {name: rows.of(np.arange(min(len(rows), limit))) for name, rows in sources.items()}


def _own_rows(rows: Rows, seed: int, unique_rows: int | None) -> tuple[Rows, Order]:
    """Returns the rows of this run, or the first ``unique_rows`` of their first epoch, and their order."""
    order = Order(seed, len(rows))
    if unique_rows is None:
        return rows, order
    if unique_rows > len(rows):
        problem = f"is {unique_rows}, and there are {len(rows)} rows to train on"
        raise ConfigError("training.unique_rows", problem, "give fewer, or null for all")
    return rows.of(order.batch(0, unique_rows)), Order(seed, unique_rows)
