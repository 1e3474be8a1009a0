"""The preset of GPT-2's table, on real files where there are some."""

import re
from pathlib import Path

import pytest
import yaml

from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.settings import decode
from headrace.pipeline.core.text_files import stored_path
from headrace.train.config import ModelConfig
from headrace.train.evaluation.scoring import score_all
from headrace.train.evaluation.settings import Evaluation
from tests.train.small_models import OfHuggingFace, model_of

COURSES = Path(__file__).parents[1]
PRESET = COURSES / "src" / "headrace_courses" / "conf" / "evaluation" / "gpt2_table.yaml"
PAGE = COURSES / "docs" / "gpt2_table.md"


def test_on_real_files(data_folder, encoder, gpt2, write_lines):
    """WikiText-2's and PTB's validation sets, a part of enwik8, LAMBADA; CBT from a hand-written file."""
    data, text = data_folder("evaluation"), data_folder("text")
    settings = yaml.safe_load(PRESET.read_text()) | {"data": str(data)}
    book = [f"{n} The miller has a river and a mill ." for n in range(1, 21)] + ["21 A XXXXX .\tmill\t\triver|mill"]
    for name, one in settings["benchmarks"].items():
        one["limit"] = 20
        kind, _, _ = name.partition("_")
        one["paths"] = {
            "lambada": one["paths"],
            "cbt": [str(write_lines("cbt.txt", *book))],
            "enwik8": [str(text / "enwik8_first_90MB.zst")],
            "text8": [str(text / "enwik8_first_90MB.zst")],
            "ptb": ["ptb_valid.txt.zst"],
        }.get(kind, ["wikitext2_valid.txt.zst"])
        if one["type"] == "language_modelling":
            one |= {"from_byte": 1000, "to_byte": 11_000}
        if "stride_tokens" in one:
            one["stride_tokens"] = 16
    evaluation = decode(Evaluation, settings)
    assert len(evaluation.raw_files()) == len(evaluation.benchmarks) == 13
    subject = model_of(OfHuggingFace(gpt2), encoder)
    found = {one.scores.name: one.scores for one in score_all(evaluation, None, {}, subject)}
    assert set(found) == set(settings["benchmarks"])
    values = {name: {m.name: m.value for m in entry.metrics} for name, entry in found.items()}
    v = encoder.vocabulary_size
    for name in ("wikitext2", "wikitext2_sliding", "wikitext103", "ptb", "one_billion_words"):
        assert v / 10 < values[name]["token_perplexity"] < 1000 * v
        assert values[name]["word_perplexity"] > values[name]["token_perplexity"]
    assert values["wikitext2"] != values["wikitext2_sliding"]
    assert values["wikitext2"] == values["wikitext103"]
    assert values["lambada"]["perplexity"] > values["lambada_last_token"]["perplexity"]
    assert list(values["enwik8"]) == ["bits_per_byte"]
    assert values["text8"]["bits_per_character"] >= values["enwik8"]["bits_per_byte"]
    assert found["cbt_cn"].metrics[0].random == 0.5


@pytest.mark.parametrize("size", ["117M", "345M", "762M", "1542M"])
def test_the_page_names_the_preset_s_benchmarks(size):
    page = PAGE.read_text()
    assert size in page
    for name in yaml.safe_load(PRESET.read_text())["benchmarks"]:
        assert f"`{name}`" in page or name.endswith("_sliding") or name == "lambada"


def test_the_page_has_the_parameters_of_the_released_weights_of_each_size():
    sizes = ("gpt2_small", "gpt2_medium", "gpt2_large", "gpt2_xl")
    counts = [decode(ModelConfig, option_values("model", name)).parameters(50257) / 1e6 for name in sizes]
    *first, last = (f"{count:,.1f}" for count in counts)
    page = PAGE.read_text()
    assert f"{', '.join(first)} and {last} million parameters" in " ".join(page.split())


def published_names() -> list[str]:
    """The names of files on the page."""
    page = PAGE.read_text()
    files = page.split("FOLDER holds")[1].split("Each is found")[0]
    return re.findall("`([a-z][^`]+|[a-z]+8)`", files)


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst", ".bz2", ".xz"])
def test_each_published_file_is_found_in_each_compression(suffix, tmp_path):
    names = {Path(name).with_suffix("") if name.endswith((".gz", ".zst")) else Path(name) for name in published_names()}
    assert len(names) == 9
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}{suffix}").write_bytes(b"x")
    benchmarks = yaml.safe_load(PRESET.read_text())["benchmarks"].values()
    found = {stored_path(tmp_path / path) for one in benchmarks for path in one["paths"]}
    assert found == {tmp_path / f"{name}{suffix}" for name in names}
