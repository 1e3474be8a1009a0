"""A real SLURM on this one machine, without systemd: munged, slurmctld and two slurmd "nodes", all below one folder.

    with OneMachineSlurm(folder): subprocess.run(["sbatch", ...])      SLURM_CONF is set inside
    python tests/cluster/one_machine.py COMMAND ...                    the same for one command

Needs root and Debian's slurm-wlm and munge. The daemons run in the foreground as children of this process, and the
kernel ends them when it ends for any reason. Ports are free ones, so several can run at the same time.
"""

import contextlib
import ctypes
import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

NODES = ("n1", "n2")
CPUS = 4
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "srun", "scontrol", "scancel", "sinfo")
UP_SECONDS = 120
CLIENT_SECONDS = 120
OWN_PORTS = range(5_000, 15_000)
"""Linux gives others to outgoing connections (32,768 and more), and train.sbatch to its ranks (15,000 and more)."""
_PR_SET_PDEATHSIG = 1

# What is not obvious: config_overrides lets a node claim more cores than the machine has (else it drains, "Low CPUs");
# a requeued job starts again only after cred_expire (120 s by default); MinJobAge is how long squeue knows ended jobs.
CONF = """\
ClusterName=headrace
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdParameters=config_overrides
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
ReturnToService=2
SlurmdTimeout=10
InactiveLimit=0
KillWait=5
MinJobAge={remember_seconds}
MaxArraySize=11
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs={cpus} RealMemory={memory} State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs={cpus} RealMemory={memory} State=UNKNOWN
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=1 GraceTime=30
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP OverSubscribe=NO PriorityTier=2 PreemptMode=OFF
"""


def lacking() -> str:
    """Returns the reason why this machine cannot run it; empty if it can."""
    if os.geteuid() != 0:
        return "a one-machine SLURM needs root"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return f"not installed: {', '.join(absent)} (apt-get install slurm-wlm munge)" if absent else ""


class OneMachineSlurm:
    """Starts SLURM in ``folder`` on entry and stops it, with all its jobs, on exit."""

    def __init__(self, folder: Path, remember_seconds: int = 3600) -> None:
        self.folder = folder.resolve()
        self._remember_seconds = remember_seconds
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._nodes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "OneMachineSlurm":
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(subprocess.SubprocessError):
            client("scancel", "--quiet", "--state=PENDING", "--user=root")
            client("scancel", "--quiet", "--signal=KILL", "--full", "--user=root")
            client("scancel", "--quiet", "--user=root")
            until(lambda: not client("squeue", "--noheader"), 10)
        for daemon in reversed(self._daemons):
            _stop(daemon)
        self._daemons.clear()
        self._kill_left_behind()

    def _start(self) -> None:
        (self.folder / "state").mkdir(parents=True)
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        munge = ["munged", "--foreground", "--force", "--num-threads=2", f"--key-file={key}"]
        munge += [f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("pid", "log", "seed")]
        self._spawn([*munge, f"--socket={self.folder}/munge.socket"])
        conf = self.folder / "slurm.conf"
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20 // len(NODES)
        values = {"folder": self.folder, "host": socket.gethostname().split(".")[0], "cpus": CPUS, "memory": memory}
        text = CONF.format(ports=free_ports(3), remember_seconds=self._remember_seconds, **values)
        conf.write_text(self._with_accounting(text))
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")  # found beside slurm.conf; never mounted
        self._conf_before = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = str(conf)
        until((self.folder / "munge.socket").exists, UP_SECONDS)
        self._start_accounting()
        self._spawn(["slurmctld", "-D", "-f", str(conf)])
        for node in NODES:
            (self.folder / f"spool-{node}").mkdir()
            self._start_node(node)
        if not until(self._all_idle, UP_SECONDS):
            logs = "\n".join(f"{log}:\n{log.read_text()[-2000:]}" for log in sorted(self.folder.glob("*.log")))
            raise RuntimeError(f"SLURM did not come up: {client('sinfo')}\n{logs}")

    def _with_accounting(self, conf: str) -> str:
        """Returns the configuration with what accounting needs; nothing here (accounting.py has it)."""
        return conf

    def _start_accounting(self) -> None:
        """Starts what must run before slurmctld."""

    def lose_node(self, node: str) -> None:
        """Kills the node's slurmd. The processes of its jobs live on, as after a loss of the network only."""
        slurmd = self._nodes.pop(node)
        slurmd.kill()
        slurmd.wait()
        self._daemons.remove(slurmd)

    def power_off_node(self, node: str) -> None:
        """Kills the node's slurmd and its descendants. The step daemons die first, so none reports the other deaths."""
        self.lose_node(node)
        ours = {f"SLURM_CONF={self.folder}/slurm.conf".encode(), f"SLURMD_NODENAME={node}".encode()}
        started = [process for process, environment in _processes() if ours <= environment]
        for process in {_parent(process) for process in started} - {0}:
            if _name(process) == "slurmstepd":
                _kill(process)
        for process in started:
            _kill(process)

    def bring_back_node(self, node: str) -> None:
        self._start_node(node)
        until(self._all_idle, UP_SECONDS)

    @staticmethod
    def _all_idle() -> bool:
        return client("sinfo", "--noheader", "--format=%D %t") == f"{len(NODES)} idle"

    def _start_node(self, node: str) -> None:
        self._nodes[node] = self._spawn(["slurmd", "-D", "-N", node, "-f", os.environ["SLURM_CONF"]])

    def _spawn(self, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        with (self.folder / "daemons.log").open("ab") as log:
            daemon = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=_die_with_parent
            )
        self._daemons.append(daemon)
        return daemon

    def _kill_left_behind(self) -> None:
        """Ends the step daemons that outlived their slurmd, and only those whose SLURM_CONF is ours."""
        ours = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        for process, environment in _processes():
            if ours in environment and _name(process) == "slurmstepd":
                _kill(process)
        os.environ.pop("SLURM_CONF", None)
        if self._conf_before is not None:  # another cluster goes on
            os.environ["SLURM_CONF"] = self._conf_before


def client(*command: str) -> str:
    """Returns the output of a SLURM client; empty if it fails."""
    done = _answer(*command)
    return done.stdout.strip() if done.returncode == 0 else ""


def is_queue_empty() -> bool:
    """Whether squeue shows no job. It shows none either when a busy controller does not answer: then it fails."""
    done = _answer("squeue", "--noheader")
    return done.returncode == 0 and not done.stdout.strip()


def _answer(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(command, capture_output=True, text=True, timeout=CLIENT_SECONDS, stdin=subprocess.DEVNULL)


def until(condition: Callable[[], bool], seconds: float, pause_seconds: float = 0.1) -> bool:
    """Waits for ``condition``. Returns whether it became true within ``seconds``.

    A client of SLURM in ``condition`` is a process: a longer pause leaves the cores to the jobs.
    """
    deadline = time.monotonic() + seconds
    while not (true := condition()) and time.monotonic() < deadline:
        time.sleep(pause_seconds)
    return true


def free_ports(number: int, among: range = OWN_PORTS) -> list[int]:
    """Returns free ports from ``among``, in an order of chance."""
    ports = (port for port in random.SystemRandom().sample(among, len(among)) if _is_free(port))
    return list(itertools.islice(ports, number))


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def processes_of(job: int, rank: int) -> list[int]:
    """The processes that run ``rank`` of ``job``, and what it started."""
    wanted = {f"SLURM_JOB_ID={job}".encode(), f"SLURM_PROCID={rank}".encode()}
    return [process for process, environment in _processes() if wanted <= environment]


def _processes() -> Iterator[tuple[int, set[bytes]]]:
    """Every process whose environment can be read, and its variables."""
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield int(path.name), set((path / "environ").read_bytes().split(b"\0"))


def _name(process: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{process}/comm").read_text().strip()
    return ""


def _parent(process: int) -> int:
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def _kill(process: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _stop(daemon: "subprocess.Popen[bytes]") -> None:
    daemon.terminate()
    try:
        daemon.wait(10)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


if __name__ == "__main__":
    if lacking():
        sys.exit(lacking())
    with tempfile.TemporaryDirectory() as temporary, OneMachineSlurm(Path(temporary) / "slurm"):
        sys.exit(subprocess.run(sys.argv[1:]).returncode)
