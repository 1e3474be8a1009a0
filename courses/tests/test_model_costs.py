"""Prices of a training, and operations of a fine-tuning."""

import re

from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.report.formatting import rounded
from headrace.pipeline.run.costs import Hardware
from headrace.train.cost.flops import Compute
from headrace_courses.model_costs import money_facts

OVERRIDES = ["source=warc", "model=gpt3_125m", "tokenizer.vocabulary_size=50257", "training=gpu"]


def test_a_price_is_printed_with_the_hours() -> None:
    config = decoded(compose(OVERRIDES))
    line = dict(money_facts(config, config.vocabulary, Hardware.of("8", "A100", "0.5", ""), 2.0))["price"]
    hours = Compute.of(config.model, config.vocabulary, 2048, config.training).flops / (312e12 * 0.5 * 3600)
    assert line.split()[:4] == [rounded(2 * hours), "for", f"{hours:,.3g}", "GPU-hours"]


def test_a_fine_tuning_is_a_small_part_of_the_training() -> None:
    """One seed, 1,000 updates of 32 examples of 128 tokens, against 1 M updates of 256 rows of 512."""
    tuned = [
        "finetune=mrpc",
        "finetune.folder=x",
        "finetune.steps=1000",
        "finetune.train=[a]",
        "finetune.validation=[b]",
    ]
    config = decoded(compose(["experiment=bert_base", "source.paths=[a.jsonl]", *tuned]))
    facts = dict(money_facts(config, config.vocabulary, Hardware(), 1.0))
    assert re.search(r"at most: 1,000 updates of 128 tokens, 1 seed", facts["fine-tuning"])
    ratio = 1e6 * 256 * 512 / (1000 * 32 * 128)
    printed = float(re.search(r"costs ([\d,]+) times", facts["fine-tuning"]).group(1).replace(",", ""))
    assert ratio < printed < 1.1 * ratio
