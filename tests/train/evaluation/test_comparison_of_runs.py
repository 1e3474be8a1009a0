"""``headrace compare`` from the ids of runs to a table, over scores that the stage made."""

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.experiments import comparison
from headrace.pipeline.experiments.comparison import compared_metrics, contestants
from headrace.pipeline.run.planner import plan, save
from tests.command_line import headrace_here
from tests.train.small_models import random_weights


@pytest.fixture(scope="module")
def runs(line, run_stage, tmp_path_factory):
    """The ids of two runs whose weights differ, below one root."""
    root = tmp_path_factory.mktemp("runs")
    pages = root / "pages.jsonl"
    pages.write_text('{"text": "One page."}\n')
    ids = []
    for seed in (3, 4):
        overrides = [f"root={root}", "source=jsonl", f"source.paths=[{pages}]", f"training.seed={seed}",
                     "evaluation.device=cpu"]  # fmt: skip
        values = compose(overrides)
        config = decoded(values)
        (scores,) = [step for step in plan(config) if step.name == "scores"]
        weights = random_weights(root / f"weights_{seed}", line["tokenizer"].path("tokenizer.json"), seed)
        run_stage(scores.stage, line | {"weights": weights}, scores.folder)
        save(config, values, plan(config), overrides)
        ids.append(config.id)
    return root, ids


@pytest.mark.slow
def test_two_runs_by_their_ids(runs, capsys):
    root, (first, second) = runs
    result = headrace_here("compare", first, second, "--page", str(root / "page.html"), f"root={root}")
    assert result.returncode == 0, result.stderr
    shown = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if line.startswith("|")]
    assert [shown[0], shown[2]] == [["setting", first, second], ["training.seed", "3", "4"]]
    assert (shown[3], shown[5][0]) == (["first stage that differs", first, second], "weights")
    head, _, *lines = shown[6:]
    assert head == ["benchmark", "shots", "metric", "items", first, second, f"{second} − {first}", "p"]
    found = {(line[0], line[2]): line for line in lines}
    names = {"agreement", "continuations", "held_out_order", "held_out_sentences", "held_out_words", "validation"}
    assert {name for name, _ in found} == names
    compared = contestants([str(root / "runs" / run) for run in (first, second)], str(root))
    comparison.show(compared, None)
    assert capsys.readouterr().out + f"\npage: {root}/page.html\n" == result.stdout
    (loss,) = [row for row in compared_metrics(compared) if row.kind.name == "loss"]
    one, other = (metric.value for metric in loss.metrics)
    assert loss.differences[0].value == pytest.approx(other - one) != 0
    assert found["validation", "loss"][4].startswith(f"{one:.4g} [")
    assert found["validation", "loss"][6].startswith(f"{other - one:+.4g} [")
    assert 'id="figure-shares"' in (root / "page.html").read_text()
