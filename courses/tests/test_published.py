"""The table of published trainings: our count beside what was published."""

import json

import pytest

from courses.tests.command_line import courses_here
from headrace.pipeline.run.costs import Hardware
from headrace.train.cost.flops import petaflop_days
from headrace_courses.published import HEAD, ComputeRow, compute_rows
from headrace_courses.published_trainings import D1, PUBLISHED_TRAININGS

ROWS = {(row.training.model, row.training.source): row for row in compute_rows()}


def row_of(model: str) -> ComputeRow:
    return next(row for (name, _), row in ROWS.items() if name == model)


@pytest.mark.parametrize(
    "row", [row for row in ROWS.values() if row.training.flops_source == D1], ids=lambda row: row.training.model
)
def test_6nd_is_that_of_gpt3s_table(row: ComputeRow) -> None:
    """BERT-large has 355 million parameters there, and 335 here."""
    assert row.parameter_flops == pytest.approx(
        row.training.flops, rel=0.06 if "large" in row.training.model else 0.006
    )


def test_both_numbers_of_gpt3_are_there() -> None:
    gpt3 = row_of("gpt3_175b")
    assert f"{gpt3.parameter_flops:.3g}" == "3.14e+23"
    assert f"{petaflop_days(gpt3.parameter_flops):,.0f}" == "3,638"
    assert f"{gpt3.flops:.3g}" == "3.23e+23"


def test_palm_counts_attention_as_we_do() -> None:
    palm = row_of("PaLM 540B")
    assert f"{palm.parameter_flops:.1e}" == "2.5e+24"
    assert f"{palm.flops:.2e}" == f"{palm.training.flops:.2e}" == "2.56e+24"


@pytest.mark.parametrize(
    ("model", "tolerance"),
    [("Chinchilla 70B", 0.03), ("llama3_405b", 0.01), ("t5_small", 0.07), ("t5_11b", 0.15), ("electra_small", 0.01)],
)
def test_other_counts_are_near(model: str, tolerance: float) -> None:
    row = row_of(model)
    assert row.parameter_flops == pytest.approx(row.training.flops, rel=tolerance)


def test_published_hours_are_a_utilization_that_can_be() -> None:
    """Between a fifth and three fifths of the peak: a slip of a digit in tokens or hours would leave this."""
    shares = {row.training.model: row.mfu for row in ROWS.values() if row.mfu is not None}
    assert len(shares) >= 20
    assert {model: share for model, share in shares.items() if not 0.19 < share < 0.6} == {}
    assert f"{shares['llama_65b']:.0%}" == "50%"


def test_tokens_that_nobody_states_have_no_cost() -> None:
    cells = row_of("gpt2_xl").cells(Hardware())
    assert cells[1:] == ["1,557,611,200", *["–"] * 6, "Radford et al. 2019 state no length"]


def test_every_row_names_its_sources() -> None:
    for training in PUBLISHED_TRAININGS:
        assert training.source
        assert bool(training.flops) == bool(training.flops_source)
        assert bool(training.gpu_hours) == bool(training.gpu) == bool(training.gpu_source)


def test_hours_follow_from_the_hardware() -> None:
    row = row_of("llama_7b")
    hardware = Hardware.of("", "A100", "0.5", "")
    cells = dict(zip([*HEAD, "hours", "published", "sources"], row.cells(hardware), strict=True))
    hours = row.flops / (312e12 * 0.5 * 3600)
    assert cells["hours"] == f"{hours:,.0f}"


def test_the_command_prints_and_writes_the_table(tmp_path) -> None:
    json_file = tmp_path / "compute.json"
    done = courses_here("published", "--gpu=TPUv4", "--mfu=0.46", f"--json={json_file}")
    assert done.returncode == 0, done.stderr
    head = done.stdout.splitlines()[0]
    assert "hours, TPUv4 at 46% MFU | published" in head
    assert "| PaLM 540B | 540,350,000,000 | 7.8e+11 | 2.53e+24 | 2.56e+24 |" in done.stdout
    rows = json.loads(json_file.read_text())
    assert len(rows) == len(PUBLISHED_TRAININGS)
