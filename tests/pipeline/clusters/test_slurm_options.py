"""The environment of SLURM's clients: every variable that they read, set to a hostile value."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.pipeline.clusters import slurm_client
from headrace.pipeline.clusters.base import Job
from headrace.pipeline.clusters.slurm import Slurm
from headrace.pipeline.core.errors import ConfigError

FAMILIES = ("SLURM", "SLURMD", "SBATCH", "SQUEUE", "SCANCEL", "SCONTROL", "SINFO", "SACCT", "SRUN", "PMI")
HOSTILE = [
    *(f"{family}_PARTITION_OF_A_LATER_VERSION" for family in FAMILIES),
    *("SLURM_CLUSTERS", "SLURM_PROCID", "SBATCH_WAIT", "SQUEUE_PARTITION", "SCANCEL_STATE", "SRUN_EXPORT_ENV"),
    *(f"HEADRACE_{name}" for name in ("JOB", "CORES", "RESTARTS", "NODE", "MAIN_PID", "STORE_SOCKET")),
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID"),
]
"""Variables that SLURM's clients read (INPUT ENVIRONMENT VARIABLES of their manuals), of a job, and of a rank."""

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
            "(headrace status --watch waits for a run); remove it",
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
