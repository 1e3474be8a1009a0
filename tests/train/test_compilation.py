"""Compiled layers under DeepSpeed: one graph, and the losses of layers that are not, at every ZeRO stage."""

import dataclasses

import pytest
import torch
from torch._dynamo.utils import counters

from headrace.pipeline.core.metrics_file import read_metrics
from headrace.train.distributed import processes
from headrace.train.engine.engine import Engine
from headrace.train.engine.optimizers.adamw import AdamW
from headrace.train.model.execution import prepare
from headrace.train.model.transformer import Transformer
from headrace.train.training_config import TrainingConfig, ZeroConfig
from tests.train import updates
from tests.train.test_weights import stage


def test_auto_compiles_and_pads_on_a_gpu_alone():
    for setting, expected in {"auto": (False, True), "on": (True, True), "off": (False, False)}.items():
        training = TrainingConfig(steps=1, batch_rows=1, compile=setting, pad_vocabulary=setting)
        for asked in (training.compiles_on, training.pads_on):
            assert (asked("cpu"), asked("cuda")) == expected
    assert TrainingConfig(steps=1, batch_rows=1, compile="tuned").compiles_on("cpu")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("zero_stage", "recompute", "compiling"),
    [
        (0, "none", "tuned"), (0, "selective", "on"), (1, "full", "on"), (2, "none", "on"), (3, "selective", "on"),
    ],
)  # fmt: skip
def test_twelve_layers_are_one_graph(monkeypatch, zero_stage, recompute, compiling):
    """More layers than torch.compile makes graphs of one function. Graphs are recorded here, and run as they are."""
    settings = []

    def recorded(graph, inputs, config_patches, **_):
        settings.append(config_patches)
        return graph.forward

    monkeypatch.setattr("torch._inductor.compile_fx.compile_fx", recorded)
    torch.compiler.reset()
    counters.clear()
    model = Transformer(dataclasses.replace(updates.SHAPES["llama-untied"], layers=12), updates.VOCABULARY)
    training = TrainingConfig(
        steps=1, batch_rows=updates.ROWS, micro_batch_rows=updates.ROWS, precision="fp32", recompute=recompute,
        compile=compiling,
    )  # fmt: skip
    prepare(model, training, "cpu")
    engine = Engine(model, AdamW(learning_rate=1e-2), training, ZeroConfig(stage=zero_stage), processes.start("cpu"))
    whole = updates.batch(0)
    for _ in range(2):
        updates.update(engine, updates.CAUSAL, [whole], updates.counts(updates.CAUSAL, whole), 1e-2)
    assert counters["graph_break"] == {}
    by_trials = {"max_autotune": True, "coordinate_descent_tuning": True}
    assert settings == [by_trials if compiling == "tuned" else {"deterministic": True}]


@pytest.mark.slow
@pytest.mark.parametrize(("zero_stage", "recompute"), [(0, "none"), (2, "full"), (3, "selective")])
def test_compiled_layers_learn_the_same(tmp_path, inputs, run_stage, zero_stage, recompute):
    curves = {}
    for compiled in ("off", "on"):
        torch.compiler.reset()
        settings = dataclasses.replace(stage(compile=compiled, recompute=recompute), zero=ZeroConfig(stage=zero_stage))
        run_stage(settings, inputs, tmp_path / compiled)
        rows = read_metrics(tmp_path / compiled / "metrics.jsonl")
        curves[compiled] = [[row[name] for row in rows] for name in ("loss", "gradient_norm")]
    torch.testing.assert_close(curves["on"], curves["off"], rtol=0, atol=1e-5)
