"""Commands in an environment that belongs to another process, or in which Python has another encoding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.core.environment import without_process

PRINT = """
import json, os, sys
from headrace.pipeline.core.environment import prepare
prepare()
with open(sys.argv[1], "w") as stream:
    stream.write("č水")
state = {"environment": dict(os.environ), "utf8": sys.flags.utf8_mode, "argv": sys.argv[1:]}
print(json.dumps(state, ensure_ascii=False))
"""
OF_OTHERS = {
    **{"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "3", "LOCAL_WORLD_SIZE": "8", "GROUP_RANK": "1"},
    **{"MASTER_ADDR": "10.9.9.9", "MASTER_PORT": "1", "TORCHELASTIC_USE_AGENT_STORE": "True"},
    **{"HEADRACE_JOB": "7", "HEADRACE_RESTARTS": "x", "HEADRACE_CORES": "many", "HEADRACE_NODE": "n9"},
    **{"HEADRACE_MAIN_PID": "1", "HEADRACE_STORE_SOCKET": "99"},
}
ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


@pytest.mark.parametrize(
    ("variables", "utf8"),
    [
        ({}, None),
        (ASCII, 1),
        ({"PYTHONIOENCODING": "ascii"}, 1),
        ({"PYTHONWARNINGS": "ignore,error::DeprecationWarning"}, 1),
        ({**OF_OTHERS, **ASCII, "PYTHONWARNINGS": "error", "PYTHONIOENCODING": "cp1252"}, 1),
    ],
)
def test_a_command_reads_and_writes_utf_8_and_is_no_rank(
    tmp_path: Path, variables: dict[str, str], utf8: int | None
) -> None:
    path = tmp_path / "čeština 水"
    code, more = tmp_path / "code.py", ["ř", "a b", "$(x)"]
    code.write_text(PRINT, encoding="utf-8")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "PYTHONIO"))}
    done = subprocess.run(
        [sys.executable, str(code), str(path), *more], env=inherited | variables, capture_output=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    state = json.loads(done.stdout.decode())
    assert state["argv"] == [str(path), *more]
    assert path.read_text(encoding="utf-8") == "č水"
    assert not {*OF_OTHERS, "PYTHONIOENCODING"} & state["environment"].keys()
    assert "error" not in state["environment"].get("PYTHONWARNINGS", "")
    assert utf8 is None or state["utf8"] == utf8


def test_other_variables_stay() -> None:
    kept = {
        "PATH": "/bin",
        "OMP_NUM_THREADS": "3",
        "RANKING": "1",
        "PYTHONWARNINGS": "ignore",
        "HEADRACE_CONFIG_DIR": "x",
    }
    assert without_process(kept | {"RANK": "1", "TORCHELASTIC_RUN_ID": "x"}) == kept


def test_a_message_with_any_characters_is_printed_in_any_encoding(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headrace", "status", "křižovatka 水", f"root='{tmp_path}'"]
    variables = {"PYTHONIOENCODING": "ascii", **ASCII}
    done = subprocess.run(command, env=os.environ | variables, capture_output=True, timeout=300)
    assert done.returncode == 2
    assert "'křižovatka 水' is not a run below" in done.stderr.decode()
