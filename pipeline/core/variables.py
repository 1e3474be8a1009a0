"""Names of the environment variables that Headrace reads. pipeline/clusters sets them from those of a scheduler."""

from collections.abc import Mapping

JOB = "HEADRACE_JOB"
"""The id of the job that this process belongs to."""
RESTARTS = "HEADRACE_RESTARTS"
"""The number of restarts of this job."""
CORES = "HEADRACE_CORES"
"""The number of cores that this process may use."""
NODE = "HEADRACE_NODE"
"""The cluster's name of the node that this process runs on."""
MAIN_PID = "HEADRACE_MAIN_PID"
"""The PID of the launcher. A rank ends when this process ends."""
CONFIG_DIR = "HEADRACE_CONFIG_DIR"
"""The user's folder of presets, as ``--config-dir`` gives it."""
STORE_SOCKET = "HEADRACE_STORE_SOCKET"
"""The file descriptor of the socket at which rank 0 waits for the other ranks. Without it, rank 0 opens one."""

NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
"""torchrun's variables of the number of a rank, and of their number; all launchers set them for torch."""
OF_A_JOB = frozenset({JOB, RESTARTS, NODE})
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
