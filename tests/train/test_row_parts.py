"""Rows that several ranks compute together (train/model/row_parts.py): what they learn is that of whole rows."""

import pytest

from headrace.pipeline.core.metrics_file import read_metrics
from tests.train import fork_server
from tests.train.test_weights import settings
from tests.train.training import specify, train


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 4])
def test_losses_gradients_and_weights_are_those_of_whole_rows(ranks):
    done = fork_server.run("tests.train.row_parts", str(ranks))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_training_with_parts_of_rows_continues_with_whole_rows(tmp_path, inputs):
    """Two ranks share each row to step 2, where the training is stopped, and then have rows of their own."""

    def trained(folder: str, sequence_ranks: int, stop: list | None = None) -> tuple[list[int], str]:
        (tmp_path / folder).mkdir(exist_ok=True)
        stage = settings(steps=4, validate_every=2, save_every=100, sequence_ranks=sequence_ranks)
        runs = [[str(tmp_path / folder / "weights"), stop]]
        return train(specify(tmp_path / folder, inputs, stage, runs, ranks=2))

    ends, output = trained("whole", 1)
    assert ends == [0], output
    ends, output = trained("parts", 2, ["headrace.train.loop.trainer", "apply", 2, "SIGTERM"])
    assert ends != [0], output
    ends, output = trained("parts", 1)
    assert ends == [0], output
    whole, parts = (read_metrics(tmp_path / folder / "weights" / "metrics.jsonl") for folder in ("whole", "parts"))
    assert [row["step"] for row in parts] == [1, 2, 3, 4]
    exact, close = ("step", "tokens_seen", "learning_rate", "epoch"), ("loss", "gradient_norm", "validation_loss")
    for one, other in zip(parts, whole, strict=True):
        assert {name: one[name] for name in exact} == {name: other[name] for name in exact}
        assert {name: one.get(name) for name in close} == pytest.approx(
            {name: other.get(name) for name in close}, abs=1e-6
        )
