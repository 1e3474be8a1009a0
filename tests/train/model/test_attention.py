"""The mask by hand, and FlexAttention against PyTorch's own attention (on a CPU it has no gradients)."""

import pytest
import torch
from torch.nn.attention.flex_attention import create_mask

from headrace.train.model.attention import attend, block_mask, document_mask


def documents(positions: int, starts: list[list[int]], padding: int) -> torch.Tensor:
    """Rows whose documents begin at ``starts``, the last ``padding`` positions of each left over."""
    rows = torch.zeros(len(starts), positions, dtype=torch.long)
    for row, places in zip(rows, starts, strict=True):
        for place in places:
            row[place:] += 1
    rows[:, positions - padding :] = -1
    return rows


def test_the_mask_by_hand():
    expected = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]]
    assert document_mask(torch.tensor([[0, 0, 1, 1, -1]]))[0, 0].int().tolist() == expected


@pytest.mark.slow
@torch.no_grad()
def test_flex_attention_is_attention_and_is_not_compiled_again_for_other_documents():
    layouts = [
        documents(256, [[100], [3, 130, 200]], padding=7),
        documents(256, [[], [1]], padding=0),
        documents(256, [[50, 51, 52], [255]], padding=1),
    ]
    for number, layout in enumerate(layouts):
        generator = torch.Generator().manual_seed(number)
        q_BNTD, k_BGTD, v_BGTD = (torch.randn(2, heads, 256, 16, generator=generator) for heads in (4, 2, 2))
        expected = attend(q_BNTD, k_BGTD, v_BGTD, document_mask(layout), 0.0)
        with torch.compiler.set_stance("fail_on_recompile" if number else "default"):
            found = attend(q_BNTD, k_BGTD, v_BGTD, block_mask(layout), 0.0)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


@torch.compiler.set_stance("force_eager")
def test_both_masks_let_the_same_pairs_through():
    layout = documents(256, [[100], [3, 130, 200]], padding=7)
    found = create_mask(block_mask(layout).mask_mod, 2, 1, 256, 256, device="cpu")
    assert torch.equal(found, document_mask(layout))


@torch.compiler.set_stance("force_eager")
def test_blocks_that_hold_no_visible_pair_are_skipped():
    computed = block_mask(documents(512, [[256]], padding=0)).to_dense()[0, 0]
    assert computed.int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]
