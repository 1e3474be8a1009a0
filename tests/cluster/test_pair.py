"""A pair of models trains on SLURM with two ranks as it does on one machine.

The other families differ in nothing that SLURM takes part in: their ranks and stages are tested without it.
"""

from pathlib import Path

from headrace.train.families.hf_folder import load
from tests.cluster.line import Line, headrace
from tests.cluster.one_machine import OneMachineSlurm
from tests.cluster.test_line import TOLERANCE, losses
from tests.cluster.training import Training

ELECTRA = ("model=electra_demo", "model.generator_width=16", "objective=replaced_tokens", "evaluation=pairs")
"""Most parts: two models in one, two terms of the loss, a tokenizer with special tokens."""


def test_a_training_is_that_of_one_machine(slurm: OneMachineSlurm, local_line: Line, tmp_path: Path) -> None:
    line = Line((*local_line.settings, *ELECTRA, "training.steps=8"), tmp_path / "local")
    Training.copy_data(local_line.root, line.root)
    done = headrace("run", *line.settings, f"root='{line.root}'", "ranks=2", "workers=2", "until=weights")
    assert done.returncode == 0, done.stderr
    training = Training.submit(line, tmp_path / "cluster", "training.steps=8")
    training.wait_for_end("COMPLETED")
    here, there = losses(line.root), losses(training.root)
    assert list(here) == list(there) == list(range(1, 9))
    assert max(abs(here[step] - there[step]) for step in here) <= TOLERANCE
    assert load(training.folder / "hf").config.layers == 1
