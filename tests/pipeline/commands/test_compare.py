"""``headrace compare``: two and three runs side by side, from scores made by hand."""

import json
import re

import pytest

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.experiments.comparison import contestant, contestants
from headrace.pipeline.run.planned_stage import PlannedStage, save_stage
from headrace.pipeline.run.planner import plan, save
from headrace.train.evaluation.metrics import accuracy
from headrace.train.evaluation.settings import Evaluation
from headrace.train.scores import FolderScores
from tests.command_line import headrace_here
from tests.pipeline.experiments.test_comparison import FIRST, NATS, SECOND, artifact, run_of, runs
from tests.pipeline.report.test_report import Reader, browse

__all__ = ["browse", "runs"]


def write_metrics(folder, rows) -> None:
    folder.mkdir(parents=True)
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_piped_it_is_markdown(runs, tmp_path):
    result = headrace_here("compare", str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "a"), f"root={tmp_path}")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    a, b = tmp_path / "a", tmp_path / "b"  # in full: one of them is named twice
    assert lines[0].startswith(f"| benchmark | shots | metric | items | {a} | {b} | {b} − {a} | p | ")
    assert lines[1] == "|" + " --- |" * 11
    assert lines[2].startswith("| quiz | 5 | acc % | 12 | 25.00 [8.89, 53.23] | 91.67 [64.61, 98.51] | +66.67 [")
    assert lines[2].endswith("| 0.021 * | 25.00 [8.89, 53.23] | +0.00 [+0.00, +0.00] | 1 |")
    assert lines[-1].startswith("In [brackets]: 95 % intervals.")
    assert "An item is one question, or one held-out document of a loss." in lines[-1]
    assert lines[-1].endswith("between training seeds: for those, train each run with -m training.seed=1,2,3.")


@pytest.mark.slow
def test_a_page_with_figures(runs, tmp_path, browse):
    page = tmp_path / "comparison.html"
    result = headrace_here("compare", str(tmp_path / "a"), str(tmp_path / "b"), f"--page={page}", f"root={tmp_path}")
    assert result.returncode == 0, result.stderr
    table = result.stdout.splitlines()
    reader = Reader(page.read_text())
    assert reader.open == []
    cells_shown = [word for word in reader.text.split("Scores")[-1].split("  ") if word.strip()]
    for cell in table[2].strip("| ").split(" | "):
        assert cell in cells_shown
    tree, console = browse(page, "--dump-dom")
    assert console == []
    assert "<title>a, b</title>" in tree
    assert re.findall(r'id="figure-(\w+)"[^>]* data-drawn="yes"', tree) == ["shares", "others"]


def evaluated(folder, address, model):
    """Scores of ``headrace evaluate MODEL``, with the file that its ranks read; the path of their folder."""
    run_of(folder / address, FIRST, NATS)
    stage = FolderScores(evaluation=Evaluation(), folder=model)
    save_stage(PlannedStage(stage, address, folder / address, {}, {}, {}))
    return str(folder / address)


@pytest.mark.parametrize(
    ("models", "names"),
    [
        (("models/gpt2", "other/llama/"), ["gpt2", "llama"]),
        (("models/gpt2", "other/gpt2"), ["models/gpt2", "other/gpt2"]),
        (("gpt2", "gpt2"), None),  # scored from two folders: they have the paths of their scores
        ((".", "gpt2"), ["77aa77aa77aa", "gpt2"]),
    ],
)
def test_scores_of_a_model_have_the_name_of_its_folder(tmp_path, models, names):
    paths = [
        evaluated(tmp_path, address, model) for address, model in zip(("77aa" * 3, "0c1d" * 3), models, strict=True)
    ]
    found = contestants([*paths, str(run_of(tmp_path / "a", SECOND, NATS).folder)], str(tmp_path))
    assert [run.name for run in found] == ([*names, "a"] if names else [*paths, str(tmp_path / "a")])


def test_words_that_name_no_run(tmp_path):
    with pytest.raises(ConfigError) as caught:
        contestant("nonesuch", str(tmp_path))
    assert str(caught.value).startswith(f"RUN: 'nonesuch' is not a run or a folder of scores below '{tmp_path}'; ")
    result = headrace_here("compare", "one", f"root={tmp_path}")
    assert result.stderr.splitlines()[-1] == (
        "headrace: command line: compare needs two runs; usage: headrace compare RUN RUN [RUN ...]"
    )


def planned(folder, name, rate):
    """The stages of a planned run, by their names."""
    line = [f"name={name}", f"optimizer.learning_rate={rate}", f"root={folder}", "source=jsonl"]
    (folder / "a.jsonl").write_text('{"text": "One page."}\n')
    values = compose([*line, f"source.paths=[{folder}/a.jsonl]", "cleaning=none"])
    steps = {step.name: step for step in plan(decoded(values))}
    save(decoded(values), values, list(steps.values()), line)
    return steps


def test_runs_without_scores_are_compared_by_their_losses(tmp_path):
    addresses = []
    for name, rate, rows in (
        ("slow", "0.0003", [{"step": 1, "loss": 5.0, "validation_loss": 4.5}, {"step": 2, "loss": 4.25}]),
        ("fast", "0.0006", [{"step": 1, "loss": 3.0}]),
        ("planned", "0.0009", None),
    ):
        weights = planned(tmp_path, name, rate)["weights"]
        addresses.append(weights.address)
        if rows:
            write_metrics(weights.folder, rows)
    result = headrace_here("compare", "slow", "fast", "planned", f"root={tmp_path}")
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "| setting | slow | fast | planned |",
        "| --- | --- | --- | --- |",
        "| optimizer.learning_rate | 0.0003 | 0.0006 | 0.0009 |",
        "",
        "| first stage that differs | slow | fast | planned |",
        "| --- | --- | --- | --- |",
        f"| weights | {' | '.join(addresses)} |",
        "",
        "| measure | slow | fast | planned |",
        "| --- | --- | --- | --- |",
        "| steps | 2 | 1 | none |",
        "| training loss | 4.250 | 3.000 | none |",
        "| validation loss | 4.500 | none | none |",
        "",
        "No benchmark is common to two of the runs: slow has none; fast has none; planned has none.",
    ]


@pytest.mark.slow
def test_data_runs_are_compared_by_their_documents(tmp_path):
    """The second one allows shorter pages, and drops more. The last record has no text."""
    texts = ["short", "a little longer", "by far the longest", "x" * 100, ""]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    for name, most in (("lax", 50), ("strict", 17)):
        line = [f"name={name}", "source=jsonl", f"source.paths=[{tmp_path}/a.jsonl]", "cleaning=none", "tracking=file"]
        length = f"cleaning.filters=[{{type: page_length, max_characters: {most}}}]"
        result = headrace_here(*line, length, "until=unique", f"root={tmp_path}")
        assert result.returncode == 0, result.stderr
    page = tmp_path / "page.html"
    result = headrace_here("compare", "lax", "strict", f"--page={page}", f"root={tmp_path}")
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("| documents | lax | strict |\n| --- | --- | --- |\n")[1].splitlines() == [
        "| records read | 5 | 5 |",
        "| readable | 4 | 4 |",
        "| kept by cleaning | 3 | 2 |",
        "| unique | 3 | 2 |",
        "| clean: dropped by page_length | 1 | 2 |",
        "",
        f"page: {page}",
    ]
    assert "Documents documents lax strict records read 5 5" in " ".join(Reader(page.read_text()).text.split())


@pytest.mark.slow
def test_settings_that_differ_and_losses_stand_on_the_page(tmp_path, browse):
    """Two runs, planned by their settings, with scores and metrics made by hand."""
    names = []
    for name, rate, right in (("slow", "0.0003", FIRST), ("fast", "0.0006", SECOND)):
        steps = planned(tmp_path, name, rate)
        scores, weights = steps["scores"], steps["weights"]
        run_of(scores.folder, right, NATS, {"weights": weights.address})
        write_metrics(weights.folder, [{"step": step, "validation_loss": 5.0 / step} for step in (1, 2, 3)])
        names.append(name)
    page = tmp_path / "page.html"
    result = headrace_here("compare", *names, f"--page={page}", f"root={tmp_path}")
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[:4] == [
        "| setting | slow | fast |",
        "| --- | --- | --- |",
        "| optimizer.learning_rate | 0.0003 | 0.0006 |",
        "",
    ]
    assert lines[4] == "| first stage that differs | slow | fast |"
    assert lines[6].startswith("| weights | ")
    assert lines[8].startswith("| benchmark | shots | metric | items | slow | fast | ")
    assert lines[-1] == f"page: {page}"
    text = " ".join(Reader(page.read_text()).text.split())
    assert "Settings that differ setting slow fast optimizer.learning_rate 0.0003 0.0006" in text
    assert f"Stages at which the runs part first stage that differs slow fast {lines[6].replace('| ', '')[:-2]}" in text
    tree, console = browse(page, "--dump-dom")
    assert console == []
    assert re.findall(r'id="figure-(\w+)"[^>]* data-drawn="yes"', tree)[0] == "losses"


def trained(folder, number, parameters):
    """Scores of a model with so many parameters, below the root ``folder``."""
    weights = TaskOutput(folder / f"weights/w{number}", "weights", 0)
    with weights.file("metrics.jsonl") as path:
        path.write_text("")
    weights.done({"parameters": parameters})
    finish(weights.folder, {"stage": "weights"}, {"weights": 1})
    run_of(folder / f"scores/s{number}", FIRST, NATS, {"weights": f"w{number}"})
    return str(folder / f"scores/s{number}")


def test_the_sizes_of_models_are_named_where_they_differ(tmp_path):
    small, same, large = (trained(tmp_path, number, size) for number, size in enumerate((940_800, 940_800, 1_500_000)))
    page = tmp_path / "page.html"
    result = headrace_here("compare", small, large, f"--page={page}", f"root={tmp_path}")
    assert "| measure | s0 | s2 |\n| --- | --- | --- |\n| parameters | 940,800 | 1,500,000 |\n" in result.stdout
    assert "Models measure s0 s2 parameters 940,800 1,500,000" in " ".join(Reader(page.read_text()).text.split())
    assert "parameters" not in headrace_here("compare", small, same, f"root={tmp_path}").stdout


def test_runs_without_a_common_benchmark_are_named_with_theirs(tmp_path):
    for name, benchmark in (("a", "quiz"), ("b", "mine")):
        artifact(tmp_path / name, {benchmark: ([accuracy("acc", [1, 0], 0.5)], [{"acc": 1.0}, {"acc": 0.0}])})
    result = headrace_here("compare", str(tmp_path / "a"), str(tmp_path / "b"), f"root={tmp_path}")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "No benchmark is common to two of the runs: a has quiz; b has mine.\n"


def test_some_benchmarks_or_one_of_ones_own_alone(runs, tmp_path):
    both = (str(tmp_path / "a"), str(tmp_path / "b"), f"root={tmp_path}")
    for only, shown in (("quiz", ["quiz"]), ("quiz, words", ["quiz", "words"])):
        lines = headrace_here("compare", *both, "--only", only).stdout.splitlines()
        assert [line.split(" | ")[0] for line in lines[2:-2]] == [f"| {name}" for name in shown]
    refused = headrace_here("compare", *both, "--only=quizz")
    assert refused.returncode == 2
    assert refused.stderr == "headrace: --only: no run has a benchmark 'quizz'; did you mean 'quiz'?\n"
