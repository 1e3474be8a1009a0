from pipeline.core.tracker import Tracking, read_metrics
from train.config import AdamW, ModelConfig, TrainingConfig, ZeroConfig
from train.schedule import Cosine
from train.weights import Weights

MODEL = ModelConfig(layers=2, width=32, heads=4, kv_heads=4, context=64, mlp_width=64)


def stage(**training) -> Weights:
    values = {"steps": 12, "batch_rows": 8, "micro_batch_rows": 4, "precision": "fp32", "device": "cpu"}
    return Weights(
        model=MODEL,
        optimizer=AdamW(learning_rate=1e-2),
        schedule=Cosine(warmup_steps=2),
        training=TrainingConfig(**values | training),
        zero=ZeroConfig(stage=1),
        tracking=Tracking(wandb="off"),
    )


def test_a_model_learns_and_is_exported(tmp_path, inputs, run_stage):
    artifact = run_stage(stage(steps=60, validate_every=30), inputs, tmp_path / "weights")
    rows = read_metrics(artifact.path("metrics.jsonl"))
    print(rows[0], rows[-1], artifact.manifest)
    assert rows[-1]["validation_loss"] < 0.5 * rows[0]["loss"]
