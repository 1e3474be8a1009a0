"""The driver of a job of Ray: it waits for the job before it, then has its work done on the machines of the cluster.

    phase after phase:  missing tasks ── ray.wait ──> done | its process or machine was lost: again
    training:           placement group ── ranks ended ── recovery.decide ──> again from the newest checkpoint, or end

python -m headrace.pipeline.clusters.ray_job WORK, which is the JSON that ray.py makes of a request. The driver's lines
are in ``<log>-<id>.log``, the output of each task, and of the ranks of each machine, in ``<log>-<id>.….log``. Processes
of ours end with those of Ray, the tasks of a job with its driver. Finished tasks and checkpoints are kept.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from headrace.pipeline.clusters.base import COMPLETED, JOB_RANK, WORKER, JobPhase
from headrace.pipeline.clusters.ray import entries, one_line
from headrace.pipeline.clusters.recovery import attempt, reason
from headrace.pipeline.core.artifact import is_whole, missing_tasks
from headrace.pipeline.core.environment import CORES, JOB, NODE, RESTARTS, without_process
from headrace.pipeline.core.errors import HeadraceError, TaskError
from headrace.pipeline.core.signals import die_with_parent
from headrace.pipeline.tracking.notices import failure_noticed, noticed, send

POLL_SECONDS = 1.0
PATIENCE_SECONDS = 300.0
"""The time during which a job server that does not answer is asked again."""
TASKS_A_SLOT = 4
"""Ray's tasks of a phase for each task that the cluster runs at once: few starts of Python, and an even load."""
KILLED = 128 + 9
"""The exit status of work whose machine or whose process of Ray was lost."""


class RayJob:
    """A job of Ray: its ``work``, and the resources of its tasks."""

    def __init__(self, work: Mapping[str, Any]) -> None:
        self._work = work
        self._phases = [JobPhase(*phase) for phase in work["phases"]]
        self._log = f"{work['log']}-{work['id']}"

    def say(self, line: str) -> None:
        """Prints ``line``, and appends it to the log of the driver."""
        print(f"headrace: {line}", flush=True)
        with Path(f"{self._log}.log").open("a", encoding="utf-8") as log:
            print(f"headrace: {line}", file=log)

    def wait(self, server: str) -> None:
        """Waits for the end of the job before this one.

        Raises:
            TaskError: when it has failed, or the job ``server`` does not answer for long.
        """
        if not (before := self._work["after"]):
            return
        answered = time.monotonic()
        while True:
            try:
                entry = entries(server).get(before)
                answered = time.monotonic()
                if entry is None or not entry.is_live:
                    break
            except TaskError:
                if time.monotonic() - answered >= PATIENCE_SECONDS:
                    raise
            time.sleep(POLL_SECONDS)
        if entry is None or entry.state != COMPLETED:
            raise TaskError("cluster=ray", f"job {before}, before this one, has failed", "run the same command again")

    def run(self) -> int:
        """Does the work and returns the exit status. Sends a notice of a failure."""
        with noticed(Path(self._work["run_json"])), failure_noticed(self._phases[0].stage):
            return self._run_ranks() if "nodes" in self._work else self._run_phases()

    def _run_phases(self) -> int:
        """Runs phase after phase, up to one with a task that failed."""
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
        name = f"{phase.stage} {phase.phase}"
        self.say(f"{name}: {len(missing)} of {phase.tasks} tasks are missing")
        running = {self._start(phase, index, width, 0): (index, 0) for index in sorted({n % width for n in missing})}
        failed = 0
        while running:
            (ended,), _ = ray.wait(list(running))
            index, restarts = running.pop(ended)
            status = self._status_of(ended)
            if status == KILLED and restarts + 1 < self._work["attempts"]:
                self.say(f"{name}, index {index} was killed: it starts again")
                running[self._start(phase, index, width, restarts + 1)] = index, restarts + 1
            elif status:
                failure = f"{name}, index {index} failed (status {status}), see {self._log_of_task(phase, index)}"
                self.say(failure)
                send("died", phase.stage, failure)
                failed = failed or status
        return failed

    def _start(self, phase: JobPhase, index: int, width: int, restarts: int) -> "ray.ObjectRef[int]":
        """Starts the tasks of array index ``index`` as a task of Ray."""
        cores, name = self._work["cpus"], f"{phase.stage}.{phase.phase}-{index}"
        variables = {JOB: f"{self._work['id']}.{name}", RESTARTS: str(restarts), CORES: str(cores)}
        module = [WORKER, self._work["run_json"], phase.stage, phase.phase, str(index), str(width)]
        task = ray.remote(run_processes).options(num_cpus=cores, max_retries=0, name=name)
        return task.remote(module, self._work["folder"], self._log_of_task(phase, index), [variables])

    def _log_of_task(self, phase: JobPhase, index: int) -> str:
        return f"{self._log}.{phase.stage}.{phase.phase}_{index}.log"

    def _run_ranks(self) -> int:
        """Runs attempts at the distributed stage until one succeeds, or ``recovery.decide`` wants no other."""
        phase, work = self._phases[0], self._work
        for restarts in itertools.count():

            def start(checkpoint: str, restarts: int = restarts) -> tuple[int, bool]:
                self.say(f"{phase.stage}, attempt {restarts + 1}, from {checkpoint}")
                return self._attempt(phase, restarts), False

            ended, decision = attempt(phase.stage, Path(phase.folder), work["id"], restarts, work["attempts"], start)
            if decision.message:
                self.say(decision.message)
            if not decision.again:
                break
        if ended.status:
            send("died", phase.stage, reason(ended, decision))
        return ended.status

    def _attempt(self, phase: JobPhase, restarts: int) -> int:
        """Runs the ranks of all machines once. Returns the exit status of the first that failed, else 0."""
        nodes, ranks, bundle = self._work["nodes"], self._work["ranks_per_node"], self._work["bundle"]
        group = placement_group([bundle] * nodes, strategy="STRICT_SPREAD")
        try:
            self.say(f"waits for {nodes} machines with {bundle}")
            ray.get(group.ready())

            def on(node: int, function: Any) -> Any:
                """Returns ``function`` as a task of Ray on the machine ``node`` of the group."""
                place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=node)
                resources = {"num_cpus": bundle["CPU"], "num_gpus": bundle.get("GPU", 0), "max_retries": 0}
                return ray.remote(function).options(**resources, scheduling_strategy=place)

            address, port = ray.get(on(0, free_address).remote())
            self.say(f"{nodes} x {ranks} ranks, rendezvous {address}:{port}")
            variables = {"MASTER_ADDR": address, "MASTER_PORT": str(port), "WORLD_SIZE": str(nodes * ranks)}
            variables |= {"LOCAL_WORLD_SIZE": str(ranks), CORES: str(bundle["CPU"] // ranks)}
            variables |= {JOB: self._work["id"], RESTARTS: str(restarts)}
            module = [*JOB_RANK, self._work["run_json"], phase.stage]
            running = []
            for node in range(nodes):
                numbers = [{"RANK": str(node * ranks + local), "LOCAL_RANK": str(local)} for local in range(ranks)]
                log, of_ranks = f"{self._log}.node_{node}.log", [variables | number for number in numbers]
                running.append(on(node, run_processes).remote(module, self._work["folder"], log, of_ranks))
            while running:
                (ended,), running = ray.wait(running)
                if status := self._status_of(ended):
                    return status
            return 0
        except RayError as error:
            self.say(one_line(error))
            return KILLED
        finally:
            remove_placement_group(group)  # ends its tasks

    def _status_of(self, ended: "ray.ObjectRef[int]") -> int:
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
            self.say(one_line(error))
            return KILLED


def free_address() -> tuple[str, int]:
    """Returns the address of this machine and a free port, at which the ranks of all machines meet."""
    with socket.create_server(("", 0)) as listener:
        return ray.util.get_node_ip_address(), listener.getsockname()[1]


def run_processes(module: Sequence[str], folder: str, log: str, variables: Sequence[Mapping[str, str]]) -> int:
    """Runs ``python -m`` of ``module``, its name and arguments, in ``folder``: a process for each of ``variables``.

    Their output is appended to ``log``. When one has failed, the others are killed: ranks would wait for it. The kernel
    kills them when this process ends.

    Returns:
        The exit status of the first that failed, 128 + number when a signal ended it; else 0.
    """
    environment = {**without_process(os.environ), NODE: ray.util.get_node_ip_address()}
    with Path(log).open("ab") as output:
        running = [
            subprocess.Popen(
                [sys.executable, "-u", "-m", *module],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**environment, **of_process},
                cwd=folder,
                preexec_fn=die_with_parent,
            )
            for of_process in variables
        ]
    while not (failed := [process for process in running if process.poll()]):
        if all(process.returncode == 0 for process in running):
            return 0
        time.sleep(POLL_SECONDS / 5)
    for process in running:
        process.send_signal(signal.SIGKILL)
        process.wait()
    code = failed[0].returncode
    return code if code >= 0 else 128 - code


def main(arguments: Sequence[str]) -> int:
    """Does the work that ``arguments`` describe. Returns the exit status."""
    work = json.loads(arguments[0])
    os.chdir(work["folder"])
    job = RayJob(work)
    try:
        context = ray.init(address="auto", log_to_driver=False, logging_level="WARNING")
        job.wait(f"http://{context.dashboard_url}")
        return job.run()
    except HeadraceError as error:
        job.say(str(error))
        return error.exit_status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
