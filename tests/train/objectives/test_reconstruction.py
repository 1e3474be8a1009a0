"""BART's objective: rows of each kind, their bounds, the order of corruptions, refused settings."""

import dataclasses

import numpy as np
import pytest

from headrace.data_prep.packed import Packed, Packing
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import TaskOutput, finish
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.json_files import read_json
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import decode
from headrace.train.context import Capacity, ContextForm, whole_text_form
from headrace.train.families.hf_folder import load
from headrace.train.objectives import noise
from headrace.train.objectives.base import Vocabulary, target_tokens
from headrace.train.objectives.masked import CLASS, SEPARATOR
from headrace.train.objectives.masked import MASK as MASKED
from headrace.train.objectives.reconstruction import Reconstruction
from headrace.train.weights import Weights
from tests.train.conftest import bytes_tokenizer
from tests.train.objectives.two_terms import BART
from tests.train.test_weights import settings

ROW_TOKENS, END_OF_TEXT, STOP, PART = 40, 3, 10, 11
VOCABULARY = Vocabulary(
    60,
    {"<s>": 0, "</s>": 1, "<mask>": 2},
    end=END_OF_TEXT,
    reserved=np.arange(4),
    continues_V=np.arange(60) == PART,
    find_sentence_ends=lambda: np.arange(60) == STOP,
)
TEXTS = [20, 21, STOP, 22, PART, 23, STOP, 24, 25], [30, PART, STOP], [], [40, 41, 42, 43]
PIECES = [np.array(piece) for piece in (
    [END_OF_TEXT, *TEXTS[0], END_OF_TEXT], [END_OF_TEXT, *TEXTS[1], END_OF_TEXT], [END_OF_TEXT, END_OF_TEXT],
    [7, *TEXTS[3]],
)]  # fmt: skip
"""Three whole documents, one of them empty, and a part of a fourth one."""


def masking_inputs(inputs, folder, run_stage):
    """The inputs with the special tokens of an encoder, and rows with room for them."""
    tokenizer = bytes_tokenizer()
    tokenizer.add_special_tokens([CLASS, SEPARATOR, MASKED])
    out = TaskOutput(folder / "tokenizer", "tokenizer", 0)
    with out.file("tokenizer.json") as path:
        tokenizer.save(str(path))
    out.done({})
    packing = Packing(row_tokens=64, validation_fraction=0.1, group_shards=2)
    packed = run_stage(Packed(packing=packing, frame_tokens=2), {"tokens": inputs["tokens"]}, folder / "packed")
    tokenizer_artifact = finish(folder / "tokenizer", {"stage": "tokenizer"}, {"tokenizer": 1})
    return {**inputs, "tokenizer": tokenizer_artifact, "packed": packed}


def row(objective: Reconstruction, pieces=PIECES, row_tokens=ROW_TOKENS, seed=0) -> dict[str, np.ndarray]:
    found = objective.row(pieces, row_tokens, VOCABULARY, np.random.default_rng(seed))
    assert {name: len(array) for name, array in found.items()} == objective.lengths(row_tokens)
    return found


def documents(arrays: dict[str, np.ndarray], prefix: str, name: str) -> list[list[int]]:
    """The tokens of each document, after a check of positions and padding."""
    numbers = arrays[f"{prefix}documents"]
    size = int((numbers >= 0).sum())
    assert (numbers[size:] == -1).all()
    found = []
    for number in range(numbers.max() + 1):
        (places,) = np.nonzero(numbers == number)
        assert places.tolist() == list(range(places[0], places[-1] + 1))
        assert arrays[f"{prefix}positions"][places].tolist() == list(range(len(places)))
        found.append(arrays[prefix + name][places].tolist())
    return found


def test_rows_have_each_document_whole_in_the_decoder():
    """Without pieces a row has no document; the empty document has its frame alone."""
    arrays = row(Reconstruction())
    assert documents(arrays, "", "targets") == [[0, *text, 1] for text in TEXTS]
    assert documents(arrays, "", "inputs") == [[1, 0, *text] for text in TEXTS]
    sources = documents(arrays, "encoder_", "inputs")
    assert len(sources) == 4
    assert all(source[0] == 0 and source[-1] == 1 for source in sources)
    assert sources[2] == [0, 1]
    assert 2 in sources[0]
    assert Reconstruction().counts(arrays) == {"reconstruction": sum(len(text) + 2 for text in TEXTS)}
    assert set(row(Reconstruction(), [])["encoder_documents"]) == {-1}
    assert target_tokens(Reconstruction(), ROW_TOKENS) == ROW_TOKENS


def test_corruptions_come_in_barts_order():
    """Permutation, tokens, rotation, each from the numbers after those before it."""
    objective = Reconstruction(rotate=1.0, random_share=0.1)
    text, masks = np.array(TEXTS[0]), noise.Masks(2, np.arange(4, 60), 0.1)
    for seed in range(20):
        generator = np.random.default_rng(seed)
        expected = noise.with_moved_sentences(text, np.array([0, 3, 7]), 1.0, generator)
        begins_word = expected != PART
        begins_word[0] = True
        expected = noise.infilled(expected, begins_word, 0.3, 3.0, masks, generator, 5)
        generator.random()
        expected = noise.rotated(expected, generator)
        found = objective.corrupted(text, VOCABULARY, np.random.default_rng(seed), 5)
        assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("kind", ["infilling", "masking", "deletion", "none"])
def test_each_kind_and_each_row_fits(kind):
    """Rows without a free position, with as many empty spans as there are; sources of one document stay short."""
    alone = Reconstruction(kind=kind, permute_sentences=0.0, rotate=1.0, mean_span=0.5, rate=0.7)
    pieces = [np.array([END_OF_TEXT, *range(20, 20 + length)]) for length in (1, 2, 3, 30)]
    lengths = set()
    for seed in range(100):
        arrays = row(alone, pieces, sum(len(piece) + 1 for piece in pieces), seed)
        lengths.add(int((arrays["encoder_documents"] >= 0).sum()))
        assert len(documents(arrays, "encoder_", "inputs")) == 4
    full = sum(len(piece) + 1 for piece in pieces)
    assert max(lengths) <= full
    assert (lengths == {full}) == (kind != "deletion")


def test_permutation_alone_keeps_all_tokens():
    objective = Reconstruction(kind="none")
    found = [documents(row(objective, seed=seed), "encoder_", "inputs")[0] for seed in range(20)]
    assert all(sorted(source) == sorted([0, *TEXTS[0], 1]) for source in found)
    assert len({tuple(source) for source in found}) == 6


def test_contexts_are_repeated_by_the_decoder():
    form = ContextForm(
        looks_ahead=True, opening=(0,), ending=(2, 1), given=(1, 0), repeats_context=True, stops=(1,)
    )  # fmt: skip
    assert Reconstruction().context_form(VOCABULARY) == form
    assert (form.read([5, 6]), form.begun([5, 6])) == ([0, 5, 6, 2, 1], [1, 0, 5, 6])
    assert form.capacity(20, two_stacks=True) == Capacity(17, 17, is_shared=True)
    apart = dataclasses.replace(form, repeats_context=False)
    assert apart.capacity(20, two_stacks=True) == Capacity(17, 18, is_shared=False)
    assert apart.capacity(20, two_stacks=False) == Capacity(15, 15, is_shared=True)


def test_a_model_is_trained_scored_and_exported_with_the_form_of_its_contexts(tmp_path, inputs, run_stage):
    values = settings(steps=4, validate_every=4, evaluate_every=4, evaluate=["agreement"])
    values["model"] = dataclasses.asdict(dataclasses.replace(BART, context=64))
    values["evaluation"]["benchmarks"].pop("validation")
    values["objective"] = {"type": "reconstruction", "random_share": 0.1, "rotate": 0.2}
    given = masking_inputs(inputs, tmp_path, run_stage)
    artifact = run_stage(decode(Weights, values), given, tmp_path / "weights")
    rows = read_metrics(artifact.path("metrics.jsonl"))
    assert all(4 < row["loss"] < 8 for row in rows if "loss" in row)
    assert any("agreement" in str(row) for row in rows)
    assert not any("bits_per_byte" in row for row in rows)
    folder = artifact.path("hf/config.json").parent
    ids = read_json(folder / "tokenizer.json")["added_tokens"]
    begin, end, mask = (next(one["id"] for one in ids if one["content"] == name) for name in (CLASS, SEPARATOR, MASKED))
    assert load(folder).context_form == whole_text_form(begin, end, mask)
    assert read_json(folder / "config.json")["model_type"] == "bart"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ("objective.kind=none", "objective.permute_sentences=0"),
            "objective: corrupts nothing: kind is none, permute_sentences and rotate are 0; choose a corruption",
        ),
        (
            ("model.stack=decoder",),
            "objective: reconstruction trains a stack encoder_decoder, and model.stack is decoder; give a model of "
            "stack encoder_decoder, or an objective that trains a stack decoder: causal, denoising, prefix",
        ),
        (
            ("packing=concatenate",),
            "packing.method: concatenate makes no rows for this objective (reconstruction); give "
            "packing.method=best_fit or padded, or other objective settings",
        ),
    ],
)
def test_settings_that_cannot_work_are_refused_before_any_stage(overrides, message):
    with pytest.raises(ConfigError) as error:
        decoded(compose(["experiment=t5_demo", "objective=bart", *overrides]))
    assert str(error.value) == message
