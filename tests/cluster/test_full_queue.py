"""An account that may have two jobs in the queue: a chain of four ends without a person."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import accounting
from tests.cluster.accounting import SlurmWithAccounting
from tests.cluster.line import headrace, write_source
from tests.cluster.one_machine import client
from tests.cluster.test_line import wait_for_jobs

ACCOUNT = (
    "add account mill cluster=headrace",
    "add user root account=mill cluster=headrace",
    "modify user where name=root account=mill set MaxSubmitJobs=2",
)


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmWithAccounting]:
    if reason := accounting.lacking():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accounting, "CONF", f"{accounting.CONF}AccountingStorageEnforce=associations,limits\n")
        with SlurmWithAccounting(tmp_path_factory.mktemp("slurm") / "limited") as cluster:
            for command in ACCOUNT:
                assert client("sacctmgr", "--immediate", *command.split()), command
            yield cluster


def test_the_last_job_that_the_queue_took_submits_the_rest(limited: SlurmWithAccounting, tmp_path: Path) -> None:
    own = (write_source(tmp_path / "raw"), "cleaning=none", "evaluation.limit=2", f"root={tmp_path}/root")
    on_slurm = ("cluster=slurm", "cluster.account=mill", "cluster.one_job=always")
    done = headrace("run", "name=mill", *own, *on_slurm)
    assert done.returncode == 0, done.stderr
    assert "AssocMaxSubmitJobLimit" in done.stdout
    assert "so job 2 submits the rest at its end" in done.stdout
    wait_for_jobs()
    rows = headrace("status", *own, *on_slurm).stdout.splitlines()
    assert len([row for row in rows if " done " in row]) == 12, rows
    assert "so job 3 submits the rest at its end" in (next(tmp_path.glob("root/runs/*/logs/weights*.log"))).read_text()
