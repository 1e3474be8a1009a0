import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.pipeline.core.owner import Owner, remove_unfinished, temporary_path


def test_a_name_leads_back_to_its_process() -> None:
    me = Owner.current()
    assert me.pid == os.getpid()
    assert Owner.parse(str(me)) == me
    assert Owner.of_unfinished(temporary_path(Path("clean/00007-of-9.bin")).name) == me
    assert (me.is_here, me.is_dead) == (True, False)


@pytest.mark.parametrize("text", ["", "node~1~-1~5", "node~1~12345678901~5", "no/de~1~2~3", "\x1b[31m~1~2~3", "a~b"])
def test_other_text_names_no_process(text: str) -> None:
    assert Owner.parse(text) is None


def test_a_forked_child_is_somebody_else() -> None:
    parent = Owner.current()
    if (child := os.fork()) == 0:
        os._exit(0 if Owner.current() != parent else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_process_is_dead_once_it_ended_even_before_anybody_waited_for_it() -> None:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    me = Owner.current()
    child = Owner(me.node, me.namespace, process.pid, stat[19])
    assert not child.is_dead
    assert Owner(me.node, me.namespace, process.pid, "1").is_dead, "its number belongs to another process by now"
    assert Owner(me.node, me.namespace, 1, "999999").is_dead, "of another user, too"
    process.send_signal(signal.SIGKILL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert child.is_dead, "a zombie"
    process.communicate()
    assert child.is_dead


def test_nothing_is_known_of_another_node() -> None:
    me = Owner.current()
    for other in (Owner("elsewhere", me.namespace, 2**30, "1"), Owner(me.node, "1", 2**30, "1")):
        assert (other.is_here, other.is_dead) == (False, False)


def test_what_killed_processes_left_of_a_path_is_removed_and_nothing_else(tmp_path: Path) -> None:
    code = "import sys; from headrace.pipeline.core.owner import Owner; print(Owner.current())"
    dead = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    kept = [
        f"tmp-{dead}-other",
        temporary_path(tmp_path / "a.json").name,
        "tmp-a.json",
        "a.json",
        f"tmp-{dead}-a.json-b",
    ]
    for name in [*kept, f"tmp-{dead}-a.json"]:
        (tmp_path / name).write_text("")
    (tmp_path / f"tmp-{dead}-a.json-old/inner").mkdir(parents=True)
    remove_unfinished(tmp_path / "a.json", "-old")
    assert {path.name for path in tmp_path.iterdir()} == set(kept)
    remove_unfinished(tmp_path / "none/a.json")
