"""Trainings over data with two spikes in it: a skipped update, and a return to an older checkpoint.

    step    ... 18 | 19 ... 24  25  26  27 | 28 ...       every 9th step has a checkpoint for a return
    loss        3.2  3.1    2.9 7.4 3.2 7.4  3.2          25 and 27 are spikes

With ``spike_rollback_every`` 25 and 27 both return to the weights of step 18, and 26 is skipped with 27.
"""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.stage import Inputs
from headrace.train.data.mixture import Mix, training_data
from tests.train.conftest import make_inputs
from tests.train.loop.test_loss_guard import MODEL
from tests.train.training import specify, train

SPIKES, STEPS, BATCH_ROWS = (25, 27), 36, 8
LEFT_OUT: dict[int | None, list[list[int]]] = {None: [[25, 25], [27, 27]], 9: [[19, 25], [19, 27]]}
STATE = "state/00000.safetensors"


@pytest.fixture(scope="module")
def spiked(tmp_path_factory: pytest.TempPathFactory, run_stage) -> Inputs:
    """Data in which the rows of the steps ``SPIKES`` are noise; no row comes twice."""
    root = tmp_path_factory.mktemp("spiked")
    rows, order = training_data(0, make_inputs(root / "plain", run_stage, documents=110), Mix())
    assert len(rows) >= STEPS * BATCH_ROWS
    places = [place for step in SPIKES for place in order.batch((step - 1) * BATCH_ROWS, BATCH_ROWS).tolist()]
    spans = [tuple(span) for place in places for span in rows.spans(place).tolist()]
    return make_inputs(root / "spiked", run_stage, documents=110, spoiled=spans)


def settings(**training: Any) -> dict[str, Any]:
    values = {"steps": STEPS, "batch_rows": BATCH_ROWS, "micro_batch_rows": 4, "precision": "fp32", "device": "cpu"}
    values |= {"save_every": 5, "validate_every": 100, "spike_sigma": 3.0, "spike_window_steps": 14}
    return {
        "model": dataclasses.asdict(MODEL),
        "optimizer": {"type": "adamw", "learning_rate": 3e-3},
        "schedule": {"type": "constant", "warmup_steps": 2},
        "training": values | training,
        "tracking": {"wandb": "off"},
    }


def ledger(folder: Path) -> list[list[int]]:
    return read_json(folder / f"checkpoints/step_{STEPS:08d}/manifest.json")["left_out"]


def curve(folder: Path) -> list[tuple[int, float, float]]:
    return [(row["step"], row["loss"], row["steps_left_out"]) for row in read_metrics(folder / "metrics.jsonl")]


def same(found: Path, expected: Path) -> None:
    assert (found / "hf/model.safetensors").read_bytes() == (expected / "hf/model.safetensors").read_bytes()
    assert curve(found) == curve(expected)
    assert ledger(found) == ledger(expected)


KILLS: dict[str, list[Any]] = {
    "as the spike is left out": ["headrace.train.engine.engine:Engine", "step", 25],
    "as weights are read": ["headrace.train.engine.engine:Engine", "load", 1],
    "as weights are taken over": ["headrace.train.engine.partitions", "master_weights_changed", 1],
    "just after it went back": ["headrace.train.engine.engine:Engine", "gradient", 26],
    "as it goes back again": ["headrace.train.engine.engine:Engine", "load", 2],
    "in the save after that": ["headrace.train.engine.fragments", "save_file", 8],
    "later": ["headrace.train.engine.engine:Engine", "gradient", 34],
    "never, but it was asked to stop in between": ["headrace.train.engine.engine:Engine", "gradient", 23, "SIGUSR1"],
}


@pytest.mark.slow
@pytest.mark.parametrize("rollback_every", [9, None])
def test_a_training_that_was_killed_leaves_out_the_same_steps_and_ends_with_the_same_weights(
    tmp_path: Path, spiked: Inputs, rollback_every: int | None
) -> None:
    chosen = KILLS if rollback_every else {name: KILLS[name] for name in ("just after it went back", "later")}
    runs: list[list[Any]] = [[str(tmp_path / "whole"), None]]
    for name, kill in chosen.items():
        runs += [[str(tmp_path / name), kill], [str(tmp_path / name), None]]
    ends, said = train(specify(tmp_path, spiked, settings(spike_rollback_every=rollback_every, keep_last=1), runs))
    killed = {"SIGUSR1": 1}
    assert ends == [0, *(end for kill in chosen.values() for end in (killed.get(kill[-1], -9), 0))], said
    assert ledger(tmp_path / "whole") == LEFT_OUT[rollback_every]
    first, both = (7, 9) if rollback_every else (1, 2)
    assert [row[2] for row in curve(tmp_path / "whole")] == [0] * 24 + [first] * 2 + [both] * 10
    assert f": back to the weights of step {18 if rollback_every else 24}\n" in said
    for name in chosen:
        same(tmp_path / name, tmp_path / "whole")


def test_it_goes_back_to_the_whole_state(tmp_path: Path, spiked: Inputs) -> None:
    folder = tmp_path / "all"
    stage = settings(spike_rollback_every=9, save_every=1, keep_last=99)
    ends, said = train(specify(tmp_path, spiked, stage, [[str(folder), None]]))
    assert ends == [0], said
    files = {step: (folder / f"checkpoints/step_{step:08d}" / STATE).read_bytes() for step in (17, 18, 24, 25, 26, 27)}
    assert files[25] == files[27] == files[18]
    assert len({files[step] for step in (17, 18, 24, 26)}) == 4


@pytest.mark.slow
def test_one_that_it_would_lead_back_to_is_damaged(tmp_path: Path, spiked: Inputs) -> None:
    whole, damaged = tmp_path / "whole", tmp_path / "damaged"
    kill = ["headrace.train.engine.engine:Engine", "snapshot", 7]  # for the save after step 20's, which is waited for
    stage = settings(spike_rollback_every=9, keep_last=3)
    ends, said = train(specify(tmp_path, spiked, stage, [[str(whole), None], [str(damaged), kill]]))
    assert ends == [0, -9], said
    kept = sorted(path.name for path in (damaged / "checkpoints").glob("step_*"))
    assert kept == ["step_00000009", "step_00000015", "step_00000018", "step_00000020"]
    (damaged / "checkpoints/step_00000018" / STATE).write_bytes(b"")
    ends, said = train(specify(tmp_path, spiked, stage, [[str(damaged), None]]))
    assert ends == [0], said
    wrong = f"{damaged}/checkpoints/step_00000018/{STATE} is damaged or missing"
    assert f"step 15, its newest whole checkpoint (passed over: {wrong}, and a spike after step 20 leads back" in said
    assert said.count(wrong) == 2
    same(damaged, whole)


@pytest.mark.slow
def test_two_ranks_go_back_alike_and_to_the_same_weights_after_a_kill(tmp_path: Path, spiked: Inputs) -> None:
    alone = tmp_path / "alone"
    stage = settings(spike_rollback_every=9)
    ends, said = train(specify(tmp_path, spiked, stage, [[str(alone), None]]))
    assert ends == [0], said
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    kill = ["headrace.train.engine.engine:Engine", "load", 1, "SIGKILL", "1"]
    runs = [[str(whole), None], [str(killed), kill], [str(killed), None]]
    ends, said = train(specify(tmp_path, spiked, stage, runs, ranks=2))
    assert ends == [0, -9, 0], said
    same(killed, whole)
    assert ledger(whole) == ledger(alone) == LEFT_OUT[9]
    one, two = ([loss for _, loss, _ in curve(folder)] for folder in (alone, whole))
    assert two == pytest.approx(one, abs=1e-5)
