"""The mixtures of a search for the best one: small trainings that differ only in the weights of their sources.

    0        the given mixture
    1        natural shares: the training tokens of each source
    2, 3, …  draws from Dirichlet distributions around the natural shares

Following RegMix (Liu et al. 2024, arXiv 2407.01492; mixture_config/synthesize_mixture.py of its repository), the
Dirichlet's parameters are square roots of the natural shares, whose sum is drawn, too. It is from 1 to 10 here, 0.1 to
5 there: with tens of trainings instead of 512, fewer of them may lack a source altogether.

A draw is a function of the natural shares and its number. So more trainings keep those that are finished, which are
skipped.
"""

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.configuration.overrides import replaced
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ConfigError, HeadraceError, TaskError, suggestion
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.core.settings import NaturalNumber, value_of
from headrace.pipeline.ladder.grid import check
from headrace.pipeline.ladder.mixing_law import Floats, least_trainings
from headrace.pipeline.series.trainings import DONE, all_carried_out, carried_out, state_of, step_of
from headrace.train.data.mixture import Mix
from headrace.train.data.source_weights import SETTING

SEED = 0
TEMPERATURE = 0.5
"""The power of the natural shares; RegMix's for skewed sources."""
STRENGTHS = (1.0, 10.0)
"""Ends of the sum of the Dirichlet's parameters, which is drawn evenly in its logarithm."""
PARTS = 1_000
"""The sum of the weights of a drawn mixture, so its shares are exact after this number of rows."""

SourceWeights = tuple[float, ...]
"""A weight for each source; their sum is arbitrary."""


@dataclasses.dataclass(frozen=True)
class Proxy:
    """One training of the search."""

    number: int
    shares: Floats
    """(sources,)."""
    overrides: tuple[str, ...]

    def __str__(self) -> str:
        return "shares " + ", ".join(f"{share:.3f}" for share in self.shares)


@dataclasses.dataclass(frozen=True)
class ProxySearch:
    """The trainings around the run of ``overrides``, and the loss that they are compared by."""

    overrides: Sequence[str]
    config: RunConfig
    number: int
    """Trainings, that of the given mixture among them."""
    target: Floats
    """Weights of the sources' held-out losses with the sum 1, (sources,)."""

    @classmethod
    def of(cls, overrides: Sequence[str], number: int, target: str) -> "ProxySearch":
        """Checks the settings; ``target`` is NAME=WEIGHT with commas, empty for the weights of the given mixture.

        Raises:
            ConfigError: when the run has no mixture to search around, a source lacks held-out rows, the target names no
                source, or the trainings are too few for the law.
            ArtifactError: when the rows of a source are gone.
        """
        config = decoded(compose(overrides))
        check(config, what="a search")
        if len(config.mixture.sources) < 2:
            problem = f"names {len(config.mixture.sources)} sources, and shares of two or more are compared"
            raise ConfigError(SETTING, problem, "name the sources")
        if config.mixture.curriculum:
            raise ConfigError("mixture.curriculum", "changes weights that the trainings compare", "leave it out")
        if config.mixture.exponent:
            problem = f"is {config.mixture.exponent}, and the trainings compare weights alone"
            raise ConfigError("mixture.exponent", problem, "leave it out")
        Mix.of(config.mixture, config.text_packing.row_tokens, config.objective.frame_tokens)
        for source in config.mixture.sources:
            if source.packed is not None and not Artifact(Path(source.packed)).counts["validation_rows"]:
                problem = f"the source {source.name!r} has no held-out rows"
                raise ConfigError(SETTING, problem, "make its run with a larger packing.validation_fraction")
        search = cls(overrides, config, number, _target(config, target))
        if number < (least := least_trainings(len(search.names))):
            problem = (
                f"is {number}, and the law of {len(search.names)} sources, with {len(search.names) + 1} coefficients,"
            )
            raise ConfigError("--runs", f"{problem} needs {least} trainings", f"give {least} or more")
        return search

    @property
    def names(self) -> list[str]:
        """The names of the sources."""
        return [source.name for source in self.config.mixture.sources]

    @property
    def given(self) -> SourceWeights:
        """The weights of the given mixture."""
        return tuple(source.weight for source in self.config.mixture.sources)

    def first(self) -> Proxy:
        """Returns the training of the given mixture. It makes the data of this run, too."""
        return self._proxy(0, self.given)

    def others(self, own_packed: Artifact) -> list[Proxy]:
        """Returns the other trainings; ``own_packed`` holds the rows of this run."""
        natural = natural_shares(self.config, own_packed)
        mixtures = distinct(itertools.chain([self.given], drawn(natural)))
        return [
            self._proxy(number, weights)
            for number, weights in enumerate(itertools.islice(mixtures, self.number))
            if number
        ]

    def _proxy(self, number: int, weights: SourceWeights) -> Proxy:
        own = [] if number == 0 else weight_overrides(weights)
        rows = self.config.training.source_rows or self.config.training.validation_rows
        own += [f"training.source_rows={rows}", "until=weights"]
        own += [f"name={self.config.name}-mixture-{number}"] if self.config.name else []
        return Proxy(number, shares_of(weights), tuple(replaced(self.overrides, own)))


def weight_overrides(weights: Sequence[float]) -> list[str]:
    """Returns the overrides that give the sources of a mixture these weights."""
    return [f"{SETTING}.{index}.weight={weight:g}" for index, weight in enumerate(weights)]


def shares_of(weights: Sequence[float]) -> Floats:
    """Returns ``weights`` with the sum 1, (sources,)."""
    shares: Floats = np.array(weights, np.float64) / sum(weights)
    return shares


def in_parts(shares: Floats) -> SourceWeights:
    """Returns ``shares`` as whole numbers with the sum ``PARTS``; the largest remainders are rounded up."""
    exact = shares * PARTS
    whole = np.floor(exact).astype(int)
    largest = np.argsort(whole - exact, kind="stable")[: PARTS - int(whole.sum())]
    whole[largest] += 1
    return tuple(whole.tolist())


def natural_shares(config: RunConfig, own_packed: Artifact) -> Floats:
    """Returns each source's share of all training tokens, (sources,)."""
    artifacts = [Artifact(Path(source.packed)) if source.packed else own_packed for source in config.mixture.sources]
    return shares_of([artifact.counts["train_tokens"] for artifact in artifacts])


def drawn(natural: Floats) -> Iterator[SourceWeights]:
    """Yields the natural shares, and endless draws around them."""
    yield in_parts(natural)
    center = shares_of((natural**TEMPERATURE).tolist())
    for number in itertools.count():
        generator = np.random.default_rng((SEED, number))
        strength = math.exp(generator.uniform(math.log(STRENGTHS[0]), math.log(STRENGTHS[1])))
        yield in_parts(generator.dirichlet(center * strength))


def distinct(mixtures: Iterator[SourceWeights]) -> Iterator[SourceWeights]:
    """Yields ``mixtures`` without those of equal shares."""
    seen = set[SourceWeights]()
    for weights in mixtures:
        shares = tuple(np.round(shares_of(weights), 9).tolist())
        if shares not in seen:
            seen.add(shares)
            yield weights


def _target(config: RunConfig, text: str) -> Floats:
    """Returns the weights of the held-out losses that ``text`` gives, (sources,).

    Raises:
        ConfigError: when a name is no source, a weight no number from 0 on, or all are 0.
    """
    own: Mapping[str, float] = {source.name: source.weight for source in config.mixture.sources}
    given: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, weight = part.partition("=")
        if name not in own:
            raise ConfigError("--target", f"{name!r} is no source", suggestion(name, list(own)))
        given[name] = float(value_of(NaturalNumber, weight, "--target"))
    if text and not sum(given.values()):
        raise ConfigError("--target", f"{text!r} has no weight above 0", "give one to a source: NAME=WEIGHT")
    return shares_of([given.get(name, 0.0) for name in own] if given else list(own.values()))


@dataclasses.dataclass(frozen=True)
class ProxyTraining:
    """A training of the search, and what became of it."""

    proxy: Proxy
    state: str
    losses: Floats | None = None
    """The last held-out loss of each source in nats per token, (sources,); None before the end."""
    epochs: float = 0.0
    """Passes over the rows of the source that was read most often."""


def proxy_trainings(search: ProxySearch, starts: bool) -> tuple[list[ProxyTraining], list[HeadraceError]]:
    """Returns what became of the trainings, and the errors of those that failed; they do not stop the others.

    The others are drawn around the shares of the sources, so they follow when the data of the run are packed. Without
    ``starts`` nothing is trained.
    """

    def carry(proxy: Proxy) -> ProxyTraining:
        return _training(proxy, search.names, starts)

    first = search.first()
    carried_out, errors = all_carried_out("mixtures, given", [first], starts, carry, ProxyTraining)
    if (packed := _own_packed(first)) is None:
        return carried_out, errors
    others, more = all_carried_out("mixtures", search.others(packed), starts, carry, ProxyTraining)
    return carried_out + others, errors + more


def _own_packed(proxy: Proxy) -> Artifact | None:
    """Returns the rows of the run itself; None before they are packed."""
    overrides = list(proxy.overrides)
    packed = step_of(carried_out(compose(overrides), overrides, starts=False), "packed")
    return Artifact(packed.folder) if packed.is_whole else None


def _training(proxy: Proxy, names: Sequence[str], starts: bool) -> ProxyTraining:
    overrides = list(proxy.overrides)
    run = carried_out(compose(overrides), overrides, starts)
    if (state := state_of(run)) != DONE:
        return ProxyTraining(proxy, state)
    rows = read_metrics(metrics_path(step_of(run, "weights").folder))
    last: Mapping[str, Any] = next((row for row in reversed(rows) if "validation_loss" in row), {})
    for name in names:
        if f"source_loss:{name}" not in last:
            problem = f"run {run.id} has no held-out loss of the source {name!r}"
            raise TaskError("mixtures", problem, "hold out more of its text: packing.validation_fraction")
    losses = np.array([last[f"source_loss:{name}"] for name in names])
    return ProxyTraining(proxy, DONE, losses, max(float(last[f"epoch:{name}"]) for name in names))
