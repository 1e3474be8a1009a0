"""TRAINING_CONTENT.md: the public summary of training content, by the template of the European Commission.

Source: the template of 24 July 2025 for Article 53(1)(d) of Regulation (EU) 2024/1689; its sections have the same
numbers here. What a run does not know is for the provider to state in a document of its own, and is named as open.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from headrace.data_prep.sources.html import MODEL_FILE
from headrace.data_prep.texts import Texts
from headrace.pipeline.papers.cards import languages_of, table
from headrace.pipeline.papers.page_samples import STATED, page_statements
from headrace.pipeline.papers.release_folder import Release
from headrace.pipeline.report.formatting import visible
from headrace.pipeline.report.funnel import DROPPED
from headrace.train.weights import Weights

OPEN = "Open: to be stated by the provider."
NOT_USED = "None."
RANGES = ((10**9, "less than 1 billion tokens"), (10**13, "1 billion to 10 trillion tokens"))
LARGEST = "more than 10 trillion tokens"
SECTIONS = {
    "2.1": "Publicly available datasets",
    "2.2": "Private datasets of third parties",
    "2.3": "Data crawled and scraped from online sources",
    "2.4": "User data",
    "2.5": "Synthetic data",
    "2.6": "Other sources",
}
UNKNOWN = "2.6"
SOURCES = {"warc": "2.3", "html": "2.3", "synthetic": "2.5"}
"""Kind of source → its section. Files of other kinds may be any data: they are in section UNKNOWN."""
OPT_OUTS = ("robots", "licence", "allowed_domains", "allowed_urls", "blocked_domains")
"""The filters that apply reservations, terms and lists of sites."""
LEAST_SHARE = 10
"""The domains that are listed are one of so many, those with most text (section 2.3 of the template)."""
MOST_HOSTS = 1_000
VALUES = 20


def training_content(release: Release) -> str:
    """Returns the summary.

    Raises:
        ArtifactError: when the documents are neither in the release nor below its root.
    """
    return "\n".join(_lines(release)) + "\n"


def _lines(release: Release) -> Iterator[str]:
    yield from ("# Public summary of training content", "")
    yield "Article 53(1)(d) of Regulation (EU) 2024/1689, by the template of 24 July 2025."
    yield from _general(release)
    yield from ("", "## 2. Sources of data")
    for number, title in SECTIONS.items():
        yield from ("", f"### {number} {title}", "", *_section(release, number))
    yield from _processing(release)


def _general(release: Release) -> Iterator[str]:
    config, facts = release.run.config, page_statements(release)
    weights = release.artifacts[Weights.name]
    initial = config.training.initial_weights
    tokens = release.artifacts["tokens"].counts["tokens"]
    size = next((text for bound, text in RANGES if tokens < bound), LARGEST)
    languages = ", ".join(languages_of(release.artifacts)) or "not identified by the run"
    yield from ("", "## 1. General information", "", "### 1.1 Provider", "", release.facts["provider"] or OPEN)
    yield from ("", "### 1.2 Model", "", f"{release.run.label}, weights/{weights.folder.name}.")
    yield f"It goes on from {Path(initial).name}." if initial else "It goes on from no other model."
    yield f"Date of placement on the market: {OPEN[0].lower()}{OPEN[1:]}"
    yield from ("", "### 1.3 Modalities and size", "", "Modality: text.")
    yield f"Size: {size}; {tokens:,} tokens and {facts.documents:,} documents were selected for training."
    yield f"Tokens that the training read, repetitions included: {weights.counts['target_tokens']:,}."
    yield f"Languages: {languages}."
    yield f"Latest date of a record: {visible(facts.latest_date, VALUES) or 'the source states none'}."


def _section(release: Release, number: str) -> Iterator[str]:
    stage, config = release.stage(Texts.name).stage, release.run.config
    assert isinstance(stage, Texts)
    own = SOURCES.get(stage.source.type, UNKNOWN)
    if number == "2.5" and config.distillation.teacher is not None:
        yield f"The model also learns from the outputs of {Path(config.distillation.teacher).name}."
    if number == "2.6" and config.mixture.sources:
        yield f"Rows of other runs: {_mixture(release.artifacts[Weights.name].settings['mixture'])}."
    if number != own:
        yield OPEN if own == UNKNOWN else NOT_USED
        return
    files = [file for file in release.artifacts[Texts.name].manifest["raw_files"] if file["name"] != MODEL_FILE]
    yield f"Files of the source `{stage.source.type}`: {len(files):,}, named in REPRODUCE.md and the manifest of texts."
    if own == UNKNOWN:
        yield f"What these files are: {OPEN[0].lower()}{OPEN[1:]}"
    if hosts := page_statements(release).host_bytes:
        shown = hosts.most_common(min(MOST_HOSTS, -(-len(hosts) // LEAST_SHARE)))
        yield from ("", f"The {len(shown):,} of {len(hosts):,} domains with most text:", "")
        yield from table(("domain", "bytes of text"), ((host, f"{size:,}") for host, size in shown))


def _mixture(mixture: Mapping[str, Any]) -> str:
    """Returns the sources of a mixture with their addresses and first weights."""
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


def _processing(release: Release) -> Iterator[str]:
    facts = page_statements(release)
    yield from ("", "## 3. Processing of data", "", "### 3.1 Reservation of rights", "")
    applied = list(_opt_outs(release))
    if applied:
        yield from ("Opt-outs and lists that were applied, with the documents that they dropped:", "")
        yield from table(("rule", "documents dropped"), applied)
    else:
        yield "The cleaning has no rule for opt-outs."
    yield from ("", f"What the {facts.documents:,} documents that remain state of themselves:", "")
    rows = ((name, value, number) for name in STATED for value, number in facts.stated[name].most_common(VALUES))
    yield from table(
        ("statement", "value", "documents"), ((name, value, f"{number:,}") for name, value, number in rows)
    )
    yield from ("", "### 3.2 Removal of illegal content", "")
    yield f"Measures against illegal content: {OPEN[0].lower()}{OPEN[1:]}"
    yield from ("Rules of cleaning, with the documents that they dropped:", "")
    yield from table(("rule", "documents dropped"), _rules(release))
    yield from ("", "### 3.3 Further information", "", "README.md, samples/ and REPRODUCE.md.")


def _dropped(release: Release) -> "Counter[str]":
    counts = release.artifacts["clean"].counts
    return Counter({key.removeprefix(DROPPED): number for key, number in counts.items() if key.startswith(DROPPED)})


def _opt_outs(release: Release) -> Iterator[tuple[str, str]]:
    """Yields the filters of OPT_OUTS that the cleaning has, and how many documents each dropped."""
    dropped = _dropped(release)
    for own in release.run.config.cleaning.filters:
        if own.type in OPT_OUTS:
            number = sum(number for rule, number in dropped.items() if rule.partition(".")[0] == own.type)
            yield own.type, f"{number:,}"


def _rules(release: Release) -> Iterator[tuple[str, str]]:
    yield from ((rule, f"{number:,}") for rule, number in _dropped(release).most_common())
