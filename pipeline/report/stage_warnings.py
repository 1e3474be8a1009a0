"""Warnings about a finished stage that lost nearly everything, or text: one sentence each, from its counts alone.

    clean: language dropped 149 of 150 documents (99.3 %); for example pages.jsonl:0 (language: 'de 1.0000'), 'Der …'
    tokens: 216 of 9,876 tokens (2.2 %) stand for characters that the tokenizer does not have; give one that falls …
    texts: none of 9 records is left, dropped by no_text 9; for example pages.jsonl:0 (no_text: "field 'text' is …")

They are printed when the stage ends, by ``headrace status``, below the funnel and on the report. A stage that needs
documents does not start without any: the run ends with the same sentence.
"""

import contextlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.stage import DOCUMENT_COUNTS
from headrace.pipeline.report.formatting import percent, visible
from headrace.pipeline.report.funnel import StageFunnel

RULES_SHOWN = 6
MOST_DROPPED = 0.99
"""A filter that drops a larger fraction of its documents is probably set wrong."""
FEWEST_JUDGED = 100
"""A filter that judged fewer documents may drop them all."""
HARD_WRAPPED = "hard_wrapped"
"""The beginning of the counts of hard-wrapped documents, before the rule."""
MOST_WRAPPED = 0.1
"""A larger fraction of hard-wrapped documents gives a warning: web pages have 2 %, newswire 70 % (docs/filters.md)."""
FOREIGN = "foreign:"
"""The beginning of the counts of documents that a rule for English judged in another language."""
BY_LANGUAGE = "cleaning=multilingual has values for each language"
UNWRAP = "to join such lines first, give source.unwrap=true"
OWN = ("python", "datatrove")
"""Types of filters whose reasons begin with the type and the name of a class."""
SHARDS_READ, DOCUMENTS_READ = 8, 1_000
"""The shards, and the documents of each, that are searched for an example."""
MOST_UNKNOWN = 0.001
"""A larger fraction of unknown tokens gives a warning: they are text that a model never sees."""
UNRANKED = {"undated": "date such as 2024-06-01 in metadata.date", "unscored": "number in metadata.{score}"}
"""The value by which ``dedup.keep`` decides, in words, by the count of documents that lack it."""
VALUE_CHARACTERS, TEXT_CHARACTERS = 60, 60


def warnings(stage: str, artifact: Artifact) -> list[str]:
    """Returns the warnings about the finished ``stage``; none about one that keeps enough."""
    if stage == "duplicates":
        return [f"{stage}: {without_value(artifact, name)}" for name in UNRANKED if artifact.counts[name]]
    if stage == "tokens":
        return unknown(artifact)
    if artifact.counts["not_converged"]:
        return [f"{stage}: the training did not converge; give a lower classifier.training.cost"]
    if stage not in DOCUMENT_COUNTS:
        return []
    is_loss = is_empty(stage, artifact)
    texts = [loss(stage, artifact)] if is_loss else []
    for judgement in judged(stage, artifact):
        texts += [] if is_loss else [share_text(stage, artifact, *judgement)]
        texts.append(wrapping(artifact, *judgement))
    return [f"{stage}: {text}" for text in (*texts, foreign(artifact), repeated(artifact)) if text]


def unknown(artifact: Artifact) -> list[str]:
    """Returns that many of the ``tokens`` stand for text without a token of its own; none if few do."""
    number, tokens = artifact.counts["unknown_tokens"], artifact.counts["tokens"]
    if number <= MOST_UNKNOWN * tokens:
        return []
    share = f"{number:,} of {tokens:,} tokens ({percent(number / tokens)})"
    return [f"tokens: {share} stand for characters that the tokenizer does not have; give one that falls back to bytes"]


def without_value(artifact: Artifact, name: str) -> str:
    """Returns how many documents have no date or score, counted as ``name``, that ``dedup.keep`` can read."""
    number, documents = artifact.counts[name], artifact.counts["documents"]
    lacks = UNRANKED[name].format(**artifact.settings["preference"])
    return f"{number:,} of {documents:,} documents have no {lacks}; for dedup.keep they come after all with one"


def is_empty(stage: str, artifact: Artifact) -> bool:
    """Whether ``stage`` drops documents and kept none."""
    return stage in DOCUMENT_COUNTS and not artifact.counts["kept"]


def loss(stage: str, artifact: Artifact) -> str:
    """Returns how ``stage``, which kept nothing, lost its documents: by which rules, with an example."""
    funnel = StageFunnel.of(stage, artifact)
    if not funnel.read:
        return f"there are no {funnel.names.unit}"
    example_shown = example(artifact, most_frequent(funnel.dropped))
    return f"none of {funnel.read:,} {funnel.names.unit} is left, dropped {by_rule(funnel.dropped)}{example_shown}"


def share_text(stage: str, artifact: Artifact, name: str, read: int, drops: "Counter[str]") -> str:
    """Returns what the filter ``name``, or all of a stage, dropped if it is too much, else an empty text."""
    if read < FEWEST_JUDGED or drops.total() <= MOST_DROPPED * read:
        return ""
    share = f"{drops.total():,} of {read:,} {DOCUMENT_COUNTS[stage].unit} ({percent(drops.total() / read)})"
    rule = most_frequent(drops)
    rules = "" if rule == name else f", {by_rule(drops)}"
    return (f"{name} dropped {share}" if name else f"{share} were dropped") + rules + example(artifact, rule)


def wrapping(artifact: Artifact, name: str, read: int, drops: "Counter[str]") -> str:
    """Returns that the filter ``name`` removed lines of many hard-wrapped documents, else an empty text."""
    hard_wrapped = {key: number for key, number in artifact.counts.items() if key.startswith(f"{HARD_WRAPPED}:{name}.")}
    for key, number in hard_wrapped.items():
        if number > MOST_WRAPPED * read:
            share = f"{number:,} of {read:,} documents ({percent(number / read)})"
            rule = key.removeprefix(f"{HARD_WRAPPED}:")
            return f"{rule} removed lines of {share} that go on in the next line: they are hard-wrapped; {UNWRAP}"
    return ""


def foreign(artifact: Artifact) -> str:
    """Returns the rules for English that judged documents in other languages, else an empty text."""
    rules, languages = Counter[str](), Counter[str]()
    for key, number in artifact.counts.items():
        if key.startswith(FOREIGN):
            rule, _, language = key.removeprefix(FOREIGN).rpartition(":")
            rules[rule] += number
            languages[language] = max(languages[language], number)
    if not rules:
        return ""
    named = ", ".join(f"{language} {number:,}" for language, number in languages.most_common(RULES_SHOWN))
    return f"rules for English judged documents in other languages ({named}), {by_rule(rules)}; {BY_LANGUAGE}"


def repeated(artifact: Artifact) -> str:
    """Returns how many kept records have one name twice, else an empty text."""
    number, kept = artifact.counts["repeated_names"], artifact.counts["kept"]
    if not number:
        return ""
    share = f"{number:,} of {kept:,} records have one name twice in an object of JSON"
    return f"{share}; the last value was read, and metadata.repeated_names has the names"


def judged(stage: str, artifact: Artifact) -> Iterator[tuple[str, int, "Counter[str]"]]:
    """Yields the name of each filter of ``clean``, the number of documents that it judged, and what it dropped by rule.

    A filter judges what the filters before it kept. Another stage is one filter without a name.
    """
    funnel = StageFunnel.of(stage, artifact)
    left, drops = funnel.read, funnel.dropped
    if stage != "clean":
        yield "", left, drops
        return
    for name in dict.fromkeys(map(reason_of, artifact.settings["cleaning"]["filters"])):
        own = Counter({rule: number for rule, number in drops.items() if f"{rule}.".startswith(f"{name}.")})
        yield name, left, own
        left -= own.total()


def reason_of(entry: Mapping[str, Any]) -> str:
    """Returns the first part of the reasons of the filter whose settings are ``entry``."""
    kind = str(entry["type"])
    return f"{kind}.{re.split('[.:]', str(entry['path']))[-1]}" if kind in OWN else kind


def example(artifact: Artifact, rule: str) -> str:
    """Returns the first document that ``rule`` dropped: its id, the value of the drop, the beginning of its text."""
    row = next(_dropped_by(artifact, rule), None)
    if row is None:
        return ""
    value = visible(str(row["metadata"]["drop"].get("value", "")), VALUE_CHARACTERS)
    text = visible(" ".join(row["text"].split()), TEXT_CHARACTERS)
    return f"; for example {visible(row['id'], 200)} ({rule}: {value!r})" + (f", {text!r}" if text else "")


def _dropped_by(artifact: Artifact, rule: str) -> Iterator[dict[str, Any]]:
    """Yields documents that ``rule`` dropped. Only the beginnings of a few shards are read, so they are not verified.

    A shard that was removed or damaged since has none.
    """
    import orjson  # not needed without a warning

    from headrace.pipeline.core.text_files import read_lines

    names = sorted(name for name in artifact.manifest["files"] if name.startswith("dropped/"))
    for path in (Path(artifact.folder, name) for name in names[:SHARDS_READ]):
        with contextlib.suppress(OSError, ArtifactError, orjson.JSONDecodeError):
            for line in itertools.islice(read_lines(path), DOCUMENTS_READ):
                row = orjson.loads(line)
                if row["metadata"]["drop"]["rule"] == rule:
                    yield row


def most_frequent(drops: "Counter[str]") -> str:
    """Returns the rule that dropped most documents, the first by name of several; empty without drops."""
    return min(drops, key=lambda rule: (-drops[rule], rule), default="")


def by_rule(drops: "Counter[str]") -> str:
    """Returns the rules that dropped most documents, with the numbers, as text; empty without drops."""
    rules = [f"{rule} {number:,}" for rule, number in drops.most_common()]
    more = [f"{len(rules) - RULES_SHOWN} more"] if len(rules) > RULES_SHOWN else []
    return f"by {', '.join(rules[:RULES_SHOWN] + more)}" if rules else ""


def all_warnings(artifacts: Mapping[str, Artifact]) -> Sequence[str]:
    """Returns the warnings about all finished stages ``artifacts``, without those that follow from an empty stage."""
    texts: list[str] = []
    for stage, artifact in artifacts.items():
        texts += warnings(stage, artifact)
        if is_empty(stage, artifact):
            break
    return texts
