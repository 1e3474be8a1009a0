"""Another likelihood than the causal one answers benchmarks through the real scoring, by one or several ranks."""

import dataclasses
import json
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor

from headrace.train.distributed.processes import Ranks
from headrace.train.evaluation.benchmarks.multiple_choice import MultipleChoice
from headrace.train.evaluation.scoring import score
from headrace.train.inference.answer_log import AnswerLog, read
from headrace.train.inference.inference_model import InferenceModel
from headrace.train.inference.queries import Answer, Tally, TokenQuery
from headrace.train.inference.sharing import Sharing
from tests.train.evaluation.test_benchmarks import sources
from tests.train.small_models import model_of

CHOICES = [" turns", " the wheel", " a farmer"]
ROWS = [{"query": f"The mill {word}", "choices": CHOICES, "gold": 1} for word in ("old", "new", "by the river")]


class Masked:
    """A model that predicts a token from the tokens around it: a bag of words that prefers neighbours in the table."""

    def __init__(self, vocabulary: int) -> None:
        self.table_VV = torch.randn(vocabulary, vocabulary, generator=torch.Generator().manual_seed(1))

    def log_probs(self, sequence: Sequence[int], masked: int) -> Tensor:
        around = [token for index, token in enumerate(sequence) if index != masked]
        return self.table_VV[around].mean(0).double().log_softmax(0)


@dataclasses.dataclass(frozen=True)
class PseudoLikelihood:
    """Each token of a continuation is masked alone and predicted from all others (Salazar et al. 2020)."""

    model: Masked
    asked: list[TokenQuery]
    window_tokens: int = 64
    batch_tokens: int = 1

    def answers(self, queries: Sequence[TokenQuery]) -> list[Answer]:
        self.asked.extend(queries)
        return [self._answer(query) for query in queries]

    def tally(self, queries: Sequence[TokenQuery]) -> Tally:
        return Tally(len(queries), sum(len(query.continuation) for query in queries))

    def _answer(self, query: TokenQuery) -> Answer:
        whole = [*query.context.tolist(), *query.continuation.tolist()]
        total, greedy = 0.0, True
        for masked in range(len(query.context), len(whole)):
            log_probs_V = self.model.log_probs(whole, masked)
            total += float(log_probs_V[whole[masked]])
            greedy &= int(log_probs_V.argmax()) == whole[masked]
        return Answer(total, greedy, len(query.continuation))


@pytest.fixture
def masked(encoder) -> InferenceModel:
    model = model_of(None, encoder)
    return dataclasses.replace(model, likelihood=PseudoLikelihood(Masked(encoder.vocabulary_size), []))


@pytest.fixture
def benchmark(write_lines) -> MultipleChoice:
    return MultipleChoice(paths=(str(write_lines("quiz.jsonl", *map(json.dumps, ROWS))),), delimiter="")


def test_a_masked_model_answers_multiple_choice(masked, benchmark, encoder) -> None:
    found = score("quiz", benchmark, sources(), None, masked)
    table = Masked(encoder.vocabulary_size)
    for row, item, answers in zip(ROWS, found.items, found.answers, strict=True):
        context, texts = encoder.encode([row["query"]])[0], [row["query"] + choice for choice in CHOICES]
        for whole, answer in zip(encoder.encode(texts), answers, strict=True):
            each = [table.log_probs(whole.tolist(), index)[whole[index]] for index in range(len(context), len(whole))]
            assert answer.log_likelihood == pytest.approx(float(sum(each)))
        assert item.gold == 1
    right = [max(range(3), key=lambda n: answers[n].log_likelihood) == 1 for answers in found.answers]
    assert found.scores.metrics[0].value == sum(right) / 3
    assert (found.scores.tally.queries, found.scores.tally.truncated_contexts) == (9, 0)


def test_its_answers_are_logged_and_not_asked_again(masked, benchmark, tmp_path) -> None:
    alone = score("quiz", benchmark, sources(), None, masked)
    masked.likelihood.asked.clear()
    rounds: list[int] = []
    for expected in (9, 0):
        log = AnswerLog(read(tmp_path / "answers"), tmp_path / "answers")
        shared = masked.shared(Sharing(Ranks(0, 1, 0, 1), rounds.append, log))
        found = score("quiz", benchmark, sources(), None, shared)
        assert found.answers == alone.answers
        assert len(masked.likelihood.asked) == expected
        masked.likelihood.asked.clear()
    assert sum(rounds) == 18
    assert len(rounds) > 2, "batch_tokens of the likelihood decides the rounds"
    assert np.isfinite([one.log_likelihood for answers in found.answers for one in answers]).all()
