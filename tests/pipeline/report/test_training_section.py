"""The section of the training."""

from headrace.pipeline.report.run_statistics import Statistic
from headrace.pipeline.report.training_section import epochs
from tests.pipeline.report.test_report import metrics


def test_a_mixture_has_epochs_of_each_source() -> None:
    mixed = [{"step": 9, "epoch:crawl": 0.1}, {"step": 10, "epoch:crawl": 0.4444, "epoch:wiki": 3.4}]
    assert epochs(mixed) == [
        Statistic("epochs of crawl", "0.44", "a source of the mixture"),
        Statistic("epochs of wiki", "3.40", "a source of the mixture"),
    ]
    assert epochs(metrics(300)) == [Statistic("epochs", "2.00", "over the training rows")]
