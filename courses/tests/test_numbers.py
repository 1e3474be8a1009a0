"""The numbers of the page that differ from those of slides and abstracts are those of the presets."""

import dataclasses
from pathlib import Path

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.settings import decode
from headrace.train.config import ModelConfig

PAGE = Path(__file__).parents[1] / "docs" / "numbers.md"


def preset_config(name: str) -> ModelConfig:
    return decode(ModelConfig, option_values("model", name))


def test_the_page_counts_what_courses_teach_otherwise() -> None:
    page = PAGE.read_text()
    table = page[page.index("## Numbers that differ") :]
    gpt2 = [f"{preset_config(f'gpt2_{size}').parameters(50_257):,}" for size in ("small", "medium", "large", "xl")]
    assert ", ".join(gpt2) in table
    with_heads = dataclasses.replace(preset_config("bert_large"), pair_head=True)
    assert f"{with_heads.parameters(30_522):,} with both heads" in table
    assert f"{preset_config('t5_large').parameters(32_128):,}, {preset_config('t5_3b').parameters(32_128):,}" in table
    assert (preset_config("gpt3_1_3b").heads, preset_config("gpt3_13b").width) == (16, 5_120)
    assert preset_config("bert_base").width == 768
