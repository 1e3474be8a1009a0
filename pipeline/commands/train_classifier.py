"""``headrace train-classifier``: a classifier of texts, for the filter ``linear_classifier``, from labelled texts.

headrace train-classifier hq:good.jsonl cc:crawl.parquet      writes classifier.model
headrace train-classifier keep:run:first:kept drop:run:first:dropped      what clean of a run kept and dropped
headrace train-classifier pages.jsonl --label-field topic     several classes: each text has its label in a field
headrace train-classifier train.txt --characters 3-5          lines of fastText: __label__hq a text
headrace train-classifier hq:good.jsonl cc:bad.jsonl source=jsonl source.text_field=content

The classifier is linear, over hashed n-grams, and trained by scikit-learn; --workers changes no result. A share of the
texts, --held-out, chosen by the hash of their ids, trains nothing and judges it. Near duplicates may be in both parts:
remove duplicates first.

For each threshold: the share of the held-out texts that is kept, precision, and the shares of the class and of the
other texts that are kept. --json writes all of it, with the n-grams that are most distinctive of each class.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from headrace.data_prep.classifiers.labelled_texts import (
    KINDS,
    READERS,
    SETTING,
    ExampleSet,
    RunExamples,
    all_examples,
    with_source,
)
from headrace.data_prep.classifiers.linear_training import CountedSample, LinearTraining, TrainedClassifier
from headrace.data_prep.sources.files import FileSource
from headrace.pipeline.command_line.declaration import NewFile, command
from headrace.pipeline.command_line.request import config_of, run_of
from headrace.pipeline.command_line.result_files import write_bytes, write_files
from headrace.pipeline.configuration.options import setting_of
from headrace.pipeline.core.errors import ConfigError, suggestion
from headrace.pipeline.core.extras import require
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.statistics import Estimate
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.output import terminal
from headrace.pipeline.output.terminal import Fact

RUN = "run:"
NAMES = {SETTING: "EXAMPLES", f"{SETTING}.label_field": "--label-field", "source.paths": "EXAMPLES"}
"""The arguments of the command, by the settings of a run that they are here."""
DISTINCTIVE = 10
"""N-grams of a class that are printed."""


@command
@click.argument("examples", metavar="EXAMPLES...", nargs=-1, required=True)
@click.option("--out", metavar="FILE", type=NewFile(), default="classifier.model", help="The file to write.")
@click.option("--label-field", metavar="NAME", default="", help="The field with the label of a text.")
@click.option("--words", metavar="NUMBER", default="2", help="The longest n-gram of words (2); 0: none.")
@click.option("--characters", metavar="LEAST-MOST", default="", help="Also n-grams of characters: 3-5.")
@click.option("--capitals", is_flag=True, help="Capitals are other letters.")
@click.option("--bucket-bits", metavar="NUMBER", default="20", help="2 to this power buckets for n-grams (20).")
@click.option("--cost", metavar="NUMBER", default="1", help="Weight of errors against that of large weights (1).")
@click.option("--held-out", metavar="SHARE", default="0.2", help="The share of texts that judge (0.2).")
@click.option("--seed", metavar="SEED", default="0", help="Seed of the parts (0).")
@click.option("--workers", default=2, show_default=True, help="Threads that count n-grams.")
@click.option("--json", "json_file", metavar="FILE", type=NewFile(), help="Write the judgement as JSON, too.")
def train_classifier(
    overrides: Sequence[str], examples: Sequence[str], out: Path, label_field: str, words: str, characters: str,
    capitals: bool, bucket_bits: str, cost: str, held_out: str, seed: str, workers: int, json_file: Path | None,
) -> None:  # fmt: skip
    """Trains a linear classifier of texts on labelled EXAMPLES, and judges it on texts that it did not see."""
    if workers < 1:
        raise ConfigError("--workers", f"is {workers}", "give at least 1")
    least, dash, most = characters.partition("-")
    lengths = [least, most if dash else least] if characters else None
    ngrams = {"words": words, "bucket_bits": bucket_bits, "fold": not capitals, "characters": lengths}
    require("train-classifier", "sklearn")
    values = {"ngrams": ngrams, "cost": cost, "held_out": held_out, "seed": seed}
    training, left_out = decode(LinearTraining, values, "command line"), Counter[str]()
    source = source_of(overrides)
    sets = [set_of(argument, label_field, source, overrides) for argument in examples]
    try:
        sample = CountedSample.of(all_examples(sets, left_out), training.ngrams, workers)
        made = TrainedClassifier.of(sample, training, all_examples(sets, Counter()))
    except ConfigError as error:
        raise ConfigError(NAMES.get(error.where, error.where), error.problem, error.remedy) from None
    write_bytes(out, made.model.to_bytes())
    terminal.show(facts(made, left_out, out))
    show_tables(made)
    write_files(json_file, made.values(), None, dict)


def set_of(argument: str, label_field: str, source: FileSource | None, overrides: Sequence[str]) -> ExampleSet:
    """Returns the texts that ``argument`` names: ``LABEL:FILE``, ``FILE``, or ``LABEL:run:NAME:kept``.

    Raises:
        ConfigError: when it names none.
    """
    label, colon, rest = argument.partition(":")
    if not colon or Path(argument).exists() or rest.startswith("//"):
        label, rest = "", argument
    elif not label or not rest:
        raise ConfigError("EXAMPLES", f"{argument!r} has no label or no file", "give LABEL:FILE")
    if rest.startswith(RUN) and label:
        return of_run(label, rest, overrides)
    if not label and not label_field and not rest.removesuffix(".gz").endswith(".txt"):
        raise ConfigError("EXAMPLES", f"{argument!r} has no label", "give LABEL:FILE, or --label-field NAME")
    return with_source(rest, label, label_field, source)


def of_run(label: str, argument: str, overrides: Sequence[str]) -> RunExamples:
    """Returns the texts that ``clean`` of a run kept or dropped, which ``argument``, ``run:NAME:kept``, names.

    Raises:
        ConfigError: when it names none.
    """
    name, _, kind = argument.removeprefix(RUN).rpartition(":")
    if kind not in KINDS or not name:
        raise ConfigError("EXAMPLES", f"{argument!r} names no texts of a run", "give run:NAME:kept or run:NAME:dropped")
    others = [override for override in overrides if setting_of(override) != "source"]
    clean = need("clean", run_of(others, name).stages)
    return decode(RunExamples, {"artifact": str(clean.folder), "documents": kind, "label": label}, "EXAMPLES")


def source_of(overrides: Sequence[str]) -> FileSource | None:
    """Returns the source of ``overrides``; None without one.

    Raises:
        ConfigError: when it reads no files of texts.
    """
    if not any(setting_of(override) == "source" for override in overrides):
        return None
    source = config_of(overrides).source
    if not isinstance(source, FileSource) or source.type not in READERS:
        known = ("arrow", "html", "jsonl", "parquet", "warc")
        raise ConfigError("source", f"{source.type!r} reads no files of texts", suggestion(source.type, known))
    return source


def facts(made: TrainedClassifier, left_out: "Counter[str]", out: Path) -> Iterator[Fact]:
    """Yields what was trained and how well it separates the classes."""
    model, judgement = made.model, made.judgement
    yield "trained on", ", ".join(f"{name} {number:,}" for name, number in model.about["texts"].items())
    if left_out:
        yield "left out", ", ".join(f"{rule} {number:,}" for rule, number in left_out.most_common())
    if not model.about["has_converged"]:
        yield "not converged", f"after {max(model.about['epochs'])} epochs; give a lower --cost"
    yield "held out", f"{judgement.texts:,} texts"
    if judgement.texts:
        yield "accuracy", shown(judgement.accuracy)
        yield "baseline", f"{judgement.baseline:.4f}  the most frequent class"
        yield "calibration", f"{judgement.calibration_error:.4f} expected error"
    for judged in judgement.classes[1 if len(model.classes) == 2 else 0 :]:
        if judged.texts in (0, judgement.texts):
            yield "AUC", f"none  {judged.name}: {judged.texts:,} of the {judgement.texts:,} held-out texts are of it"
        else:
            yield "AUC", f"{shown(judged.auc)}  {judged.name}, average precision {judged.average_precision:.4f}"
    yield "written", f"{out} ({out.stat().st_size:,} bytes)"


def shown(interval: Estimate) -> str:
    return f"{interval.value:.4f}  95 % interval {interval.low:.4f} to {interval.high:.4f}"


def show_tables(made: TrainedClassifier) -> None:
    """Prints the thresholds of each class, and its most distinctive n-grams."""
    for judged in made.judgement.classes:
        rows = []
        for row in judged.thresholds:
            shares = (row.share, row.precision, row.recall, row.others)
            rows.append(("", f"{row.score:.6f}", *("–" if math.isnan(share) else f"{share:.1%}" for share in shares)))
        print()
        terminal.show_rows((judged.name, "min_score", "kept", "precision", "of the class", "of the others"), rows)
        distinctive = ", ".join(f"{entry['ngram']!r}" for entry in made.ngrams[judged.name][:DISTINCTIVE])
        terminal.show([("distinctive", distinctive or "none")])
