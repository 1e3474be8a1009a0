"""Filled spans: the beam search against one that computes whole rows, for BART, T5 and T5's objective on one stack."""

import dataclasses
import math
import re

import pytest
import torch

from courses.tests.command_line import courses_here
from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenization.special_tokens import END_OF_TEXT, sentinels
from headrace.pipeline.core.errors import ConfigError
from headrace.train.context import ContextForm
from headrace.train.data.batches import EncoderTokens
from headrace.train.families.hf_folder import export
from headrace.train.inference.settings import Inference
from headrace.train.inference.transformers_model import open_folder
from headrace.train.model.transformer import Transformer
from headrace_courses.fill_span import SPAN_TOKENS, filled_span
from tests.train.families.test_encoder_decoders import BART, T5

SETTINGS = Inference(device="cpu")
ONE_STACK = dataclasses.replace(T5, stack="decoder", encoder_layers=None, scaled_output=False)
SHAPES = {"bart": BART, "t5": T5, "one-stack": ONE_STACK}
CANDIDATES = 3


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Random models with large logits, so that probabilities differ, and their tokenizers."""
    root = tmp_path_factory.mktemp("spans")
    for name, config in SHAPES.items():
        special_tokens, needed = {"bart": ("roberta", ()), "t5": ("t5", ())}.get(name, ("gpt", sentinels(2)))
        trained = Trained(vocabulary_size=400, special_tokens=special_tokens).train(["a mill"], needed)
        file = root / f"{name}.json"
        file.write_text(trained, encoding="utf-8")
        torch.manual_seed(1)
        encoder = Encoder.load(file)
        ids = encoder.backend.get_vocab(with_added_tokens=True)
        model = Transformer(config, encoder.vocabulary_size)
        with torch.no_grad():
            model.embedding.weight.mul_(4)
        form = ContextForm()
        if name == "one-stack":
            first, second, end = (ids[token] for token in ("<extra_id_0>", "<extra_id_1>", END_OF_TEXT))
            form = ContextForm(looks_ahead=True, ending=(first, end), given=(first,), stops=(second,))
        export(model.named_parameters(), config, encoder.vocabulary_size, file, root / name, form)
    return root


def slow_log_probs(model: Transformer, read: list[int], written: list[int]) -> torch.Tensor:
    """ln p of the token after each of ``written``, from whole rows."""
    tokens, source = torch.tensor([written]), None
    if model.encoder is not None:
        places = torch.arange(len(read))[None]
        source = EncoderTokens(torch.tensor([read]), places, torch.zeros_like(places))
    else:
        tokens = torch.tensor([[*read, *written]])
    positions = torch.arange(tokens.shape[1])[None]
    prefix = (positions < len(read)) if source is None else None
    with torch.inference_mode():
        logits = model(tokens, positions, torch.zeros_like(tokens), prefix_BT=prefix, source=source)[0]
    return logits[-len(written) :].double().log_softmax(1)


def slow_candidates(model, read, begun, ends, special) -> list[tuple[float, tuple[int, ...]]]:
    beams, found = [(0.0, ())], []
    while beams and len(beams[0][1]) <= SPAN_TOKENS:
        longer = []
        for log_p, span in beams:
            after = slow_log_probs(model, read, [*begun, *span])[-1]
            found.append((log_p + math.log(sum(after[end].exp().item() for end in ends)), span))
            following = [(token, one) for token, one in enumerate(after.tolist()) if token not in special]
            longer += [(log_p + one, (*span, token)) for token, one in following]
        found = sorted(found, reverse=True)[:CANDIDATES]
        least = found[-1][0] if len(found) == CANDIDATES else -math.inf
        beams = [beam for beam in sorted(longer, reverse=True)[:CANDIDATES] if beam[0] > least]
    return found


@pytest.mark.parametrize("name", SHAPES)
def test_candidates_are_those_of_whole_rows(folders, name):
    opened = open_folder(folders / name, SETTINGS)
    ids = opened.tokenizer.backend.get_vocab(with_added_tokens=True)
    special = {number for number, token in opened.tokenizer.backend.get_added_tokens_decoder().items() if token.special}
    before, after = (one.tolist() for one in opened.tokenizer.encode(["a mill", " by"]))
    first, second, start = (ids.get(token) for token in ("<extra_id_0>", "<extra_id_1>", "<pad>"))
    begin, end, mask = (ids.get(token) for token in ("<s>", "</s>", "<mask>"))
    end = ids.get(END_OF_TEXT, end)
    if name == "bart":
        read, begun, ends = [begin, *before, mask, *after, end], [end, begin, *before], after[:1]
    else:
        read, begun = [*before, first, *after, end], [start, first][name == "one-stack" :]
        ends = [second, end]
    expected = slow_candidates(opened.network, read, begun, ends, special)
    found = filled_span(opened, folders / name, "a mill <mask> by", CANDIDATES)
    texts = [opened.tokenizer.decode(list(span)).strip() for _, span in expected]
    assert [one.text for one in found] == texts
    assert [one.probability for one in found] == pytest.approx([math.exp(log_p) for log_p, _ in expected], rel=1e-4)


def test_the_command_prints_the_candidates_of_a_place(folders):
    arguments = ("--model", str(folders / "t5"), "--top", "2", "evaluation.device=cpu")
    done = courses_here("fill_span", "a <extra_id_0> b", *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(re.findall(r"^1  \d\.\d{4}  ", done.stdout, re.MULTILINE)) == 2


def test_impossible_texts_are_refused(folders):
    opened, folder = open_folder(folders / "bart", SETTINGS), folders / "bart"
    once = f"write <mask> once; {str(folder)!r} holds a model that fills one span"
    for text, message in {
        "a mill": f"TEXT: has no masked position: 'a mill'; {once}",
        "<mask> a [MASK]": f"TEXT: has 2 masked positions: '<mask> a [MASK]'; {once}",
        "q" * 150 + "<mask>": "TEXT: needs 168 positions with a span of 16 tokens, and the model has 160; give a "
        "shorter text",
    }.items():
        with pytest.raises(ConfigError) as error:
            filled_span(opened, folder, text, 2)
        assert str(error.value) == message
    with pytest.raises(ConfigError) as error:
        filled_span(opened, folder, "a <mask>", 100_000)
    assert str(error.value) == (
        "--top: is 100,000, and the search for a span keeps at most 1,024; give a smaller number"
    )
