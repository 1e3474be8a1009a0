"""Items of parts.py: does every kind of model, of training and of scoring compute the same on this GPU as on a CPU?

families    loss and gradients of each family and each kind of attention, small, in fp32: packed rows through compiled
            layers and FlexAttention, as on a GPU, against plain matrix products on the CPU
engine      curves of losses, norms and weights at each ZeRO stage, precision, optimizer and with offload, against plain
            PyTorch on the CPU, within the tolerances of the tests
scoring     log-likelihoods of a decoder, an encoder and an encoder–decoder, and the text that a decoder writes
"""

import concurrent.futures
import dataclasses
import functools
import multiprocessing
import os
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
import yaml
from torch import Tensor

from benchmarks.gpu.item import Item, Setting
from benchmarks.gpu.right import EAGER, exact_products, worst
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig
from headrace.train.data.batches import EncoderTokens
from headrace.train.engine.optimizers.muon import Muon
from headrace.train.inference.causal_likelihood import CausalLikelihood
from headrace.train.inference.encoder_likelihood import logits_at
from headrace.train.inference.queries import TokenQuery
from headrace.train.model import execution
from headrace.train.model.initialization import initialize
from headrace.train.model.transformer import Transformer
from tests.train import equivalence, plain, test_equivalence, test_half_precision, updates

CONF = Path(__file__).parents[2] / "conf"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "64": ("gpt2_small", {}),
    "64, recomputed": ("gpt2_small", {"recompute": "full"}),
    "80": ("gpt3_2_7b", {}),
    "96": ("gpt2_small", {"heads": 8, "kv_heads": 8}),
    "128": ("llama_7b", {}),
    "grouped": ("qwen3_0_6b", {}),
    "256": ("gemma2_2b", {"window": 256}),
    "windows": ("modernbert_base", {}),
    "bias": ("bloom_560m", {}),
    "parallel": ("pythia_160m", {}),
    "qk_norm": ("olmo2_1b", {}),
    "post": ("gpt1", {}),
    "encoder": ("bert_base", {}),
    "shared": ("albert_base", {}),
    "learned bias": ("t5_base", {}),
    "two stacks": ("bart_base", {}),
}
"""A head's width, or the part that is special; a preset, and what differs from it."""
VOCABULARY, ROWS = 1001, 2
PROCESSES = 8
FP32_LIMIT = 1e-4
"""The largest error of loss and gradients relative to the norm of what is expected."""
LEARNT_ABOVE = 1e-3
"""Gradients whose norm is less than this share of the largest are rounding alone, those of key biases, say."""
NATS_LIMIT = 1e-3


def smaller(preset: str, changes: Mapping[str, Any], tokens: int) -> ModelConfig:
    """Returns a model of ``preset`` with few and narrow layers and rows of ``tokens``; heads are as wide as there."""
    given = yaml.safe_load((CONF / f"model/{preset}.yaml").read_text()) | {"dropout": 0.0} | changes
    whole = decode(ModelConfig, given)
    groups, width = whole.heads // whole.kv_heads, whole.head_width
    sizes: dict[str, Any] = {"layers": 3, "heads": 4, "kv_heads": 4 // min(groups, 4), "width": 4 * width}
    sizes |= {"context": tokens, "mlp_width": 8 * width}
    if whole.attention_width is not None:
        sizes["attention_width"] = 4 * width
    if whole.embedding_width is not None:
        sizes["embedding_width"] = 32
    if whole.window is not None:
        sizes["window"] = min(whole.window, tokens // 3)
    return dataclasses.replace(whole, **sizes)


def rows(config: ModelConfig, seed: int) -> list[Tensor]:
    """Returns tokens, positions and documents of packed rows with padding at the end, and targets."""
    generator = np.random.default_rng(seed)
    tokens = generator.integers(0, VOCABULARY, (ROWS, config.context))
    places = np.arange(config.context)[None].repeat(ROWS, 0)
    cuts = generator.integers(1, config.context // 2, (ROWS, 1))
    documents = np.where(places < config.context - 9, places >= cuts, -1)
    positions = np.where(documents == 1, places - cuts, places)
    targets = np.where(documents >= 0, generator.integers(0, VOCABULARY, tokens.shape), -100)
    return [torch.from_numpy(array.astype(np.int64)) for array in (tokens, positions, documents, targets)]


def loss_and_gradients(model: Transformer, device: torch.device) -> dict[str, Tensor]:
    model = model.to(device).train()
    tokens, positions, documents, targets = (tensor.to(device) for tensor in rows(model.config, 0))
    more: dict[str, Any] = {}
    if model.config.stack == "encoder_decoder":
        more["source"] = EncoderTokens(*(tensor.to(device) for tensor in rows(model.config, 1)[:3]))
        documents = torch.where(more["source"].documents_BS >= 0, more["source"].documents_BS, documents.clamp(max=-1))
        more["targets_BT"] = torch.where(documents >= 0, targets, -100)
    elif model.config.stack != "discriminator":
        more["targets_BT"] = targets
    output = model(tokens, positions, documents, **more)
    if model.config.stack == "discriminator":
        output = (output.squeeze(-1)[documents >= 0] * targets[documents >= 0]).sum()
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(output, parameters, allow_unused=True)
    tensors = {"loss": output, **dict(zip(names, gradients, strict=True))}
    return {name: value.detach().cpu() for name, value in tensors.items() if value is not None}


def error_of_family(name: str, device: str, is_tiny: bool) -> float | str:
    """Returns the largest error of loss or gradients of a case of CASES, or what it raised."""
    preset, changes = CASES[name]
    settings = {key: value for key, value in changes.items() if key not in ("recompute", "heads", "kv_heads")}
    recompute = changes.get("recompute", "none")
    torch.set_num_threads(2)
    try:
        config = smaller(preset, settings, 64 if is_tiny else 384)
        model = Transformer(config, VOCABULARY)
        initialize(model, 0)
        expected = loss_and_gradients(model, torch.device("cpu"))
        model = Transformer(config, VOCABULARY)
        initialize(model, 0)
        tiny = mock.patch.object(execution, "compile_lazily", EAGER)
        with exact_products(), tiny if is_tiny else mock.patch.dict(os.environ):
            execution.prepare_blocks(model, compiles=True, recompute=recompute)
            execution.pad_vocabulary(model)
            computed = loss_and_gradients(model, torch.device(device))
    except Exception:  # noqa: BLE001  # the line names it, and the other families go on
        return traceback.format_exc()[-1500:]
    largest = max(float(value.norm()) for key, value in expected.items() if key != "loss")
    names = [key for key, value in expected.items() if float(value.norm()) > LEARNT_ABOVE * largest]
    return max(worst([computed[key]], [expected[key]]) for key in {"loss", *names})


def families(setting: Setting) -> dict[str, Any]:
    work = functools.partial(error_of_family, device=setting.device.type, is_tiny=setting.is_tiny)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(PROCESSES if not setting.is_tiny else 2, context) as pool:
        errors = dict(zip(CASES, pool.map(work, CASES), strict=True))
    return checked(errors, FP32_LIMIT)


def checked(errors: Mapping[str, float | str], limit: float | Mapping[str, float]) -> dict[str, Any]:
    """Returns the fields of a line; it has passed when no error is above the limit, and none is a text."""
    limits = limit if isinstance(limit, Mapping) else dict.fromkeys(errors, limit)
    failed = [name for name, error in errors.items() if isinstance(error, str) or not error <= limits[name]]
    return {"passed": not failed, "failed": failed, "errors": dict(errors), "limit": limit}


def engine_cases() -> list[updates.Case]:
    cases = equivalence.matrix() + test_equivalence.OTHER_OPTIMIZERS[1] + test_equivalence.OFFLOADED[1]
    return cases + test_half_precision.SUMS[1] + test_half_precision.FP16[1]


def engine(setting: Setting) -> dict[str, Any]:
    """Each case's distances from plain PyTorch on the CPU, over what the tests allow: at most 1."""

    def moved(whole: Mapping[str, Tensor], chosen: Tensor) -> dict[str, Tensor]:
        return {name: tensor[chosen].to(setting.device) for name, tensor in whole.items()}

    errors: dict[str, float | str] = {}
    cases = engine_cases()[:: 12 if setting.is_tiny else 1]
    torch.set_num_threads(1)
    plain_case = functools.cache(plain.learn)
    updates.OPTIMIZERS["muon"] = functools.partial(Muon, orthogonalization="fp32")  # on a GPU it is bf16 otherwise
    for case in cases:
        try:
            with mock.patch.object(updates, "select", moved), exact_products():
                learned = updates.learn(case, setting.ranks)
            errors[case.name] = over_tolerance(case, learned, plain_case)
        except Exception:  # noqa: BLE001  # the line names it, and the other cases go on
            errors[case.name] = traceback.format_exc()[-1500:]
    return checked(errors, 1.0)


def over_tolerance(
    case: updates.Case, learned: updates.Curve, plain_case: Callable[[updates.Case], updates.Curve]
) -> float:
    if case.precision == "fp16" or case.gradient_sums == "fp32":
        expected = test_half_precision.learn(case, 1)
        learned, expected = (test_half_precision.from_first_update(curve) for curve in (learned, expected))
        tolerance = test_half_precision.LIKE_FP16 if case.precision == "fp16" else equivalence.TOLERANCES["bf16"]
    else:
        expected = plain_case(dataclasses.replace(test_equivalence.plain_case(case), offload="none", overlap=False))
        tolerance = equivalence.TOLERANCES[case.precision]
    apart = equivalence.distance(learned, expected)
    return max(vars(apart)[name] / limit for name, limit in vars(tolerance).items())


SCORED = {"decoder": "gpt2_small", "grouped": "qwen3_0_6b", "windows": "gemma2_2b", "bias": "bloom_560m"}


def scoring(setting: Setting) -> dict[str, Any]:
    generator, errors = np.random.default_rng(0), dict[str, float | str]()
    drawn = [generator.integers(0, VOCABULARY, size).astype(np.uint16) for size in generator.integers(8, 60, 64)]
    queries = [
        TokenQuery(context=tokens_T[: len(tokens_T) // 2], continuation=tokens_T[len(tokens_T) // 2 :])
        for tokens_T in drawn
    ]
    for name, preset in {**SCORED, "encoder": "bert_base"}.items():
        model = Transformer(smaller(preset, {}, 64), VOCABULARY)
        initialize(model, 0)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(3 if parameter.dim() >= 2 else 1)
        answers = []
        for device in (torch.device("cpu"), setting.device):
            model = model.to(device).eval()
            with exact_products(), torch.inference_mode():
                if name == "encoder":
                    rows_BT = np.stack([tokens_T[:8].astype(np.int64) for tokens_T in drawn])
                    at_BK = np.arange(len(rows_BT))[:, None] % 8
                    answers.append(logits_at(model, rows_BT, at_BK, device).flatten().tolist())
                    continue
                likelihood = CausalLikelihood(network=model, window_tokens=64, batch_tokens=1024, device=device)
                answers.append([answer.log_likelihood for answer in likelihood.answers(queries)])
        errors[name] = max(abs(a - b) for a, b in zip(*answers, strict=True))
    return checked(errors, NATS_LIMIT)


ITEMS: dict[str, Item] = {
    "families": Item(families, limit_seconds=240),
    "engine": Item(engine, limit_seconds=200),
    "scoring": Item(scoring, limit_seconds=90),
}
