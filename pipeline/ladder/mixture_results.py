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
from headrace.pipeline.ladder.figures import mixture_figures
from headrace.pipeline.ladder.ladder_results import MAX_EPOCHS
from headrace.pipeline.ladder.mixing_law import Floats, Proposal, least_trainings, propose, rank_correlation
from headrace.pipeline.ladder.proxies import (
    ProxySearch,
    ProxyTraining,
    in_parts,
    proxy_trainings,
    shares_of,
    weight_overrides,
)
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact, show_lines
from headrace.pipeline.series.trainings import DONE
from headrace.pipeline.tracking.settings import grouped
from headrace.train.cost.flops import Compute

TextTable = list[list[str]]


@dataclasses.dataclass(frozen=True)
class MixtureFindings:
    """All that follows from the finished trainings of a search."""

    search: ProxySearch
    trainings: Sequence[ProxyTraining]

    @property
    def used(self) -> list[tuple[ProxyTraining, Floats]]:
        """The finished trainings that learned more than chance, with their losses by source."""
        chance = math.log(self.search.config.vocabulary)
        done = [(training, training.losses) for training in self.trainings if training.losses is not None]
        return [(training, losses) for training, losses in done if losses @ self.search.target < chance]

    @property
    def shares(self) -> Floats:
        """The mixtures of the used trainings, (trainings, sources)."""
        return np.stack([training.proxy.shares for training, _ in self.used])

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
    findings = MixtureFindings(wanted, trainings)
    if any(training.losses is not None for training in trainings) and not findings.used:
        raise TaskError("mixtures", "no training is better than chance", "train on more tokens, or at another rate")
    proposal = findings.proposal()
    tables = [("trainings", "Trainings", trainings_table(findings, proposal))]
    tables += [] if proposal is None else [("weights", "Weights", weights_table(findings, proposal))]
    for _, _, table in tables:
        show_lines(table[0], table[1:])
        print()
    results = list(results_of(findings, proposal))
    notes = list(notes_of(findings, proposal))
    terminal.show(results)
    if notes:
        print("", *notes, sep="\n")

    def page_values() -> dict[str, object]:
        lede = f"Headrace mixtures: {len(trainings)} trainings on {len(wanted.names)} sources"
        values = {"title": wanted.config.name or "Mixtures", "lede": lede, "facts": results, "notes": notes}
        drawn = [] if proposal is None else mixture_figures(wanted, proposal, findings.losses)
        return values | {"figures": drawn, "tables": tables}

    write_files(json_file, as_json(findings, proposal), page, page_values)
    if errors:
        raise errors[0]


def trainings_table(findings: MixtureFindings, proposal: Proposal | None) -> TextTable:
    """Returns the shares, losses and states of the trainings, below a header."""
    names = findings.search.names
    head = ["training", *names, *(f"loss of {name}" for name in names), "loss", "by the law", "state"]
    predicted: dict[int, float] = {}
    if proposal is not None:
        predicted = {
            training.proxy.number: loss for (training, _), loss in zip(findings.used, proposal.left_out, strict=True)
        }
    rows = []
    for training in findings.trainings:
        number = training.proxy.number
        losses = ["–"] * (len(names) + 1)
        if training.losses is not None:
            losses = [f"{loss:.4f}" for loss in (*training.losses, training.losses @ findings.search.target)]
        law = f"{predicted[number]:.4f}" if number in predicted else "–"
        shares = [f"{share:.3f}" for share in training.proxy.shares]
        rows.append([{0: "given"}.get(number, str(number)), *shares, *losses, law, training.state])
    return [head, *rows]


def weights_table(findings: MixtureFindings, proposal: Proposal) -> TextTable:
    """Returns the given and the proposed share of each source, below a header."""
    head = ["source", "given", "proposed", "95 % interval", "measured"]
    given, shares = shares_of(findings.search.given), findings.shares
    rows = [
        [
            name,
            f"{given[index]:.3f}",
            f"{proposal.shares[index]:.3f}",
            "{:.3f} to {:.3f}".format(*proposal.intervals[index]),
            f"{shares[:, index].min():.3f} to {shares[:, index].max():.3f}",
        ]
        for index, name in enumerate(findings.search.names)
    ]
    return [head, *rows]


def results_of(findings: MixtureFindings, proposal: Proposal | None) -> Iterator[Fact]:
    """Yields the loss that is minimized, the cost, and what is said of the proposed mixture."""
    config, target = findings.search.config, zip(findings.search.target, findings.search.names, strict=True)
    yield "loss", " + ".join(f"{weight:.3g} {name}" for weight, name in target if weight) + ", held-out rows"
    flops_per_training = Compute.of(
        config.model, config.vocabulary, config.packing.row_tokens, config.training, config.target_tokens
    ).flops
    yield "cost", f"{findings.search.number} trainings of {flops_per_training:.3g} FLOP"
    if proposal is None:
        return
    low, high = proposal.gain_interval
    yield "gain", f"{proposal.gain:.4f} [{low:.4f}, {high:.4f}] nats per token below the given mixture, by the law"
    yield "verdict", verdict(proposal)
    weights = in_parts(proposal.shares)
    yield "settings", " ".join(weight_overrides(weights))
    errors = proposal.left_out - findings.losses
    yield (
        "left out",
        (
            f"rank correlation {rank_correlation(proposal, findings.losses):.2f}, error"
            f" {math.sqrt(float(np.square(errors).mean())):.4f} nats, spread of the losses {findings.losses.std():.4f}"
        ),
    )


def verdict(proposal: Proposal) -> str:
    """Returns the sentence about the proposed mixture."""
    if proposal.is_better:
        return "the proposed mixture is better than the given one, at this size and length of training"
    return "no mixture is shown to be better than the given one: the interval of the gain includes 0"


def notes_of(findings: MixtureFindings, proposal: Proposal | None) -> Iterator[str]:
    """Yields sentences about trainings that are missing, and about a law that predicts badly."""
    trainings, number = findings.trainings, findings.search.number
    if left := number - sum(training.state == DONE for training in trainings):
        yield f"{left} of {number} trainings have no result yet; the same command goes on."
    if len(trainings) == 1:
        yield "The other mixtures are drawn around the shares of the sources, when the data of this run are packed."
    if without := sum(training.losses is not None for training in trainings) - len(findings.used):
        yield f"{without} trainings are not better than chance, and are left out."
    if (epochs := max((training.epochs for training in trainings), default=0.0)) > MAX_EPOCHS:
        yield (
            f"A source was read {epochs:.1f} times. Beyond about {MAX_EPOCHS} times, a repeated token is worth less"
            " than a new one (Muennighoff et al. 2023), so a longer training may need another mixture."
        )
    if proposal is None:
        least = least_trainings(len(findings.search.names))
        used = len(findings.used)
        yield f"No proposal yet: the law needs {least} different mixtures with losses, and there are {used}."
        return
    if np.square(proposal.left_out - findings.losses).mean() >= findings.losses.var():
        yield (
            "The law predicts a training that it has not seen no better than the mean of the others does. Give more"
            " or longer trainings."
        )


def as_json(findings: MixtureFindings, proposal: Proposal | None) -> dict[str, Any]:
    """Returns plain values: the trainings, the law and the proposal."""
    names = findings.search.names

    def named(values: Sequence[float] | Floats) -> dict[str, float]:
        return dict(zip(names, map(float, values), strict=True))

    trainings = [
        {
            "number": training.proxy.number,
            "shares": named(training.proxy.shares),
            "losses": None if training.losses is None else named(training.losses),
            "state": training.state,
        }
        for training in findings.trainings
    ]
    values: dict[str, Any] = {"target": named(findings.search.target), "trainings": trainings, "proposal": None}
    if proposal is None:
        return values
    exponents = {name: named(row) for name, row in zip(names, proposal.law.exponents, strict=True)}
    used = [training.proxy.number for training, _ in findings.used]
    return values | {
        "law": {"floors": named(proposal.law.floors), "exponents": exponents},
        "left_out": {
            "losses": dict(zip(map(str, used), proposal.left_out.tolist(), strict=True)),
            "rank_correlation": rank_correlation(proposal, findings.losses),
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
