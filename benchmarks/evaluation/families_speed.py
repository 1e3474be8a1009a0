"""Measures the scoring of an encoder and of an encoder–decoder, with random weights of published shapes. One JSON line.

    python -m benchmarks.evaluation.families_speed pairs blimp_half.jsonl.zst [--model bert_base] [--limit 1]
    python -m benchmarks.evaluation.families_speed choices piqa.jsonl.zst [--model t5_small] [--limit 12]

pairs      pseudo-log-likelihoods of the sentences of minimal pairs: ours and those of a plain loop over
           ``BertForMaskedLM``, one sequence with one hidden token a call, as in the definition (Salazar et al. 2020)
choices    log-likelihoods of the choices of a benchmark: ours and those of lm-evaluation-harness's ``HFLM``
           (seq2seq). The model reads contexts in the harness's form, without sentinels: context, end of text; then the
           choice

Both sides have the same weights in fp32, the same texts and one process; they take turns, ``--rounds`` times. The
tokenizer is trained on the texts, with at most 8,192 tokens; the model has the vocabulary of its authors. ``ratio`` is
theirs over ours in seconds of CPU time, which a busy machine changes least.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
import yaml
from torch import nn

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Trained, WordPiece
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.context import LEFT_TO_RIGHT, ContextForm
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.prompt import encode
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.hf_folder import export
from headrace.train.families.registry import family_of
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Text
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer

CONF = Path(__file__).parents[2] / "conf"
PRESETS = {"pairs": "bert_base", "choices": "t5_small"}
BARS = {"pairs": 3.0, "choices": 2.0}
BAR_NATS = 1e-4
HARNESS_ROWS = (1, 8)
"""The harness has the batch of the less time."""
SPREAD = 3.0
"""First weights of deviation 0.02 predict nearly the same for every text; they are multiplied by this number."""
Answers = list[float]


def requests_of(file: Path, limit: int) -> list[Text]:
    """The requests of the first items of the benchmark of standard.yaml that reads a file of this name."""
    known = yaml.safe_load((CONF / "evaluation/standard.yaml").read_text())["benchmarks"]
    name, values = next(
        (name, benchmark) for name, benchmark in known.items() if file.name in benchmark.get("paths", [])
    )
    limits = {"limit_per_group" if values["type"] == "minimal_pairs" else "limit": limit}
    settings = {name: values | limits | {"paths": [str(file)]}}
    benchmark = decode(Evaluation, {"benchmarks": settings}).benchmarks[name]
    queries = [query for item in benchmark.items(Sources(Path(), None, "0")) for query in item.queries]
    return [query for query in queries if isinstance(query, Text)]


def random_folder(model_name: str, tokenizer: str, form: Callable[[Encoder], ContextForm], folder: Path) -> Path:
    """A Hugging Face folder with a random model of a preset's shape."""
    folder.mkdir()
    (folder / "given.json").write_text(tokenizer, encoding="utf-8")
    config = decode(ModelConfig, yaml.safe_load((CONF / f"model/{model_name}.yaml").read_text()))
    (preset,) = (preset_of_name for name, preset_of_name in family_of(config).presets.items() if name == model_name)
    model = Transformer(config, preset.vocabulary)
    initialize(model, 0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(SPREAD if parameter.dim() >= 2 and config.initialization == "gpt" else 1)
    of_contexts = form(Encoder.load(folder / "given.json"))
    export(model.named_parameters(), config, preset.vocabulary, folder / "given.json", folder / "hf", of_contexts)
    return folder / "hf"


def ours(subject: InferenceModel, requests: Sequence[Text]) -> Answers:
    answers = subject.likelihood.answers(encode(requests, subject.tokenizer, subject.opening))
    return [answer.log_likelihood for answer in answers]


@torch.inference_mode()
def plain_loop(model: nn.Module, encoder: Encoder, requests: Sequence[Text]) -> Answers:
    """The definition: for each token of a sentence one call, which computes the logits of all positions."""
    ids_of = encoder.backend.get_vocab(with_added_tokens=True)
    first, last, mask = (ids_of[token] for token in ("[CLS]", "[SEP]", "[MASK]"))
    sums = []
    for request in requests:
        (ids,) = encoder.encode([request.continuation])
        sequence, total = torch.tensor([[first, *ids.tolist(), last]]), 0.0
        for position in range(1, sequence.shape[1] - 1):
            hidden = sequence.clone()
            hidden[0, position] = mask
            total += model(hidden).logits[0, position].log_softmax(0)[sequence[0, position]].item()
        sums.append(total)
    return sums


def of_pairs(arguments: argparse.Namespace, requests: Sequence[Text], scratch: Path) -> tuple[Any, Any, Path]:
    texts = [request.continuation for request in requests]
    tokenizer = WordPiece(vocabulary_size=8192, special_tokens="bert").train(texts)
    folder = random_folder(arguments.model or PRESETS["pairs"], tokenizer, lambda _: LEFT_TO_RIGHT, scratch / "model")
    model = transformers.BertForMaskedLM.from_pretrained(folder).eval()
    encoder = Encoder.load(folder / "tokenizer.json")
    return None, lambda: plain_loop(model, encoder, requests), folder


def of_choices(arguments: argparse.Namespace, requests: Sequence[Text], scratch: Path) -> tuple[Any, Any, Path]:
    from lm_eval.api.instance import Instance
    from lm_eval.models.huggingface import HFLM

    texts = [request.context + request.continuation for request in requests]
    tokenizer = Trained(vocabulary_size=8192, special_tokens="t5").train(texts)

    def form(encoder: Encoder) -> ContextForm:
        start = encoder.backend.token_to_id("<pad>")
        return ContextForm(looks_ahead=True, ending=(encoder.end_of_text,), given=(start,))

    folder = random_folder(arguments.model or PRESETS["choices"], tokenizer, form, scratch / "model")
    harness = HFLM(pretrained=str(folder), backend="seq2seq", dtype="float32", batch_size=1, device="cpu")
    instances = [Instance("loglikelihood", {}, (text.context, text.continuation), 0) for text in requests]

    def theirs(rows: int) -> Answers:
        harness.batch_size_per_gpu = rows
        return [score for score, _ in harness.loglikelihood(instances, disable_tqdm=True)]

    rows = min(HARNESS_ROWS, key=lambda rows: cpu_seconds(lambda: theirs(rows))[0])
    return rows, lambda: theirs(rows), folder


def cpu_seconds(run: Callable[[], Answers]) -> tuple[float, Answers]:
    begun = time.process_time()
    answers = run()
    return time.process_time() - begun, answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", choices=tuple(BARS))
    parser.add_argument("file", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--limit", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    requests = requests_of(arguments.file, arguments.limit)
    with tempfile.TemporaryDirectory() as scratch:
        prepare = {"pairs": of_pairs, "choices": of_choices}[arguments.what]
        rows, other, folder = prepare(arguments, requests, Path(scratch))
        subject = open_folder(folder, Inference(device="cpu"))
        rounds = [(cpu_seconds(lambda: ours(subject, requests)), cpu_seconds(other)) for _ in range(arguments.rounds)]
    ratios = [theirs[0] / mine[0] for mine, theirs in rounds]
    apart = max(abs(a - b) for mine, theirs in rounds for a, b in zip(mine[1], theirs[1], strict=True))
    line = {
        "benchmark": "families_speed",
        "what": arguments.what,
        "model": arguments.model or PRESETS[arguments.what],
        "file": arguments.file.name,
        "requests": len(requests),
        "harness_rows": rows,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "threads": torch.get_num_threads(),
        "cpu_seconds": round(statistics.median(mine[0] for mine, _ in rounds), 2),
        "cpu_seconds_other": round(statistics.median(theirs[0] for _, theirs in rounds), 2),
        "ratio": round(statistics.median(ratios), 2),
        "ratios": [round(ratio, 2) for ratio in ratios],
        "bar": BARS[arguments.what],
        "within_bar": statistics.median(ratios) >= BARS[arguments.what],
        "score": round(statistics.mean(rounds[0][0][1]), 3),
        "max_difference_nats": float(f"{apart:.3g}"),
        "differences_within_bar": apart <= BAR_NATS,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
