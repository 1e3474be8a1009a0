"""Does a change of the code change a result? Fingerprints of what fixed runs leave, to compare before and after.

    python -m benchmarks.commands.golden write OUT.json [--program "python -m headrace"] [--crawl FOLDER] [--demo]
    python -m benchmarks.commands.golden compare BEFORE.json AFTER.json

``write`` needs what ``python -m headrace.documentation`` writes. It runs the smoke experiment in a new root, and its
training with LLaMA's shape and at each ZeRO stage on one and two ranks; with ``--crawl`` the data stages on a folder of
WARC files; with ``--demo`` the demo. A fingerprint is the SHA-256 of a file, of metrics.jsonl its rows. Times and rates
in metrics and on reports are left out. Addresses, the root and run ids are replaced by what they stand for, so a change
of addresses alone changes no fingerprint. Checkpoints, logs and manifests are left out: manifests describe settings,
and every file that they list is compared itself.

``compare`` prints what differs and ends with status 1 if anything does.
"""

import argparse
import hashlib
import itertools
import json
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TIMES = ("seconds", "tokens_per_second", "mfu", "slowest_rank", "time", "memory")
"""Parts of the names of metrics that differ from run to run."""

SHOWN_TIMES = re.compile(r"[-\d]+ [\d:]+ UTC|\d[\d,.]*(?= (?:s|min|h)\b)|\d[\d,.]*(?=<small>tokens per second)")
"""Times and rates on the page of a report."""

LEFT_OUT = ("logs/", "parts/", "checkpoints/", "wandb/", "manifest.json", "lock")
TEXTS = {".json", ".jsonl", ".html", ".md", ".txt", ".yaml"}


def run(program: list[str], root: Path, *overrides: str) -> None:
    """Run the line; a failure ends the benchmark."""
    command = [*program, f"root={root}", "tracking=file", *overrides]
    print(" ".join(map(str, command)), file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def fingerprints(root: Path) -> dict[str, Any]:
    """The fingerprint of each file below ``root`` by stage and name; a stage that stands there several times is
    numbered in the order in which it was made."""
    prints: dict[str, Any] = {}
    stages = [folder for folder in sorted(root.iterdir()) if folder.is_dir() and folder.name != "runs"]
    artifacts = {stage: sorted(stage.glob("*/"), key=lambda path: path.stat().st_mtime_ns) for stage in stages}
    names = {made.name: stage.name for stage, several in artifacts.items() for made in several}
    for stage, several in artifacts.items():
        for number, artifact in enumerate(several):
            for path in sorted(artifact.rglob("*")):
                name = path.relative_to(artifact).as_posix()
                if path.is_file() and not name.startswith(LEFT_OUT):
                    prints[f"{stage.name}/{number}/{name}"] = fingerprint(path, root, names)
    return prints


def fingerprint(path: Path, root: Path, names: dict[str, str]) -> Any:
    """The fingerprint of one file."""
    if path.name == "metrics.jsonl":
        rows = map(json.loads, path.read_text().splitlines())
        return [{key: row[key] for key in row if not any(time in key for time in TIMES)} for row in rows]
    content = path.read_bytes()
    if path.suffix in TEXTS:
        text = content.decode().replace(str(root), "ROOT")
        if path.suffix == ".html":
            text = SHOWN_TIMES.sub("TIME", text)
        content = re.sub(r"\b[0-9a-f]{12}\b", lambda match: names.get(match[0], match[0]), text).encode()
    return hashlib.sha256(content).hexdigest()


def write(program: list[str], crawl: str | None, demo: bool) -> dict[str, Any]:
    """The fingerprints of all runs."""
    prints: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as name:
        smoke = Path(name, "smoke")
        run(program, smoke, "experiment=smoke")
        run(program, smoke, "experiment=smoke", "model=llama_demo", "until=weights")
        for stage, ranks in itertools.product(range(4), (1, 2)):
            seed = f"training.seed={10 * stage + ranks}"  # neither the stage nor the ranks are in the address
            run(program, smoke, "experiment=smoke", "until=weights", seed, f"zero=stage_{stage}", f"ranks={ranks}")
        prints["smoke"] = fingerprints(smoke)
        if crawl:
            pages = Path(name, "pages")
            run(program, pages, "source=warc", f"source.paths=[{crawl}/*.warc.gz]", "cleaning=c4", "until=packed")
            prints["pages"] = fingerprints(pages)
        if demo:
            run(program, Path(name, "demo"), "experiment=demo")
            prints["demo"] = fingerprints(Path(name, "demo"))
    return prints


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print every fingerprint that differs; the number of them."""
    differing = 0
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        differing_keys = [key for key in sorted(old.keys() | new.keys()) if old.get(key) != new.get(key)]
        for key in differing_keys:
            print(f"differs: {name}: {key}")
        differing += len(differing_keys)
        print(f"{name}: {len(old.keys() | new.keys())} files, {len(differing_keys)} differ")
    return differing


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writer = commands.add_parser("write")
    writer.add_argument("out", type=Path)
    writer.add_argument("--program", default=f"{sys.executable} -m headrace")
    writer.add_argument("--crawl")
    writer.add_argument("--demo", action="store_true")
    comparer = commands.add_parser("compare")
    comparer.add_argument("before", type=Path)
    comparer.add_argument("after", type=Path)
    options = parser.parse_args()
    if options.command == "write":
        prints = write(shlex.split(options.program), options.crawl, options.demo)
        options.out.write_text(json.dumps(prints, indent=1, sort_keys=True))
        return 0
    return min(1, compare(json.loads(options.before.read_text()), json.loads(options.after.read_text())))


if __name__ == "__main__":
    sys.exit(main())
