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


def named(text: str) -> set[str]:
    """The fields in ``text``: ``Copies.seed|texts`` are Copies.seed and Copies.texts."""
    pairs = (word.split(".") for word in text.split())
    return {f"{cls}.{field}" for cls, fields in pairs for field in fields.split("|")}


ZERO = named("""
    NgramSettings.words LinearTraining.held_out|seed RunConfig.seed FieldSource.extra_field_bytes
    CrossEntropy.z_loss|label_smoothing Distillation.soft_weight|hard_weight|cosine_weight
    ModelShape.position_offset|segments|dropout Mixture.exponent Masked.mask_share|random_share
    Sampling.length_penalty|seed|temperature TextToText.length_penalty|label_smoothing
    WrittenAnswers.length_penalty|seed|temperature LanguageFilter.min_score TextClassifier.min_score
    BadWords.filter_fraction WithoutAddresses.max_line_feeds LongLines.min_lines|min_characters
    HeldOutBenchmark.context_words C4Lines.min_sentences UniqueLines.min_sentences UniqueSpans.min_sentences
    FewWords.min_words WordCount.min_words WordLength.min_characters StopWords.min_words Symbols.max_fraction
    BulletLines.max_fraction EllipsisLines.max_fraction AlphabeticWords.min_fraction
    DuplicateParts.max_fraction|max_character_fraction TopNgram.max_fraction DuplicateNgrams.max_fraction
    LinePunctuation.min_fraction ShortLines.max_fraction|max_characters DuplicateLines.max_character_fraction
    LineBreaks.max_per_word UppercaseLine.max_fraction LineCorrections.max_removed_fraction Dedup.seed
    Copies.seed|otherwise|texts CopyStep.copies|at_least Threshold.min|max
    Decontamination.window_characters Reconstruction.permute_sentences|random_share|rotate
    Optimizer.learning_rate|weight_decay|ema_decay RateFactors.embedding|head|matrix|vector
    TrainingConfig.ramp_steps|seed|validation_rows|seen_rows|source_rows Adaptive.beta1|beta2
    Muon.momentum|adamw_learning_rate Adafactor.parameter_epsilon Cosine.warmup_steps|final_fraction
    Linear.warmup_steps|final_fraction WarmupStableDecay.warmup_steps|decay_fraction|final_fraction
    Constant.warmup_steps SourceSettings.weight Change.weights Evaluation.shots|task_shots|seed
    FewShotBenchmark.shots|shot_seed LanguageModelling.from_byte Continuations.documents|seed
    Slurm.signal_seconds|gpus_per_node Ray.gpus_per_node Finetune.seeds|dropout|warmup_fraction
""")
"""The numbers of which 0 is a value like any other; the docstring of each says what it means."""
NEGATIVE = named("""
    CopyStep.at_least Threshold.min|max
""")
EMPTY = named("""
    ExampleSet.label|label_field FewShotBenchmark.description|delimiter|shot_delimiter|worked_delimiter|rewrites
    FieldChoice.gold|group|choice_rewrites WrittenAnswers.document PiiKind.replacement Evaluation.data
    PythonFilter.folder|sentence MinimalPairs.delimiter MultipleChoice.query_suffix
    GenerationBenchmark.query_suffix Completion.group_field NamedFields.label|id|value|gold|answer|choice_start
    TextToText.prefix Conversations.template
""")
"""The texts that may be empty."""
NONE = named("""
    Distillation.initial_layers FieldChoice.options|labels|worked_paths|choice_rewrites
    TemplatePairs.lines WrittenAnswers.lines BadWords.allowed Continuations.prompts
    Dedup.against|preferred Evaluation.shots|tasks|yaml NamedFields.choices|names Robots.agents|directives
    FileSource.paths FewShotBenchmark.rewrites FileTask.texts Finetune.test GenerationBenchmark.stops
    ModelShape.dropout_places PhoneNumber.regions PythonFilter.files Sampling.stops
    Slurm.data_options|launcher|options|srun_options|train_options TextToText.metrics Tracking.tags
    TrainingConfig.evaluate
""")
"""The lists that may be empty."""
MEANT: dict[Any, set[str]] = {0: ZERO, -1: NEGATIVE, "": EMPTY, (): NONE}


def classes_of(hint: Any) -> list[type]:
    """The settings classes in a type hint, through Annotated, unions, tuples and mappings."""
    return [cls for cls in setting_classes.classes_of(hint) if dataclasses.is_dataclass(cls)]


def all_classes(*roots: type) -> list[type]:
    """``roots`` and every settings class of the package that they lead to; another test may have loaded a user's."""
    found: dict[type, None] = {}
    left = list(roots)
    while left:
        if (cls := left.pop()) not in found:
            found[cls] = None
            hinted = (inner for hint in hints_of(cls).values() for inner in classes_of(hint))
            left += [inner for inner in hinted if inner.__module__.startswith("headrace.")]
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
    for cls, name, hint in FIELDS:
        if hint == dict[str, Any]:
            continue  # arguments of a datatrove filter: its own constructor judges them
        for edge, value in accepted(hint):
            assert edge in MEANT, f"{owner(cls, name)}: {edge!r} is taken"
            assert owner(cls, name) in MEANT[edge], f"{edge!r} is taken, and nobody says that it means something"
            work(decode(cls, required(cls) | WITH.get(owner(cls, name), {}) | {name: value}))


def test_the_tables_hold_nothing_else() -> None:
    taken = {(edge, owner(cls, name)) for cls, name, hint in FIELDS for edge, _ in accepted(hint)}
    assert {(edge, field) for edge, fields in MEANT.items() for field in fields} <= taken


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
