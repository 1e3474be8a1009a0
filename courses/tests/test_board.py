"""The board: the score of published rows, and real small fine-tunings with further files and diagnostics."""

import json
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from courses.tests.command_line import courses_here
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.errors import ConfigError
from headrace.train.families.hf_folder import export
from headrace.train.finetune.seed_files import SeedScores
from headrace.train.model.initialization import first_weights, without_values
from headrace.train.model.transformer import Transformer
from headrace_courses import board
from headrace_courses.board import TaskResult, board_score
from headrace_courses.board_tasks import BOARDS
from headrace_courses.superglue import SuperGlue
from tests.train.finetune.small_tasks import BAD, ENCODER, FILLERS, GOOD, lines, tokenizer_artifact, words_tokenizer

BERT_LARGE: Mapping[str, Mapping[str, Sequence[float]]] = {
    "glue": {
        "cola": [60.5], "sst2": [94.9], "mrpc": [89.3, 85.4], "stsb": [87.6, 86.5], "qqp": [72.1, 89.3],
        "mnli": [86.7, 85.9], "qnli": [92.7], "rte": [70.1], "wnli": [65.1],
    },
    "superglue": {
        "boolq": [77.4], "cb": [75.7, 83.6], "copa": [70.6], "multirc": [70.0, 24.0], "record": [72.0, 71.3],
        "rte": [71.6], "wic": [69.5], "wsc": [64.3],
    },
}  # fmt: skip
"""The rows of BERT-large on both boards: GLUE gives it 80.5, SuperGLUE (Wang et al. 2019, table 3) 69.0."""
PUBLISHED = {"glue": 80.5, "superglue": 69.0}


def results(rows: Mapping[str, Sequence[float]]) -> list[TaskResult]:
    return [
        TaskResult(name, "done", {str(number): SeedScores("", (value,)) for number, value in enumerate(values)})
        for name, values in rows.items()
    ]


@pytest.mark.parametrize("name", BOARDS)
def test_the_score_is_that_of_the_board(name: str) -> None:
    listed = results(BERT_LARGE[name])
    assert [result.name for result in listed] == [task.name for task in BOARDS[name]]
    assert board_score(listed) == pytest.approx(PUBLISHED[name], abs=0.05)
    assert board_score([*listed[1:], TaskResult(listed[0].name, "started")]) is None
    if name == "glue":
        without = board_score(listed, "wnli")
        assert without == pytest.approx((9 * board_score(listed) - 65.1) / 8)
        assert "without wnli" in "".join(board._lines(name, listed))
        assert board.as_values(name, listed)["score_without_wnli"] == without


def test_gender_parity_is_the_share_of_pairs_with_equal_predictions(tmp_path: Path) -> None:
    row = {"premise": "A.", "hypothesis": "B.", "label": "entailment"}
    pairs = [{**row, "pair_id": number // 2} for number in range(6)]
    path = lines(tmp_path / "AX-g.jsonl", pairs)
    examples = SuperGlue(task="rte").read(Path(path)).examples
    parity = board.METRICS["gender_parity"]
    assert parity(examples, ["a", "a", "a", "b", "b", "b"]) == 2 / 3
    assert parity(examples, ["a", "b"] * 3) == 0


def sentence(chance: random.Random, word: str) -> str:
    words = [*chance.choices(FILLERS, k=4), word]
    chance.shuffle(words)
    return " ".join(words)


def glue_of_nli(folder: Path) -> None:
    """MNLI with a label that follows from a word, dev_mismatched, and the diagnostic file."""
    chance = random.Random(0)
    kinds = {"entailment": GOOD, "contradiction": BAD, "neutral": FILLERS}
    (folder / "MNLI").mkdir(parents=True)
    for name, rows in (("train", 120), ("dev_matched", 12), ("dev_mismatched", 12)):
        text = "index\tsentence1\tsentence2\tgold_label\n"
        for number in range(rows):
            label = [*kinds][number % 3]
            text += f"{number}\t{sentence(chance, chance.choice(kinds[label]))}\ta b\t{label}\n"
        (folder / f"MNLI/{name}.tsv").write_text(text)
    text = "Logic\tPremise\tHypothesis\tLabel\n"
    for number in range(9):
        label = [*kinds][number % 3]
        text += f"x\t{sentence(chance, kinds[label][0])}\tc d\t{label}\n"
    (folder / "AX").mkdir()
    (folder / "AX/diagnostic-full.tsv").write_text(text)


def superglue_of_rte(folder: Path) -> None:
    chance = random.Random(0)
    for name in ("RTE", "AX-b", "AX-g"):
        (folder / name).mkdir(parents=True)

    def rows(number: int, first: str, second: str) -> list[dict[str, object]]:
        kinds = {"entailment": GOOD, "not_entailment": BAD}
        return [
            {first: sentence(chance, chance.choice(kinds[label])), second: "a b", "label": label, "idx": index}
            for index, label in enumerate([*kinds] * (number // 2))
        ]

    lines(folder / "RTE/train.jsonl", rows(120, "premise", "hypothesis"))
    lines(folder / "RTE/val.jsonl", rows(12, "premise", "hypothesis"))
    lines(folder / "AX-b/AX-b.jsonl", rows(10, "sentence1", "sentence2"))
    pairs = [{**row, "pair_id": number // 2} for number, row in enumerate(rows(10, "premise", "hypothesis"))]
    lines(folder / "AX-g/AX-g.jsonl", pairs)


def recipe(tmp_path: Path) -> list[str]:
    tokenizer = tokenizer_artifact(tmp_path / "tokenizer")
    folder = tmp_path / "model"
    with without_values():
        empty = Transformer(ENCODER, len(words_tokenizer().get_vocab()))
    export(first_weights(empty, 1), ENCODER, empty.vocabulary, tokenizer.path("tokenizer.json"), folder)
    return [
        f"root={tmp_path / 'runs'}", f"finetune.folder={folder}", "finetune.context=16", "finetune.epochs=20",
        "finetune.dropout=0", "finetune.optimizer.learning_rate=1e-2", "tracking.wandb=off", "training.device=cpu",
        "finetune.batch_rows=12",
    ]  # fmt: skip


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize("name", BOARDS)
def test_every_task_has_a_preset_of_its_format(name: str, as_text: bool) -> None:
    for task in BOARDS[name]:
        form = option_values("finetune", task.option(as_text))["task"]["format"]
        assert form == {"type": name, "task": task.name}


@pytest.mark.slow
def test_a_board_runs_its_tasks_and_scores_further_files(tmp_path: Path) -> None:
    glue_of_nli(tmp_path / "glue")
    settings = [*recipe(tmp_path), "finetune.seeds=[1,2]"]
    command = ("board", "glue", str(tmp_path / "glue"), *settings, "--json", str(tmp_path / "glue.json"))
    ended = courses_here(*command)
    assert ended.returncode == 0, ended.stderr
    values = json.loads((tmp_path / "glue.json").read_text())
    mnli = values["tasks"]["mnli"]
    assert list(mnli["metrics"]) == ["accuracy", "mnli_mm accuracy"]
    assert mnli["score"] == pytest.approx(sum(row["mean"] for row in mnli["metrics"].values()) / 2)
    assert mnli["score"] > 0.6, "chance is a third"
    assert mnli["diagnostics"]["ax matthews"]["mean"] > 0.3
    assert len(mnli["diagnostics"]["ax matthews"]["values"]) == 2
    assert values["score"] is None
    assert values["tasks"]["cola"]["state"] == "there is no CoLA/train.tsv"
    assert "glue: no score, because 1 of its 9 tasks have one" in ended.stdout
    again = courses_here(*command)
    assert again.stdout == ended.stdout
    assert "seed 1 begins" not in again.stderr


@pytest.mark.slow
def test_diagnostics_of_superglue_are_those_of_rte(tmp_path: Path) -> None:
    superglue_of_rte(tmp_path / "superglue")
    command = ("board", "superglue", str(tmp_path / "superglue"), *recipe(tmp_path))
    shown = courses_here(*command, "--show", "--json", str(tmp_path / "shown.json"))
    assert shown.returncode == 0, shown.stderr
    assert json.loads((tmp_path / "shown.json").read_text())["tasks"]["rte"]["state"] == "not started"
    ended = courses_here(*command, "--task", "rte:finetune.epochs=21", "--json", str(tmp_path / "superglue.json"))
    assert ended.returncode == 0, ended.stderr
    rte = json.loads((tmp_path / "superglue.json").read_text())["tasks"]["rte"]
    assert list(rte["metrics"]) == ["accuracy"]
    assert list(rte["diagnostics"]) == ["axb matthews", "axg accuracy", "axg gender_parity"]
    assert rte["diagnostics"]["axb matthews"]["mean"] > 0.3
    assert rte["diagnostics"]["axg gender_parity"]["mean"] < 0.5, "each pair has both classes"


def test_mistakes_are_refused_before_anything_starts(tmp_path: Path) -> None:
    tasks = BOARDS["glue"]
    with pytest.raises(ConfigError, match=r"there is no CoLA/train\.tsv"):
        board.planned_tasks("glue", tasks, tmp_path, [])
    with pytest.raises(ConfigError, match="finetune: is set for each task of the board"):
        board.planned_tasks("glue", tasks, tmp_path, ["finetune=sst2"])
    with pytest.raises(ConfigError, match="--task: unknown task 'colla'"):
        board.planned_tasks("glue", tasks, tmp_path, [], ["colla:finetune.epochs=1"])
    with pytest.raises(ConfigError, match="is not TASK:KEY=VALUE"):
        board.planned_tasks("glue", tasks, tmp_path, [], ["cola"])
    assert courses_here("board", "blue", str(tmp_path)).returncode == 2
