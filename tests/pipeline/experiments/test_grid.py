"""The grid of a ladder: sizes, and what is refused before anything is trained."""

import pytest

from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.experiments.grid import Grid

OWN = ["experiment=smoke", "packing.row_tokens=64"]


def test_sizes_keep_the_shape_of_the_run():
    first, second, third, _ = Grid("64,128,128x3,llama_demo", tokens="5120").rungs(["packing.row_tokens=64"])
    sized = ["model.layers=4", "model.heads=2", "model.kv_heads=2", "model.mlp_width=256"]
    assert first.overrides == ("packing.row_tokens=64", "model.width=64", *sized, "optimizer.learning_rate=0.0006",
                               "training.steps=5", "until=weights")  # fmt: skip
    assert (first.compute.tokens, first.config.training.steps, str(first)) == (
        5120, 5, "size 64, 5,120 tokens, learning rate 0.0006"
    )  # fmt: skip
    assert third.compute.parameters < second.compute.parameters
    assert "model.layers=3" in third.overrides


REFUSED = {
    "--sizes: 'tall' is no WIDTH, no WIDTHxLAYERS and no option of model": (Grid("64,tall"), []),
    "--sizes: width 48 would have 1.5 heads; width 64 has 2; give multiples of 32, the width of a head": (
        Grid("48"), []
    ),
    "--sizes: 64 and 64x2 both have": (Grid("64,64x2"), []),
    "--rates: must be above 0 (got '0'); correct the value": (Grid(rates="1e-3,0"), []),
    "--tokens: two of 5120,5121 are the same number of updates of 512 tokens; give numbers further apart": (
        Grid(tokens="5120,5121"), []
    ),
    "training.validation_rows: is 0, and a ladder compares validation losses; give a value above 0": (
        Grid(), ["training.validation_rows=0"]
    ),
    "training.branch_from: is a@3, and a ladder trains from the first step; leave it out": (
        Grid(), ["training.branch_from=a@3"]
    ),
    "training.ramp_steps: is 9: the tokens of a step change while the batch grows; give 0, or training.steps"
    " instead of --tokens": (Grid(tokens="5120"), ["training.ramp_steps=9", "training.ramp_first_rows=4"]),
}  # fmt: skip


@pytest.mark.parametrize("wrong", REFUSED)
def test_what_is_no_grid_is_refused(wrong):
    grid, more = REFUSED[wrong]
    with pytest.raises(ConfigError) as error:
        grid.rungs([*OWN, *more])
    assert str(error.value).startswith(wrong)
