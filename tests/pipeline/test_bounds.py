"""Every setting has its bounds beside its type: values at the edges are refused at once, or are valid."""

import dataclasses
import inspect
import math
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import pytest
from datatrove.data import Document
from pydantic import TypeAdapter, ValidationError

from headrace.data_prep.filters.filter import Filter, LineRule
from headrace.data_prep.filters.page_filter import PageRule
from headrace.data_prep.filters.page_statistics import PageStatistics
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core import setting_classes
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import STRICT, decode
from headrace.train.inference.settings import Sampling
from headrace.train.loop.schedule import Constant, Cosine, InverseSquareRoot, Linear, WarmupStableDecay
from tests.command_line import headrace_here

PAGE = "The mill stands by the river.\nIt has stood there, people say, for 300 years.\n\n- Mail: a@example.org"
EDGES = (0, -1, math.nan, math.inf, -math.inf, 2**64, "", ())

ZERO_MEANS = {
    "NgramSettings.words": "no n-grams of words",
    "LinearTraining.held_out": "no text judges",
    "RunConfig.seed": "a seed like any other",
    "LinearTraining.seed": "a seed like any other",
    "FieldSource.extra_field_bytes": "no extra field is kept",
    "CrossEntropy.z_loss": "no z-loss",
    "Distillation.soft_weight": "the tokens and the layers count",
    "Distillation.hard_weight": "the teacher alone counts",
    "Distillation.cosine_weight": "no cosine of hidden states",
    "CrossEntropy.label_smoothing": "no smoothing",
    "ModelShape.position_offset": "the table begins with position 0",
    "ModelShape.segments": "there is no embedding of segments",
    "Mixture.exponent": "the weights alone",
    "Masked.mask_share": "no token becomes the mask",
    "Masked.random_share": "no token becomes another",
    "Sampling.length_penalty": "ln p is compared as it is",
    "TextToText.length_penalty": "ln p is compared as it is",
    "TextToText.label_smoothing": "no smoothing",
    "WrittenAnswers.length_penalty": "ln p is compared as it is",
    "WrittenAnswers.seed": "a seed like any other",
    "WrittenAnswers.temperature": "greedy",
    "Sampling.seed": "a seed like any other",
    "Sampling.temperature": "greedy",
    "LanguageFilter.min_score": "no page is too unsure",
    "TextClassifier.min_score": "every page passes",
    "BadWords.filter_fraction": "no page is dropped",
    "WithoutAddresses.max_line_feeds": "addresses on one line only",
    "LongLines.min_lines": "pages of any number of lines",
    "LongLines.min_characters": "pages of any length",
    "HeldOutBenchmark.context_words": "no words before",
    "C4Lines.min_sentences": "pages of any number of sentences",
    "UniqueLines.min_sentences": "pages of any number of sentences",
    "UniqueSpans.min_sentences": "pages of any number of sentences",
    "FewWords.min_words": "lines of any number of words",
    "WordCount.min_words": "pages of any number of words",
    "WordLength.min_characters": "words of any length",
    "StopWords.min_words": "pages without stop words",
    "Symbols.max_fraction": "no symbol at all",
    "BulletLines.max_fraction": "no such line at all",
    "EllipsisLines.max_fraction": "no such line at all",
    "AlphabeticWords.min_fraction": "words of any kind",
    "DuplicateParts.max_fraction": "no repetition at all",
    "DuplicateParts.max_character_fraction": "no repetition at all",
    "TopNgram.max_fraction": "no repetition at all",
    "DuplicateNgrams.max_fraction": "no repetition at all",
    "LinePunctuation.min_fraction": "lines may end in anything",
    "ShortLines.max_fraction": "no short line at all",
    "ShortLines.max_characters": "only empty lines are short",
    "DuplicateLines.max_character_fraction": "no repetition at all",
    "LineBreaks.max_per_word": "no line break at all",
    "UppercaseLine.max_fraction": "no capital at all",
    "LineCorrections.max_removed_fraction": "no page may lose a word",
    "Dedup.seed": "a seed like any other",
    "Copies.seed": "a seed like any other",
    "Pareto.seed": "a seed like any other",
    "Copies.otherwise": "other documents are dropped",
    "Copies.texts": "documents with this text are dropped",
    "CopyStep.copies": "documents of the step are dropped",
    **dict.fromkeys(("CopyStep.at_least", "Threshold.min", "Threshold.max"), "a value like any other"),
    "Decontamination.window_characters": "the match alone",
    "ModelShape.dropout": "off",
    "Reconstruction.permute_sentences": "sentences stay in their order",
    "Reconstruction.random_share": "masks alone",
    "Reconstruction.rotate": "no document is rotated",
    "Decaying.learning_rate": "no update",
    "Decaying.weight_decay": "off",
    "RateFactors.embedding": "no update of them, or no decay",
    "RateFactors.head": "no update of them, or no decay",
    "RateFactors.matrix": "no update of them, or no decay",
    "RateFactors.vector": "no update of them, or no decay",
    "Decaying.ema_decay": "the average is the last weights",
    "TrainingConfig.ramp_steps": "no ramp",
    "Adaptive.beta1": "no memory of gradients",
    "Adaptive.beta2": "no memory of squares",
    "Muon.momentum": "no memory of gradients",
    "Muon.adamw_learning_rate": "no update of other parameters",
    "Adafactor.parameter_epsilon": "no least size",
    "Cosine.warmup_steps": "none",
    "Cosine.final_fraction": "down to nothing",
    "Linear.warmup_steps": "none",
    "Linear.final_fraction": "down to nothing",
    "WarmupStableDecay.warmup_steps": "none",
    "WarmupStableDecay.decay_fraction": "no decay",
    "WarmupStableDecay.final_fraction": "down to nothing",
    "Constant.warmup_steps": "none",
    "TrainingConfig.seed": "a seed like any other",
    "TrainingConfig.validation_rows": "no validation",
    "SourceSettings.weight": "none of its rows for now",
    "Change.weights": "none of its rows from here on",
    "Evaluation.shots": "zero-shot",
    "Evaluation.task_shots": "zero-shot",
    "Evaluation.seed": "a seed like any other",
    "FewShotBenchmark.shots": "zero-shot",
    "FewShotBenchmark.shot_seed": "a seed like any other",
    "LanguageModelling.from_byte": "from the beginning",
    "Continuations.documents": "prompts only",
    "Continuations.seed": "a seed like any other",
    "Slurm.signal_seconds": "told when it is over",
    "Slurm.gpus_per_node": "works on CPU",
    "Ray.gpus_per_node": "works on CPU",
    "Finetune.seeds": "a seed like any other",
    "Finetune.dropout": "off",
    "Finetune.warmup_fraction": "no warm-up",
    "TrainingConfig.seen_rows": "no loss of seen rows",
    "TrainingConfig.source_rows": "no loss of sources",
}
"""The numbers of which 0 is a value like any other, by class and field, and what it means there."""

NEGATIVE_MEANS = dict.fromkeys(("CopyStep.at_least", "Threshold.min", "Threshold.max"), "a value like any other")
EMPTY_MEANS = {
    "ExampleSet.label": "each text has its own",
    "ExampleSet.label_field": "the label of lines of fastText",
    "FewShotBenchmark.description": "nothing comes before the examples",
    "FieldChoice.gold": "the first choice is right",
    "FieldChoice.group": "no groups",
    "WrittenAnswers.document": "the prompt loses its beginning",
    "PiiKind.replacement": "nothing stands in its place",
    "Evaluation.data": "the current folder",
    "PythonFilter.folder": "the folders of PYTHONPATH alone",
    "PythonFilter.sentence": "the docstring of the class",
    "FewShotBenchmark.delimiter": "nothing in between",
    "FewShotBenchmark.shot_delimiter": "nothing in between",
    "FewShotBenchmark.worked_delimiter": "nothing in between",
    "FewShotBenchmark.rewrites": "matches are taken out",
    "FieldChoice.choice_rewrites": "matches are taken out",
    "MinimalPairs.delimiter": "nothing in between",
    "MultipleChoice.query_suffix": "nothing behind the question",
    "GenerationBenchmark.query_suffix": "nothing behind the question",
    "Completion.group_field": "no groups",
    "NamedFields.label": "no class",
    "NamedFields.id": "the id is file and line",
    "NamedFields.value": "no number",
    "NamedFields.gold": "no right choice",
    "NamedFields.answer": "no text to write",
    "TextToText.prefix": "no first word",
    "Conversations.template": "that of the folder, or our own",
    "NamedFields.choice_start": "the choices stand alone",
}
"""The texts that may be empty."""

NONE_MEANS = {
    "Distillation.initial_layers": "random weights, or initial ones",
    "FieldChoice.options": "the choices are the answers",
    "FieldChoice.labels": "the right choice has its index",
    "AllowedUrls.without_sites": "no site is excluded",
    "FieldChoice.worked_paths": "drawn from the file itself",
    "FieldChoice.choice_rewrites": "choices stay as they are",
    "TemplatePairs.lines": "files of fields",
    "WrittenAnswers.lines": "files of fields",
    "BadWords.allowed": "every word of the list counts",
    "Continuations.prompts": "held-out beginnings only",
    "Dedup.against": "no other corpus",
    "Dedup.preferred": "no document stays before others",
    "Evaluation.shots": "each benchmark has its own",
    "Evaluation.tasks": "no task of lm-evaluation-harness",
    "Evaluation.yaml": "no files of tasks",
    "NamedFields.choices": "no choices",
    "Robots.agents": "directives for one robot do not count",
    "NamedFields.names": "those of the fields",
    "FileSource.paths": "named where the command is typed; a run without a file is refused",
    "FewShotBenchmark.rewrites": "questions stay as they are",
    "FileTask.texts": "all texts",
    "Finetune.test": "nothing else is predicted",
    "GenerationBenchmark.stops": "the answer is as long as it may be",
    "ModelShape.dropout_places": "the common places",
    "PhoneNumber.regions": "numbers with + only",
    "PythonFilter.files": "no other file",
    "Robots.directives": "no directive reserves a page",
    "Sampling.stops": "a text is as long as it may be",
    "Slurm.data_options": "no further option",
    "Slurm.launcher": "no launcher",
    "Slurm.options": "no further option",
    "Slurm.srun_options": "no further option",
    "Slurm.train_options": "no further option",
    "TextToText.metrics": "those of the benchmark",
    "Tracking.tags": "no tag",
    "TrainingConfig.evaluate": "all benchmarks",
}
"""The lists that may be empty."""


def classes_of(hint: Any) -> list[type]:
    """The settings classes in a type hint, through Annotated, unions, tuples and mappings."""
    return [cls for cls in setting_classes.classes_of(hint) if dataclasses.is_dataclass(cls)]


def all_classes(*roots: type) -> list[type]:
    """``roots`` and every settings class that they lead to."""
    found: dict[type, None] = {}
    left = list(roots)
    while left:
        if (cls := left.pop()) not in found:
            found[cls] = None
            left += [inner for hint in hints_of(cls).values() for inner in classes_of(hint)]
    return list(found)


def hints_of(cls: type) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def owner(cls: type, field: str) -> str:
    """The class, with the field, that the field was first written in."""
    first = next(base for base in reversed(cls.__mro__) if field in inspect.get_annotations(base))
    return f"{first.__name__}.{field}"


FIELDS = [
    (cls, name, hint)
    for cls in all_classes(RunConfig, Sampling)
    for name, hint in hints_of(cls).items()
    if not classes_of(hint) and typing.get_origin(hint) is not Literal and hint not in (bool, bool | None)
]


def accepted(hint: Any) -> Iterator[tuple[Any, Any]]:
    """The edges that ``hint`` takes, with the value that holds the edge: alone or as the innermost part."""
    adapter = TypeAdapter(hint, config=STRICT)
    for edge in EDGES:
        for value in (edge, [edge], {"en": edge}, [["a", edge]], [[edge, "a"]]):
            try:
                adapter.validate_python(value)
            except ValidationError:
                continue
            yield edge, value


CHOSEN: Mapping[str, Any] = {
    "task": {"type": "classification", "format": {"type": "glue", "task": "sst2"}},
    "format": {"type": "glue", "task": "sst2"},
    "TextToText.format": {"type": "templates", "prompt": "{text}", "answer": "{label}"},
    **dict.fromkeys(("prompt", "answer"), "{text}"),
    "factor": 8.0,
    "filter": {"type": "gopher_repetition"},
    "source": {"type": "jsonl", "paths": []},
    "tasks": {"sst2": {"type": "text_to_text", "format": {"type": "glue", "task": "sst2"}}},
}
"""One of several classes, or a value within bounds, for the fields that have no default."""


WITH: Mapping[str, Mapping[str, Any]] = {"NgramSettings.words": {"characters": [3, 5]}}
"""Other values of the class that an edge of a field needs."""


def required(cls: type) -> dict[str, Any]:
    """Values of the fields of ``cls`` that have no default."""
    if cls is RunConfig:
        return compose(["source=jsonl", "source.paths=[pages.jsonl]"])
    samples = {int: 300, float: 0.5, str: __file__, tuple: (__file__,), Mapping: {"name": 1}}
    missing = [f.name for f in dataclasses.fields(cls) if f.default is f.default_factory is dataclasses.MISSING]
    kinds = {
        name: hint.__origin__ if hasattr(hint := hints_of(cls)[name], "__metadata__") else hint for name in missing
    }
    chosen = {name: CHOSEN.get(f"{cls.__name__}.{name}", CHOSEN.get(name)) for name in kinds}
    return {name: chosen[name] or samples[typing.get_origin(kind) or kind] for name, kind in kinds.items()}


def work(made: Any) -> None:
    """Uses settings for their purpose, as far as this needs no files."""
    if isinstance(made, Filter) and getattr(made, "path", None) is None and not made.inputs:
        made.judge(Document(PAGE, "page:0", metadata={"url": "https://example.org"}))
    elif isinstance(made, PageRule):
        made.failure(PageStatistics(PAGE))
    elif isinstance(made, LineRule):
        made.apply(PAGE)
    elif isinstance(made, (Cosine, Linear, WarmupStableDecay, Constant, InverseSquareRoot)):
        assert all(0 <= made.factor(step, 10) <= 1 for step in range(10))


def test_an_edge_is_refused_or_means_something() -> None:
    meant = {0: ZERO_MEANS, -1: NEGATIVE_MEANS, "": EMPTY_MEANS, (): NONE_MEANS}
    for cls, name, hint in FIELDS:
        if hint == dict[str, Any]:
            continue  # arguments of a datatrove filter: its own constructor judges them
        for edge, value in accepted(hint):
            assert edge in meant, f"{owner(cls, name)}: {edge!r} is taken"
            assert owner(cls, name) in meant[edge], f"{edge!r} is taken, and nobody says what it means"
            work(decode(cls, required(cls) | WITH.get(owner(cls, name), {}) | {name: value}))


def test_the_tables_hold_nothing_else() -> None:
    taken = {(edge, owner(cls, name)) for cls, name, hint in FIELDS for edge, _ in accepted(hint)}
    meant = {0: ZERO_MEANS, -1: NEGATIVE_MEANS, "": EMPTY_MEANS, (): NONE_MEANS}
    assert {(edge, field) for edge, fields in meant.items() for field in fields} <= taken


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("cleaning.buckets=0", "cleaning.buckets: must be at least 1 (got 0); correct the value"),
        (
            "optimizer.learning_rate=nan",
            "optimizer.learning_rate: must be a finite number (got nan); correct the value",
        ),
        ("optimizer.learning_rate=-1", "optimizer.learning_rate: must be at least 0 (got -1); correct the value"),
        (
            "optimizer.learning_rate=inf",
            "optimizer.learning_rate: must be a finite number (got inf); correct the value",
        ),
        ("optimizer.beta2=1.5", "optimizer.beta2: must be below 1 (got 1.5); correct the value"),
        (f"training.seed={2**64}", f"training.seed: must be at most {2**63 - 1} (got {2**64}); correct the value"),
        ("workers=0", "workers: must be at least 1 (got 0); correct the value"),
        ("ranks=0", "ranks: must be at least 1 (got 0); correct the value"),
        ("dedup.memory_gb=1e-9", "dedup.memory_gb: must be at least 1e-05 (got 1e-09); correct the value"),
        ("evaluation.limit=-1", "evaluation.limit: must be at least 1 (got -1); correct the value"),
        ("source.task_bytes=0", "source.task_bytes: must be at least 1 (got 0); correct the value"),
        ("root=''", "root: must not be empty (got ''); correct the value"),
        (
            "finetune=sst2 finetune.train=[] finetune.validation=a",
            "finetune.train: must not be empty (got []); correct the value",
        ),
        ("training.evaluate_every=0", "training.evaluate_every: must be at least 1 (got 0); correct the value"),
    ],
)
def test_it_is_found_before_anything_runs(override: str, message: str, tmp_path: Any, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    done = headrace_here(*override.split())
    assert (done.returncode, done.stderr) == (2, f"headrace: {message}\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["cluster=slurm", "cluster.nodes=-1"], "cluster.nodes: must be at least 1 (got -1)"),
        (
            ["cluster=slurm", "cluster.train_memory=much"],
            r"cluster.train_memory: must match ^\d+[KMGTkmgt]?$ (got 'much')",
        ),
        (
            ["source=jsonl", "source.paths=[a]", "source.section_bytes=0"],
            "source.section_bytes: must be at least 1 (got 0)",
        ),
    ],
)
def test_of_other_choices(overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        decoded(compose(overrides))
    assert str(error.value) == f"{message}; correct the value"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["ranks=3"], "training.batch_rows: 16 rows cannot be dealt to 3 ranks; give a multiple of 3"),
        (["training.sequence_ranks=2"], "training.sequence_ranks: 2 is no divisor of the number of ranks, 1"),
        (
            ["ranks=3", "training.batch_rows=3", "training.sequence_ranks=3"],
            "training.sequence_ranks: is 3, and the model has 4 heads; give a divisor of both",
        ),
        (["zero=stage_0", "training.precision=bf16"], "zero.stage: 0 with bf16 takes a phantom optimizer step"),
        (["zero.offload=optimizer", "optimizer=muon"], "zero.offload: is optimizer, and an update of optimizer=muon"),
        (["dedup.bands=1000"], "dedup.bands: 1,000 bands of 8 rows are 8,000 hashes; give at most 4,096 in all"),
        (
            [
                "cleaning=none",
                "cleaning.filters=[{type: gopher_quality, rules: [{type: word_count, min_words: 9, max_words: 3}]}]",
            ],
            "word_count.min_words: 9 is above max_words = 3: every page would be dropped; exchange them",
        ),
        (["source.section_bytes=1"], "source.section_bytes: 1 cuts '"),
    ],
)
def test_what_does_not_go_together_is_found_before_anything_runs(
    overrides: list[str], message: str, tmp_path: Any, monkeypatch: Any
) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_bytes(b"\n" * 100_000)
    monkeypatch.chdir(tmp_path)
    done = headrace_here("source=jsonl", f"source.paths=[{pages}]", *overrides)
    assert (done.returncode, done.stderr.startswith(f"headrace: {message}")) == (2, True), done.stderr
    assert list(tmp_path.iterdir()) == [pages]


@pytest.mark.parametrize(
    "words",
    [
        ["evaluate", ".", "--limit", "-1"],
        ["evaluate", ".", "--limit", "0"],
        ["plan", "--gpus", "0"],
        ["plan", "--mfu", "0"],
        ["plan", "--gpu-memory-gb", "inf"],
        ["generate", "--prompt", "a", "--samples", "0"],
        ["generate", "--prompt", "a", "--max-tokens", "-1"],
        ["generate", "--prompt", "a", "--temperature", "nan"],
        ["generate", "--prompt", "a", "--top-k", "0"],
        ["generate", "--prompt", "a", "--top-p", "0"],
        ["generate", "--prompt", "a", "--seed", str(2**64)],
        ["generate", "--prompt", "a", "--beams", "100000"],
        ["generate", "--fill", "a", "--top-k", "0"],
        ["ladder", "--show", "--budget", "0"],
        ["study", "cleaning", "--show", "--seeds", "0"],
    ],
)
def test_numbers_of_the_command_line_have_bounds(words: list[str]) -> None:
    done = headrace_here(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"headrace: {words[-2]}: must be "), done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_objective_that_cannot_train_the_stack_is_refused_before_any_stage() -> None:
    done = headrace_here("model.stack=encoder")
    assert done.returncode == 2
    assert done.stderr == (
        "headrace: objective: causal trains a stack decoder, and model.stack is encoder; "
        "give a model of stack decoder, or an objective that trains a stack encoder: masked\n"
    )
