"""Computes metrics with their standard errors, 95 % intervals and the values of guessing.

    mean of right/wrong        value p, s/sqrt(n), Wilson's interval
    mean over groups           mean of the groups' values, their errors pooled
    exp(-mean log-likelihood)  perplexity, error by the delta method
    sum(nats) / sum(size)      ratio over documents: loss per token, bits per byte

All logarithms are natural unless a name says bits.

Written texts are compared with right ones:

    bleu, chrf                            of all texts together, from 0 to 100       sacrebleu (Post 2018)
    rouge1, rouge2, rougeL, rougeLsum     the mean over texts of F, from 0 to 1      rouge-score (Lin 2004)
    exact_match, f1                       the means over texts, from 0 to 1          SQuAD's evaluation

A text may have several right ones. BLEU takes the n-grams of all of them and the nearest length, chrF and ROUGE the
best one, each n of ROUGE its own. The packages are loaded when a number is computed.

Predictions of a model that was fine-tuned are compared with labels, as the benchmarks define it:

    accuracy, F1, Matthews     classes, as texts in the order of the examples
    Pearson, Spearman          numbers
    exact match, F1 of words   texts, the best over the right answers (SQuAD, ReCoRD)
    F1a, exact match           classes in groups (MultiRC)

All are shares or correlations: 1 is the best. A prediction that is no class at all counts as wrong: it is no truth.
"""

import dataclasses
import itertools
import json
import math
import re
import string
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from headrace.pipeline.core.extras import require
from headrace.pipeline.core.settings import settings
from headrace.pipeline.core.statistics import normal_interval, wilson
from headrace.train.evaluation.score_rows import Metric


def accuracy(name: str, right: Sequence[float], random: float, group: str = "") -> Metric:
    """Returns the share of ``right`` (0 or 1 each).

    Standard error sqrt(p (1 - p) / (n - 1)): the sample standard deviation over sqrt(n), as in lm-evaluation-harness
    (api/metrics.py, mean_stderr). The interval is Wilson's, which stays within [0, 1] and has a width at 0 and 1.
    """
    n, p = len(right), math.fsum(right) / len(right)
    error = math.sqrt(p * (1 - p) / (n - 1)) if n > 1 else None
    return Metric(name, p, error, wilson(p, n), random, n, group)


def mean_over_groups(name: str, groups: Mapping[str, Sequence[float]], random: float) -> list[Metric]:
    """Returns the unweighted mean of all groups (``mean_of``, with an interval within [0, 1]), then the accuracy of
    each group."""
    parts = [accuracy(name, right, random, group) for group, right in sorted(groups.items())]
    if len(parts) == 1:
        return [dataclasses.replace(parts[0], group="")]
    return [dataclasses.replace(within_shares(mean_of(name, parts)), random=random), *parts]


def mean_of(name: str, metrics: Sequence[Metric]) -> Metric:
    """Returns the unweighted mean of ``metrics``.

    Its error is that of a mean of K independent values: sqrt(sum of squared errors) / K (with K groups of one size,
    nearly the pooled error of all items); its interval is ± 1.96 errors, without bounds.
    """
    number = len(metrics)
    value = math.fsum(metric.value for metric in metrics) / number
    errors = [metric.standard_error for metric in metrics if metric.standard_error is not None]
    error = math.sqrt(math.fsum(e * e for e in errors)) / number if len(errors) == number else None
    chances = [metric.random for metric in metrics if metric.random is not None]
    random = math.fsum(chances) / number if len(chances) == number else None
    items = sum(metric.items for metric in metrics)
    return Metric(name, value, error, normal_interval(value, error), random, items)


def within_shares(metric: Metric) -> Metric:
    """Returns ``metric`` with its interval within [0, 1], where shares are."""
    interval = metric.interval and (max(0.0, metric.interval[0]), min(1.0, metric.interval[1]))
    return dataclasses.replace(metric, interval=interval)


def perplexity(name: str, log_likelihoods: Sequence[float], random: float | None) -> Metric:
    """Returns exp(-mean) of the ``log_likelihoods`` of whole continuations.

    This is lm-evaluation-harness's perplexity of LAMBADA.

    Standard error by the delta method: value times the standard error of the mean (the harness bootstraps instead);
    the interval is exp of the mean's.
    """
    n, mean = len(log_likelihoods), math.fsum(log_likelihoods) / len(log_likelihoods)
    error = None
    if n > 1:
        error = math.sqrt(math.fsum((x - mean) ** 2 for x in log_likelihoods) / (n - 1) / n)
    return exponential(Metric(name, -mean, error, normal_interval(-mean, error), None, n), name, random)


def ratio(name: str, tops: Sequence[float], bottoms: Sequence[float], random: float | None) -> Metric:
    """Returns sum(tops) / sum(bottoms) over documents, which are sampled whole.

    Standard error of a ratio estimator r (Cochran, Sampling Techniques, 1977, §2.11):
    sqrt(n / (n - 1) * sum((top - r * bottom)^2)) / sum(bottoms); interval ± 1.96 standard errors.
    """
    n, size = len(tops), math.fsum(bottoms)
    value = math.fsum(tops) / size
    error = None
    if n > 1:
        squares = math.fsum((top - value * bottom) ** 2 for top, bottom in zip(tops, bottoms, strict=True))
        error = math.sqrt(n / (n - 1) * squares) / size
    return Metric(name, value, error, normal_interval(value, error), random, n)


def bits(name: str, nats: Sequence[float], sizes: Sequence[float], random: float | None) -> Metric:
    """Returns the ratio of ``nats``, in bits, to ``sizes``: bits per byte, say."""
    return ratio(name, [value / math.log(2) for value in nats], sizes, random)


def losses(nats: Sequence[float], tokens: Sequence[float], vocabulary: int) -> list[Metric]:
    """Returns the loss in nats per token, and the perplexity of a token; guessing is uniform over the vocabulary."""
    loss = ratio("loss", nats, tokens, math.log(vocabulary))
    return [loss, exponential(loss, "perplexity", float(vocabulary))]


def mean(name: str, values: Sequence[float], random: float | None, group: str = "") -> Metric:
    """Returns the mean of ``values``; standard error s / sqrt(n), s their sample deviation; interval ± 1.96 of it."""
    return dataclasses.replace(ratio(name, values, [1.0] * len(values), random), group=group)


def exponential(metric: Metric, name: str, random: float | None) -> Metric:
    """Returns exp of ``metric``: the error by the delta method, the interval from both ends."""
    value = _exp(metric.value)
    error = None if metric.standard_error is None else value * metric.standard_error
    interval = None if metric.interval is None else (_exp(metric.interval[0]), _exp(metric.interval[1]))
    return Metric(name, value, error, interval, random, metric.items)


def _exp(value: float) -> float:
    """Returns exp, at most the largest float: a perplexity above 1e308 means nothing more."""
    return math.exp(min(value, 709.0))


CorpusMetric = Literal["bleu", "chrf"]
RougeMetric = Literal["rouge1", "rouge2", "rougeL", "rougeLsum"]
CORPUS: tuple[CorpusMetric, ...] = ("bleu", "chrf")
"""The metrics of all texts together."""
ROUGE: tuple[RougeMetric, ...] = ("rouge1", "rouge2", "rougeL", "rougeLsum")
PACKAGES = dict.fromkeys(CORPUS, "sacrebleu") | dict.fromkeys(ROUGE, "rouge_score")
"""Metric → the optional package that computes it."""
DECIMALS = 6
"""Digits of the interval of BLEU and chrF."""
PUNCTUATION = str.maketrans(dict.fromkeys(string.punctuation, ""))
ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclasses.dataclass(frozen=True)
class CorpusScore:
    """A metric of all texts together."""

    value: float
    signature: str
    """The settings and the version that give this value, in sacrebleu's form."""
    half_width: float | None = None
    """Half of the 95 % interval, by resampled texts; None where they were not resampled."""


@settings
class Comparison:
    """The way to compare written texts with right ones."""

    bleu_tokenizer: Literal["13a", "intl", "zh", "char", "none"] = "13a"
    """The division of texts into words for BLEU, by its name in sacrebleu: 13a is that of WMT and the default there;
    intl, which T5 has, knows the punctuation of all scripts; zh is for Chinese; char takes characters."""
    lowercase: bool = False
    """Whether BLEU and chrF compare without case. ROUGE, exact match and F1 always do."""
    stemmer: bool = False
    """Whether ROUGE compares stems of English words (Porter 1980)."""

    def corpus(
        self, metric: str, written: Sequence[str], right: Sequence[Sequence[str]], resamples: int = 0
    ) -> CorpusScore:
        """Returns ``metric`` of all ``written`` texts, each with one or several ``right`` ones.

        Args:
            metric: one of ``CORPUS``.
            written: the texts.
            right: the right texts of each of them.
            resamples: the number of draws of texts for the interval; 0: none.
        """
        scorer = self._scorer(metric)
        streams = list(itertools.zip_longest(*right))
        with_interval = resamples > 1 and len(written) > 1
        score = scorer.corpus_score(written, streams, n_bootstrap=resamples if with_interval else 1)
        signature = str(scorer.get_signature())
        shown = json.loads(score.format(DECIMALS, signature=signature, is_json=True))
        return CorpusScore(float(score.score), signature, shown.get("confidence_var"))

    def _scorer(self, metric: str) -> Any:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF

        if metric == "bleu":
            return BLEU(tokenize=self.bleu_tokenizer, lowercase=self.lowercase)
        return CHRF(lowercase=self.lowercase)

    def rouge(
        self, metrics: Sequence[str], written: Sequence[str], right: Sequence[Sequence[str]]
    ) -> dict[str, list[float]]:
        """Returns F of each of ``metrics`` (of ``ROUGE``) for each of the ``written`` texts, by the best right one.

        The sentences of rougeLsum are lines.
        """
        from rouge_score.rouge_scorer import RougeScorer

        scorer = RougeScorer(list(metrics), use_stemmer=self.stemmer)
        scores = [scorer.score_multi(texts, text) for texts, text in zip(right, written, strict=True)]
        return {metric: [float(score[metric].fmeasure) for score in scores] for metric in metrics}


def require_packages(where: str, metrics: Sequence[str]) -> None:
    """Checks that the packages of ``metrics`` are installed.

    Raises:
        ConfigError: with the extra that installs the first one that is missing.
    """
    require(where, *sorted({PACKAGES[metric] for metric in metrics if metric in PACKAGES}))


def normalized_answer(text: str) -> str:
    """Returns ``text`` in lower case without punctuation, articles and further spaces.

    Source: SQuAD's evaluate-v1.1.py and evaluate-v2.0.py (Rajpurkar et al. 2016, 2018), ``normalize_answer``, which
    ReCoRD's evaluation has, too. TriviaQA's (evaluation/benchmarks/generation.py) puts a space for punctuation.
    """
    return " ".join(ARTICLES.sub(" ", text.lower().translate(PUNCTUATION)).split())


def best_match(answers: Sequence[str], predicted: str) -> tuple[float, float]:
    """Returns exact match and F1 of words of one answer ``predicted``, each the best over ``answers``.

    A question without an answer has the right answer "": both are 1 for an empty text, else 0 (SQuAD 2.0). An answer
    that is empty without punctuation and articles is left out where others remain.
    """
    words = normalized_answer(predicted).split()
    right = [normalized_answer(answer).split() for answer in answers]
    rights = [words_of_answer for words_of_answer in right if words_of_answer] or [[]]
    exact = max(float(words == words_of_answer) for words_of_answer in rights)
    return exact, max(
        f1_of_words(words, words_of_answer) if words and words_of_answer else float(words == words_of_answer)
        for words_of_answer in rights
    )


def f1_of_words(words: Sequence[str], right: Sequence[str]) -> float:
    """Returns the harmonic mean of precision and recall of ``words``, as often as they occur (Rajpurkar et al. 2016,
    §6.1)."""
    same = (Counter(words) & Counter(right)).total()
    return 2 * same / (len(words) + len(right)) if same else 0.0


def share_equal(truth: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the share of ``predicted`` that equals ``truth``."""
    return float(np.mean([label == other for label, other in zip(truth, predicted, strict=True)]))


def f1_binary(truth: Sequence[str], predicted: Sequence[str], positive: str) -> float:
    """Returns F1 of the class ``positive``: 2 TP / (2 TP + FP + FN), and 0 where this is 0 / 0."""
    both = sum(label == other == positive for label, other in zip(truth, predicted, strict=True))
    total = sum(label == positive for label in truth) + sum(label == positive for label in predicted)
    return 2 * both / total if total else 0.0


def f1_macro(truth: Sequence[str], predicted: Sequence[str], classes: Sequence[str] = ()) -> float:
    """Returns the mean of F1 over ``classes``; without them, over those that occur."""
    return float(np.mean([f1_binary(truth, predicted, name) for name in classes or sorted({*truth, *predicted})]))


def f1_with_invalid(truth: Sequence[str], predicted: Sequence[str], classes: tuple[str, str]) -> float:
    """Returns F1 of the second one of two ``classes``. What is neither of them counts as the class that is wrong
    (google-research/text-to-text-transfer-transformer, evaluation/metrics.py, ``f1_score_with_invalid``)."""
    negative, positive = classes
    other = {negative: positive, positive: negative}
    valid = [label if label in classes else other[right] for right, label in zip(truth, predicted, strict=True)]
    return f1_binary(truth, valid, positive)


def matthews(truth: Sequence[str], predicted: Sequence[str]) -> float:
    """Returns the correlation of any number of classes (Gorodkin 2004, eq. 8), of two that of Matthews (1975).

    Its value is 0 where one side has a single class.
    """
    names = {name: number for number, name in enumerate(sorted({*truth, *predicted}))}
    table = np.zeros((len(names), len(names)))
    for label, other in zip(truth, predicted, strict=True):
        table[names[label], names[other]] += 1
    rows, columns, total = table.sum(1), table.sum(0), table.sum()
    covariance = np.trace(table) * total - rows @ columns
    scale = np.sqrt(total**2 - rows @ rows) * np.sqrt(total**2 - columns @ columns)
    return float(covariance / scale) if scale else 0.0


def pearson(truth: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns Pearson's correlation; 0 where one side is constant, which has none."""
    x, y = (np.asarray(values, np.float64) for values in (truth, predicted))
    x, y = x - x.mean(), y - y.mean()
    scale = math.sqrt(x @ x) * math.sqrt(y @ y)
    return float(np.clip(x @ y / scale, -1, 1)) if scale else 0.0


def spearman(truth: Sequence[float], predicted: Sequence[float]) -> float:
    """Returns Spearman's correlation: Pearson's of the ranks, equal values sharing the mean of theirs."""
    return pearson(*(mean_ranks(values).tolist() for values in (truth, predicted)))


def mean_ranks(values: Sequence[float]) -> NDArray[np.float64]:
    """Returns the rank of each of ``values``, from 1; equal ones have the mean of their ranks."""
    _, index, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[index], np.float64)


def exact_groups(truth: Sequence[str], predicted: Sequence[str], groups: Sequence[str]) -> float:
    """Returns the share of ``groups`` all of whose predictions are right: exact match of MultiRC (Khashabi et al.
    2018)."""
    right: dict[str, bool] = defaultdict(lambda: True)
    for label, other, group in zip(truth, predicted, groups, strict=True):
        right[group] &= label == other
    return float(np.mean(list(right.values())))


def squad_scores(answers: Sequence[Sequence[str]], predicted: Sequence[str]) -> dict[str, float]:
    """Returns the means of ``exact_match`` and ``f1`` over questions, each the best over its right ``answers``.

    See ``best_match``.
    """
    pairs = [best_match(right, text) for right, text in zip(answers, predicted, strict=True)]
    return {
        "exact_match": float(np.mean([exact for exact, _ in pairs])),
        "f1": float(np.mean([f1 for _, f1 in pairs])),
    }
