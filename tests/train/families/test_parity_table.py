"""The table of parity in docs/hugging-face.md: each ✓ is a test that exists, each – is none."""

import dataclasses
import functools
from collections.abc import Mapping
from pathlib import Path

import pytest
import transformers

ROOT = Path(__file__).parents[3]
HEADER = "| family | class of `transformers` | padded rows |"
HF_FOLDER = "families/test_hf_folder.py"
PARAMETERS = "families/test_families.py::test_presets_have_the_published_number_of_parameters"
Tests = Mapping[str, str]
"""Column of the table → file and name of a test."""
DECODER = {
    "padded rows": f"{HF_FOLDER}::test_transformers_gives_equal_logits",
    "packed rows": "model/test_transformer.py::test_a_packed_row_gives_each_document_its_own_logits",
    "20 updates": f"{HF_FOLDER}::test_a_short_training_of_transformers_has_equal_losses",
    "our folder": f"{HF_FOLDER}::test_what_was_exported_loads",
    "their folder": f"{HF_FOLDER}::test_what_transformers_wrote_loads",
    "cache": "model/test_cache.py::test_extending_from_nothing_gives_the_logits_of_training",
}


def of_file(file: str, padded: str, packed: str, updates: str, folders: str, cache: str | None = None) -> Tests:
    """The tests of a file whose padded rows are those of a model that ``transformers`` opens in our folder."""
    tests = {"padded rows": padded, "packed rows": packed, "20 updates": updates, "our folder": padded}
    tests |= {"their folder": folders} | ({"cache": cache} if cache else {})
    return {column: f"families/{file}::{test}" for column, test in tests.items()}


ENCODER = of_file(
    "test_encoders.py",
    "test_padded_rows_have_the_logits_of_transformers",
    "test_packed_rows_have_the_logits_of_each_document_alone",
    "test_gradients_and_a_short_training_are_those_of_transformers",
    "test_saved_folders_load_both_ways",
)
BOTH_HEADS = of_file(
    "test_pair_heads.py",
    "test_padded_rows_of_pairs_have_the_logits_of_transformers",
    "test_packed_pairs_have_the_logits_of_each_pair_alone",
    "test_gradients_and_a_short_training_of_both_heads_are_those_of_transformers",
    "test_folders_with_both_heads_load_both_ways",
)
TWO_STACKS = of_file(
    "test_encoder_decoders.py",
    "test_padded_rows_have_the_logits_of_transformers",
    "test_packed_rows_have_the_logits_of_each_document_alone",
    "test_a_short_training_is_that_of_transformers",
    "test_saved_folders_load_both_ways",
    "test_generation_with_the_cache_equals_whole_rows",
)
MARIAN = {
    "padded rows": "families/test_transformer_2017.py::test_padded_rows_have_the_logits_of_transformers",
    "20 updates": "families/test_transformer_2017.py::test_a_short_training_is_that_of_transformers",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """The tests of one row of the table, as parameters of the tests of its kind."""

    tests: Tests
    parameter: str
    """The family's parameter of these tests."""
    preset: str
    """A preset whose parameters are counted."""
    shape: str | None = None
    """Its parameter where a test has no variants of a family; None: the same."""


ROWS = {
    "GPT-1": Row(DECODER, "gpt1", "gpt1"),
    "GPT-2, GPT-3": Row(DECODER, "gpt2", "gpt2_small"),
    "GPT-3, banded": Row(DECODER, "gpt2-banded", "gpt3_125m_banded", "banded"),
    "GPT-Neo": Row(DECODER, "gpt_neo", "gpt_neo_125m"),
    "OPT": Row(DECODER, "opt", "opt_125m"),
    "BLOOM": Row(DECODER, "bloom", "bloom_560m"),
    "MPT": Row(DECODER, "mpt", "mpt_7b"),
    "GPT-NeoX": Row(DECODER, "gpt_neox", "pythia_70m"),
    "StarCoder2": Row(DECODER, "starcoder2", "starcoder2_3b"),
    "LLaMA": Row(DECODER, "llama-gqa", "llama_7b", "llama"),
    "LLaMA 3.1": Row(DECODER, "llama-llama3", "llama3_1_8b"),
    "Mistral": Row(DECODER, "mistral", "mistral_7b"),
    "Qwen2": Row(DECODER, "qwen2", "qwen2_0_5b"),
    "Qwen3": Row(DECODER, "qwen3", "qwen3_0_6b"),
    "OLMo": Row(DECODER, "olmo", "olmo_1b"),
    "OLMo 2": Row(DECODER, "olmo2", "olmo2_1b"),
    "Gemma": Row(DECODER, "gemma", "gemma_2b"),
    "Gemma 2": Row(DECODER, "gemma2", "gemma2_2b"),
    "BERT": Row(ENCODER, "bert", "bert_base"),
    "BERT, both heads": Row(BOTH_HEADS, "bert", "bert_base"),
    "RoBERTa": Row(ENCODER, "roberta", "roberta_base"),
    "ModernBERT": Row(ENCODER, "modernbert", "modernbert_base"),
    "ELECTRA": Row(ENCODER, "electra", ""),
    "ALBERT": Row(ENCODER, "albert", "albert_base"),
    "ALBERT, both heads": Row(BOTH_HEADS, "albert", "albert_base"),
    "T5 1.0": Row(TWO_STACKS, "v1.0", "t5_small"),
    "T5 1.1": Row(TWO_STACKS, "v1.1", "t5_v1_1_small"),
    "UMT5": Row(TWO_STACKS, "umt5", "umt5_small"),
    "BART": Row(TWO_STACKS, "bart", "bart_base"),
    "Transformer of 2017": Row(MARIAN, "", "transformer_base"),
}


def table() -> tuple[list[str], dict[str, list[str]]]:
    """The columns of the table in docs/hugging-face.md, and its other cells by the first one of their row."""
    text = (ROOT / "docs/hugging-face.md").read_text()
    table = text[text.index(HEADER) :].partition("\n\n")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines()]
    columns, _, *rows = [[cell.strip() for cell in line] for line in lines]
    return columns[1:], {name: cells for name, *cells in rows}


@pytest.fixture(scope="module")
def collected(request):
    """``collected(file)``: the names of the tests of a file below tests/train, with their parameters."""

    @functools.cache
    def names(file: str) -> frozenset[str]:
        module = pytest.Module.from_parent(request.session, path=ROOT / "tests/train" / file)
        return frozenset(item.name for item in module.collect())

    return names


def test_each_cell_of_the_table_is_a_test(collected):
    columns, rows = table()
    assert rows.keys() == ROWS.keys()
    kind, *checks = columns
    assert {*checks} == {*DECODER, "parameters"}
    for name, row in ROWS.items():
        cells = dict(zip(columns, rows[name], strict=True))
        for hf_class in cells.pop(kind).replace("`", "").split(", "):
            assert hf_class == "–" or hasattr(transformers, hf_class)
        for column, cell in cells.items():
            tests = row.tests | {"parameters": PARAMETERS}
            file, _, test = tests.get(column, HF_FOLDER).partition("::")
            parameters = {row.preset} if column == "parameters" else {row.parameter, row.shape}
            names = {f"{test}[{parameter}]" if parameter else test for parameter in parameters}
            assert (cell == "✓") == bool(names & collected(file)), (name, column)
            assert cell in ("✓", "–"), (name, column)
