"""Trains on two real ranks with and without a padded vocabulary, and compares; see test_padding.py.

python -m tests.train.padding
"""

import torch

from headrace.train.distributed.processes import Ranks
from headrace.train.objectives.masked import Masked
from tests.train import updates
from tests.train.forks import on_ranks
from tests.train.objectives import two_terms
from tests.train.recomputation import learnt

MASKED = Masked()
T5_BATCH = two_terms.denoising_batch(two_terms.DENOISING, two_terms.denoising_vocabulary())
CASES = (
    (updates.SHAPES["gpt2-tied"], updates.CAUSAL, lambda: updates.batch(0), (0, 1, 2, 3)),
    (updates.SHAPES["llama-untied"], updates.CAUSAL, lambda: updates.batch(0), (1, 3)),
    (two_terms.ENCODER, MASKED, lambda: two_terms.encoder_batch(MASKED), (0,)),
    (two_terms.TWO_STACKS, two_terms.DENOISING, lambda: T5_BATCH, (2,)),
)


def compare(ranks: Ranks) -> None:
    for case in CASES:
        for stage in case[3]:
            expected, found = (learnt(case, stage, "none", ranks, pads) for pads in (False, True))
            assert [values.shape for values in found] == [values.shape for values in expected]
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


if __name__ == "__main__":
    on_ranks(2, compare)
