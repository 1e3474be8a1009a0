"""Each formula against a case worked out by hand.

BLEU, chrF and ROUGE from our lists of texts equal direct calls of the packages.

Metrics against SciPy, against their definitions written out, and against the rules of SQuAD's own script.
"""

import collections
import math
import random
import re
import string
import warnings

import numpy as np
import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer
from scipy import stats

from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation import metrics
from headrace.train.evaluation.metrics import (
    CORPUS,
    ROUGE,
    Comparison,
    accuracy,
    exact_groups,
    exponential,
    f1_binary,
    f1_macro,
    f1_with_invalid,
    matthews,
    mean_over_groups,
    mean_ranks,
    normalized_answer,
    pearson,
    perplexity,
    ratio,
    require_packages,
    share_equal,
    spearman,
    squad_scores,
)


def test_accuracy_of_three_in_four():
    metric = accuracy("acc", [1, 1, 0, 1], 0.25)
    assert metric.value == 0.75
    assert metric.standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 3))  # 0.25
    assert metric.interval == pytest.approx((0.30064, 0.95441), abs=1e-5)  # Wilson for 3 of 4
    assert (metric.random, metric.items, metric.group) == (0.25, 4, "")


def test_nothing_right_still_has_an_interval():
    metric = accuracy("acc", [0.0] * 10, 0)
    assert metric.interval == pytest.approx((0, 0.27753), abs=1e-5)  # Wilson for 0 of 10: z² / (n + z²)
    assert metric.standard_error == 0


def test_one_item_has_no_standard_error():
    assert accuracy("acc", [1.0], 0.5).standard_error is None
    assert perplexity("perplexity", [-1.0], None).interval is None
    assert ratio("loss", [2.0], [4], None).standard_error is None


def test_groups_weigh_the_same():
    whole, first, second = mean_over_groups("acc", {"b": [1, 0], "a": [1, 1, 1, 0]}, 0.5)
    assert (first.group, second.group, whole.group) == ("a", "b", "")
    assert whole.value == pytest.approx((0.75 + 0.5) / 2)
    assert whole.standard_error == pytest.approx(math.sqrt(0.75 * 0.25 / 3 + 0.5 * 0.5 / 1) / 2)
    assert whole.items == 6


def test_perplexity_of_two_words():
    metric = perplexity("perplexity", [-math.log(2), -math.log(8)], 100.0)
    assert metric.value == pytest.approx(4)
    error = math.log(4) / math.sqrt(2) / math.sqrt(2)  # deviation of (ln 2, ln 8) over root 2
    assert metric.standard_error == pytest.approx(4 * error)
    assert metric.interval == pytest.approx((4 * math.exp(-1.959964 * error), 4 * math.exp(1.959964 * error)))
    assert metric.random == 100


def test_ratio_weighs_documents_by_size():
    metric = ratio("loss", [2.0, 12.0], [1, 3], None)
    assert metric.value == 3.5
    assert metric.standard_error == pytest.approx(math.sqrt(2 * (1.5**2 + 1.5**2)) / 4)
    assert exponential(metric, "perplexity", 9.0).value == pytest.approx(math.exp(3.5))


def test_a_hopeless_model_has_a_finite_perplexity():
    assert math.isfinite(perplexity("perplexity", [-5000.0, -6000.0], None).value)


PAIRS = [
    ("The cat sat on the mat.", ["The cat sat on the mat."]),
    ("the Cat sat on THE mat", ["The cat sat on the mat.", "A cat was sitting on the mat."]),
    ("", ["Nothing was written here."]),
    ("Там живёт старый рыбак .", ["Там жил старый рыбак."]),
    ("猫坐在垫子上。", ["猫坐在垫子上。", "一只猫坐在垫子上。", "猫在垫子上。"]),
    ("He runs; they were running quickly\nand ran", ["They run quickly.\nHe ran."]),
    ("a", ["a b c d e f", "a"]),
]
WORDS = ["the", "a", "cat", "Cat", "dog", "runs", "running", "ran", ",", ".", "Übung", "naïve", "42", "%", "«»"]


def drawn(seed: int, references: int) -> list[tuple[str, list[str]]]:
    """Random texts, some of them empty, each with some references that share words."""
    chosen = random.Random(seed)

    def text(least: int) -> str:
        return " ".join(chosen.choices(WORDS, k=chosen.randrange(least, 15)))

    return [(text(0), [text(1) for _ in range(chosen.randint(1, references))]) for _ in range(25)]


CASES = {"real": PAIRS, **{f"random {seed}": drawn(seed, seed) for seed in range(1, 5)}}


@pytest.mark.parametrize("settings", [{}, {"lowercase": True, "bleu_tokenizer": "intl"}, {"bleu_tokenizer": "zh"}])
@pytest.mark.parametrize("case", CASES)
def test_bleu_and_chrf_are_those_of_sacrebleu(case, settings):
    written, right = zip(*CASES[case], strict=True)
    most = max(map(len, right))
    streams = [[texts[number] if number < len(texts) else None for texts in right] for number in range(most)]
    lowercase, tokenize = settings.get("lowercase", False), settings.get("bleu_tokenizer", "13a")
    bleu = sacrebleu.metrics.BLEU(lowercase=lowercase, tokenize=tokenize)
    chrf = sacrebleu.metrics.CHRF(lowercase=lowercase)
    for name, metric in (("bleu", bleu), ("chrf", chrf)):
        found = Comparison(**settings).corpus(name, written, right)
        assert found.value == metric.corpus_score(written, streams).score
        assert found.signature == str(metric.get_signature())
        assert found.half_width is None
        assert 0 < found.value < 100


def test_the_interval_is_that_of_resampled_texts():
    written, right = zip(*CASES["random 1"], strict=True)
    found = Comparison().corpus("bleu", written, right, resamples=200)
    theirs = sacrebleu.metrics.BLEU().corpus_score(written, [[texts[0] for texts in right]], n_bootstrap=200)
    assert found.value == theirs.score
    assert f"± {found.half_width:.3f}" in theirs.format(width=3)
    assert "bs:200|seed:12345" in found.signature
    assert Comparison().corpus("bleu", written[:1], right[:1], resamples=200).half_width is None


@pytest.mark.parametrize("stemmer", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_rouge_is_that_of_rouge_score(case, stemmer):
    written, right = zip(*CASES[case], strict=True)
    found = Comparison(stemmer=stemmer).rouge(ROUGE, written, right)
    scorer = RougeScorer(list(ROUGE), use_stemmer=stemmer)
    for name in ROUGE:
        best = [
            max(scorer.score(text, own)[name].fmeasure for text in texts)
            for own, texts in zip(written, right, strict=True)
        ]
        assert found[name] == best
    assert any(0 < value < 1 for value in found["rougeL"])


def test_a_missing_package_is_named_before_anything_runs(monkeypatch):
    monkeypatch.setattr("headrace.pipeline.core.extras.is_installed", lambda module: module != "rouge_score")
    require_packages("finetune.task.metrics", (*CORPUS, "f1"))
    with pytest.raises(ConfigError) as caught:
        require_packages("finetune.task.metrics", ("bleu", "rouge1"))
    assert str(caught.value) == ("finetune.task.metrics: rouge_score is not installed; pip install 'headrace[train]'")
    assert {*metrics.PACKAGES} == {*CORPUS, *ROUGE}


DRAWS = range(30)


def classes_of(case: int) -> tuple[list[str], list[str]]:
    """Random truth and predictions of 2 to 4 classes; some cases lack a class on one side."""
    generator = np.random.default_rng(case)
    names = np.array(["no", "yes", "maybe", "never"])
    size, kinds = int(generator.integers(1, 40)), int(generator.integers(2, 5))
    truth, found = (names[generator.integers(0, kinds, size)] for _ in range(2))
    agree = generator.random(size) < 0.5
    return truth.tolist(), np.where(agree, truth, found).tolist()


def slow_f1(truth: list[str], found: list[str], positive: str) -> float:
    """F1 from precision and recall, with 0 for 0 / 0, as scikit-learn's ``zero_division=0``."""
    hits = [one == positive for one, other in zip(truth, found, strict=True) if other == positive]
    wanted = [other == positive for one, other in zip(truth, found, strict=True) if one == positive]
    precision, recall = (sum(of) / len(of) if of else 0.0 for of in (hits, wanted))
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def slow_matthews(truth: list[str], found: list[str]) -> float:
    """Gorodkin's R_K as the correlation of indicator vectors, summed over the classes."""
    names = sorted({*truth, *found})
    one, other = (np.array([[value == name for name in names] for value in side], float) for side in (truth, found))
    one, other = one - one.mean(0), other - other.mean(0)
    scale = math.sqrt((one * one).sum() * (other * other).sum())
    return (one * other).sum() / scale if scale > 1e-12 else 0.0


def test_metrics_of_classes():
    for case in DRAWS:
        check_classes(*classes_of(case))


def check_classes(truth: list[str], found: list[str]) -> None:
    names = sorted({*truth, *found})
    assert share_equal(truth, found) == pytest.approx(np.mean(np.array(truth) == np.array(found)))
    for name in names:
        assert f1_binary(truth, found, name) == pytest.approx(slow_f1(truth, found, name), abs=1e-12)
    assert f1_macro(truth, found) == pytest.approx(np.mean([slow_f1(truth, found, name) for name in names]))
    of_four = ["no", "yes", "maybe", "never"]
    assert f1_macro(truth, found, of_four) == pytest.approx(np.mean([slow_f1(truth, found, name) for name in of_four]))
    assert matthews(truth, found) == pytest.approx(slow_matthews(truth, found), abs=1e-12)


@pytest.mark.parametrize("case", DRAWS)
def test_correlations_are_those_of_scipy(case):
    generator = np.random.default_rng(case)
    truth, found = generator.normal(size=(2, int(generator.integers(2, 30))))
    if case % 2:
        truth, found = np.round(truth), np.round(found)
    assert mean_ranks(truth) == pytest.approx(stats.rankdata(truth))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        wanted = stats.pearsonr(truth, found).statistic, stats.spearmanr(truth, found).statistic
    wanted = [0.0 if math.isnan(value) else value for value in wanted]
    assert [pearson(truth, found), spearman(truth, found)] == pytest.approx(wanted, abs=1e-12)


def test_a_prediction_that_is_no_class_is_wrong():
    truth, found = ["no", "yes", "yes", "no"], ["no", "", "yes", "perhaps"]
    assert share_equal(truth, found) == 0.5
    assert f1_with_invalid(truth, found, ("no", "yes")) == slow_f1(truth, ["no", "no", "yes", "yes"], "yes") == 0.5


def test_a_question_of_multirc_is_right_when_all_its_answers_are():
    truth, found = ["True", "False", "True", "False"], ["True", "False", "True", "True"]
    assert exact_groups(truth, found, ["q1", "q1", "q2", "q2"]) == 0.5


def slow_normalized(text: str) -> str:
    """The steps of SQuAD's evaluation one by one: lower case, punctuation, articles, spaces."""
    kept = "".join(character for character in text.lower() if character not in set(string.punctuation))
    return " ".join(re.sub(r"\b(a|an|the)\b", " ", kept).split())


def slow_squad(right: list[str], text: str) -> tuple[float, float]:
    """Exact match and F1 of one question by the rules of evaluate-v2.0.py."""
    golds = [gold for gold in right if slow_normalized(gold)] or [""]
    exacts, f1s = [], []
    for gold in golds:
        exacts.append(float(slow_normalized(gold) == slow_normalized(text)))
        wanted, given = slow_normalized(gold).split(), slow_normalized(text).split()
        common = sum(min(wanted.count(word), given.count(word)) for word in collections.OrderedDict.fromkeys(wanted))
        if not wanted or not given:
            f1s.append(float(wanted == given))
        elif not common:
            f1s.append(0.0)
        else:
            precision, recall = common / len(given), common / len(wanted)
            f1s.append(2 * precision * recall / (precision + recall))
    return max(exacts), max(f1s)


def test_scores_of_answers_are_those_of_squad():
    generator = np.random.default_rng(0)
    words = ["The", "mill", "an", "river's", "A", "old", "—", "U.S.", "mill,", "\n", "Anne", "the\u00a0"]

    def text() -> str:
        return " ".join(generator.choice(words, int(generator.integers(0, 5))))

    questions = [([text() for _ in range(generator.integers(0, 4))], text()) for _ in range(400)]
    wanted = [slow_squad(right, found) for right, found in questions]
    assert {exact for exact, _ in wanted} == {0.0, 1.0}
    for (right, found), (exact, f1) in zip(questions, wanted, strict=True):
        assert squad_scores([right], [found]) == pytest.approx({"exact_match": exact, "f1": f1})
        assert normalized_answer(found) == slow_normalized(found)
    means = dict(zip(("exact_match", "f1"), np.mean(wanted, axis=0), strict=True))
    assert squad_scores(*zip(*questions, strict=True)) == pytest.approx(means)
