"""``headrace picture``: the drawn masks and tokens are those of a training step."""

import itertools
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from headrace.pipeline.commands.picture import first_row, words
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.report.figures.row_picture import svg
from headrace.pipeline.run.planner import save
from headrace.train.row_example import RowExample, row_example
from tests.command_line import headrace_here
from tests.small_runs import build

SVG = "{http://www.w3.org/2000/svg}"


def example(*overrides: str) -> RowExample:
    config = decoded(compose(["model=llama_demo", *overrides]))
    objective = config.row_objective
    pieces, tokenizer = words(objective)
    return row_example(config.model, objective, pieces, 24, tokenizer, 0)


def test_a_causal_mask_is_that_of_each_document() -> None:
    found = example()
    (mask,) = found.masks
    documents = found.arrays["documents"]
    expected = np.tril(documents[:, None] == documents)
    assert (mask.visible_TS == expected).all()
    assert list(mask.layers) == list(range(decoded(compose(["model=llama_demo"])).model.layers))


def test_layers_with_a_window_have_a_mask_of_their_own() -> None:
    full, window = example("model.layers=5", "model.attention_pattern=[full,window]", "model.window=3").masks
    assert (full.layers, window.layers) == ([0, 2, 4], [1, 3])
    distances = np.arange(len(full.visible_TS))[:, None] - np.arange(len(full.visible_TS))
    assert (window.visible_TS == full.visible_TS & (distances < 3)).all()


def test_a_mask_with_global_tokens_and_random_keys_is_drawn() -> None:
    sparse = ("model=bert_demo", "objective=masked", "model.attention_pattern=[window]", "model.window=2")
    (mask,) = example(*sparse, "model.global_tokens=1", "model.random_keys=1").masks
    (near,) = example(*sparse).masks
    assert (mask.visible_TS == mask.visible_TS.T).all()
    assert (mask.visible_TS & near.visible_TS == near.visible_TS).all()
    assert mask.visible_TS.sum() > near.visible_TS.sum()
    assert not mask.visible_TS.all()


def test_a_decoder_sees_the_tokens_before_and_its_whole_encoder() -> None:
    found = example("model=t5_small", "objective=span_corruption", "packing.row_tokens=512")
    encoder, decoder, cross = found.masks
    inputs, targets = len(found.arrays["encoder_inputs"]), len(found.arrays["inputs"])
    assert [(each.queries, each.keys) for each in found.masks] == [
        ("encoder_inputs", "encoder_inputs"),
        ("inputs", "inputs"),
        ("inputs", "encoder_inputs"),
    ]
    assert encoder.visible_TS.shape == (inputs, inputs)
    assert encoder.visible_TS.all()
    assert (decoder.visible_TS == np.tril(np.ones((targets, targets), bool))).all()
    assert cross.visible_TS.shape == (targets, inputs)
    assert cross.visible_TS.all()


def test_a_document_of_the_decoder_sees_its_own_source() -> None:
    found = example("model=bart_base", "objective=bart", "packing.row_tokens=512")
    encoder, decoder, cross = found.masks
    sources, documents = found.arrays["encoder_documents"], found.arrays["documents"]
    assert (encoder.visible_TS == (sources[:, None] == sources)).all()
    assert (decoder.visible_TS == np.tril(documents[:, None] == documents)).all()
    assert (cross.visible_TS == (documents[:, None] == sources)).all()
    assert documents.max() == sources.max() == 1


def test_a_prefix_sees_itself_in_both_directions() -> None:
    found = example("objective=prefix")
    (mask,) = found.masks
    documents, prefix = found.arrays["documents"], found.arrays["prefix"].astype(bool)
    same = documents[:, None] == documents
    assert (mask.visible_TS == same & (np.tril(np.ones_like(same)) | prefix)).all()
    assert (mask.visible_TS & ~np.tril(np.ones_like(same))).any()


def test_an_encoder_sees_its_whole_document_and_targets_stand_at_masked_positions() -> None:
    found = example("model=bert_tiny", "objective=masked")
    (mask,) = found.masks
    documents, targets = found.arrays["documents"], found.arrays["targets"]
    assert (mask.visible_TS == (documents[:, None] == documents)).all()
    assert {len(values) for values in found.arrays.values()} == {len(documents)}
    changed = found.arrays["inputs"][targets >= 0] != targets[targets >= 0]
    assert len(changed)
    assert changed.any()


def test_both_models_of_electra_see_whole_documents() -> None:
    found = example("model=electra_small", "objective=replaced_tokens")
    (mask,) = found.masks
    assert list(mask.layers) == list(range(24))
    assert (mask.visible_TS == (found.arrays["documents"][:, None] == found.arrays["documents"])).all()
    assert {len(values) for values in found.arrays.values()} == {len(found.arrays["inputs"])}


def test_the_picture_has_a_square_for_each_pair_and_a_box_for_each_token(tmp_path: Path) -> None:
    result = headrace_here("picture", "model=llama_demo", "--to", str(tmp_path / "causal.svg"))
    assert (result.returncode, result.stdout) == (0, f"{tmp_path}/causal.svg\n"), result.stderr
    drawing = ElementTree.parse(tmp_path / "causal.svg").getroot()
    positions = len(example().arrays["inputs"])
    assert len(drawing.findall(f"{SVG}rect")) == 1 + positions**2 + 2 * positions
    texts = [text.text for text in drawing.findall(f"{SVG}text")]
    assert texts[0] == "objective.type=causal, model.stack=decoder"
    assert {"inputs", "targets", "documents", "mill", "wheel"} <= set(texts)


def test_captions_do_not_overlap_where_the_rows_are_short() -> None:
    found = example("model=t5_small", "objective=span_corruption", "packing.row_tokens=512")
    drawing = ElementTree.fromstring(svg("", found))
    captions = [text for text in drawing.iter(f"{SVG}text") if "layers" in (text.text or "")]
    assert len(captions) == 3
    for caption, after in itertools.pairwise(captions):
        assert float(after.get("x", 0)) - float(caption.get("x", 0)) > 6 * len(caption.text or "")


def test_a_run_shows_the_first_row_of_its_training(tmp_path: Path) -> None:
    corpus = build(tmp_path, "none")
    run_json = save(corpus.config, corpus.run.values, corpus.steps)
    to = tmp_path / "row.svg"
    result = headrace_here("picture", "--run", str(run_json.parent), "--tokens", "9", "--to", str(to))
    assert result.returncode == 0, result.stderr
    pieces, tokenizer = first_row(corpus.run)
    expected = [tokenizer.decode([token], skip_special_tokens=False) for token in pieces[0][:9].tolist()]
    drawn = [text.text for text in ElementTree.parse(to).getroot().findall(f"{SVG}text")]
    first = drawn.index("inputs") + 1
    assert [text.strip("␣") for text in drawn[first : first + len(expected)]] == [text.strip() for text in expected]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "0"], "--tokens: "),
        (["--to", "/nowhere/a.svg"], "--to: there is no folder '/nowhere'; name another file"),
    ],
)
def test_wrong_options_are_refused_in_one_line(arguments: list[str], message: str) -> None:
    result = headrace_here("picture", "model=llama_demo", *arguments)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
