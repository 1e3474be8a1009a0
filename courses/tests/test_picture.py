"""``python -m headrace_courses.picture``: the drawn masks and tokens are those of a training step."""

import base64
import itertools
import json
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib
from pathlib import Path

import numpy as np
import pytest

from courses.tests.command_line import courses_here
from courses.tests.test_text_attention import LLAMA
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.run.planner import Run, save
from headrace.train.evaluation.held_out_documents import HeldOut, HeldOutDocument
from headrace.train.families.hf_folder import export
from headrace.train.finetune.settings import Finetune
from headrace.train.finetune.tasks.conversations import Conversations
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace_courses.picture import conversation_drawing, first_row, words
from headrace_courses.row_example import RowExample, row_example, token_name
from headrace_courses.row_picture import LONGEST_TOKEN, svg
from headrace_courses.sparse_links import with_links
from headrace_courses.text_attention import LayerAttention, text_attention
from headrace_courses.unit_memories import STRONGEST, TRIGGERS
from tests.small_runs import build, trained, training_of
from tests.train.model.test_transformer import random_model

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


@pytest.mark.parametrize(
    ("mixer", "attention"),
    [
        (["model.mixer=lstm"], []),
        (["model.mixer=window_mlp", "model.window=3"], ["model.attention_pattern=[window]", "model.window=3"]),
    ],
)
def test_a_layer_without_attention_reads_what_one_of_attention_sees(mixer: list[str], attention: list[str]) -> None:
    (found,), (expected,) = example("model.positions=none", *mixer).masks, example(*attention).masks
    assert (found.visible_TS == expected.visible_TS).all()
    assert found.layers == expected.layers


def test_a_mask_with_global_tokens_and_random_keys_is_drawn() -> None:
    sparse = ("model=bert_demo", "objective=masked", "model.attention_pattern=[window]", "model.window=2")
    row = example(*sparse)
    (near,), (mask,) = row.masks, with_links(row, decoded(compose(list(sparse))).model, 1, 1).masks
    assert (mask.visible_TS == mask.visible_TS.T).all()
    assert (mask.visible_TS & near.visible_TS == near.visible_TS).all()
    assert mask.visible_TS.sum() > near.visible_TS.sum()
    assert not mask.visible_TS.all()
    for _, positions in itertools.groupby(range(len(mask.visible_TS)), row.arrays["documents"].__getitem__):
        first, *others = positions
        assert mask.visible_TS[first, others].all(), "the first token sees all of its document, and no other"
        assert mask.visible_TS[first].sum() == 1 + len(others)


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
    result = courses_here("picture", "model=llama_demo", "--to", str(tmp_path / "causal.svg"))
    assert (result.returncode, result.stdout) == (0, f"{tmp_path}/causal.svg\n"), result.stderr
    drawing = ElementTree.parse(tmp_path / "causal.svg").getroot()
    positions = len(example().arrays["inputs"])
    assert len(drawing.findall(f"{SVG}rect")) == 1 + positions**2 + 2 * positions
    texts = [text.text for text in drawing.findall(f"{SVG}text")]
    assert texts[0] == "objective.type=causal, model.stack=decoder"
    assert {"inputs", "targets", "documents", "mill", "wheel"} <= set(texts)


def conversation_file(tmp_path: Path) -> Path:
    spoken = ["Hello", "Good morning.", "And now?", "Good night."]
    messages = [{"role": ("user", "assistant")[n % 2], "content": content} for n, content in enumerate(spoken)]
    (tmp_path / "talks.jsonl").write_text(json.dumps({"messages": messages}) + "\n")
    return tmp_path / "talks.jsonl"


THOUGHTLESS = (
    '{% for m in messages %}{% if loop.last and m.role == "assistant" %}Thoughts: {% endif %}'
    "{{ m.content }}{{ eos_token }} {% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "inputs", "learned", "rows"),
    [
        (
            "",
            "User: Hello Assistant: Good morning. E User: And now? Assistant: Good night. E",
            "Good morning. E Good night. E",
            1,
        ),
        (THOUGHTLESS, "Hello E Thoughts: Good morning. E", "Thoughts: Good morning. E", 2),
    ],
)
def test_the_answers_that_a_conversation_teaches(
    template: str, inputs: str, learned: str, rows: int, tmp_path: Path
) -> None:
    path, to = conversation_file(tmp_path), tmp_path / "row.svg"
    words = ["model=llama_demo", "finetune=conversations", f"finetune.train={path}", f"finetune.validation={path}"]
    result = courses_here(
        "picture", *words, *([f"finetune.task.template='{template}'"] * bool(template)), "--to", str(to)
    )
    assert (result.returncode, result.stdout) == (0, f"{to}\n"), result.stderr
    title, *texts = [text.text or "" for text in ElementTree.parse(to).getroot().findall(f"{SVG}text")]
    assert title == f"finetune.task.type=conversations, row 1 of {rows} of talks.jsonl:1"
    tokens = [text.strip("␣").replace("<|endoftext|>", "E") for text in texts[1 : texts.index("positions")]]
    targets = tokens[tokens.index("targets") + 1 :]
    assert tokens[: tokens.index("targets")] == inputs.split()
    assert [target for target in targets if target != "·"] == learned.split()
    assert all(now == then for now, then in zip(targets, tokens[1:], strict=False) if now != "·")


def test_the_answers_in_the_tokens_of_a_folder(tmp_path: Path) -> None:
    path, to = conversation_file(tmp_path), tmp_path / "row.svg"
    model = random_model(LLAMA, 400)
    (tmp_path / "tokenizer.json").write_text(Trained(vocabulary_size=400).train(["The mill stands."]))
    export(model.named_parameters(), LLAMA, 400, tmp_path / "tokenizer.json", tmp_path / "hf")
    words = ["finetune=conversations", f"finetune.train={path}", f"finetune.validation={path}"]
    result = courses_here("picture", *words, f"finetune.folder={tmp_path / 'hf'}", "--tokens", "9", "--to", str(to))
    assert result.returncode == 0, result.stderr
    texts = [text.text or "" for text in ElementTree.parse(to).getroot().findall(f"{SVG}text")]
    assert "".join(texts[2 : texts.index("targets")]) == "User:␣Hel"


def test_the_answers_in_the_tokens_of_a_run(tmp_path: Path) -> None:
    path, run = str(conversation_file(tmp_path)), build(tmp_path / "run", "none").run
    finetune, task = Finetune(task=Conversations(), train=(path,), validation=(path,)), Conversations()
    drawing = ElementTree.fromstring(conversation_drawing(run.config, finetune, task, run, 60))
    texts = [text.text or "" for text in drawing.findall(f"{SVG}text")]
    _, tokenizer = first_row(run)
    ids = tokenizer.encode("User: Hello\nAssistant: Good morning.").ids[:-1]
    expected = [token_name(tokenizer.decode([token], skip_special_tokens=False), LONGEST_TOKEN) for token in ids]
    assert texts[2 : 2 + len(ids)] == expected


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
    result = courses_here("picture", "--run", str(run_json.parent), "--tokens", "9", "--to", str(to))
    assert result.returncode == 0, result.stderr
    pieces, tokenizer = first_row(corpus.run)
    expected = [tokenizer.decode([token], skip_special_tokens=False) for token in pieces[0][:9].tolist()]
    drawn = [text.text for text in ElementTree.parse(to).getroot().findall(f"{SVG}text")]
    first = drawn.index("inputs") + 1
    assert [text.strip("␣") for text in drawn[first : first + len(expected)]] == [text.strip() for text in expected]


def test_the_attention_of_a_text_has_an_image_for_each_head_and_numbers_of_chosen_ones(tmp_path: Path) -> None:
    model = random_model(LLAMA, 400)
    (tmp_path / "tokenizer.json").write_text(Trained(vocabulary_size=400).train(["The mill stands."]))
    export(model.named_parameters(), LLAMA, 400, tmp_path / "tokenizer.json", tmp_path / "hf")
    to = tmp_path / "attention.svg"
    words = ("picture", "--text", "The mill stands.", "--model", str(tmp_path / "hf"), "evaluation.device=cpu")
    result = courses_here(*words, "--heads", "0.1,2.3", "--to", str(to))
    assert (result.returncode, result.stdout) == (0, f"{to}\n"), result.stderr
    drawing = ElementTree.parse(to).getroot()
    (layers,) = ([*text_attention(open_folder(tmp_path / "hf", Inference(device="cpu")), "The mill stands.", "")],)
    keys = len(layers[0].keys)
    images = [base64.b64decode(each.get("href", "").partition(",")[2]) for each in drawing.iter(f"{SVG}image")]
    assert len(images) == 3 * 4
    for number, png in enumerate(images):
        expected = 255 * (1 - layers[number // 4].weights_NTS[number % 4])
        assert np.abs(grey(png) - expected).max() <= 0.501
    numbers = [
        text.text or "" for text in drawing.iter(f"{SVG}text") if re.fullmatch(r"-?\d+\.\d{3}|−∞", text.text or "")
    ]
    written = [matrix[head] for layer, head in ((0, 1), (2, 3)) for matrix in matrices(layers[layer])]
    assert numbers == [f"{v:.3f}" if np.isfinite(v) else "−∞" for matrix in written for v in matrix.ravel().tolist()]
    assert len(numbers) == 2 * 3 * keys**2
    refused = courses_here(*words, "--heads", "3.0", "--to", str(to))
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "--heads: '3.0' is none of layers 0 to 2, heads 0 to 3; give LAYER.HEAD, such as 2.3" in refused.stderr
    long = courses_here(*words, "--tokens", "2", "--to", str(to))
    assert f"--text: has {keys} tokens, and the picture shows 2; give --tokens {keys}" in long.stderr


def test_units_of_a_run_are_excited_by_its_held_out_documents(tmp_path: Path) -> None:
    corpus = build(tmp_path, "none")
    run = trained(training_of(corpus, "training.steps=4"))
    to = tmp_path / "units.svg"
    (run_json,) = tmp_path.glob("runs/**/run.json")
    result = courses_here("picture", "--run", str(run_json.parent), "--units", "0.3,0", "--to", str(to))
    assert (result.returncode, result.stdout) == (0, f"{to}\n"), result.stderr
    texts = [text.text or "" for text in ElementTree.parse(to).getroot().iter(f"{SVG}text")]
    names = [text for text in texts if re.fullmatch(r"layer 0, unit \d+", text)]
    assert names[0] == "layer 0, unit 3"
    assert len(names) == 1 + STRONGEST
    lines = [float(text) for text in texts if re.fullmatch(r"-?\d+\.\d\d", text)]
    assert len(lines) == len(names) * TRIGGERS
    for start in range(0, len(lines), TRIGGERS):
        own = lines[start : start + TRIGGERS]
        assert own == sorted(own, reverse=True)
    highest = lines[TRIGGERS::TRIGGERS]
    assert highest == sorted(highest, reverse=True), "the strongest units of the layer, in their order"
    held_out = [document.text for document in held_out_documents(run)]
    first = texts.index(f"{lines[0]:.2f}") + 1
    end = next(index for index in range(first, len(texts)) if texts[index].startswith("→"))
    trigger = "".join(texts[first:end]).replace("␣", " ").replace("<|endoftext|>", "")
    assert trigger
    assert any(trigger in text for text in held_out)


def held_out_documents(run: Run) -> list[HeldOutDocument]:
    inputs = {step.name: Artifact(step.folder) for step in run.stages if step.is_whole}
    encoder = Encoder.load(inputs["tokenizer"].path("tokenizer.json"))
    return HeldOut(inputs["tokens"], inputs["packed"], encoder).documents


def matrices(layer: LayerAttention) -> list[np.ndarray]:
    assert layer.scores_NTS is not None
    assert layer.masked_NTS is not None
    return [layer.scores_NTS, layer.masked_NTS, layer.weights_NTS]


def grey(png: bytes) -> np.ndarray:
    """Returns the values of a grey PNG without filters."""
    width, height = struct.unpack(">II", png[16:24])
    size = struct.unpack(">I", png[33:37])[0]
    lines = np.frombuffer(zlib.decompress(png[41 : 41 + size]), np.uint8).reshape(height, width + 1)
    assert not lines[:, 0].any()
    return lines[:, 1:].astype(float)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "0"], "--tokens: "),
        (["--heads", "0.1"], "--heads: is given without --text; give --text, too, or leave it out"),
        (["--model", "m"], "--model: is given without --text or --units; give --text or --units, too, or leave it"),
        (["--text", "a", "--units", "1.2"], "--units: is given with --text; draw one after the other"),
        (["--units", "1.x"], "--units: '1.x' is no layer and unit; give LAYER.UNIT or LAYER"),
        (["--text", "a", "--model", "no/such"], "--model: 'no/such' has no config.json; give the folder of"),
        (["--to", "/nowhere/a.svg"], "--to: there is no folder '/nowhere'; name another file"),
    ],
)
def test_wrong_options_are_refused_in_one_line(arguments: list[str], message: str) -> None:
    result = courses_here("picture", "model=llama_demo", *arguments)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert message in result.stderr
