"""The cards (README.md) of exported data and of an exported model.

Data: what it is, the funnel that it came through, its sources and settings. The card begins with the YAML that Hugging
Face reads. By its ``configs`` ``datasets.load_dataset(FOLDER)`` finds the files of the formats in CONFIGURED.

Model: what it is, what it was trained on and how, and its scores.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.metrics_file import metrics_path, read_metrics
from headrace.pipeline.documents.lookup import whole
from headrace.pipeline.report.formatting import decimal, short, visible
from headrace.pipeline.report.funnel import dropped, funnel
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import Run
from headrace.train.checkpoint.store import read_state
from headrace.train.scores import Scores

CARD = "README.md"
CONFIGURED = {"jsonl": "jsonl.zst", "parquet": "parquet"}
"""The formats that ``load_dataset`` opens, and the suffixes of their files."""
SIZES = (("n<1K", 10**3), ("1K<n<10K", 10**4), ("10K<n<100K", 10**5), ("100K<n<1M", 10**6), ("1M<n<10M", 10**7))
LARGEST = "n>10M"
SHOWN = 20
"""The most files, values of a licence, and items of a setting, that are listed."""
CELL_CHARACTERS = 200
LANGUAGES = 50
PACKAGES = ("headrace", "datatrove", "tokenizers", "pyarrow")
"""The packages whose versions are stated, as far as they are installed."""


@dataclasses.dataclass(frozen=True)
class Exported:
    """The content of an export."""

    stage: str
    address: str
    kind: str
    """``documents``, ``dropped``, or ``sequences``."""
    form: str
    parts: Mapping[str, int]
    """The number of documents or sequences in each folder of ``data/``; "" is that folder itself."""
    columns: Mapping[str, str]
    """The names and types of the columns."""
    notes: Sequence[str] = ()
    """Further facts, a sentence each."""
    licences: Mapping[str, "Counter[str]"] = dataclasses.field(default_factory=dict)
    """The values of each column for a licence, with the number of documents."""
    split_by: str = ""


def dataset_card(
    name: str, exported: Exported, artifacts: Mapping[str, Artifact], versions: Mapping[str, str] | None = None
) -> str:
    """Returns the card of ``exported``, which was made from ``artifacts`` of the run ``name``.

    ``versions`` are those of the packages that made it, by default the installed ones.
    """
    known = installed() if versions is None else versions
    stated = {package: known.get(package, "not installed") for package in PACKAGES}
    return "\n".join(_dataset_lines(name, exported, artifacts, stated)) + "\n"


def _dataset_lines(
    name: str, exported: Exported, artifacts: Mapping[str, Artifact], versions: Mapping[str, str]
) -> Iterator[str]:
    yield from _front_matter(name, exported, artifacts)
    yield from ("", f"# {visible(name, CELL_CHARACTERS)}", "")
    yield f"The {exported.kind} of `{exported.stage}/{exported.address}`, made with Headrace, as {exported.form}."
    yield from exported.notes
    yield from ("", *table(("part", exported.kind), ((part or "all", f"{n:,}") for part, n in exported.parts.items())))
    if exported.columns:
        yield from ("", "## Columns", "", *table(("column", "type"), exported.columns.items()))
    yield from _funnel(artifacts)
    yield from _sources(artifacts, exported.licences)
    yield from ("", "## Settings", "", "The settings of each stage that differ from their defaults.", "", "```json")
    settings = {stage: _short(artifacts[stage].manifest["hashed"]) for stage in artifacts}
    yield from (json.dumps(settings, ensure_ascii=False, indent=1, sort_keys=True).replace("```", "'''"), "```")
    yield from ("", "## Versions", "", *table(("package", "version"), versions.items()))
    yield from ("", "SHA256SUMS has the checksum of every file: `sha256sum -c SHA256SUMS`.")


def _short(value: Any) -> Any:
    """Returns settings without the items of long lists, such as words."""
    if isinstance(value, dict):
        return {key: _short(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in value] if len(value) <= SHOWN else f"{len(value):,} items"
    return value


def _front_matter(name: str, exported: Exported, artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    """Yields the YAML. Its texts are JSON, which YAML includes."""
    total = sum(exported.parts.values())
    size = next((label for label, bound in SIZES if total < bound), LARGEST)
    yield from ("---", f"pretty_name: {json.dumps(name)}", "tags: [headrace]", f"size_categories: [{size}]")
    if languages := languages_of(artifacts):
        yield f"language: {json.dumps(languages)}"
    if suffix := CONFIGURED.get(exported.form):
        configs = dict(_configs(exported, suffix))
        yield f"configs: {json.dumps([{'config_name': name, 'data_files': files} for name, files in configs.items()])}"
        if exported.form == "jsonl":  # a file of JSON does not state the type of a column without values
            features = [{"name": column} | _feature(kind) for column, kind in exported.columns.items()]
            yield f"dataset_info: {json.dumps([{'config_name': name, 'features': features} for name in configs])}"
    yield "---"


def _configs(exported: Exported, suffix: str) -> Iterator[tuple[str, list[dict[str, str]]]]:
    """Yields a configuration with all parts: its name, and the files of its splits.

    The values of a column are further configurations, other parts are splits.
    """
    if not exported.split_by:
        yield "default", [_data_files(part or "train", part, suffix) for part in exported.parts]
        return
    above = dict.fromkeys(part.rpartition("/")[0] for part in exported.parts)
    yield "default", [_data_files(split or "train", f"{split}/*".lstrip("/"), suffix) for split in above]
    values = dict.fromkeys(part.rpartition("/")[2] for part in exported.parts)
    for number, value in enumerate(values):
        parts = {split: f"{split}/{value}".lstrip("/") for split in above}
        files = [_data_files(split or "train", part, suffix) for split, part in parts.items() if part in exported.parts]
        yield _config_name(value, number), files


def _data_files(split: str, folder: str, suffix: str) -> dict[str, str]:
    return {"split": split, "path": "/".join(filter(None, ("data", folder, f"*.{suffix}")))}


def _feature(kind: str) -> dict[str, Any]:
    """Returns a type of Arrow as YAML of ``datasets`` has it."""
    if inner := re.fullmatch(r"list<\w+: (.*)>", kind):
        feature = _feature(inner[1])
        return {"list": feature.get("dtype", feature)}
    return {"dtype": "float64" if kind == "double" else kind}


def _config_name(part: str, number: int) -> str:
    """Returns the name of a part that ``datasets`` allows as one of a configuration."""
    allowed = not set(part) & set('<>:/\\|?*%"') and part != "default"
    return part if allowed else f"part_{number}"


def languages_of(artifacts: Mapping[str, Artifact]) -> list[str]:
    """Returns the codes of the languages that cleaning counted, the most frequent first."""
    counts = artifacts["clean"].counts if "clean" in artifacts else Counter()
    languages = Counter({key.partition(":")[2]: n for key, n in counts.items() if key.startswith("language:")})
    return [code for code, _ in languages.most_common(LANGUAGES) if code.isascii() and code.isalpha() and len(code) < 4]


def _funnel(artifacts: Mapping[str, Artifact]) -> Iterator[str]:
    stages = funnel(artifacts)
    if not stages:
        return
    yield from ("", "## Funnel", "")
    numbers = ((stage.stage, f"{stage.read:,}", f"{stage.dropped.total():,}", f"{stage.kept:,}") for stage in stages)
    yield from table(("stage", "read", "dropped", "kept"), numbers)
    rules = [(rule.stage, rule.rule, f"{rule.dropped:,}") for stage in stages for rule in stage.rules]
    if rules:
        yield from ("", *table(("stage", "rule", "dropped"), rules))


def _sources(artifacts: Mapping[str, Artifact], licences: Mapping[str, "Counter[str]"]) -> Iterator[str]:
    yield from ("", "## Sources", "")
    files = [
        (stage, file["name"], f"{file['bytes']:,}")
        for stage, artifact in artifacts.items()
        for file in artifact.manifest.get("raw_files", [])
    ]
    if files:
        yield from table(("stage", "file", "bytes"), files[:SHOWN])
        yield from (f"{len(files) - SHOWN:,} further files.",) * (len(files) > SHOWN)
    else:
        yield "No files from outside."
    if not licences:
        yield from ("", "No column states a licence: the terms of the sources apply.")
    for column, values in licences.items():
        yield from ("", f"Licences, from the column `{column}`:", "")
        yield from table(("licence", "documents"), ((value, f"{n:,}") for value, n in values.most_common(SHOWN)))


def installed() -> dict[str, str]:
    """Returns the versions of PACKAGES that are installed."""
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yields a table in Markdown."""
    yield f"| {' | '.join(names)} |"
    yield "|---" * len(names) + "|"
    for row in rows:
        yield "| " + " | ".join(visible(value, CELL_CHARACTERS).replace("|", "\\|") for value in row) + " |"


OF_STACK = {
    "decoder": "AutoModelForCausalLM",
    "encoder": "AutoModelForMaskedLM",
    "encoder_decoder": "AutoModelForSeq2SeqLM",
    "discriminator": "AutoModelForPreTraining",
}
"""``model.stack`` → the class of ``transformers`` that opens the folder."""


def model_card(run: Run, weights: PlannedStage, paths: Mapping[int, Path], ema: bool) -> str:
    """Returns the card of the weights in the checkpoints ``paths`` (step → folder) of the training ``weights``.

    ``ema``: they are moving averages.
    """
    return "\n".join(_model_lines(run, weights, paths, ema)) + "\n"


def _model_lines(run: Run, weights: PlannedStage, paths: Mapping[int, Path], ema: bool) -> Iterator[str]:
    config, last = run.config, max(paths)
    state = read_state(paths[last])
    what = f"step {last:,}" if len(paths) == 1 else f"the average of the steps {', '.join(map(str, paths))}"
    if ema:
        what += f" (a moving average, decay {config.optimizer.ema_decay:g})"
    yield from ("---", "library_name: transformers", "tags: [headrace]", "---", "", f"# {run.label}", "")
    yield f"The weights of {what} of the training `weights/{weights.address}`, made with Headrace."
    yield from ("", "    from transformers import AutoTokenizer, " + OF_STACK[config.model.stack], "")
    yield f"    model = {OF_STACK[config.model.stack]}.from_pretrained(FOLDER)"
    yield "    tokenizer = AutoTokenizer.from_pretrained(FOLDER)"
    yield from ("", "## Training", "", "| | |", "|---|---|")
    facts = {
        "objective": config.objective.type,
        "steps": f"{last:,}",
        "rows": f"{state.rows_seen:,} of {config.packing.row_tokens:,} positions",
        "tokens seen": short(state.tokens_seen),
        "optimizer": f"{config.optimizer.type}, learning rate {config.optimizer.learning_rate:g}",
        "schedule": config.schedule.type,
        "precision": config.training.precision,
        **(_losses(weights.folder, last) if len(paths) == 1 and not ema else {}),
    }
    yield from (f"| {fact} | {value} |" for fact, value in facts.items())
    for origin in state.origins:
        yield f"| goes on from | step {origin['step']:,} of `weights/{origin['weights']}` |"
    yield from ("", "## Data", "", "| | |", "|---|--:|")
    artifacts = whole(run.stages)
    for stage in run.stages:
        if stage.name in artifacts:
            counts = artifacts[stage.name].counts
            yield from (
                f"| {label} | {counts[key]:,} |" for key, label in stage.stage.card_counts.items() if key in counts
            )
    if "clean" in artifacts and (rules := dropped(artifacts["clean"].counts)):
        yield from ("", "## Rules of cleaning", "", "| rule | documents dropped |", "|---|--:|")
        yield from (f"| {_escaped(rule)} | {number:,} |" for rule, number in sorted(rules.items()))
    if Scores.name in artifacts and not ema and len(paths) == 1 and last == config.training.steps:
        scores = artifacts[Scores.name].path("scores.md").read_text(encoding="utf-8")
        yield from ("", "## Scores", "", scores.rstrip())


def _escaped(text: str) -> str:
    """Returns ``text`` as a cell of a Markdown table."""
    return text.replace("|", "\\|")


def _losses(folder: Path, last: int) -> dict[str, str]:
    """Returns the losses that were logged last up to the step ``last``."""
    losses: dict[str, str] = {}
    for row in read_metrics(metrics_path(folder)):
        if row["step"] <= last:
            named = {"loss": "training loss", "validation_loss": "validation loss", "bits_per_byte": "bits per byte"}
            losses |= {label: decimal(row[key]) for key, label in named.items() if key in row}
    return losses
