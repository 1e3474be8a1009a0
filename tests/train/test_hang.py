"""A training of two ranks, one of which hangs: it ends with a reason, and resumes when it is run again."""

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.core import work_log
from headrace.pipeline.core.errors import RetryableError
from headrace.pipeline.core.metrics_file import read_metrics
from tests.train.test_weights import same, settings
from tests.train.training import ROOT, specify, train

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
LAUNCH += [sys.executable, "-m", "tests.train.training"]


@pytest.mark.slow
def test_a_rank_that_is_stopped_ends_the_run_and_it_goes_on(tmp_path: Path, inputs) -> None:
    whole, hung = tmp_path / "whole", tmp_path / "hung"
    stop = ["headrace.train.engine.engine:Engine", "gradient", 7, "SIGSTOP", "1"]
    spec = specify(tmp_path, inputs, settings(hang_seconds=20.0), [[str(hung), stop]])
    done = subprocess.run([*LAUNCH, str(spec)], capture_output=True, text=True, cwd=ROOT, timeout=500)
    assert done.returncode != 0
    left = work_log.error_of(hung)
    assert isinstance(left, RetryableError)
    assert left.problem == "rank 0 finished no step for 20 s after step 6"
    assert f"headrace: {left}" in done.stderr.splitlines()
    assert "train/loop/trainer.py" in done.stderr
    assert "in train" in done.stderr
    assert read_metrics(hung / "metrics.jsonl")[-1]["step"] == 6

    ends, said = train(specify(tmp_path, inputs, settings(), [[str(whole), None], [str(hung), None]], ranks=2))
    assert ends == [0, 0], said
    same(hung, whole)
