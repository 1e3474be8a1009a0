"""Measures the CPU seconds that commands take to start.

    python -m benchmarks.commands.startup ROOT        ROOT holds a finished run

    headrace --help, --version, why --help        no data
    completion of a group's option and of a command's option, as bash asks for it
    headrace status root=ROOT                     the rows of the finished run
    headrace runs root=ROOT                       all runs below ROOT
    headrace plan                                 settings composed and decoded, for comparison

Each is called in a process of its own. ``first`` is the first call (files may not be in the page cache, nor compiled to
bytecode), ``second`` the call after it. User and system time are added; waiting is left out.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
from importlib.metadata import version

HELP_BUDGET, STATUS_BUDGET = 0.4, 1.0
"""CPU seconds of the second call: of help and completion, of status and runs."""
SETTINGS = ["plan", "source=warc"]


def asked_by_bash(*words: str) -> dict[str, str]:
    """Returns the variables with which bash requests completions of the last of ``words``."""
    return {
        "_HEADRACE_COMPLETE": "bash_complete",
        "COMP_WORDS": "\n".join(["headrace", *words]),
        "COMP_CWORD": str(len(words)),
    }


def cpu_seconds(arguments: list[str], variables: dict[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "headrace", *arguments]
    subprocess.run(command, env=os.environ | variables, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 3)


def main(root: str) -> None:
    cases: dict[str, tuple[list[str], dict[str, str]]] = {
        "--help": (["--help"], {}),
        "--version": (["--version"], {}),
        "why --help": (["why", "--help"], {}),
        "completion of model=gpt2_": ([], asked_by_bash("status", "model", "=", "gpt2_")),
        "completion of inspect --": ([], asked_by_bash("inspect", "--")),
        "status": (["status", f"root={root}"], {}),
        "runs": (["runs", f"root={root}"], {}),
        "plan": (SETTINGS, {}),
    }
    seconds = {}
    for name, (arguments, variables) in cases.items():
        first, second = cpu_seconds(arguments, variables), cpu_seconds(arguments, variables)
        seconds[name] = {"first": first, "second": second}
    met = {
        name: calls["second"] <= (STATUS_BUDGET if name in ("status", "runs") else HELP_BUDGET)
        for name, calls in seconds.items()
    }
    del met["plan"]
    versions = {"python": platform.python_version()} | {name: version(name) for name in ("click", "hydra-core")}
    print(json.dumps({"benchmark": "startup", **versions, "cpu_seconds": seconds, "budgets_met": met}))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", metavar="ROOT")
    main(parser.parse_args().root)
