"""Carries out a search for the best mixture and shows what follows: tables in the terminal, a page, JSON."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headrace.pipeline.command_line.result_files import write_files
from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.settings import Positive, digest, value_of
from headrace.pipeline.core.tracking import grouped
from headrace.pipeline.ladder.ladder_results import MAX_EPOCHS
from headrace.pipeline.ladder.mixing_law import Floats, Proposal, least_trainings, propose, rank_correlation
from headrace.pipeline.ladder.mixture_figures import figures
from headrace.pipeline.ladder.mixture_trainings import ProxyTraining, proxy_trainings
from headrace.pipeline.ladder.proxies import ProxySearch, in_parts, shares_of, weight_overrides
from headrace.pipeline.output import facts
from headrace.pipeline.output.facts import Fact, show_lines
from headrace.pipeline.series.carried_out import DONE
from headrace.train.cost.flops import Compute

Table = list[list[str]]


@dataclasses.dataclass(frozen=True)
class MixtureFindings:
    """All that follows from the finished trainings of a search."""

    search: ProxySearch
    trainings: Sequence[ProxyTraining]

    @property
    def used(self) -> list[tuple[ProxyTraining, Floats]]:
        """The finished trainings that learned more than chance, with their losses by source."""
        chance = math.log(self.search.config.vocabulary)
        done = [(one, one.losses) for one in self.trainings if one.losses is not None]
        return [(one, losses) for one, losses in done if losses @ self.search.target < chance]

    @property
    def shares(self) -> Floats:
        """The mixtures of the used trainings, (trainings, sources)."""
        return np.stack([one.proxy.shares for one, _ in self.used])

    @property
    def losses(self) -> Floats:
        """Their weighted losses, (trainings,)."""
        return np.stack([losses for _, losses in self.used]) @ self.search.target

    def proposal(self) -> Proposal | None:
        """Returns the best mixture; None when the trainings are too few, or too much alike, for a law."""
        sources = len(self.search.names)
        if len(self.used) < least_trainings(sources) or np.linalg.matrix_rank(self.shares) < sources:
            return None
        given = shares_of(self.search.given)
        return propose(self.shares, np.stack([losses for _, losses in self.used]), self.search.target, given)


def search(
    overrides: Sequence[str], number: str, target: str, page: Path | None, json_file: Path | None, starts: bool
) -> None:
    """Carries out the trainings on mixtures of the sources of ``overrides``, and shows the best mixture.

    Args:
        overrides: the settings of all trainings.
        number: of trainings, as the user typed it.
        target: NAME=WEIGHT with commas; empty: the weights of the given mixture.
        page: the HTML file to write.
        json_file: the JSON file to write.
        starts: whether missing trainings are started.

    Raises:
        ConfigError: when a value or a setting is wrong; nothing was started.
        HeadraceError: the first error of a training, after the results; or no training is better than chance.
    """
    wanted = ProxySearch.of(overrides, value_of(Positive, number, "--runs"), target)
    with grouped(wanted.config.name or f"mixtures-{digest(sorted(overrides))}"):
        trainings, errors = proxy_trainings(wanted, starts)
    found = MixtureFindings(wanted, trainings)
    if any(one.losses is not None for one in trainings) and not found.used:
        raise TaskError("mixtures", "no training is better than chance", "train on more tokens, or at another rate")
    proposal = found.proposal()
    tables = [("trainings", "Trainings", trainings_table(found, proposal))]
    tables += [] if proposal is None else [("weights", "Weights", weights_table(found, proposal))]
    for _, _, table in tables:
        show_lines(table[0], table[1:])
        print()
    results = list(results_of(found, proposal))
    notes = list(notes_of(found, proposal))
    facts.show(results)
    if notes:
        print("", *notes, sep="\n")

    def page_values() -> dict[str, object]:
        lede = f"Headrace mixtures: {len(trainings)} trainings on {len(wanted.names)} sources"
        values = {"title": wanted.config.name or "Mixtures", "lede": lede, "facts": results, "notes": notes}
        drawn = [] if proposal is None else figures(wanted, proposal, found.losses)
        return values | {"figures": drawn, "tables": tables}

    write_files(json_file, as_json(found, proposal), page, page_values)
    if errors:
        raise errors[0]


def trainings_table(found: MixtureFindings, proposal: Proposal | None) -> Table:
    """Returns the shares, losses and states of the trainings, below a header."""
    names = found.search.names
    head = ["training", *names, *(f"loss of {name}" for name in names), "loss", "by the law", "state"]
    predicted: dict[int, float] = {}
    if proposal is not None:
        predicted = {one.proxy.number: loss for (one, _), loss in zip(found.used, proposal.left_out, strict=True)}
    rows = []
    for one in found.trainings:
        number = one.proxy.number
        losses = ["–"] * (len(names) + 1)
        if one.losses is not None:
            losses = [f"{loss:.4f}" for loss in (*one.losses, one.losses @ found.search.target)]
        law = f"{predicted[number]:.4f}" if number in predicted else "–"
        shares = [f"{share:.3f}" for share in one.proxy.shares]
        rows.append([{0: "given"}.get(number, str(number)), *shares, *losses, law, one.state])
    return [head, *rows]


def weights_table(found: MixtureFindings, proposal: Proposal) -> Table:
    """Returns the given and the proposed share of each source, below a header."""
    head = ["source", "given", "proposed", "95 % interval", "measured"]
    given, shares = shares_of(found.search.given), found.shares
    rows = [
        [
            name,
            f"{given[index]:.3f}",
            f"{proposal.shares[index]:.3f}",
            "{:.3f} to {:.3f}".format(*proposal.intervals[index]),
            f"{shares[:, index].min():.3f} to {shares[:, index].max():.3f}",
        ]
        for index, name in enumerate(found.search.names)
    ]
    return [head, *rows]


def results_of(found: MixtureFindings, proposal: Proposal | None) -> Iterator[Fact]:
    """Yields the loss that is minimized, the cost, and what is said of the proposed mixture."""
    config, target = found.search.config, zip(found.search.target, found.search.names, strict=True)
    yield "loss", " + ".join(f"{weight:.3g} {name}" for weight, name in target if weight) + ", held-out rows"
    each = Compute.of(
        config.model, config.vocabulary, config.packing.row_tokens, config.training, config.target_tokens
    ).flops
    yield "cost", f"{found.search.number} trainings of {each:.3g} FLOP"
    if proposal is None:
        return
    low, high = proposal.gain_interval
    yield "gain", f"{proposal.gain:.4f} [{low:.4f}, {high:.4f}] nats per token below the given mixture, by the law"
    yield "verdict", verdict(proposal)
    weights = in_parts(proposal.shares)
    yield "settings", " ".join(weight_overrides(weights))
    errors = proposal.left_out - found.losses
    yield (
        "left out",
        (
            f"rank correlation {rank_correlation(proposal, found.losses):.2f}, error"
            f" {math.sqrt(float(np.square(errors).mean())):.4f} nats, spread of the losses {found.losses.std():.4f}"
        ),
    )


def verdict(proposal: Proposal) -> str:
    """Returns the sentence about the proposed mixture."""
    if proposal.is_better:
        return "the proposed mixture is better than the given one, at this size and length of training"
    return "no mixture is shown to be better than the given one: the interval of the gain includes 0"


def notes_of(found: MixtureFindings, proposal: Proposal | None) -> Iterator[str]:
    """Yields sentences about trainings that are missing, and about a law that predicts badly."""
    trainings, number = found.trainings, found.search.number
    if left := number - sum(one.state == DONE for one in trainings):
        yield f"{left} of {number} trainings have no result yet; the same command goes on."
    if len(trainings) == 1:
        yield "The other mixtures are drawn around the shares of the sources, when the data of this run are packed."
    if without := sum(one.losses is not None for one in trainings) - len(found.used):
        yield f"{without} trainings are not better than chance, and are left out."
    if (epochs := max((one.epochs for one in trainings), default=0.0)) > MAX_EPOCHS:
        yield (
            f"A source was read {epochs:.1f} times. Beyond about {MAX_EPOCHS} times, a repeated token is worth less"
            " than a new one (Muennighoff et al. 2023), so a longer training may need another mixture."
        )
    if proposal is None:
        least = least_trainings(len(found.search.names))
        yield f"No proposal yet: the law needs {least} different mixtures with losses, and there are {len(found.used)}."
        return
    if np.square(proposal.left_out - found.losses).mean() >= found.losses.var():
        yield (
            "The law predicts a training that it has not seen no better than the mean of the others does. Give more"
            " or longer trainings."
        )


def as_json(found: MixtureFindings, proposal: Proposal | None) -> dict[str, Any]:
    """Returns plain values: the trainings, the law and the proposal."""
    names = found.search.names

    def named(values: Sequence[float] | Floats) -> dict[str, float]:
        return dict(zip(names, map(float, values), strict=True))

    trainings = [
        {
            "number": one.proxy.number,
            "shares": named(one.proxy.shares),
            "losses": None if one.losses is None else named(one.losses),
            "state": one.state,
        }
        for one in found.trainings
    ]
    values: dict[str, Any] = {"target": named(found.search.target), "trainings": trainings, "proposal": None}
    if proposal is None:
        return values
    exponents = {name: named(row) for name, row in zip(names, proposal.law.exponents, strict=True)}
    used = [one.proxy.number for one, _ in found.used]
    return values | {
        "law": {"floors": named(proposal.law.floors), "exponents": exponents},
        "left_out": {
            "losses": dict(zip(map(str, used), proposal.left_out.tolist(), strict=True)),
            "rank_correlation": rank_correlation(proposal, found.losses),
        },
        "proposal": {
            "shares": named(proposal.shares),
            "intervals": dict(zip(names, proposal.intervals, strict=True)),
            "weights": dict(zip(names, in_parts(proposal.shares), strict=True)),
            "loss": proposal.loss,
            "gain": proposal.gain,
            "gain_interval": proposal.gain_interval,
            "is_better": proposal.is_better,
        },
    }
