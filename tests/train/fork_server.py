"""A process that has loaded torch and DeepSpeed, and runs modules of the tests in forks of itself.

    test ── module, arguments, environment ──> server ── fork ──> python -m module arguments
         <────────── exit status ─────────────

The imports take about five seconds of CPU time. With the server, a process of pytest spends them once.
"""

import atexit
import functools
import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
ONE_CORE = {"DS_ACCELERATOR": "cpu", "HEADRACE_CORES": "1"}
NO_COMPILER = {"TORCHDYNAMO_DISABLE": "1"}
"""As train/engine/engine.py loads DeepSpeed's Muon."""
LOADED_BY_DEEPSPEED = ("torch._dynamo", "deepspeed.runtime.zero.muon.muon_optimizer")
"""Modules that deepspeed.initialize imports, which takes seconds."""
LOADED = (
    "headrace.train.weights",
    "headrace.train.scores",
    "headrace.train.loop.session",
    "headrace.train.evaluation.scoring",
    *LOADED_BY_DEEPSPEED,
)


def run(module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m module arguments`` on one core, and returns its status and output.

    The environment is that of this process. The current folder is that of the repository.
    """
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        outputs = [Path(folder, name) for name in ("stdout", "stderr")]
        request = {"module": module, "arguments": arguments, "outputs": [str(path) for path in outputs]}
        server.stdin.write(json.dumps(request | {"environment": os.environ | ONE_CORE}) + "\n")
        server.stdin.flush()
        try:
            status = int(server.stdout.readline())
        except BaseException:  # a later test must not get the answer of this one
            server.kill()
            _server.cache_clear()
            raise
        return subprocess.CompletedProcess([module, *arguments], status, *(path.read_text() for path in outputs))


@functools.cache
def _server() -> "subprocess.Popen[str]":
    """Starts the server of this process. It ends with this process, which closes its standard input."""
    command = [sys.executable, "-m", "tests.train.fork_server"]
    pipe = subprocess.PIPE
    environment = os.environ | ONE_CORE | NO_COMPILER
    server = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment)
    atexit.register(server.communicate)
    return server


def serve() -> Mapping[str, Any] | None:
    """Forks for each request on standard input. Returns the request in the fork, None at the end in the server."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # DeepSpeed writes to standard output as it is loaded
    load_modules()
    for line in sys.stdin:
        child = os.fork()
        if not child:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=answers, flush=True)
    return None


def load_modules() -> None:
    """Imports what the forks need. Without garbage collection this takes a quarter less time."""
    gc.disable()
    for module in LOADED:
        importlib.import_module(module)
    gc.freeze()
    gc.enable()


def obey(request: Mapping[str, Any]) -> None:
    """Runs the module of ``request`` in this process."""
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, path in enumerate([os.devnull, *request["outputs"]]):
        opened = os.open(path, os.O_RDWR | os.O_CREAT)
        os.dup2(opened, number)
        os.close(opened)
    sys.argv = ["", *request["arguments"]]
    runpy.run_module(request["module"], run_name="__main__", alter_sys=True)


if __name__ == "__main__" and (received := serve()) is not None:
    obey(received)
