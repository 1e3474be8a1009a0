"""The processes of benchmarks/gpu/parts.py, with items that need no torch."""

import re
import sys

import pytest

from benchmarks.gpu.item import Item
from benchmarks.gpu.parts import lines
from tests.other_processes import is_running

PROGRAM = """
import ctypes, json, os, signal, subprocess, sys
name = sys.stdin.readline().strip()
if name == "raises":
    raise AssertionError("the error is 2")
if name == "crashes":
    os.kill(os.getpid(), signal.SIGSEGV)
if name == "hangs":
    print(subprocess.Popen(["sleep", "600"]).pid, file=sys.stderr, flush=True)
    ctypes.PyDLL(None).sleep(600)  # in C, with the lock of Python: no handler of a signal runs
if name:
    print(json.dumps({"seconds": 0.1, "passed": True, "process": os.getpid()}))
"""
COMMAND = [sys.executable, "-c", PROGRAM]


def run(tmp_path, items: dict[str, Item], seconds: float) -> list[dict]:
    return list(lines(items, COMMAND, tmp_path / "log", seconds))


def item(limit_seconds: float, is_reserved: bool = False) -> Item:
    return Item(lambda _: pytest.fail("items run in processes of their own"), limit_seconds, is_reserved)


def test_an_item_that_fails_or_hangs_does_not_stop_the_others(tmp_path):
    limits = {"raises": 60.0, "one": 60.0, "crashes": 60.0, "hangs": 1.0, "two": 60.0}
    found = {line["item"]: line for line in run(tmp_path, {name: item(limit) for name, limit in limits.items()}, 300)}
    assert list(found) == list(limits)
    assert {name: line["passed"] for name, line in found.items()} == {name: name in ("one", "two") for name in limits}
    assert found["one"]["process"] != found["two"]["process"]
    assert found["raises"]["error"] == "exit status 1"
    assert found["raises"]["printed"].endswith("AssertionError: the error is 2\n")
    assert found["crashes"]["error"] == "exit status -11"
    assert found["hangs"]["error"] == "not done after 1 s"
    started = found["hangs"]["printed"].split()  # empty if this machine is so busy that there was no time
    assert not any(is_running(int(process)) for process in started), "they end with the item"
    assert "== raises\nTraceback" in (tmp_path / "log").read_text()


def test_a_reserved_item_gets_its_time(tmp_path):
    items = {"hangs": item(600), "left out": item(600), "last": item(20, is_reserved=True)}
    hangs, skipped, last = run(tmp_path, items, 25)
    assert re.fullmatch("not done after [1-5] s", hangs["error"])
    assert skipped == {"item": "left out", "passed": False, "error": "no time left"}
    assert last["passed"]
