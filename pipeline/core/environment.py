"""The environment of a process of Headrace: the names of variables that it reads, and what it clears for a command.

    headrace … ── prepare ──> RANK, MASTER_ADDR, HEADRACE_JOB, … are removed
                          └─> under PYTHONUTF8=0, PYTHONIOENCODING or PYTHONWARNINGS=error: the same command once more

pipeline/clusters sets the variables of a job from those of a scheduler. A command is without what belongs to another
process, and in UTF-8: files and logs are UTF-8 whatever the locale says, names of files are those bytes that UTF-8
gives, and a warning of a library does not end a run. docs/fault-tolerance.md lists which other variables have an
effect.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

JOB = "HEADRACE_JOB"
"""The id of the job that this process belongs to."""
RESTARTS = "HEADRACE_RESTARTS"
"""The number of restarts of this job."""
CORES = "HEADRACE_CORES"
"""The number of cores that this process may use."""
NODE = "HEADRACE_NODE"
"""The cluster's name of the node that this process runs on."""
NODES, NODE_CORES, NODE_GPUS = "HEADRACE_NODES", "HEADRACE_NODE_CORES", "HEADRACE_NODE_GPUS"
"""The number of nodes of this job, and of its cores and GPUs on each."""
MAIN_PID = "HEADRACE_MAIN_PID"
"""The PID of the launcher. A rank ends when this process ends."""
NOTICES = "HEADRACE_NOTICES"
"""The run.json of the run whose notices this process sends; not set when the run asks for none."""
CONFIG_DIR = "HEADRACE_CONFIG_DIR"
"""The user's folder of presets, as ``--config-dir`` gives it."""
EXTENSIONS = "HEADRACE_EXTENSIONS"
"""With the value ``none``, what other installed packages add is left out: presets and kinds."""
STORE_SOCKET = "HEADRACE_STORE_SOCKET"
"""The file descriptor of the socket at which rank 0 waits for the other ranks. Without it, rank 0 opens one."""

NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""torchrun's variables of the number of a rank, and of their number; all launchers set them for torch."""
OF_A_JOB = frozenset({JOB, RESTARTS, NODE, NODES, NODE_CORES, NODE_GPUS, NOTICES})
OF_A_PROCESS = frozenset(
    {
        *(CORES, MAIN_PID, STORE_SOCKET, *NUMBERS, "MASTER_ADDR", "MASTER_PORT"),
        *("GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_NAME", "ROLE_RANK", "ROLE_WORLD_SIZE"),
    }
)
"""Variables that say which rank or child one process is: ours, and those of torchrun, with all TORCHELASTIC_…"""


def without_process(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ``environment`` without the variables of one process.

    Another process that starts with them would take itself for that rank: a command in the shell of a rank, or a job
    that is submitted from there.
    """
    return {
        name: value
        for name, value in environment.items()
        if name not in OF_A_PROCESS and not name.startswith("TORCHELASTIC_")
    }


SAFE_PATH, PATH = "PYTHONSAFEPATH", "PYTHONPATH"
PACKAGES = Path(__file__).parents[3]
"""The folder that holds this package."""


def own_packages() -> dict[str, str]:
    """Returns environment variables with which a Python process imports this package from the same folder as this one,
    and nothing from the current folder (Python 3.11)."""
    return {SAFE_PATH: "1", PATH: os.pathsep.join(filter(None, [str(PACKAGES), os.environ.get(PATH)]))}


UTF_8, STREAMS, WARNINGS = "PYTHONUTF8", "PYTHONIOENCODING", "PYTHONWARNINGS"


def prepare() -> None:
    """Prepares the environment of this process, which runs a command. Starts the command again where Python has read a
    variable that it must not obey: encodings and warnings are decided before the first module runs.
    """
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(_of_a_command(before))
    is_utf_8 = sys.getfilesystemencoding() == "utf-8"  # open() has the same encoding
    if not is_utf_8 or any(before.get(name) != os.environ.get(name) for name in (STREAMS, WARNINGS)):
        os.environ[UTF_8] = "1"
        sys.stdout.flush()
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])


def _of_a_command(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns ``environment`` without variables of another process or job, and without those that break Python here."""
    own = {name: value for name, value in without_process(environment).items() if name not in OF_A_JOB}
    own.pop(STREAMS, None)
    if "error" in own.get(WARNINGS, ""):
        del own[WARNINGS]
    return own


PASSIVE_THREADS = {"OMP_WAIT_POLICY": "PASSIVE"}
"""Threads sleep while they wait for each other. OpenMP's default lets them spin. On a machine with other work, spinning
takes cores from the threads that they wait for. The number of threads does not follow the load, because results are
bitwise equal only with the same number of threads."""


def let_threads_sleep() -> None:
    """Sets ``PASSIVE_THREADS`` for this process, unless the user has chosen. It must come before torch is loaded."""
    os.environ.update(PASSIVE_THREADS | os.environ)
