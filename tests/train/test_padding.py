"""A padded vocabulary: the same losses and weights as without, in the same shapes."""

import pytest

from headrace.train.training_config import TrainingConfig
from tests.train import fork_server


def test_auto_pads_on_a_gpu_alone():
    for setting, expected in {"auto": (False, True), "on": (True, True), "off": (False, False)}.items():
        training = TrainingConfig(steps=1, batch_rows=1, pad_vocabulary=setting)
        assert (training.pads_on("cpu"), training.pads_on("cuda")) == expected


@pytest.mark.slow
def test_every_stage_learns_the_same_on_two_ranks():
    done = fork_server.run("tests.train.padding")
    assert done.returncode == 0, done.stderr
