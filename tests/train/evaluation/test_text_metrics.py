"""BLEU, chrF and ROUGE from our lists of texts equal direct calls of the packages."""

import random

import pytest
import sacrebleu
from rouge_score.rouge_scorer import RougeScorer

from headrace.pipeline.core.errors import ConfigError
from headrace.train.evaluation import text_metrics
from headrace.train.evaluation.text_metrics import CORPUS, ROUGE, Comparison, require_packages

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


def test_the_signature_says_what_was_compared():
    written, right = zip(*PAIRS, strict=True)
    bleu = Comparison(lowercase=True).corpus("bleu", written, right)
    assert bleu.signature.startswith("nrefs:var|case:lc|eff:no|tok:13a|smooth:exp|version:")
    assert Comparison().corpus("chrf", ["a"], [["a", "b"]]).signature.startswith("nrefs:2|case:mixed|eff:yes|nc:6|nw:0")


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


def test_stems_of_words_are_equal_where_that_is_asked_for():
    texts = (["they were running quickly"], [["they run quickly"]])
    (plain,), (stems,) = (Comparison(stemmer=stemmer).rouge(["rouge1"], *texts)["rouge1"] for stemmer in (False, True))
    assert (plain, stems) == (pytest.approx(2 * 2 / 7), pytest.approx(2 * 3 / 7))


def test_rouge_knows_latin_letters_alone():
    """A limit of rouge-score, which docs/evaluation.md names: texts of other scripts have no words."""
    assert Comparison().rouge(["rouge1"], ["猫坐在垫子上"], [["猫坐在垫子上"]])["rouge1"] == [0.0]


def test_a_missing_package_is_named_before_anything_runs(monkeypatch):
    monkeypatch.setattr("headrace.pipeline.core.extras.is_installed", lambda module: module != "rouge_score")
    require_packages("finetune.task.metrics", (*CORPUS, "f1"))
    with pytest.raises(ConfigError) as caught:
        require_packages("finetune.task.metrics", ("bleu", "rouge1"))
    assert str(caught.value) == ("finetune.task.metrics: rouge_score is not installed; pip install 'headrace[train]'")
    assert {*text_metrics.PACKAGES} == {*CORPUS, *ROUGE}
