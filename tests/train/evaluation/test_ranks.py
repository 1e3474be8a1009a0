"""Scoring by several ranks: the bytes of one, also when ranks were killed before; one that hangs ends them all."""

import json
from pathlib import Path

import pytest

from headrace.pipeline.core import work_log
from tests.train import fork_server
from tests.train.small_models import story, write_lines

__all__ = ["write_lines"]


@pytest.fixture(scope="module")
def spec(line, write_lines) -> dict:
    """Benchmarks of every shape."""
    sentences = [story(number).split(". ") for number in range(30)]
    rows = [{"query": s[0], "choices": s[1 : 3 + n % 3], "gold": n % 2} for n, s in enumerate(sentences)]
    quiz = write_lines("quiz.jsonl", *map(json.dumps, rows))
    pairs = write_lines("pairs.jsonl", *(json.dumps({"sentence_good": s[0], "sentence_bad": s[1]}) for s in sentences))
    asked = write_lines("asked.jsonl", *(json.dumps({"context": f"{s[0]} The", "aliases": s[1:2]}) for s in sentences))
    benchmarks = {
        "asked": {"type": "short_answer", "paths": [str(asked)], "max_tokens": 3},
        "quiz": {"type": "multiple_choice", "paths": [str(quiz)]},
        "quiz_2shot": {"type": "multiple_choice", "paths": [str(quiz)], "shots": 2},
        "pairs": {"type": "minimal_pairs", "paths": [str(pairs)]},
        "held_out_words": {"type": "held_out_words", "limit": 20},
        "validation": {"type": "validation", "limit": 5},
        "one": {"type": "agreement", "limit": 1},
        "texts": {"type": "continuations", "beginning_tokens": 12, "max_tokens": 6},
    }
    evaluation = {"benchmarks": benchmarks, "batch_tokens": 128, "device": "cpu"}
    names = ("overlaps", "tokens", "packed", "weights")
    return {"evaluation": evaluation, "inputs": {name: str(line[name].folder) for name in names}}


def run(spec: dict, folder: Path, runs: list[list]) -> list[int]:
    """The exit status of each of the ``runs``."""
    path = folder / "spec.json"
    path.write_text(json.dumps(spec | {"runs": [[str(folder / name), *rest] for name, *rest in runs]}))
    done = fork_server.run("tests.train.evaluation.scoring_ranks", str(path))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of the artifact, apart from logs."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    found = {str(path.relative_to(folder)): path.read_bytes() for path in files}
    return {name: content for name, content in found.items() if not name.startswith("logs/")}


@pytest.mark.slow
def test_any_number_of_ranks_and_threads_leaves_the_same_bytes(spec, tmp_path: Path) -> None:
    """Also when ranks resume after several kills; no query is answered again."""
    exchange = ["headrace.train.inference.sharing", "gather"]
    keep = ["headrace.train.inference.sharing:AnswerLog", "add"]
    runs = [["one", 1, 1, None], ["threads", 1, 2, None], ["two", 2, 1, None]]
    runs += [["killed", 2, 1, [*exchange, 5, "SIGKILL", "1"]], ["killed", 3, 1, [*exchange, 4, "SIGKILL", "0"]]]
    runs += [["killed", 1, 1, [*keep, 3, "SIGKILL", "0"]], ["killed", 2, 1, None]]
    runs += [["hung", 2, 1, [*exchange, 5, "SIGSTOP", "1"]]]
    assert run(spec, tmp_path, runs) == [0, 0, 0, -9, -9, -9, 0, 75]
    assert str(work_log.error_of(tmp_path / "hung")) == (
        "scores: rank 0 finished no round for 20 s after round 4; see the stacks in logs/; run again"
    )
    expected = tree(tmp_path / "one")
    assert {"manifest.json", "scores.json", "samples/asked.jsonl", "samples/texts.jsonl"} <= expected.keys()
    for name in ("threads", "two", "killed"):
        assert tree(tmp_path / name) == expected, name
    keys = {name: (tmp_path / name / "logs" / "asked").read_text().split() for name in ("one", "killed")}
    assert sorted(keys["killed"]) == sorted(set(keys["one"]))
    trail = (tmp_path / "one" / "logs" / "progress.jsonl").read_text().splitlines()
    last = json.loads(trail[-1])
    assert last["done"] == last["total"] == json.loads(expected["manifest.json"])["counts"]["queries"]
    assert len(trail) > 2 * len(spec["evaluation"]["benchmarks"]), "benchmarks take several rounds"
    assert (tmp_path / "killed" / "logs" / "progress.jsonl").read_text().splitlines()[-1] == trail[-1]
