"""Tests whether broken files crash, hang or lose a record. Prints one JSON line.

    python -m benchmarks.robustness.fuzz_sources --inputs 100000 --seed 0 [--first 0] [--batch 10000] [--workers 2]
    python -m benchmarks.robustness.fuzz_sources --inputs 10000 --kinds arrow wet    only such files, without the calls

Inputs come from tests/data_prep/sources/malformed.py, the same for the same seed. Each batch of files goes two ways:

    readers    one process reads file by file, as the stage does; it is watched from outside
    stages     ``texts`` and ``clean`` with conf/cleaning/c4.yaml (or no filters), by the executor of users' runs

and the two must agree on every record. For each input one of the functions of tests/data_prep/measured.py, drawn at
random (a filter, a rule, a decoder, training and encoding of a tokenizer, marking, a reader of examples to fine-tune
on), also gets a text or bytes made to be slow, in a process of its own: ``calls`` that returned.

``crashes``: a reader or call died or raised, or the executor lost a worker. ``hangs``: no record for HANG_SECONDS.
``unaccounted``: files whose records are not numbered 0, 1, 2 … among kept and dropped together (of a Parquet row group,
what follows damage has one number), that differ between readers and stage, or that lost a record which no damage
touched. ``peak_rss_mb``: the most that any process held (workers are looked at every 20 ms, the readers' process knows
its own). ``--first`` goes on with a later input: pieces of a large run. Exit status 1 when a figure that must be 0 is
not.
"""

import argparse
import contextlib
import itertools
import json
import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import yaml

from benchmarks.robustness.descendants import watched
from headrace.data_prep.clean import Clean, Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.sources import AnySource
from headrace.data_prep.sources.html import Html
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.data_prep.sources.tables import Arrow, Parquet
from headrace.data_prep.sources.warc import Warc
from headrace.data_prep.texts import Texts
from headrace.pipeline.core.artifact import Artifact, finish
from headrace.pipeline.core.errors import TaskError
from headrace.pipeline.core.progress import StageProgress
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.stage import Stage
from headrace.pipeline.run.planned_stage import TaskExecutor
from headrace.pipeline.run.workers import Workers
from tests.data_prep.adversarial import hostile_bytes, hostile_text
from tests.data_prep.measured import extractors, filters, readers, rules, settings_of, texts
from tests.data_prep.sources.malformed import KINDS, LIMIT_BYTES, Malformed, malformed
from tests.train.finetune.files.hostile import readers_of_texts

PRESET = Path(__file__).parents[2] / "conf" / "cleaning" / "c4.yaml"
HANG_SECONDS = 150
"""For one record: more than twice what the extractor's process is given."""
TASK_BYTES = 4_000_000
SIZES = (10, 1_000, 30_000)
"""Most characters or bytes of an input that is made to be slow."""
Seen = dict[str, list[str]]
"""For each file the rule that dropped each of its records, or "kept"."""


def source_of(kind: str, paths: tuple[str, ...]) -> AnySource:
    """Returns the source that reads files of ``kind``."""
    options: dict[str, Any] = {"paths": paths, "record_bytes": LIMIT_BYTES, "task_bytes": TASK_BYTES}
    options |= {"html_field": "html"} if kind == "jsonl_html" else {}
    kinds: dict[str, Any] = {"jsonl": Jsonl, "jsonl_html": Jsonl, "html": Html, "parquet": Parquet, "arrow": Arrow}
    return kinds.get(kind, Warc)(**options)


def write(folder: Path, numbers: range, seed: int, kinds: Sequence[str]) -> dict[str, Malformed]:
    """The files of a batch, by path: one folder for each kind."""
    files = {}
    for number in numbers:
        made = malformed(number, seed, kinds)
        path = folder / made.kind / f"{number:06d}{made.suffix}"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(made.data)
        files[str(path)] = Malformed(made.kind, made.suffix, b"", made.intact)
    return files


def serve(pipe: Connection, files: list[tuple[str, str, int]]) -> None:
    """Reads ``files`` (path, kind, intact) and reports each record: file, rule, correctness, seconds, own MB."""
    for path, kind, intact in files:
        start, number = time.perf_counter(), -1
        for document, drop in source_of(kind, (path,)).read(path):
            last, number = number, int(document.id.removeprefix(f"{path}:"))
            right = number == last + 1 or (kind == "parquet" and number > last)
            right = right and bool(document.text.strip()) == (drop is None)
            if number < intact:
                right = right and "since the great flood" in document.text
            megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
            pipe.send((path, drop.rule if drop else "kept", right, time.perf_counter() - start, megabytes))
            start = time.perf_counter()
        pipe.send((path, None, True, time.perf_counter() - start, 0))
    pipe.close()


def read(files: dict[str, Malformed], totals: dict[str, Any]) -> Seen:
    """Returns the readers' results for ``files``; a file that kills the process is counted, named and skipped."""
    seen: Seen = {}
    left = [(path, made.kind, made.intact) for path, made in files.items()]
    while left:
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("fork").Process(target=serve, args=(theirs, left))
        process.start()
        theirs.close()
        ended = 0
        with contextlib.suppress(EOFError):
            while ours.poll(HANG_SECONDS):
                path, rule, right, seconds, megabytes = ours.recv()
                rules = seen.setdefault(path, [])
                if rule is not None:
                    rules.append(rule)
                ended += rule is None
                totals["longest_seconds"] = max(totals["longest_seconds"], seconds)
                totals["peak_rss_mb"] = max(totals["peak_rss_mb"], megabytes)
                if not right:
                    fail(totals, "unaccounted", f"{path}: record {len(rules) - 1}, {rule}")
            process.kill()
            fail(totals, "hangs", left[ended][0])
        process.join()
        if process.exitcode and ended < len(left) and process.exitcode != -9:
            fail(totals, "crashes", f"{left[ended][0]}: exit status {process.exitcode}")
        left = left[ended + 1 :] if ended < len(left) else []
    return seen


def execute(stage: Stage, inputs: dict[str, Artifact], out: Path, workers: int) -> Artifact:
    """Returns the artifact of ``stage`` below ``out``, each phase done by the executor of users' runs."""
    shards = {name: artifact.shard_count for name, artifact in inputs.items()}
    folders = {name: artifact.folder for name, artifact in inputs.items()}
    phases, folder = stage.phases(shards), out / stage.name
    with Workers(workers) as pool, StageProgress(stage.name, len(phases)) as progress:
        for number, phase in enumerate(phases, 1):
            progress.start_phase(number, phase.name, phase.tasks, phase.raw_bytes)
            TaskExecutor(stage, shards, folders, folder, phase.name, phase.tasks).run(pool, progress)
    addresses = dict.fromkeys(inputs, "")
    return finish(folder, stage.description(addresses), {phase.name: phase.tasks for phase in phases})


def clean(kind: str, folder: Path, cleaning: Cleaning, workers: int, totals: dict[str, Any]) -> Seen:
    """Returns the stages' results for the files of ``kind``."""
    source, out = source_of(kind, (str(folder / kind / "*"),)), folder / "artifacts" / kind
    try:
        texts = execute(Texts(source=source), {}, out, workers)
        cleaned = execute(Clean(cleaning=cleaning), {"texts": texts}, out, workers)
    except TaskError as error:
        fail(totals, "crashes", f"{folder / kind}: {error}")
        return {}
    decided: dict[str, dict[int, str]] = defaultdict(dict)
    for artifact, shard in ((texts, "dropped"), (cleaned, "documents"), (cleaned, "dropped")):
        for path in artifact.shards(shard):
            for document in read_documents(path):
                name, _, number = document.id.rpartition(":")
                if int(number) in decided[name]:
                    fail(totals, "unaccounted", f"{document.id}: twice")
                decided[name][int(number)] = document.metadata["drop"]["rule"] if shard == "dropped" else "kept"
    counts = [artifact.counts for artifact in (texts, cleaned)]
    drops: Counter[str] = Counter()
    for count in counts:
        drops.update({key[8:]: value for key, value in count.items() if key.startswith("dropped:")})
    totals["dropped"].update(drops)
    totals["records"] += counts[0]["records_in"]
    totals["kept"] += counts[1]["kept"]
    if counts[0]["records_in"] != counts[1]["kept"] + drops.total():
        fail(totals, "unaccounted", f"{folder / kind}: {counts}")
    return {source.location(name): [records[number] for number in sorted(records)] for name, records in decided.items()}


def agree(files: dict[str, Malformed], readers: Seen, stage: Seen, totals: dict[str, Any]) -> None:
    """Both ways saw the same records, and what a reader dropped the stage dropped for the same reason."""
    for path in files:
        read_rules, stage_rules = readers.get(path, []), stage.get(path, [])
        pairs = itertools.zip_longest(read_rules, stage_rules)
        if not all(rule in ("kept", later) and later is not None for rule, later in pairs):
            fail(totals, "unaccounted", f"{path}: {read_rules} {stage_rules}")


def call(pipe: Connection, numbers: range, seed: int) -> None:
    """Calls one function after the other with a hostile input, and reports each: name, seconds."""
    with tempfile.TemporaryDirectory() as name:
        settings = settings_of(Path(name))
        of_text = [*filters(settings), *rules(settings), *extractors(), *texts(), *readers_of_texts(Path(name))]
        of_bytes = list(readers(Path(name)))
        for number in numbers:
            chance = random.Random(f"{seed}:{number}:call")
            title, function = chance.choice([*of_text, *of_bytes])
            make = hostile_bytes if (title, function) in of_bytes else hostile_text
            start = time.perf_counter()
            function(make(chance, chance.choice(SIZES)))
            pipe.send((f"{number}: {title}", time.perf_counter() - start))
    pipe.close()


def answers(numbers: range, seed: int, totals: dict[str, Any]) -> None:
    """Counts the calls of ``numbers`` that returned; the first that did not ends the batch's calls."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=call, args=(theirs, numbers, seed))
    process.start()
    theirs.close()
    returned, last = 0, "the first call"
    with contextlib.suppress(EOFError):
        while ours.poll(HANG_SECONDS):
            last, seconds = ours.recv()
            returned += 1
            totals["longest_seconds"] = max(totals["longest_seconds"], seconds)
        process.kill()
        fail(totals, "hangs", f"the call after {last}")
    process.join()
    totals["calls"] += returned
    if process.exitcode not in (0, -9):
        fail(totals, "crashes", f"the call after {last}: exit status {process.exitcode}")
    elif returned != len(numbers):
        fail(totals, "unaccounted", f"{len(numbers) - returned} calls after {last}")


def fail(totals: dict[str, Any], what: str, where: str) -> None:
    totals[what] += 1
    print(f"{what}: {where:.500}", file=sys.stderr, flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--no-filters", action="store_true", help="the stage only reads")
    options = parser.parse_args()
    totals: dict[str, Any] = {"benchmark": "fuzz_sources", "inputs": options.inputs, "first": options.first}
    totals |= {"kinds": list(options.kinds)}
    totals |= {"seed": options.seed, "records": 0, "kept": 0, "dropped": Counter(), "crashes": 0, "hangs": 0}
    totals |= {"calls": 0, "unaccounted": 0, "longest_seconds": 0.0, "peak_rss_mb": 0.0}
    preset = yaml.safe_load(PRESET.read_text(encoding="utf-8"))
    cleaning = decode(Cleaning, preset | {"buckets": 2, **({"filters": []} if options.no_filters else {})})
    last = options.first + options.inputs
    for first in range(options.first, last, options.batch):
        with tempfile.TemporaryDirectory() as name, watched(totals):
            files = write(Path(name), range(first, min(first + options.batch, last)), options.seed, options.kinds)
            stage: Seen = {}
            for kind in KINDS:
                if Path(name, kind).exists():
                    stage |= clean(kind, Path(name), cleaning, options.workers, totals)
            agree(files, read(files, totals), stage, totals)
            if options.kinds == KINDS:
                answers(range(first, min(first + options.batch, last)), options.seed, totals)
        print(f"{min(first + options.batch, last)} of {last}", file=sys.stderr, flush=True)
    totals["dropped"] = dict(totals["dropped"].most_common())
    totals |= {key: round(totals[key], 2) for key in ("longest_seconds", "peak_rss_mb")}
    print(json.dumps(totals))
    return 1 if totals["crashes"] or totals["hangs"] or totals["unaccounted"] else 0


if __name__ == "__main__":
    sys.exit(main())
