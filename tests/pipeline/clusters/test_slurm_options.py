"""The environment of SLURM's clients: every variable that they read, set to a hostile value."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.clusters import slurm_client
from headrace.pipeline.clusters.base import Job
from headrace.pipeline.clusters.slurm import Slurm
from headrace.pipeline.clusters.slurm_client import KEPT, for_clients
from headrace.pipeline.core.errors import ConfigError

# INPUT ENVIRONMENT VARIABLES of the manuals of SLURM 22.05 and 26.05, and those that the sources read without a manual.
COMMON = """SLURM_BITSTR_LEN SLURM_CLUSTERS SLURM_CONF_OUT SLURM_DEBUG_FLAGS SLURM_EXIT_ERROR SLURM_JSON
SLURM_STEP_KILLED_MSG_NODE_ID SLURM_TIME_FORMAT SLURM_TOPO_LEN SLURM_UMASK SLURM_WORKING_CLUSTER SLURM_YAML"""
SBATCH = """ACCTG_FREQ ARRAY_INX BATCH CLUSTERS CONTAINER CONTAINER_ID CORE_SPEC CPUS_PER_GPU DEBUG DELAY_BOOT
DISTRIBUTION ERROR EXCLUSIVE EXPORT GET_USER_ENV GPUS GPUS_PER_NODE GPUS_PER_TASK GPU_BIND GPU_FREQ GRES GRES_FLAGS
HINT IGNORE_PBS INPUT JOB_NAME MEM_BIND MEM_PER_CPU MEM_PER_GPU MEM_PER_NODE NETWORK NO_KILL NO_REQUEUE OPEN_MODE
OUTPUT OVERCOMMIT POWER PROFILE REQUEUE REQ_SWITCH RUNTIME SEGMENT_SIZE SIGNAL SPREAD_JOB THREADS_PER_CORE THREAD_SPEC
TIMELIMIT TRES_BIND TRES_PER_TASK USE_MIN_NODES WAIT WAIT4SWITCH WAIT_ALL_NODES"""
SQUEUE = """ACCOUNT ALL ARRAY FEDERATION FORMAT FORMAT2 LICENSES LOCAL NAMES PARTITION PRIORITY QOS SIB SIBLING SORT
STATES USERS"""
SCANCEL = "ACCOUNT BATCH CRON CTLD FULL HURRY INTERACTIVE NAME PARTITION QOS STATE USER VERBOSE WCKEY"
OTHERS = """SCONTROL_ALL SCONTROL_FEDERATION SCONTROL_FUTURE SCONTROL_LOCAL SCONTROL_SIB SCONTROL_SIBLING SINFO_ALL
SINFO_FEDERATION SINFO_FORMAT SINFO_FUTURE SINFO_LOCAL SINFO_PARTITION SINFO_SORT SACCT_FEDERATION SACCT_FORMAT
SACCT_LOCAL"""
SRUN = """SLURM_ACCOUNT SLURM_ACCTG_FREQ SLURM_BCAST SLURM_BCAST_EXCLUDE SLURM_BURST_BUFFER SLURM_COMPRESS
SLURM_CONSTRAINT SLURM_CORE_SPEC SLURM_CPUS_PER_GPU SLURM_CPU_BIND SLURM_CPU_FREQ_REQ SLURM_DEBUG SLURM_DELAY_BOOT
SLURM_DEPENDENCY SLURM_DISABLE_STATUS SLURM_DISTRIBUTION SLURM_DIST_PLANESIZE SLURM_EPILOG SLURM_EXACT SLURM_EXCLUSIVE
SLURM_EXIT_IMMEDIATE SLURM_EXPORT_ENV SLURM_GPUS SLURM_GPU_BIND SLURM_GPU_FREQ SLURM_GRES SLURM_GRES_FLAGS SLURM_HINT
SLURM_HOSTFILE SLURM_IMMEDIATE SLURM_JOB_ID SLURM_JOB_NAME SLURM_JOB_NUM_NODES SLURM_KILL_BAD_EXIT SLURM_LABELIO
SLURM_MEM_BIND SLURM_MEM_PER_CPU SLURM_MEM_PER_GPU SLURM_MEM_PER_NODE SLURM_MPI_TYPE SLURM_NETWORK SLURM_NNODES
SLURM_NODELIST SLURM_NO_KILL SLURM_NPROCS SLURM_NTASKS SLURM_NTASKS_PER_CORE SLURM_NTASKS_PER_GPU
SLURM_NTASKS_PER_NODE SLURM_NTASKS_PER_SOCKET SLURM_OOMKILLSTEP SLURM_OPEN_MODE SLURM_OVERCOMMIT SLURM_OVERLAP
SLURM_PARTITION SLURM_PMI_KVS_NO_DUP_KEYS SLURM_POWER SLURM_PROFILE SLURM_PROLOG SLURM_QOS SLURM_REMOTE_CWD
SLURM_REQ_SWITCH SLURM_RESERVATION SLURM_RESV_PORTS SLURM_SEND_LIBS SLURM_SIGNAL SLURM_SPREAD_JOB
SLURM_SRUN_REDUCE_TASK_EXIT_MSG SLURM_STDERRMODE SLURM_STDINMODE SLURM_STDOUTMODE SLURM_STEP_GRES SLURM_TASK_EPILOG
SLURM_TASK_PROLOG SLURM_TEST_EXEC SLURM_THREADS SLURM_THREADS_PER_CORE SLURM_THREAD_SPEC SLURM_TIMELIMIT
SLURM_TREE_WIDTH SLURM_TRES_BIND SLURM_TRES_PER_TASK SLURM_UNBUFFEREDIO SLURM_USE_MIN_NODES SLURM_WAIT
SLURM_WAIT4SWITCH SLURM_WCKEY SLURM_WORKING_DIR SLURMD_DEBUG SRUN_CONTAINER SRUN_CONTAINER_ID SRUN_CPUS_PER_TASK
SRUN_DEBUG SRUN_ERROR SRUN_EXPORT_ENV SRUN_INPUT SRUN_OUTPUT SRUN_RUNTIME SRUN_SEGMENT_SIZE PMI_FANOUT
PMI_FANOUT_OFF_HOST PMI_TIME"""
OF_A_JOB = "SLURM_ARRAY_TASK_ID SLURM_PROCID SLURM_LOCALID SLURM_RESTART_COUNT SLURMD_NODENAME HEADRACE_JOB"
OF_A_RANK = "RANK WORLD_SIZE LOCAL_RANK MASTER_ADDR MASTER_PORT TORCHELASTIC_RUN_ID TORCHELASTIC_USE_AGENT_STORE"
HOSTILE = [
    *(name for text in (COMMON, OTHERS, SRUN, OF_A_JOB, OF_A_RANK) for name in text.split()),
    *(f"SBATCH_{name}" for name in SBATCH.split()),
    *(f"SQUEUE_{name}" for name in SQUEUE.split()),
    *(f"SCANCEL_{name}" for name in SCANCEL.split()),
    *(
        "HEADRACE_CORES",
        "HEADRACE_RESTARTS",
        "HEADRACE_NODE",
        "HEADRACE_MAIN_PID",
        "HEADRACE_STORE_SOCKET",
        "SLURM_OF_A_LATER_VERSION",
    ),
]

CLIENT = """#!{python}
import json, os, sys
name = os.path.basename(sys.argv[0])
open({folder!r} + "/calls.jsonl", "a").write(json.dumps([name, sys.argv[1:], dict(os.environ)]) + "\\n")
print({{"sbatch": "7", "squeue": "7|N/A|CANCELLED|None|mill"}}.get(name, ""))
"""


@pytest.fixture
def clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Clients that record their arguments and environment in calls.jsonl of the folder that is returned."""
    for name in ("sbatch", "squeue", "scancel", "scontrol", "sinfo"):
        (tmp_path / name).write_text(CLIENT.format(python=sys.executable, folder=str(tmp_path)))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path


def test_no_client_sees_a_variable_of_the_submitter(clients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in HOSTILE:
        monkeypatch.setenv(name, "hostile")
    kept = {
        "SLURM_CONF": "/etc/slurm.conf",
        "SLURM_JWT": "token",
        "HEADRACE_CONFIG_DIR": "presets",
        "MY_OWN": "1",
        "SBATCH_ACCOUNT": "lab",
    }
    for name, value in kept.items():
        monkeypatch.setenv(name, value)
    slurm_client.sbatch(["sbatch", "script"], "weights", "5f0c")
    slurm_client.queued([Job("7", "log", None)])
    slurm_client.cancel([Job("7", "log", None)])
    slurm_client.ask(["scontrol", "requeue", "7"])
    slurm_client.ask(["sinfo"])
    calls = [json.loads(line) for line in (clients / "calls.jsonl").read_text().splitlines()]
    assert {name for name, _, _ in calls} == {"sbatch", "squeue", "scancel", "scontrol", "sinfo"}
    for name, _, environment in calls:
        assert {other for other, value in environment.items() if value == "hostile"} == set(), name
        assert {other: environment.get(other) for other in kept} == kept


def test_the_table_has_each_variable_once() -> None:
    assert len(HOSTILE) == len(set(HOSTILE)) > 200
    assert not {*HOSTILE} & KEPT
    assert for_clients(dict.fromkeys(HOSTILE, "x") | dict.fromkeys(KEPT, "y")) == dict.fromkeys(KEPT, "y")


def test_a_job_that_takes_a_moment_to_end_is_waited_for(clients: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = f"mkdir {clients}/asked 2>/dev/null && echo '7|N/A|RUNNING|None|mill'"
    (clients / "squeue").write_text(f"#!/bin/sh\n{first}\ntrue\n")
    monkeypatch.setattr(slurm_client, "POLL_SECONDS", 0.01)
    slurm_client.cancel([Job("7", "log", None)])
    assert (clients / "asked").is_dir()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"options": ("--wait",)},
            "cluster.options: '--wait' would keep sbatch from answering until the job has ended "
            "(headrace watch waits for a run); remove it",
        ),
        (
            {"train_options": ("--test-only",)},
            "cluster.train_options: '--test-only' submits nothing (headrace plan shows what a run would do); remove it",
        ),
        (
            {"srun_options": ("--export=NONE",)},
            "cluster.srun_options: '--export=NONE' would take the address at which the ranks meet from them; "
            "write --export=ALL,NAME=value",
        ),
        *(
            ({"data_options": ("--comment=mill", option)}, f"cluster.data_options: {option!r} would hide the jobs ")
            for option in ("--job-name=mill", "--job=mill", "--clusters=b", "--array=0-3", "--output=x", "--parsable")
        ),
        (
            {"options": ("--constraint", "h100")},
            "cluster.options: 'h100' is not an option of sbatch; write --name=value",
        ),
        ({"site_env": "/no/where"}, "cluster.site_env: no file '/no/where'; copy slurm/site.env.example and name it"),
        ({"srun_options": ("--export=ALL,A=1",), "options": ("--wait-all-nodes=1", "--export=NONE")}, ""),
    ],
)
def test_options_that_would_break_the_jobs(
    clients: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    slurm = Slurm(**settings)
    if not message:
        slurm.check(tmp_path / "run.json")
        return
    with pytest.raises(ConfigError) as caught:
        slurm.check(tmp_path / "run.json")
    assert str(caught.value).startswith(message)


def test_names_that_are_no_utf_8_do_not_stop_the_look_at_the_queue(clients: Path) -> None:
    (clients / "squeue").write_text("#!/bin/sh\nprintf '7|N/A|RUNNING|None|m\\351ll\\n8|N/A|RUNNING|None|mill\\n'\n")
    entries = slurm_client.queued([Job("7", "log", None), Job("8", "log", None, name="mill")])
    assert [entry.state for number in ("7", "8") for entry in entries[number]] == ["RUNNING", "RUNNING"]
