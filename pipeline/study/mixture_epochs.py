"""The epochs of GPT-3's mixture: those of its paper, and those that its weights and sizes give in 300 billion tokens.

epochs = tokens of the training · weight / sum of the weights / tokens of the source
"""

from collections.abc import Iterator

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.study.exact_row import ExactRow

TRAINED_TOKENS = 300e9
GPT3_SOURCES = {
    "crawl": (410e9, 0.44),
    "webtext2": (19e9, 2.9),
    "books1": (12e9, 1.9),
    "books2": (55e9, 0.43),
    "wikipedia": (3e9, 3.4),
}
"""Source of conf/mixture/gpt3.yaml → its tokens, and the epochs that are published (Brown et al. 2020, table 2.2)."""


def epoch_rows() -> Iterator[ExactRow]:
    """Yields a row for each source of GPT-3's mixture, with the weights of its preset."""
    weights = {source["name"]: source["weight"] for source in option_values("mixture", "gpt3")["sources"]}
    for name, (tokens, published) in GPT3_SOURCES.items():
        own = TRAINED_TOKENS * weights[name] / sum(weights.values()) / tokens
        digits = len(str(published).partition(".")[2])
        remark = f"by its weight, {weights[name]} of {sum(weights.values())}, and its {tokens / 1e9:.0f} billion tokens"
        what, source = f"epochs of {name}, 300 B tokens", "Brown et al. 2020, table 2.2"
        yield ExactRow.of(
            "GPT-3's mixture", what, published, own, "publication", source, form=f".{digits}f", remark=remark
        )
