"""A training with dropout drops where the class of ``transformers`` does: loss and gradient with fixed masks."""

import dataclasses

import pytest
import torch
import transformers
from torch.nn import functional

from headrace.train.data.batches import EncoderTokens
from headrace.train.families.hf_folder import export
from headrace.train.model.dropout import Dropping, row_keys
from headrace.train.model.execution import give_row_keys
from tests.train.families.test_encoder_decoders import SHAPES as TWO_STACKS
from tests.train.families.test_encoders import SHAPES as ENCODERS
from tests.train.families.test_encoders import trained
from tests.train.model.test_transformer import GPT1, GPT2, GPT_NEOX, VOCABULARY, random_model

T5_PLACES, BART_PLACES = ("feed_forward", "last"), ("feed_forward",)
CASES = {
    "gpt1": (GPT1, transformers.AutoModelForCausalLM, ()),
    "gpt2": (GPT2, transformers.AutoModelForCausalLM, ()),
    "gpt_neox": (GPT_NEOX, transformers.AutoModelForCausalLM, ()),
    "bert": (ENCODERS["bert"], transformers.AutoModelForMaskedLM, ()),
    "roberta": (ENCODERS["roberta"], transformers.AutoModelForMaskedLM, ()),
    "t5": (TWO_STACKS["v1.0"], transformers.AutoModelForSeq2SeqLM, T5_PLACES),
    "t5_v1_1": (TWO_STACKS["v1.1"], transformers.AutoModelForSeq2SeqLM, T5_PLACES),
    "umt5": (TWO_STACKS["umt5"], transformers.AutoModelForSeq2SeqLM, T5_PLACES),
    "bart": (TWO_STACKS["bart"], transformers.AutoModelForSeq2SeqLM, ()),
    "bart-feed_forward": (TWO_STACKS["bart"], transformers.AutoModelForSeq2SeqLM, BART_PLACES),
}
GENERATOR = torch.Generator().manual_seed(4)
TOKENS, SOURCE, TARGETS = (torch.randint(2, VOCABULARY, (2, length), generator=GENERATOR) for length in (20, 23, 20))


def fixed_drop(drop: Dropping, x: torch.Tensor, place: int) -> torch.Tensor:
    return fixed_dropout(x, drop.probability)


def fixed_dropout(x: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """Dropout whose mask is a function of the shape of ``x`` alone."""
    if not training or not p:
        return x
    kept = torch.rand(x.shape, generator=torch.Generator().manual_seed(x.numel())) >= p
    return x * kept / (1 - p)


@pytest.fixture
def _fixed_masks(monkeypatch):
    monkeypatch.setattr(functional, "dropout", fixed_dropout)
    monkeypatch.setattr(Dropping, "of", fixed_drop)


@pytest.mark.usefixtures("_fixed_masks")
@pytest.mark.parametrize("name", CASES)
def test_dropout_is_where_that_of_transformers_is(name, tmp_path):
    shape, hf_class, places = CASES[name]
    config = dataclasses.replace(shape, dropout=0.2, dropout_places=places)
    tokenizer_file = trained(tmp_path, "roberta" if name == "roberta" else "gpt")
    ours = random_model(config).train()
    give_row_keys(ours, row_keys(0, range(len(TOKENS)), torch.device("cpu")))
    export(ours.named_parameters(), config, VOCABULARY, tokenizer_file, tmp_path / "hf")
    theirs = hf_class.from_pretrained(tmp_path / "hf", attn_implementation="eager").train()
    positions, source_positions = (torch.arange(one.shape[1]).expand_as(one) for one in (TOKENS, SOURCE))
    rows, their_rows = (TOKENS, positions, torch.zeros_like(TOKENS)), {"input_ids": TOKENS}
    source = None
    if config.stack == "encoder_decoder":
        source = EncoderTokens(SOURCE, source_positions, torch.zeros_like(SOURCE))
        their_rows = {"input_ids": SOURCE, "decoder_input_ids": TOKENS}
    loss = ours(*rows, TARGETS, source=source) / TARGETS.numel()
    their_logits = theirs(**their_rows).logits
    expected = functional.cross_entropy(their_logits.flatten(0, 1), TARGETS.flatten())
    torch.testing.assert_close(loss, expected, rtol=0, atol=1e-4)
    loss.backward()
    expected.backward()
    norms = [
        torch.nn.utils.get_total_norm([one.grad for one in model.parameters() if one.grad is not None])
        for model in (ours, theirs)
    ]
    torch.testing.assert_close(*norms, rtol=1e-4, atol=0)
