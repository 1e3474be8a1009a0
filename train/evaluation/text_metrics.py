"""Comparison of written texts with right ones: BLEU, chrF, ROUGE, and exact match and F1 of words as SQuAD's.

    bleu, chrf                            of all texts together, from 0 to 100       sacrebleu (Post 2018)
    rouge1, rouge2, rougeL, rougeLsum     the mean over texts of F, from 0 to 1      rouge-score (Lin 2004)
    exact_match, f1                       the means over texts, from 0 to 1          SQuAD's evaluation

A text may have several right ones. BLEU takes the n-grams of all of them and the nearest length, chrF and ROUGE the
best one, each n of ROUGE its own. The packages are loaded when a number is computed.
"""

import dataclasses
import itertools
import json
import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from headrace.pipeline.core.extras import require
from headrace.pipeline.core.settings import settings

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
