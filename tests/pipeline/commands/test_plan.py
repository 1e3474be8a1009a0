"""``headrace plan`` without any data, and its options."""

import json
import re
from pathlib import Path

import pytest

from headrace.pipeline.commands import plan
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.run import costs
from headrace.pipeline.run.costs import Hardware
from headrace.train.families.registry import family_of
from tests.command_line import headrace_here

OVERRIDES = ["source=warc", "model=gpt3_125m", "tokenizer.vocabulary_size=50257", "training=gpu"]


def show_cost(config: RunConfig, hardware: Hardware) -> None:
    plan.show_cost(config, hardware, config.vocabulary)


@pytest.mark.parametrize(
    ("overrides", "shape", "parameters"),
    [
        (["model=gpt2_xl"], "48 layers, width 1,600, 25 heads, context 1,024", "1,557,611,200"),
        (["model=bert_large", "objective=masked"], "24 layers, width 1,024, 16 heads, context 512", "335,174,458"),
        (
            ["model=t5_11b", "objective=span_corruption"],
            "24 layers + 24 of the encoder, width 1,024, 128 heads, context 512",
            "11,307,321,344",
        ),
        (["model=gpt2_small", "tokenizer.vocabulary_size=8192"], "12 layers, width 768, 12 heads, context 1,024", None),
    ],
)
def test_a_published_model_is_planned_with_its_own_vocabulary(overrides, shape, parameters) -> None:
    """The numbers of its authors; a tokenizer that is named has its own vocabulary."""
    config = decoded(compose(overrides))
    vocabulary = costs.vocabulary_of(config, overrides)
    facts = dict(costs.compute_facts(config, vocabulary, Hardware()))
    assert facts["model"] == shape
    assert facts["parameters"].startswith(parameters or f"{config.model.parameters(config.vocabulary):,} ")
    assert (vocabulary == config.vocabulary) == (parameters is None)


def test_it_needs_no_data() -> None:
    done = headrace_here("plan", "--gpus", "8", "--gpu=H200", "--gpu-memory-gb", "141", *OVERRIDES)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "parameters        125,226,240  with a vocabulary of 50,257" in lines
    assert "update            983,040 tokens in 480 rows of 2,048" in lines
    assert any(re.match(r"time +\S+ days on 8 x H200 \(989 TFLOP/s\) at 40% MFU", line) for line in lines)
    table = {line[:20].strip(): line[20:].split() for line in lines}
    assert table["master weights"][0] == "0.000"
    assert float(table["optimizer states"][0]) == pytest.approx(8 * 0.125226240, abs=0.001)
    assert float(table["optimizer states"][1]) == pytest.approx(0.125226240, abs=0.001)
    assert any(line.startswith("rows that fit in 141 GB") for line in lines)


def test_windows_cost_fewer_operations_and_impossible_ones_are_refused() -> None:
    banded = ["model=gpt3_125m_banded", *(each for each in OVERRIDES if "model" not in each)]
    dense, every_second = (
        dict(costs.compute_facts(decoded(compose(overrides)), 50257, Hardware()))["FLOP"]
        for overrides in (OVERRIDES, banded)
    )
    assert dense != every_second
    done = headrace_here("plan", "model.attention_pattern=[full,window]", *OVERRIDES)
    assert done.returncode == 2
    wrong = "model: attention_pattern [full, window] needs a window, and window is null"
    assert f"{wrong}; correct the model's settings" in done.stderr


def test_more_gpus_take_less_time_and_the_same_operations() -> None:
    config = decoded(compose(OVERRIDES))
    one, eight = (dict(costs.compute_facts(config, 50257, Hardware.of(gpus, "", "0.5", ""))) for gpus in ("1", "8"))
    assert one["FLOP"] == eight["FLOP"]
    days = [float(facts["time"].split()[0].replace(",", "")) for facts in (one, eight)]
    assert days[0] / days[1] == pytest.approx(8, rel=0.01)


def test_what_does_not_fit_comes_with_a_remedy(capsys) -> None:
    small = decoded(compose([*OVERRIDES, "training.recompute=full"]))
    show_cost(small, Hardware(memory_gb=3.0))
    lines = capsys.readouterr().out.splitlines()
    assert "recomputation     the forward pass of the layers runs twice; FLOP and MFU count it once" in lines
    assert re.fullmatch(
        r"\d\.\d GB do not fit in 3 GB: give training.micro_batch_rows=\d+, or more or larger GPUs", lines[-1]
    )
    show_cost(small, Hardware())
    assert "do not fit" not in capsys.readouterr().out


def test_states_in_cpu_memory_are_a_row_of_their_own(capsys) -> None:
    """125,226,240 parameters on two ranks in bf16: 18 bytes of each at stage 1, and 12 in a checkpoint."""
    show_cost(decoded(compose([*OVERRIDES, "zero.offload=optimizer"])), Hardware(gpus=2))
    out = capsys.readouterr().out
    assert re.search(r"^cpu +0\.000 +1\.\d{3} ", out, re.M)
    assert "CPU memory: 1.2 GB for each rank, and 0.8 GB from the first checkpoint on" in out.replace("\n", " ")
    show_cost(decoded(compose(OVERRIDES)), Hardware(gpus=2))
    assert "cpu " not in capsys.readouterr().out.lower()


@pytest.mark.parametrize(
    ("precision", "line"),
    [
        (
            "fp32",
            "0.5 GB more of memory on each rank, for a copy of the weights in fp32; evaluation.precision=bf16 halves",
        ),
        ("bf16", "0.3 GB more of memory on each rank, for a copy of the weights in bf16"),
    ],
)
def test_the_copy_that_is_scored_while_training_is_named(capsys, precision, line) -> None:
    overrides = [*OVERRIDES, "evaluation=demo", f"evaluation.precision={precision}"]
    show_cost(decoded(compose([*overrides, "training.evaluate_every=100"])), Hardware())
    assert f"Evaluation while training: {line}" in capsys.readouterr().out.replace("\n", " ")
    show_cost(decoded(compose(overrides)), Hardware())
    assert "while training" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("0", "", "", ""), "--gpus: must be at least 1 (got '0'); correct the value"),
        (("", "H10", "", ""), "--gpu: unknown GPU 'H10'; did you mean 'H100'?"),
        (("", "", "40", ""), "--mfu: must be at most 1 (got '40'); correct the value"),
        (("", "", "", "nan"), "--gpu-memory-gb: must be a finite number (got 'nan'); correct the value"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(words: tuple[str, str, str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        Hardware.of(*words)
    assert str(error.value) == message


def test_ranks_must_share_a_batch_equally(capsys) -> None:
    with pytest.raises(ConfigError, match=r"^training.batch_rows: 480 rows cannot be dealt to 7 ranks"):
        show_cost(decoded(compose(OVERRIDES)), Hardware(gpus=7))
    assert not capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "gpus"),
    [
        (("cluster=slurm", "cluster.nodes=2", "cluster.ranks_per_node=4"), 8),
        (("ranks=2",), 2),
        (("--gpus", "4", "ranks=2"), 4),
    ],
)
def test_the_gpus_are_those_of_the_configuration(words: tuple[str, ...], gpus: int) -> None:
    done = headrace_here("plan", *OVERRIDES, *words)
    assert f" days on {gpus} x H100 " in done.stdout


def test_a_teacher_costs_its_weights_and_a_forward_pass(tmp_path: Path) -> None:
    """A teacher of the student's own shape: a third of the student's operations, which has backward passes, too."""
    teacher = ["experiment=demo", "training.precision=bf16", f"distillation.teacher={tmp_path}"]
    config = decoded(compose(teacher))
    facts = dict(costs.compute_facts(config, config.vocabulary, Hardware()))
    assert facts["teacher"] == f"not counted: {tmp_path} has no config.json"
    (tmp_path / "config.json").write_text(
        json.dumps(family_of(config.model).to_hf_config(config.model) | {"vocab_size": config.vocabulary})
    )
    facts = dict(costs.compute_facts(config, config.vocabulary, Hardware()))
    parameters = config.model.parameters(config.vocabulary)
    assert facts["teacher"] == (
        f"{parameters:,} parameters: {2 * parameters / 1e9:,.3g} GB more on each rank in bf16, "
        f"and {float(facts['FLOP']) / 3:.3g} FLOP more"
    )


def test_a_chip_without_bf16_is_named() -> None:
    config = decoded(compose(OVERRIDES))
    assert "training.precision=fp16" in dict(costs.compute_facts(config, 50257, Hardware(gpu="V100")))["precision"]
    assert "precision" not in dict(costs.compute_facts(config, 50257, Hardware(gpu="TPUv3")))
