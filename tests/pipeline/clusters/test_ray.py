"""A real Ray on this machine: the bytes of a run are those of a local one, after kills of a task and of the head."""

import importlib.util
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.core.json_files import read_sealed
from tests.cluster.line import headrace, write_source
from tests.pipeline.clusters.one_machine_ray import OneMachineRay, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="needs Ray: pip install 'headrace[ray]'"),
    pytest.mark.timeout(1800),
]
END_SECONDS = 900
JOB = re.compile(r"headrace-[0-9a-f]{16}")


@pytest.fixture(scope="module")
def ray() -> Iterator[OneMachineRay]:
    with OneMachineRay() as head:
        yield head


def files_by_stage(root: Path) -> dict[str, Any]:
    """Returns the sizes and checksums of the files of each finished artifact below ``root``.

    Of a training the files of weights and checkpoints: the others hold times, as the report does.
    """
    manifests = {path.parent.relative_to(root): read_sealed(path)["files"] for path in root.glob("*/*/manifest.json")}
    return {
        str(folder): files
        if folder.parts[0] != "weights"
        else {name: record for name, record in files.items() if name.endswith(".safetensors")}
        for folder, files in manifests.items()
        if folder.parts[0] != "report"
    }


def logs(root: Path) -> str:
    return "\n".join(f"{path.name}:\n{path.read_text()[-1500:]}" for path in sorted(root.glob("runs/*/logs/*.log")))


def test_the_bytes_of_a_run_that_lost_a_task_and_the_head(ray: OneMachineRay, tmp_path: Path) -> None:
    line = ("run", write_source(tmp_path / "raw"), "cleaning=none", "until=weights")
    local = headrace(*line, f"root={tmp_path}/here", "ranks=2")
    assert local.returncode == 0, local.stderr
    root = tmp_path / "root"
    on_ray = (*line, f"root={root}", "cluster=ray", "cluster.ranks_per_node=2")

    def submitted() -> list[str]:
        done = headrace(*on_ray, f"cluster.address={ray.address}")
        assert done.returncode == 0, done.stderr
        return [row.split()[3] for row in done.stdout.splitlines() if len(row.split()) >= 5 and JOB.search(row)]

    def wait(condition: Any) -> None:
        until(condition, lambda: logs(root), END_SECONDS)

    def killed_task() -> bool:
        """Kills the process of a task of a data stage, when there is one."""
        for process, variables in ray.processes():
            if variables.get(b"HEADRACE_RESTARTS") == b"0" and b".duplicates." in variables.get(b"HEADRACE_JOB", b""):
                os.kill(process, signal.SIGKILL)
                return True
        return False

    first = submitted()
    assert len(first) == 3
    assert submitted() == first, "nothing is submitted twice"
    wait(killed_task)
    wait(lambda: "was killed: it starts again" in logs(root))
    wait(lambda: list(root.glob("tokenizer/*/manifest.json")))
    ray.lose()
    ray.start()
    second = submitted()
    assert not set(second) & set(first)
    wait(lambda: list(root.glob("report/*/manifest.json")))
    stages = files_by_stage(root)
    assert stages == files_by_stage(tmp_path / "here")
    assert all(stages.values()), "no stage is compared without a file"
    assert "everything was done before" in headrace(*on_ray, f"cluster.address={ray.address}").stdout


def test_cancel_ends_the_job_that_runs_and_those_that_wait(ray: OneMachineRay, tmp_path: Path) -> None:
    root = tmp_path / "root"
    run = (write_source(tmp_path / "raw"), f"root={root}", "until=weights", "cluster=ray")
    run += (f"cluster.address={ray.address}", "cluster.data_cpus=9")  # no machine has so many cores
    assert headrace("run", *run).returncode == 0
    held = headrace("status", *run).stdout
    assert re.search(r"^texts: (RUNNING|PENDING \(.*\)), job headrace-\w+$", held, re.MULTILINE), held
    assert re.search(r"^weights: PENDING \(Dependency\), job headrace-\w+$", held, re.MULTILINE), held
    cancelled = headrace("cancel", *run)
    assert cancelled.returncode == 0, cancelled.stderr
    assert len(JOB.findall(cancelled.stdout)) == 3
    until(lambda: "no job and no command" in headrace("cancel", *run).stdout, lambda: logs(root), END_SECONDS)
    assert not list(root.glob("*/*/manifest.json"))
