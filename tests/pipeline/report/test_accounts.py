"""What a run has spent, by the kinds of work that there are, and by a second count on a grid of seconds."""

import dataclasses
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from headrace.pipeline.core.json_files import write_json
from headrace.pipeline.core.work_log import ATTEMPTS, Attempt
from headrace.pipeline.report.accounts import Account, Spent

RUN = "0123456789ab"
MACHINE = Attempt("n1", "Fast CPU", 4, 64, ("GPU",) * 4, 0.0, None, 0.0, RUN)
"""A machine of 4 cores and 4 GPUs."""
Stages = Mapping[str, Sequence[Attempt]]


def held(cores: int, start: float, end: float | None, gpus: int = 0, **others: object) -> Attempt:
    return dataclasses.replace(MACHINE, held_cores=cores, held_gpus=gpus, start=start, end=end, **others)  # type: ignore[arg-type]


def account(root: Path, stages: Stages) -> Account:
    """Writes the records of ``stages``, and returns the account that is read from them."""
    for stage, attempts in stages.items():
        (root / stage).mkdir(parents=True)
        (root / stage / "manifest.json").write_text('{"files": {"a": {"bytes": 1000}}}')
        for number, attempt in enumerate(attempts):
            write_json(root / stage / ATTEMPTS / f"{number}.json", dataclasses.asdict(attempt))
    return Account.of(RUN, {stage: root / stage for stage in stages})


def seconds(spent: Spent) -> tuple[int, int]:
    return round(spent.core_hours * 3600), round(spent.gpu_hours * 3600)


KINDS: dict[str, tuple[Stages, Mapping[str, tuple[int, int]]]] = {
    "a command with three workers": ({"clean": [held(3, 0, 100)]}, {"clean": (300, 0)}),
    "a command that was stopped, and the next one": (
        {"clean": [held(2, 0, 100), held(2, 500, 550)]},
        {"clean": (300, 0)},
    ),
    "a command that was killed, last seen after 80 s": (
        {"clean": [held(2, 0, None, seen=80.0), held(2, 500, 550)]},
        {"clean": (260, 0)},
    ),
    "a command that was killed before it was seen again": ({"clean": [held(2, 10, None)]}, {"clean": (0, 0)}),
    "two commands on one machine, which has no more than its cores": (
        {"clean": [held(4, 0, 100), held(4, 50, 150)]},
        {"clean": (600, 0)},
    ),
    "two commands that share the cores of one machine": (
        {"clean": [held(2, 0, 100), held(1, 50, 150)]},
        {"clean": (300, 0)},
    ),
    "commands on two machines": (
        {"clean": [held(4, 0, 100), held(4, 50, 150, host="n2")]},
        {"clean": (800, 0)},
    ),
    "two ranks on two of four GPUs": ({"weights": [held(4, 0, 100, gpus=2)]}, {"weights": (400, 200)}),
    "indices of an array on one shared node": (
        {"clean": [held(1, 0, 100, job=str(job)) for job in range(11, 17)]},
        {"clean": (600, 0)},
    ),
    "a training on two nodes, of which rank 0 makes the record": (
        {"weights": [held(16, 0, 100, gpus=8, job="7")]},
        {"weights": (1600, 800)},
    ),
    "a training that was put back into the queue": (
        {"weights": [held(16, 0, None, gpus=8, job="7", seen=100.0), held(16, 300, 400, gpus=8, job="7", host="n2")]},
        {"weights": (3200, 1600)},
    ),
    "an old copy on a lost node beside the restarted job": (
        {"weights": [held(16, 0, None, job="7", seen=200.0), held(16, 100, 300, job="7", host="n2")]},
        {"weights": (4800, 0)},
    ),
    "one job of two stages": (
        {"texts": [held(4, 100, 175, job="7")], "clean": [held(4, 175, 200, job="7")]},
        {"texts": (300, 0), "clean": (100, 0)},
    ),
    "an artifact of another run": ({"texts": [held(4, 0, 100, run="ba9876543210")]}, {"texts": (0, 0)}),
    "a record of an earlier version": ({"texts": [held(4, 0, 100, run="")]}, {"texts": (0, 0)}),
    "an artifact that two runs worked on": (
        {"texts": [held(4, 0, 100, run="ba9876543210"), held(4, 200, 250)]},
        {"texts": (200, 0)},
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_work(kind: str, tmp_path: Path) -> None:
    stages, expected = KINDS[kind]
    own = account(tmp_path, stages)
    assert {spent.stage: seconds(spent) for spent in own.stages} == expected
    assert seconds(own.total) == tuple(map(sum, zip(*expected.values(), strict=True)))
    for spent in own.stages:
        attempts = [attempt for attempt in stages[spent.stage] if attempt.run == RUN]
        assert spent.is_reused == (not attempts)
        assert spent.written_bytes == (1000 if attempts else 0)
        assert (spent.attempts, spent.without_end) == (len(attempts), sum(one.end is None for one in attempts))


def on_a_grid(attempts: Sequence[Attempt]) -> int:
    """Counts core-seconds second by second: on a machine at most its cores, in a job those of the job once."""
    total = 0
    for second in range(int(max(attempt.until for attempt in attempts))):
        running = [attempt for attempt in attempts if attempt.start <= second < attempt.until]
        for host in {attempt.host for attempt in running if not attempt.job}:
            on_host = [attempt.held_cores for attempt in running if attempt.host == host and not attempt.job]
            total += min(MACHINE.cores, sum(on_host))
        total += sum({attempt.job: attempt.held_cores for attempt in running if attempt.job}.values())
    return total


@pytest.mark.parametrize("seed", range(8))
def test_a_count_second_by_second_agrees(seed: int, tmp_path: Path) -> None:
    drawn = random.Random(seed)
    attempts = []
    for _ in range(30):
        start, job = drawn.randrange(200), drawn.choice(("", "", "7", "8"))
        end = start + drawn.randrange(100)
        cores = {"": drawn.randint(1, 4), "7": 16, "8": 32}[job]
        is_killed, host = drawn.random() < 0.3, drawn.choice(("n1", "n2"))
        times = {"seen": float(end)} if is_killed else {}
        attempts.append(held(cores, start, None if is_killed else end, job=job, host=host, **times))
    assert seconds(account(tmp_path, {"clean": attempts}).stages[0])[0] == on_a_grid(attempts)


def test_the_text_has_hours_and_bytes(tmp_path: Path) -> None:
    total = account(tmp_path, {"weights": [held(4, 0, 3600, gpus=2), held(1, 0, 0.001, host="n2")]}).total
    assert str(total) == "4 core-h, 2 GPU-h, 1.0 kB"
    assert str(Spent("clean", core_hours=0.0001)) == "< 0.001 core-h"


def test_a_damaged_record_is_left_out(tmp_path: Path) -> None:
    whole = account(tmp_path, {"clean": [held(2, 0, 100)]}).total
    for number, content in enumerate(("", "[]", '{"host": "n1"}', '{"start": "soon"}', "\0", "null")):
        (tmp_path / "clean" / ATTEMPTS / f"damaged-{number}.json").write_text(content)
    assert Account.of(RUN, {"clean": tmp_path / "clean"}).total == whole
