"""What worked examples add, by hand: which numbers are compared, over which items, and how it is printed."""

import pytest

from headrace.pipeline.commands.evaluate import scores_page
from headrace.pipeline.core.statistics import holm, mcnemar, paired_bootstrap
from headrace.pipeline.report.score_table import ScoreTable, shot_gains
from headrace.train.evaluation.metrics import accuracy, perplexity
from headrace.train.evaluation.score_rows import read_scores
from tests.pipeline.experiments.test_comparison import NATS, artifact
from tests.pipeline.report.test_report import browse

__all__ = ["browse"]

WITHOUT = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
ONE = [0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]
EIGHT = [1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]
SHOTS = {"quiz_0shot": 0, "quiz_1shot": 1, "quiz_8shot": 8, "alone": 5, "words_0shot": 0, "words_1shot": 1}


def answered(right):
    return [accuracy("acc", right, 0.5), accuracy("acc_norm", right, 0.5)], [{"acc": float(one)} for one in right]


@pytest.fixture
def scores(tmp_path):
    """Answers of a benchmark with three numbers of shots, of one with a single number, and of one without shares."""
    words = [perplexity("perplexity", NATS, None)], [{"log_likelihood": one} for one in NATS]
    quiz = dict(zip(SHOTS, map(answered, (WITHOUT, ONE, EIGHT)), strict=False))
    others = {"alone": answered(ONE), "words_0shot": words, "words_1shot": words}
    return artifact(tmp_path / "scores", quiz | others, SHOTS)


def gains_of(scores):
    benchmarks = sorted(read_scores(scores.path("scores.json")), key=lambda one: one.order)
    return shot_gains(scores, benchmarks)


def test_each_number_is_compared_with_the_fewest(scores):
    one, eight = gains_of(scores)
    assert [(gain.benchmark, gain.metric.name, gain.fewest, gain.shots) for gain in (one, eight)] == [
        ("quiz", "acc", 0, 1),
        ("quiz", "acc", 0, 8),
    ]
    assert one.difference.value == pytest.approx(8 / 12)
    assert (one.difference.p, eight.difference.p) == (mcnemar(1, 9), mcnemar(0, 1))
    assert [one.adjusted_p, eight.adjusted_p] == holm([mcnemar(1, 9), 1.0])
    low, high = (f"{100 * end:+.1f}" for end in paired_bootstrap(WITHOUT, ONE).interval)
    assert [*one.cells.values()] == ["quiz", "acc", "0 → 1", f"+66.7 % [{low}, {high}]", "0.021 *"]


def test_answers_that_were_not_kept_give_none(tmp_path):
    kept = answered(ONE)
    scores = artifact(tmp_path, {"quiz_0shot": (kept[0], []), "quiz_1shot": kept}, SHOTS)
    assert gains_of(scores) == []


@pytest.mark.slow
def test_a_page_of_scores_alone(scores, tmp_path, browse):
    page = tmp_path / "page.html"
    page.write_text(scores_page("models/small", "77aa", ScoreTable.of(scores)), encoding="utf-8")
    tree, console = browse(page, "--dump-dom")
    assert console == []
    assert "<h1>small</h1>" in tree
    assert 'id="figure-few_shot"' in tree
    for cell in ("0 → 1", "0 → 8", "0.021 *"):
        assert cell in tree
