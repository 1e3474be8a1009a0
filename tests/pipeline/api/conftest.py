"""Saved runs in one root, whose raw data is gone: ``pages`` ends after packing, ``trained`` has weights and scores."""

import dataclasses
import json
from pathlib import Path

import pytest

from headrace.data_prep.document import read_documents
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact, finish
from headrace.pipeline.run.planned_stage import PlannedStage
from headrace.pipeline.run.planner import plan, save
from headrace.train.config import ModelConfig
from headrace.train.evaluation.score_rows import BenchmarkScores, Metric
from headrace.train.families.hf_folder import export
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from tests.finished import write_part
from tests.small_runs import Corpus, build

METRICS = [
    {"step": 50, "loss": 3.5, "learning_rate": 1e-3, "tokens_seen": 100, "gradient_norm": 1.0},
    {"step": 50, "evaluation": {"piqa_2shot": [{"name": "acc", "value": 0.5, "items": 4}]}},
    {"step": 100, "loss": 3.0, "learning_rate": 5e-4, "tokens_seen": 200, "validation_loss": 3.1, "bits_per_byte": 2.0},
]
ACCURACY = Metric("acc", 0.75, 0.2, (0.4, 1.0), 0.5, 4)


@dataclasses.dataclass(frozen=True)
class Root:
    """The folder that holds ``runs``, and the documents that the runs should have."""

    folder: Path
    corpus: Corpus

    @property
    def path(self) -> Path:
        return self.folder / "runs"

    def stored(self, stage: str, kind: str) -> list:
        """The documents of ``kind`` of ``stage``, as its shards hold them."""
        return [one for path in self.corpus.artifact(stage).shards(kind) for one in read_documents(path)]


@pytest.fixture(scope="session")
def root(tmp_path_factory) -> Root:
    """The root of both runs."""
    folder = tmp_path_factory.mktemp("api")
    corpus = build(folder, "c4")
    benchmark = ["evaluation.benchmarks=null", "+evaluation.benchmarks.validation.type=validation"]
    scored = [*corpus.overrides, "until=scores", *benchmark]
    for overrides, name in ((corpus.overrides, "pages"), (scored, "trained")):
        values = compose(overrides) | {"name": name}
        steps = plan(config := decoded(values))
        save(config, values, steps, overrides)
    _train({step.name: step for step in steps})
    (folder / "a.jsonl").rename(folder / "moved.jsonl")
    return Root(folder, corpus)


def _train(steps: dict[str, PlannedStage]) -> None:
    """Writes what a training and a scoring leave: a tiny model, its metrics, one benchmark."""
    config = ModelConfig(
        layers=1, width=32, heads=2, kv_heads=2, context=64, mlp_width=48,
        positions="rope", norm="rmsnorm", activation="swiglu", bias=False, tied=False,
    )  # fmt: skip
    model = Transformer(config, 300)
    initialize(model, seed=0)
    tokenizer = Artifact(steps["tokenizer"].folder).path("tokenizer.json")
    weights, scores = steps["weights"].folder, steps["scores"].folder
    export(model.named_parameters(), config, 300, tokenizer, weights / "hf")
    (weights / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in METRICS))
    scores.mkdir(parents=True)
    piqa = BenchmarkScores("<b>piqa</b>", "multiple_choice", items=4, metrics=(ACCURACY,))
    (scores / "scores.json").write_text(json.dumps({"benchmarks": [piqa.row()]}))
    for step in (steps["weights"], steps["scores"]):
        (phase,) = step.phases
        write_part(step.folder, phase.name)
        finish(step.folder, step.description, {phase.name: 1})
