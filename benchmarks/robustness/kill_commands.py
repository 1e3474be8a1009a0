"""Kills commands that write results of a finished run, and compares the bytes. Prints one JSON line.

    python -m benchmarks.robustness.kill_commands --kills 30 --seed 0

A small run comes first (``experiment=smoke until=packed``). Then each command of COMMANDS runs undisturbed on a copy of
it, and again and again on other copies, killed once or several times with SIGKILL: at a random moment of its time, or,
more often, up to 50 ms after it has begun to write. Then it runs to its end, and all files in its folder, with the
folders of audits, are compared with the undisturbed ones.

    landed       kills by command; ``writing`` are those after a file or folder of the command had appeared
    compared     finished commands
    differing    files that are not equal, missing or left over: must be 0
    failures     commands that ended with an error of their own: must be 0
The runs read what ``python -m headrace.documentation`` writes.
"""

import argparse
import itertools
import json
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.end_to_end.test_line import FEW_DOCUMENTS, headrace

FORMATS = {
    "unique": ("jsonl", "parquet"),
    "tokens": ("parquet", "megatron", "nanoset"),
    "packed": ("nanoset", "parquet"),
}
COMMANDS: dict[str, list[list[str]]] = {
    **{
        f"export {stage} {form}": [["export", stage, "--format", form, "--to", "PLACE/pages", "--force"]]
        for stage, forms in FORMATS.items()
        for form in forms
    },
    "train-classifier": [["train-classifier", "keep:run:RUN:kept", "drop:run:RUN:dropped", "--out", "PLACE/a.model"]],
    "audit draw": [["audit", "RUN", "--number", "5", "--sheet", "PLACE/sheet.jsonl"]],
    "audit marks": [
        ["audit", "RUN", "--number", "5", "--sheet", "PLACE/sheet.jsonl"],
        ["audit", "RUN", "--marks", "PLACE/sheet.jsonl", "--marker", "ann"],
    ],
    "release": [["release", "RUN", "--to", "PLACE/release"]],
}
"""The calls of each command. The last one is killed; those before it prepare it."""


class Case:
    """A command on a copy of the run."""

    def __init__(self, name: str, root: Path, place: Path) -> None:
        shutil.copytree(root, place / "root")
        (run,) = (place / "root/runs").iterdir()
        self._place, self._calls = place, COMMANDS[name]
        self._names = {"RUN": run.name, "PLACE": str(place)}
        for call in self._calls[:-1]:
            self._finish(self._start(call))
        if name == "audit marks":
            mark(place / "sheet.jsonl")
        self._before = set(self._paths())

    def _start(self, call: list[str]) -> "subprocess.Popen[str]":
        words = [word if "run:" not in word else word.replace("RUN", self._names["RUN"]) for word in call]
        words = [self._names.get(word, word.replace("PLACE", self._names["PLACE"])) for word in words]
        words = [sys.executable, "-m", "headrace", *words, f"root={self._place}/root"]
        words += ["--run", self._names["RUN"]] if call[0] == "export" else []
        return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    @staticmethod
    def _finish(process: "subprocess.Popen[str]") -> None:
        _, errors = process.communicate()
        if process.returncode:
            raise RuntimeError(f"{process.args!r}: exit status {process.returncode}: {errors[-2000:]}")

    def run(self) -> float:
        """Runs the command to its end; returns its seconds."""
        start = time.monotonic()
        self._finish(self._start(self._calls[-1]))
        return time.monotonic() - start

    def kill(self, chance: random.Random, seconds: float) -> str | None:
        """Starts the command and kills it; returns "starting" or "writing", or None if it ended before."""
        process, start = self._start(self._calls[-1]), time.monotonic()
        earliest = start + chance.uniform(0, seconds) if chance.random() < 0.2 else None
        while process.poll() is None and not (self._writes if earliest is None else time.monotonic() > earliest):
            time.sleep(0.001)
        if earliest is None:
            time.sleep(chance.choice([0, 0.005, 0.05]) * chance.random())
        process.kill()
        process.communicate()
        if process.returncode != -signal.SIGKILL:
            return None
        return "writing" if self._writes else "starting"

    @property
    def _writes(self) -> bool:
        return any(path not in self._before for path in self._paths())

    def _paths(self) -> list[Path]:
        """The paths that the command may write: its folder, and those of audits."""
        audits = itertools.chain.from_iterable(folder.rglob("*") for folder in self._place.glob("root/runs/*/audit"))
        own = (path for path in self._place.rglob("*") if not path.is_relative_to(self._place / "root"))
        return [*own, *audits]

    def written(self) -> dict[str, bytes]:
        """The bytes of its files, by path; those of a folder are empty."""
        paths = {path.relative_to(self._place).as_posix(): path for path in self._paths()}
        return {name: path.read_bytes() if path.is_file() else b"" for name, path in paths.items()}


def mark(sheet: Path) -> None:
    """Marks the pages in turn."""
    lines = [json.loads(line) for line in sheet.read_text(encoding="utf-8").splitlines()]
    words = itertools.cycle(["good", "bad", "unsure"])
    marked = [{**line, "mark": word} for line, word in zip(lines, words, strict=False)]
    sheet.write_text("".join(json.dumps(line) + "\n" for line in marked), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance, totals, landed = random.Random(options.seed), Counter[str](), Counter[str]()
    wholes: dict[str, tuple[float, dict[str, bytes]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "root")
        headrace(root, "until=packed", FEW_DOCUMENTS)
        for number, name in enumerate(itertools.cycle(COMMANDS)):
            if landed.total() >= options.kills:
                break
            if name not in wholes:
                whole = Case(name, root, Path(folder, f"whole-{number}"))
                wholes[name] = whole.run(), whole.written()
            case = Case(name, root, Path(folder, str(number)))
            try:
                for _ in range(chance.choice([1, 1, 2])):
                    if moment := case.kill(chance, wholes[name][0]):
                        landed[name] += 1
                        totals[moment] += 1
                        print(f"kill {landed.total()}: {name}, {moment}", file=sys.stderr, flush=True)
                case.run()
            except RuntimeError as error:
                totals["failures"] += 1
                print(error, file=sys.stderr, flush=True)
                continue
            totals["compared"] += 1
            files, expected = case.written(), wholes[name][1]
            for path in sorted(files.keys() | expected.keys()):
                if files.get(path) != expected.get(path):
                    totals["differing"] += 1
                    print(f"differs: {name}: {path}", file=sys.stderr, flush=True)
            shutil.rmtree(Path(folder, str(number)))
    names = ("starting", "writing", "compared", "differing", "failures")
    summary = {"benchmark": "kill_commands", "kills": landed.total(), "seed": options.seed, "landed": dict(landed)}
    print(json.dumps(summary | {name: totals[name] for name in names}))
    return 1 if totals["differing"] or totals["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
