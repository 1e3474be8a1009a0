"""The ends of spans token by token, and an export that drops the head that only trains."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import BertForMaskedLM

from headrace.pipeline.core.errors import ConfigError
from headrace.train.families.hf_folder import export
from headrace.train.loop.training_only import exported
from headrace.train.model.span_boundaries import PLACES, boundaries
from headrace.train.objectives.masked import Masked
from tests.train.objectives.two_terms import ENCODER, SPANS, with_boundary_head


def test_the_ends_of_a_span_are_the_next_tokens_that_are_not_masked():
    generator = np.random.default_rng(0)
    rows, columns = 40, 90
    at, targets = np.zeros((rows, columns), np.int64), np.full((rows, columns), -100)
    for row in range(rows):
        masked = 1 + np.flatnonzero(generator.random(100) < generator.choice([0.1, 0.5, 0.97]))[:columns]
        at[row, : len(masked)], targets[row, : len(masked)] = masked, 7
    found = boundaries(torch.from_numpy(at), torch.from_numpy(targets))
    for row, slot in np.ndindex(rows, columns):
        hidden = set(at[row][targets[row] >= 0].tolist())
        position = left = right = int(at[row, slot])
        while left in hidden:
            left -= 1
        while right in hidden:
            right += 1
        expected = [left, right, min(position - left - 1, PLACES - 1)] if targets[row, slot] >= 0 else [0, 0, 0]
        assert [int(part[row, slot]) for part in found] == expected


def test_an_export_to_bert_has_no_head_for_spans_and_says_so(tmp_path):
    model = with_boundary_head(ENCODER)
    tokenizer = tmp_path / "tokenizer.json"
    special = ("[PAD]", "[UNK]", *SPANS.special_tokens())
    pieces = {piece: number for number, piece in enumerate((*special, *(f"word{number}" for number in range(56))))}
    made = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    made.add_special_tokens(list(special))
    made.save(str(tokenizer))
    said: list[str] = []
    weights = list(exported(model.named_parameters(), said.append))
    assert said == ["weights: the export leaves out boundary_head, which training alone needs"]
    assert {name for name, _ in model.named_parameters()} - {name for name, _ in weights} == {
        f"boundary_head.{name}" for name, _ in model.boundary_head.named_parameters()
    }
    export(
        dict(weights | {}).items() if isinstance(weights, dict) else weights, ENCODER, 61, tokenizer, tmp_path / "hf"
    )
    bert, loading = BertForMaskedLM.from_pretrained(tmp_path / "hf", output_loading_info=True)
    assert not loading["missing_keys"]
    assert not loading["unexpected_keys"]
    tokens = torch.arange(8)[None]
    ours = with_boundary_head(ENCODER).eval()
    logits = ours(tokens, tokens, torch.zeros_like(tokens))
    torch.testing.assert_close(bert.eval()(tokens).logits, logits, rtol=0, atol=1e-5)


@pytest.mark.parametrize("settings", [{"unit": "word"}, {"unit": "span", "pairs": "next_sentence"}])
def test_other_units_and_pairs_are_refused(settings):
    with pytest.raises(ConfigError, match=r"^objective.span_boundary: is true, and the unit is .*; give"):
        Masked(span_boundary=True, **settings)
