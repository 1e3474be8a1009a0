"""One attempt at a distributed stage inside its SLURM job.

    train.sbatch ── exec ──> this process ── srun ──> one process for each rank
    SLURM ── USR2, TERM ───> this process ── USR2 ──> srun ──> the ranks agree on a step, save and stop
    the ranks have ended ──> recovery.decide ──> scontrol requeue, or the exit status of srun

python -m headrace.pipeline.clusters.slurm_job RUN_JSON STAGE FOLDER ATTEMPTS [ARGUMENT ...]
    Starts the ranks of STAGE. FOLDER is the artifact's: its checkpoints help to decide whether the job comes back.
    ARGUMENTs are the last of srun before the rank: its own options, a launcher, and the Python of the ranks.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.pipeline.clusters.base import JOB_RANK, REST, rests
from headrace.pipeline.clusters.recovery import Decision, attempt, reason
from headrace.pipeline.clusters.slurm_client import ask
from headrace.pipeline.core import work_log
from headrace.pipeline.core.environment import without_process
from headrace.pipeline.core.errors import HeadraceError, TaskError
from headrace.pipeline.core.json_files import read_sealed
from headrace.pipeline.core.system_errors import system_errors_explained
from headrace.pipeline.tracking.notices import failure_noticed, noticed, send

FIRST_PORT, PORTS = 15000, 15000
"""The ports of rendezvous: below those that the kernel assigns, and one for each job."""
REQUEUE_SECONDS = 60
"""SLURM ends this process within this time after it put the job back into the queue."""
PATIENCE_SECONDS = 300.0
"""The time during which a failing scontrol is asked again: a controller that restarts must not cost the job."""
PAUSE_SECONDS = 10.0
"""The pause before scontrol is asked again."""


class SrunRanks:
    """The ranks that srun runs. USR2 and TERM to this process ask them to save and stop, also before their start."""

    def __init__(self) -> None:
        self.out_of_time = False
        """True after SLURM sent USR2, which it does some time before the time limit."""
        self.status: int | None = None
        """The exit status after their end, 128 + number when a signal ended srun."""
        self._asked_to_stop = False
        self._process: subprocess.Popen[bytes] | None = None
        signal.signal(signal.SIGUSR2, self._time_is_short)
        signal.signal(signal.SIGTERM, self._ask_to_stop)  # the nodes are needed for another job, or by request

    def start(self, command: Sequence[str], environment: dict[str, str]) -> None:
        """Starts the ranks, and passes an earlier signal on to them."""
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)
        if self._asked_to_stop:
            self._ask_to_stop()

    def wait(self) -> int:
        """Waits for the end of the ranks and returns the exit status."""
        assert self._process
        code = self._process.wait()
        self.status = code if code >= 0 else 128 - code
        return self.status

    @property
    def lost_its_nodes(self) -> bool:
        """Whether SLURM asked the ranks to stop before their time was over."""
        return self._asked_to_stop and not self.out_of_time

    def _time_is_short(self, *_: object) -> None:
        self.out_of_time = True
        self._ask_to_stop()

    def _ask_to_stop(self, *_: object) -> None:
        self._asked_to_stop = True
        if self._process:
            self._process.send_signal(signal.SIGUSR2)


def main(arguments: Sequence[str]) -> int:
    """Runs one attempt and returns its exit status."""
    ranks = SrunRanks()  # first: a signal that comes now must not end this process
    run_json, stage, folder, limit, *launcher = arguments
    rank = [*(launcher or [sys.executable]), "-m", *JOB_RANK, run_json, stage]
    try:
        with noticed(Path(run_json)), failure_noticed(stage), system_errors_explained(Path(folder)):
            status = run_attempt(ranks, rank, stage, Path(folder), int(limit))
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr, flush=True)
        return error.exit_status
    if status == 0:
        submit_rest(Path(run_json))
    return status


def run_attempt(ranks: SrunRanks, rank: Sequence[str], stage: str, folder: Path, limit: int) -> int:
    """Starts the command of a ``rank`` of ``stage`` for each of the ``ranks``, waits for them, and puts the job back
    into the queue if that may help."""
    job, restarts = os.environ["SLURM_JOB_ID"], int(os.environ.get("SLURM_RESTART_COUNT", "0"))

    def start(checkpoint: str) -> tuple[int, bool]:
        address, port = rendezvous(job, os.environ["SLURM_JOB_NODELIST"])
        nodes = f"{os.environ['SLURM_NTASKS']} ranks on {os.environ['SLURM_JOB_NODELIST']}"
        where = f"rendezvous {address}:{port}, from {checkpoint}"
        print(f"headrace: {stage}, {nodes}, job {job}, attempt {restarts + 1}, {where}", flush=True)
        cores = os.environ.get("SLURM_CPUS_PER_TASK", "1")
        command = ["srun", "--kill-on-bad-exit=1", "--export=ALL", f"--cpus-per-task={cores}", *rank]
        work_log.clear_bad_nodes(folder)
        ranks.start(command, without_process(os.environ) | {"MASTER_ADDR": address, "MASTER_PORT": str(port)})
        return ranks.wait(), ranks.out_of_time

    try:
        ended, decision = attempt(stage, folder, job, restarts, limit, start)

        def notify() -> None:
            if ended.status and not decision.again:
                send("died", stage, reason(ended, decision))
            elif decision.again and ranks.lost_its_nodes:
                send("waits", stage, f"SLURM asked it to stop before its time limit: {decision.message}")

        conclude(job, decision, work_log.bad_nodes(folder), notify)
    except (HeadraceError, OSError) as error:  # the exit status of the ranks must not be lost
        if ranks.status is None:
            raise
        print(f"headrace: {error}", file=sys.stderr, flush=True)
    return ranks.status or 0


def conclude(job: str, decision: Decision, bad: Sequence[str], notify: Callable[[], None]) -> None:
    """Prints the decision, calls ``notify``, and carries it out. A job that was cancelled stays as it is. One that goes
    back into the queue leaves out the ``bad`` nodes."""
    if not decision.message:
        notify()
        return
    description = ask_patiently(["scontrol", "--oneliner", "show", "job", job])
    if not re.search(r"\bJobState=RUNNING\b", description):
        return
    notify()
    print(f"headrace: {decision.message}", file=sys.stdout if decision.again else sys.stderr, flush=True)
    if decision.again:
        requeue(job, excluded(description, bad))


def submit_rest(run_json: Path) -> None:
    """Has the rest of each chain submitted that a full queue did not take after this job, of any run that waits for it.

    A failure is printed: the work of this job is done.
    """
    job = os.environ.get("SLURM_ARRAY_JOB_ID") or os.environ["SLURM_JOB_ID"]
    try:
        for path in rests(run_json, job):
            rest = read_sealed(path)["run_json"]
            subprocess.run([sys.executable, "-m", REST, rest], stdin=subprocess.DEVNULL, check=False)
    except (HeadraceError, OSError) as error:
        print(f"headrace: {error}", file=sys.stderr, flush=True)


def rendezvous(job: str, nodes: str) -> tuple[str, int]:
    """The address and port at which the ranks meet: the address of the first node, whose name may not resolve.

    Raises:
        TaskError: when scontrol names neither the nodes nor the address.
    """
    first = ask_patiently(["scontrol", "show", "hostnames", nodes]).split("\n")[0]
    match = re.search(r"\bNodeAddr=(\S+)", ask_patiently(["scontrol", "--oneliner", "show", "node", first]))
    return (match[1] if match else first), FIRST_PORT + int(job) % PORTS


def excluded(description: str, bad: Sequence[str]) -> str:
    """Returns the nodes that the job of this ``description`` leaves out from now on; empty if nothing changes.

    No node is excluded when all nodes of a job are ``bad``, because the cause is then elsewhere, or when too few nodes
    of the partition would be left for the job. The latter is printed.
    """
    job_nodes = int(os.environ.get("SLURM_JOB_NUM_NODES", "1"))
    if not bad or 1 < job_nodes <= len(bad):
        return ""
    names = ",".join(bad)
    before = re.search(r"\bExcNodeList=(?!\(null\))(\S+)", description)
    together = f"{before[1]},{names}" if before else names
    partition = f"--partition={os.environ.get('SLURM_JOB_PARTITION', '')}"
    up = ["sinfo", "--noheader", "--Node", "--format=%N", partition, "--states=idle,alloc,mix,comp"]
    left_out = ask_patiently(["scontrol", "show", "hostnames", together]).split()
    left = set(ask_patiently(up).split()) - set(left_out)
    if len(left) < job_nodes:
        problem = f"bad nodes ({names}) stay in: without them the partition has {len(left)} of {job_nodes} nodes"
        print(f"headrace: {problem}", file=sys.stderr, flush=True)
        return ""
    print(f"headrace: bad nodes are left out: {names}", flush=True)
    return together


def requeue(job: str, nodes: str) -> None:
    """Puts the job back into the queue, and has it leave out ``nodes``. SLURM then ends this process.

    SLURM takes excluded nodes of a pending job alone. It starts a job that came back after two minutes at the earliest,
    so the update comes first. Should SLURM refuse them, the job comes back all the same.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN if nodes else signal.SIG_DFL)
    signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # the time may become short while SLURM is asked
    ask_patiently(["scontrol", "requeue", job])
    if nodes:
        ask_patiently(["scontrol", "update", f"JobId={job}", f"ExcNodeList={nodes}"])
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    time.sleep(REQUEUE_SECONDS)


def ask_patiently(command: Sequence[str]) -> str:
    """Returns the output of a SLURM client, which is asked again for ``PATIENCE_SECONDS`` when it fails.

    An answer that SLURM does not have such an object is returned at once (a site may hide its nodes).

    Raises:
        TaskError: when it still fails.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            answer = ask(command)
            if answer.returncode == 0 or "not found" in answer.stdout:
                return answer.stdout
            problem = f"{' '.join(command)} failed: {answer.stderr.strip()}"
            failure = TaskError("cluster=slurm", problem, "is the controller up (scontrol ping)?")
        except TaskError as error:
            failure = error
        if time.monotonic() >= end:
            raise failure
        time.sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
