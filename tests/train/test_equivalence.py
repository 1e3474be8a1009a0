"""The engine compared with plain PyTorch and with Hugging Face: DeepSpeed must not change what is learnt."""

import dataclasses
import functools
import itertools
from pathlib import Path

import pytest
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from tests.train import plain, updates
from tests.train.equivalence import CLIP, TOLERANCES, WORLDS, Distance, distance, launch, matrix
from tests.train.updates import TOKENS, VOCABULARY, Case, Curve

pytestmark = pytest.mark.usefixtures("one_thread_in_torch")
COVERING = {
    1: [
        Case("gpt2-tied", 0, 1, "fp32", None),
        Case("llama-untied", 1, 1, "fp32", None),
        Case("llama-untied", 2, 1, "fp32", None),
        Case("llama-untied", 3, 4, "bf16", CLIP),
    ],
    2: [
        Case("llama-untied", 0, 4, "fp32", None),
        Case("gpt2-tied", 1, 4, "fp32", CLIP),
        Case("gpt2-tied", 1, 4, "bf16", CLIP),
        Case("llama-untied", 2, 4, "bf16", None),
        Case("gpt2-tied", 3, 1, "fp32", CLIP),
    ],
    4: [
        Case("llama-untied", 0, 4, "fp32", CLIP),
        Case("llama-untied", 1, 1, "bf16", None),
        Case("gpt2-tied", 2, 1, "bf16", CLIP),
        Case("gpt2-tied", 3, 1, "bf16", None),
    ],
}
"""Any two values of two axes meet in one of these; benchmarks/train/equivalence.py runs all of the matrix."""


def of_other_optimizers(*axes: tuple[str, int, int, str, float | None]) -> list[Case]:
    return [Case(*each, steps=3, optimizer=kind) for kind in ("stable_adamw", "muon", "adafactor") for each in axes]


OTHER_OPTIMIZERS = {
    1: of_other_optimizers(("gpt2-tied", 1, 1, "fp32", CLIP)),
    2: of_other_optimizers(("llama-untied", 1, 4, "fp32", None), ("gpt2-tied", 3, 1, "fp32", CLIP)),
}
OTHER_STAGES = {2: of_other_optimizers(("gpt2-tied", 0, 1, "fp32", None), ("llama-untied", 2, 1, "fp32", CLIP))}
OFFLOADED = {
    1: [Case("llama-untied", 1, 4, "bf16", CLIP, steps=3, offload="optimizer")],
    2: [
        Case("gpt2-tied", 1, 4, "fp32", CLIP, steps=3, offload="optimizer"),
        Case("llama-untied", 2, 4, "fp32", None, steps=3, offload="optimizer"),
        Case("gpt2-tied", 3, 4, "fp32", CLIP, steps=3, offload="optimizer"),
    ],
}
OVERLAPPING = [dataclasses.replace(case, overlap=True) for case in COVERING[2] if case.stage in (1, 2)]
OTHER_PARTS = Case("gemma2", 3, 4, "fp32", CLIP)
OTHER_MIXERS = [
    Case(mixer, stage, accumulation, "fp32", CLIP, steps=3)
    for mixer in ("lstm", "rnn", "window_mlp")
    for stage, accumulation in ((0, 4), (1, 1), (2, 4), (3, 1))
]
FAMILIES = ("gpt2", "llama")
FOREIGN_TOLERANCE = 1e-4
"""Nats: the two compute attention, norms and rotations in another order."""

Learnt = dict[tuple[int, Case], Curve]
expected = functools.cache(plain.learn)


def _id(value: int | Case) -> str:
    return value.name if isinstance(value, Case) else f"{value}-ranks"


def plain_case(case: Case) -> Case:
    """Returns the case for plain PyTorch: the same for all stages and accumulations."""
    return dataclasses.replace(case, stage=0, accumulation=1)


def write_foreign(family: str, folder: Path) -> None:
    """A model with random weights as ``transformers`` saves it, made for one token more than a row has."""
    torch.manual_seed(3)
    context = TOKENS + 1
    if family == "gpt2":
        sizes = {"n_positions": context, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64}
        off = dict.fromkeys(("embd_pdrop", "attn_pdrop", "resid_pdrop"), 0.0)
        model = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, **sizes, **off))
    else:
        sizes = {"max_position_embeddings": context, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48}
        heads = {"num_attention_heads": 4, "num_key_value_heads": 2}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, tie_word_embeddings=False, **sizes, **heads))
    model.save_pretrained(folder)


def foreign_case(folder: Path) -> Case:
    return Case(str(folder), 2, 4, "fp32", None, epsilon=1e-8, steps=20)


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> dict[str, Path]:
    """The folder of a Hugging Face model of each family."""
    folders = {family: tmp_path_factory.mktemp("foreign") / family for family in FAMILIES}
    for family, folder in folders.items():
        write_foreign(family, folder)
    return folders


@pytest.fixture(scope="module")
def learnt(tmp_path_factory, foreign) -> Learnt:
    """Returns the engine's curves in the covering cases, and from the Hugging Face models on two ranks."""
    cases = {
        world: each + OTHER_OPTIMIZERS.get(world, []) + OFFLOADED.get(world, []) for world, each in COVERING.items()
    }
    cases[2] += [*OVERLAPPING, *(foreign_case(folder) for folder in foreign.values())]
    return launch(tmp_path_factory.mktemp("learnt"), cases)


@pytest.mark.parametrize(
    ("world", "case"),
    [
        (world, case)
        for cases in (COVERING, OTHER_OPTIMIZERS, OFFLOADED)
        for world, each in cases.items()
        for case in each
    ],
    ids=_id,
)
def test_the_engine_learns_what_plain_pytorch_learns(world, case, learnt):
    found, plainly = learnt[world, case], expected(plain_case(case))
    assert all(torch.equal(values, plainly.first[name]) for name, values in found.first.items())
    apart = distance(found, plainly)
    assert not apart.exceeded(TOLERANCES[case.precision]), apart


@pytest.mark.parametrize("case", OVERLAPPING, ids=_id)
def test_sending_during_the_backward_pass_changes_no_bit(case, learnt):
    found, alone = learnt[2, case], learnt[2, dataclasses.replace(case, overlap=False)]
    assert (found.losses, found.norms) == (alone.losses, alone.norms)
    assert all(torch.equal(values, alone.weights[name]) for name, values in found.weights.items())


@pytest.mark.slow
def test_other_optimizers_learn_at_stages_0_and_2_what_plain_pytorch_learns(tmp_path):
    for (_, case), found in launch(tmp_path, OTHER_STAGES).items():
        apart = distance(found, expected(plain_case(case)))
        assert not apart.exceeded(TOLERANCES["fp32"]), (case, apart)


def test_the_engine_learns_parts_of_later_decoders_as_plain_pytorch_does(tmp_path):
    """Windows, caps, normalized queries and keys, four norms a block: with divided parameters."""
    found = launch(tmp_path, {1: [OTHER_PARTS]})[1, OTHER_PARTS]
    apart = distance(found, expected(plain_case(OTHER_PARTS)))
    assert not apart.exceeded(TOLERANCES["fp32"]), apart


def test_the_engine_learns_models_without_attention_as_plain_pytorch_does(tmp_path):
    """On two ranks at each stage, and Muon for the matrices of gates."""
    muon = dataclasses.replace(OTHER_MIXERS[0], stage=1, optimizer="muon")
    for (_, case), found in launch(tmp_path, {2: [*OTHER_MIXERS, muon]}).items():
        apart = distance(found, expected(plain_case(case)))
        assert not apart.exceeded(TOLERANCES["fp32"]), (case, apart)


def test_any_two_values_of_the_matrix_meet_in_a_case_that_is_run():
    axes = ("world", "shape", "stage", "accumulation", "precision", "gradient_clip")

    def meetings(world: int, case: Case) -> set:
        values = [(name, {"world": world, **vars(case)}[name]) for name in axes]
        return set(itertools.combinations(values, 2))

    possible = set().union(*(meetings(world, case) for world in WORLDS for case in matrix()))
    run = set().union(*(meetings(world, case) for world, each in COVERING.items() for case in each))
    assert run == possible


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("fault", plain.FAULTS)
def test_a_planted_fault_shows_in_loss_norm_and_weights(fault, precision, learnt):
    wrong = plain.learn(dealt(precision), world=2, factor=plain.FAULTS[fault])
    assert exceeded(learnt, precision, wrong) == {"loss", "norm", "weights"}


@pytest.mark.parametrize(("factor", "shown"), [(1.0, set()), (0.5, {"norm"})])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_norm_alone_shows_what_clipping_hides(precision, factor, shown, learnt):
    scaled = plain.learn(dealt(precision), world=2, factor=lambda part: factor)
    assert exceeded(learnt, precision, scaled) == shown


def dealt(precision: str) -> Case:
    return Case("gpt2-tied", 1, 4, precision, CLIP)


def exceeded(learnt: Learnt, precision: str, wrong: Curve) -> set[str]:
    """Returns the differences between the engine on two ranks, with four micro-batches, and ``wrong``."""
    return distance(learnt[2, dealt(precision)], wrong).exceeded(TOLERANCES[precision])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_loss_curve_is_that_of_transformers(family, learnt, foreign):
    case = foreign_case(foreign[family])
    theirs = plain.learn_foreign(foreign[family], case.steps, case.epsilon)
    torch.testing.assert_close(learnt[2, case].losses, theirs, rtol=0, atol=FOREIGN_TOLERANCE)
    assert theirs[-1] < theirs[0] - 0.1


def test_the_batches_are_what_makes_it_hard():
    """Micro-batches and ranks differ in their number of targets, one has none, and clipping changes every step."""
    targets = (updates.batch(0)["targets"] >= 0).sum(1)
    assert len(targets.unique()) > 8
    assert targets[updates.EMPTY_ROW] == 0
    for parts in (2, 4, 16):
        assert len({int(part.sum()) for part in targets.chunk(parts)}) > 1
    for precision, tolerance in TOLERANCES.items():
        clipped, free = (expected(Case("gpt2-tied", 0, 1, precision, clip)) for clip in (CLIP, None))
        assert min(norm or 0.0 for norm in clipped.norms) > CLIP
        assert distance(clipped, free).exceeded(tolerance) == {"loss", "norm", "weights"}


def test_a_distance_that_is_no_number_is_too_far():
    assert Distance(float("nan"), 0, 2).exceeded(Distance(1, 1, 1)) == {"loss", "weights"}
