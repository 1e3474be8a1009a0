"""Scores of a T5 that ``transformers`` saved equal those of lm-evaluation-harness's backend for two stacks.

That backend (``HFLM``, seq2seq) gives the context with its end of text to the encoder and the continuation to the
decoder as labels. Without the harness, the same computation is made here.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import PreTrainedTokenizerFast, T5Config, T5ForConditionalGeneration

from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenization.special_tokens import sentinels
from headrace.train.evaluation.prompt import encode
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Text
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from tests.train.small_models import WINDOW_TOKENS, story

FIRST = "<extra_id_0>"
ROLES = {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
REQUESTS = [Text(story(n)[: 11 + 40 * n], " " + story(n + 1)[: 5 + 2 * n]) for n in range(12)]
"""The last contexts are longer than the window; some end with a space, which the continuation gets."""


@pytest.fixture(scope="module", params=[(), sentinels(2)], ids=["no sentinels", "sentinels"])
def folder(request, tmp_path_factory) -> Path:
    """A random T5 as ``transformers`` saves it; its form of contexts follows from the sentinels of its tokenizer."""
    path = tmp_path_factory.mktemp("t5")
    trained = Trained(vocabulary_size=400, special_tokens="t5").train([story(1)], request.param)
    (path / "trained.json").write_text(trained, encoding="utf-8")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path / "trained.json"), **ROLES)
    tokenizer.save_pretrained(path)
    config = T5Config(
        vocab_size=len(tokenizer), d_model=32, d_kv=16, num_heads=4, num_layers=3, num_decoder_layers=2, d_ff=48,
        n_positions=WINDOW_TOKENS, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    torch.manual_seed(3)
    T5ForConditionalGeneration(config).save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def ours(folder) -> InferenceModel:
    return open_folder(folder, Inference(device="cpu"))


@pytest.fixture(scope="module")
def theirs(folder) -> T5ForConditionalGeneration:
    return T5ForConditionalGeneration.from_pretrained(folder).eval()


@pytest.fixture(scope="module")
def harness(folder):
    """Its backend on the same folder."""
    pytest.importorskip("lm_eval", reason="the optional extra 'evaluation' is not installed")
    from lm_eval.models.huggingface import HFLM

    return HFLM(pretrained=str(folder), backend="seq2seq", dtype="float32", batch_size=4, device="cpu")


@pytest.fixture(scope="module")
def sentinel(folder) -> str:
    """What contexts end with, and continuations begin with, in T5's own form."""
    return FIRST if FIRST in (folder / "tokenizer.json").read_text(encoding="utf-8") else ""


@torch.inference_mode()
def of_transformers(
    model: T5ForConditionalGeneration, subject: InferenceModel, requests: Sequence[Text], sentinel: str
) -> list[float]:
    """Log-likelihoods of the labels, which the decoder reads one position later; a sentinel is not scored."""
    ids = subject.tokenizer.backend.get_vocab(with_added_tokens=True)
    given, found = [ids[sentinel]] if sentinel else [], []
    for asked in encode(requests, subject.tokenizer, subject.opening):
        read = torch.tensor([[*asked.context, *given, ids["</s>"]][-WINDOW_TOKENS:]])
        labels_T = torch.tensor([*given, *asked.continuation])
        log_probs_TV = model(input_ids=read, labels=labels_T[None]).logits[0].log_softmax(1)
        found.append(log_probs_TV.gather(1, labels_T[:, None])[len(given) :].sum().item())
    return found


def log_likelihoods(subject: InferenceModel, requests: Sequence[Text]) -> list[float]:
    asked = encode(requests, subject.tokenizer, subject.opening)
    return [answer.log_likelihood for answer in subject.likelihood.answers(asked)]


def test_log_likelihoods_are_those_of_transformers(ours, theirs, sentinel):
    expected = of_transformers(theirs, ours, REQUESTS, sentinel)
    assert log_likelihoods(ours, REQUESTS) == pytest.approx(expected, abs=1e-4)


def test_log_likelihoods_are_those_of_the_harness(harness, ours, sentinel):
    """In T5's own form, one is the difference of two of the harness: with the sentinel, and of the sentinel alone."""
    from lm_eval.api.instance import Instance

    def of_harness(requests: Sequence[tuple[str, str]]) -> np.ndarray:
        asked = [Instance("loglikelihood", {}, one, 0) for one in requests]
        return np.array([found for found, _ in harness.loglikelihood(asked, disable_tqdm=True)])

    contexts = [request.context.rstrip() for request in REQUESTS]
    rests = [one.context[len(context) :] + one.continuation for one, context in zip(REQUESTS, contexts, strict=True)]
    whole = [(context + sentinel, sentinel + rest) for context, rest in zip(contexts, rests, strict=True)]
    expected = of_harness(whole)
    if sentinel:
        expected -= of_harness([(context, sentinel) for context, _ in whole])
    assert log_likelihoods(ours, REQUESTS) == pytest.approx(expected, abs=1e-4)
