"""Runs the trainings of a search for the best mixture, and skips those that are finished."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import HeadraceError, TaskError
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.ladder.mixing_law import Floats
from headrace.pipeline.ladder.proxies import Proxy, ProxySearch
from headrace.pipeline.series.carried_out import DONE, all_carried_out, carried_out, state_of, step_of


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
            problem = f"run {run.config.id} has no held-out loss of the source {name!r}"
            raise TaskError("mixtures", problem, "hold out more of its text: packing.validation_fraction")
    losses = np.array([last[f"source_loss:{name}"] for name in names])
    return ProxyTraining(proxy, DONE, losses, max(float(last[f"epoch:{name}"]) for name in names))
