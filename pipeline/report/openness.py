"""The openness of a run: what it gives of the seven parts that make a model open, which are code, configuration,
architecture, optimizer, mixture, order and data.

    manifest.json of the stages ──> part, given or not, what it is and where

Everything is read from the artifacts, so a part that the run has not is not claimed. What is given is in the folder of
the artifacts; the model card in an exported folder names it.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.stage import Inputs
from headrace.pipeline.report.formatting import visible

NAME_CHARACTERS = 200
SHOWN_FILES = 5
NOT_TRAINED = "the run has no training"


@dataclasses.dataclass(frozen=True)
class GivenPart:
    """One of the seven parts."""

    name: str
    is_given: bool
    text: str
    """Its content and its place, or why it is not given."""

    @property
    def given(self) -> str:
        return "yes" if self.is_given else "no"


def openness(inputs: Inputs) -> list[GivenPart]:
    """Returns the seven parts of a run with the artifacts ``inputs``."""
    weights = inputs.get("weights")
    versions = ", ".join(f"{name} {artifact.manifest.get('version')}" for name, artifact in inputs.items())
    where = "all settings of each stage in its manifest.json, and of the run in run.json"
    return [
        GivenPart("code", True, f"Headrace, versions of the stages: {versions}"),
        GivenPart("configuration", True, f"{where}; an address is a hash of settings and inputs"),
        _of_training("architecture", weights, _architecture),
        _of_training("optimizer", weights, _optimizer),
        _of_training("mixture", weights, lambda settings, _: mixture_text(settings.get("mixture", {}))),
        _of_training("order", weights, _order),
        _data(inputs),
    ]


def _of_training(name: str, weights: Artifact | None, text: Any) -> GivenPart:
    if weights is None:
        return GivenPart(name, False, NOT_TRAINED)
    return GivenPart(name, True, text(weights.settings, weights))


def _architecture(settings: Mapping[str, Any], weights: Artifact) -> str:
    named = _named(settings, "model", "stack", "layers", "width", "heads", "positions", "norm", "activation")
    parameters = weights.counts.get("parameters")
    return named if parameters is None else f"{named}; {parameters:,} parameters"


def _optimizer(settings: Mapping[str, Any], _: Artifact) -> str:
    update = _named(settings, "optimizer", "type", "learning_rate", "weight_decay")
    training = _named(settings, "training", "steps", "batch_rows", "precision")
    return f"optimizer of {update}; schedule of {_named(settings, 'schedule', 'type')}; training of {training}"


def _named(settings: Mapping[str, Any], group: str, *names: str) -> str:
    """Returns the values with these names of a group of settings, as far as the artifact has them."""
    values = settings.get(group, {})
    return ", ".join(f"{name} {values[name]}" for name in names if name in values)


def mixture_text(mixture: Mapping[str, Any]) -> str:
    """Returns the sources of a mixture with their addresses and first weights."""
    if not mixture.get("sources"):
        return "one source, the rows of this run"
    sizing = mixture.get("sizing")
    weights = sizing["weights"][0] if sizing else mixture["stretches"][0]["weights"]
    parts = (
        f"{source['name']} {weight}{'' if source['packed'] is None else ' (packed/' + source['packed'] + ')'}"
        for source, weight in zip(mixture["sources"], weights, strict=True)
    )
    changes = len(sizing["times"] if sizing else mixture["stretches"]) - 1
    rule = ""
    if sizing:
        limit = "" if sizing["limit_rows"] is None else f", of at most {sizing['limit_rows']:,}"
        rule = f", times the power {sizing['exponent']:g} of their rows{limit}"
    return ", ".join(parts) + rule + (f"; the weights change {changes:,} times" if changes else "")


def _order(settings: Mapping[str, Any], _: Artifact) -> str:
    seed = _named(settings, "training", "seed")
    return f"computed from {seed}, epoch and position; `headrace order --step N` names the documents of a step"


def _data(inputs: Inputs) -> GivenPart:
    if "texts" not in inputs:
        return GivenPart("data", False, "the run has no stage texts")
    last = next(name for name in ("unique", "clean", "texts") if name in inputs)
    source, artifact = source_text(inputs["texts"]), inputs[last]
    kept = f"{artifact.counts.get('kept', 0):,} documents with their ids in {last}/{artifact.folder.name}"
    return GivenPart("data", True, f"{source}; {kept}")


def source_text(texts: Artifact) -> str:
    """Returns the kind of the source, the number of its files and the names of the first ones."""
    files = texts.manifest.get("raw_files", [])
    names = ", ".join(visible(file["name"], NAME_CHARACTERS) for file in files[:SHOWN_FILES])
    more = ", …" * (len(files) > SHOWN_FILES)
    kind = texts.settings.get("source", {}).get("type", "source")
    return f"{kind}, {len(files):,} files with their SHA-256 in texts/{texts.folder.name} ({names}{more})"


def rule_counts(inputs: Inputs) -> Iterator[tuple[str, int]]:
    """Yields the rules of cleaning that dropped documents, and how many."""
    if "clean" in inputs:
        dropped = "dropped:"
        counts = inputs["clean"].counts
        yield from sorted((key.removeprefix(dropped), n) for key, n in counts.items() if key.startswith(dropped))
