"""The driver of a job of Ray: it waits for the job before it, then has its work done on the machines of the cluster.

python -m headrace.pipeline.clusters.ray_job WORK
    WORK is the JSON that ray.py makes of a request. The driver's lines are in ``<log>-<id>.log`` and in ``ray job
    logs``; the output of each task, and of the ranks of each machine, is in ``<log>-<id>.….log``.

    phase after phase:  missing tasks ── ray.wait ──> done | its process or machine was lost: again
    training:           placement group ── ranks ended ── recovery.decide ──> again from the newest checkpoint, or end

When Ray ends this process, it ends the tasks of the job, too. Finished tasks and checkpoints are kept.
"""

import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, cast

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from headrace.pipeline.clusters import ray_client
from headrace.pipeline.clusters.base import COMPLETED, JOB_RANK, WORKER, Entry, JobPhase
from headrace.pipeline.clusters.ray_task import NodeRanks, run_module
from headrace.pipeline.clusters.recovery import START, EndedAttempt, decide, newest_checkpoint, number_of_attempt
from headrace.pipeline.core import work_log
from headrace.pipeline.core.artifact import is_whole, missing_tasks
from headrace.pipeline.core.environment import CORES, JOB, RESTARTS
from headrace.pipeline.core.errors import HeadraceError, TaskError
from headrace.pipeline.tracking.notices import failure_noticed, noticed, send

POLL_SECONDS = 1.0
PATIENCE_SECONDS = 300.0
"""The time during which a job server that does not answer is asked again."""
TASKS_A_SLOT = 4
"""Ray's tasks of a phase for each task that the cluster runs at once: few starts of Python, and an even load."""
KILLED = 128 + 9
"""The exit status of ranks whose machine or whose process of Ray was lost."""


class RayJob:
    """A job of Ray: its ``work``, and the resources of its tasks."""

    def __init__(self, work: Mapping[str, Any]) -> None:
        self._work = work
        self._phases = [JobPhase(*phase) for phase in work["phases"]]
        self._log = f"{work['log']}-{work['id']}"

    def run(self) -> int:
        """Does the work and returns the exit status."""
        return self._run_ranks() if "nodes" in self._work else self._run_phases()

    def wait(self, server: str) -> None:
        """Waits for the end of the jobs before this one.

        Raises:
            TaskError: when the one that must succeed has failed, or the job ``server`` does not answer for long.
        """
        while True:
            entries = _entries(server)
            before = [entries[id] for id in self._work["before"] if id in entries]
            if not any(entry.is_live for entry in before):
                break
            time.sleep(POLL_SECONDS)
        needed = self._work["must_succeed"]
        if needed and (needed not in entries or entries[needed].state != COMPLETED):
            raise TaskError("cluster=ray", f"job {needed}, before this one, has failed", "run the same command again")

    def _run_phases(self) -> int:
        left = (phase for phase in self._phases if not is_whole(Path(phase.folder)))
        return next(filter(None, map(self._run_phase, left)), 0)

    def _run_phase(self, phase: JobPhase) -> int:
        """Runs the missing tasks of ``phase``. The last one of a stage finishes its artifact.

        Returns:
            The exit status of a task that failed, after all others have ended; else 0.
        """
        slots = max(1, int(ray.cluster_resources().get("CPU", 1) / self._work["cpus"]))
        width = min(phase.tasks, TASKS_A_SLOT * slots)
        missing = missing_tasks(Path(phase.folder), phase.phase, phase.tasks)
        print(f"headrace: {phase.stage} {phase.phase}: {len(missing)} of {phase.tasks} tasks are missing")
        indices = sorted({task % width for task in missing})
        running = {self._start(phase, index, width, 0): (index, 0) for index in indices}
        failed = 0
        while running:
            (ended,), _ = ray.wait(list(running))
            index, attempt = running.pop(ended)
            status = _status_of(ended)
            if status == KILLED and attempt + 1 < self._work["attempts"]:
                print(f"headrace: {phase.stage} {phase.phase}, index {index} was killed: it starts again")
                running[self._start(phase, index, width, attempt + 1)] = index, attempt + 1
            elif status:
                log = self._log_of_task(phase, index)
                print(f"headrace: {phase.stage} {phase.phase}, index {index} failed (status {status}), see {log}")
                failed = failed or status
        return failed

    def _start(self, phase: JobPhase, index: int, width: int, attempt: int) -> "ray.ObjectRef[int]":
        """Starts the tasks of array index ``index`` as a task of Ray."""
        cores = self._work["cpus"]
        name = f"{phase.stage}.{phase.phase}-{index}"
        variables = {JOB: f"{self._work['id']}.{name}", RESTARTS: str(attempt), CORES: str(cores)}
        module = [WORKER, self._work["run_json"], phase.stage, phase.phase, str(index), str(width)]
        task = ray.remote(run_module).options(num_cpus=cores, max_retries=0, name=name)
        return task.remote(module, self._work["folder"], self._log_of_task(phase, index), variables)

    def _log_of_task(self, phase: JobPhase, index: int) -> str:
        return f"{self._log}.{phase.stage}.{phase.phase}_{index}.log"

    def _run_ranks(self) -> int:
        """Runs attempts at the distributed stage until one succeeds, or ``recovery.decide`` wants no other."""
        phase, work = self._phases[0], self._work
        folder = Path(phase.folder)
        (folder / "logs").mkdir(parents=True, exist_ok=True)
        with noticed(Path(work["run_json"])), failure_noticed(phase.stage):
            for restarts in itertools.count():
                before = newest_checkpoint(folder)
                number = number_of_attempt(folder, work["id"], before, restarts)
                work_log.clear_error(folder)
                print(f"headrace: {phase.stage}, attempt {restarts + 1}, from {before or START}")
                status = self._attempt(phase, restarts)
                reported, after = work_log.error_of(folder), newest_checkpoint(folder)
                attempt = EndedAttempt(phase.stage, status, reported, False, before, after, number, work["attempts"])
                decision = decide(attempt)
                if decision.message:
                    print(f"headrace: {decision.message}")
                if not decision.again:
                    break
            if status:
                ended = f"{phase.stage} ended early (status {status})"
                send("died", phase.stage, decision.message or str(reported or ended))
        return status

    def _attempt(self, phase: JobPhase, restarts: int) -> int:
        """Runs the ranks of all machines once. Returns the exit status of the first that failed, else 0."""
        nodes, ranks, bundle = self._work["nodes"], self._work["ranks_per_node"], self._work["bundle"]
        group = placement_group([bundle] * nodes, strategy="STRICT_SPREAD")
        try:
            print(f"headrace: waits for {nodes} machines with {bundle}")
            ray.get(group.ready())
            actors = [
                ray.remote(NodeRanks)
                .options(
                    num_cpus=bundle["CPU"],
                    num_gpus=bundle.get("GPU", 0),
                    scheduling_strategy=PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=node),
                )
                .remote()
                for node in range(nodes)
            ]
            address, port = ray.get(actors[0].address.remote())
            print(f"headrace: {nodes} x {ranks} ranks, rendezvous {address}:{port}")
            variables = {"MASTER_ADDR": address, "MASTER_PORT": str(port), "WORLD_SIZE": str(nodes * ranks)}
            variables |= {"LOCAL_WORLD_SIZE": str(ranks), CORES: str(bundle["CPU"] // ranks)}
            variables |= {JOB: self._work["id"], RESTARTS: str(restarts)}
            module = [*JOB_RANK, self._work["run_json"], phase.stage]
            running = [
                actor.run.remote(module, self._work["folder"], f"{self._log}.node_{node}.log", variables, node * ranks)
                for node, actor in enumerate(actors)
            ]
            return next(filter(None, _statuses(running)), 0)
        except RayError as error:
            print(f"headrace: {' '.join(str(error).split())}")
            return KILLED
        finally:
            remove_placement_group(group)  # ends its actors


def _statuses(running: "Sequence[ray.ObjectRef[int]]") -> Iterator[int]:
    """Yields the exit status of each of ``running``, in the order in which they end."""
    left = list(running)
    while left:
        (ended,), left = ray.wait(left)
        yield _status_of(ended)


def _status_of(ended: "ray.ObjectRef[int]") -> int:
    """Returns the exit status of work that has ended; ``KILLED`` when Ray lost its process or its machine.

    Raises:
        TaskError: when a machine could not start it.
    """
    try:
        status: int = ray.get(ended)
        return status
    except RayTaskError as error:
        remedy = "each machine needs headrace, its packages, and the root on a file system that all share"
        raise TaskError("cluster=ray", f"a machine could not start a process: {error.cause!r}", remedy) from None
    except RayError as error:
        print(f"headrace: {' '.join(str(error).split())}")
        return KILLED


def _entries(server: str) -> Mapping[str, Entry]:
    """Returns ``ray_client.entries``, and asks again for ``PATIENCE_SECONDS``."""
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            return ray_client.entries(server)
        except TaskError:
            if time.monotonic() >= end:
                raise
        time.sleep(POLL_SECONDS)


class Copied:
    """A stream of text whose lines also go to a file."""

    def __init__(self, stream: TextIO, file: TextIO) -> None:
        self._stream, self._file = stream, file

    def write(self, text: str) -> int:
        for stream in (self._file, self._stream):
            stream.write(text)
            stream.flush()
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def main(arguments: Sequence[str]) -> int:
    """Does the work that ``arguments`` describe. Returns the exit status."""
    work = json.loads(arguments[0])
    os.chdir(work["folder"])
    log = Path(f"{work['log']}-{work['id']}.log").open("a", encoding="utf-8")  # noqa: SIM115  # until this process ends
    sys.stdout, sys.stderr = (cast(TextIO, Copied(stream, log)) for stream in (sys.stdout, sys.stderr))
    job = RayJob(work)
    try:
        context = ray.init(address="auto", log_to_driver=False, logging_level="WARNING")
        job.wait(f"http://{context.dashboard_url}")
        return job.run()
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
