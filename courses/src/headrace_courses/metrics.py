"""The metrics of this package's benchmarks: entry points ``metric.NAME`` name them."""

from headrace.train.evaluation.score_rows import MetricKind

LOSS_CHANGE = MetricKind("loss_change", higher_is_better=False)
MODEL_MINUS_BASELINE = MetricKind("model_minus_baseline", higher_is_better=False)
SCORED_TOKENS = MetricKind("scored_tokens", higher_is_better=None)
PREFIX_MATCHING = MetricKind("prefix_matching")
INDUCTION_HEADS = MetricKind("induction_heads")
COPYING_LOSS = MetricKind("copying_loss", higher_is_better=False)
LOSS_AT_FIRST = MetricKind("loss_at_first", higher_is_better=False)
LOSS_ON_REPEAT = MetricKind("loss_on_repeat", higher_is_better=False)
IN_CONTEXT_SCORE = MetricKind("in_context_score", higher_is_better=False)
LOSS_AT_EARLY = MetricKind("loss_at_early", higher_is_better=False)
LOSS_AT_LATE = MetricKind("loss_at_late", higher_is_better=False)
LOSS_BY_INDEX = MetricKind("loss_by_index", higher_is_better=False)
