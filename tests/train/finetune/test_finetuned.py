"""The stage ``finetuned``: it learns a task, seed by seed, and a killed one goes on as if it had not been."""

import pytest

from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.json_files import read_json
from tests.train.finetune.small_tasks import ENCODER, sentiment, stage, tokenizer_artifact


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    return tokenizer_artifact(tmp_path_factory.mktemp("tokenizer"))


def test_a_small_encoder_learns_a_sentiment_from_random_weights(tmp_path, tokenizer, run_stage) -> None:
    files = sentiment(tmp_path)
    artifact = run_stage(stage(ENCODER, files), {"tokenizer": tokenizer}, tmp_path / "finetuned")
    scores = read_json(artifact.path("scores.json"))
    assert scores["scores"]["accuracy"]["mean"] > 0.9
