"""Mixtures: valid settings, refused settings, and rows that are those of their sources."""

import dataclasses
import math
import shutil
from pathlib import Path

import pytest

from headrace.data_prep.packed import Packed, Packing
from headrace.data_prep.tokenization.made_tokenizers import Trained
from headrace.data_prep.tokenizer import Tokenizer
from headrace.data_prep.tokens import Tokens
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.metrics_file import read_metrics
from headrace.pipeline.core.settings import decode, digest
from headrace.pipeline.core.stage import Inputs
from headrace.train.config import ModelConfig
from headrace.train.data.apportionment import Sizing, Stretch, rounded, whole_numbers
from headrace.train.data.mixture import Mix, Mixture, parts_of_order, training_data
from headrace.train.data.rows import Rows
from headrace.train.weights import Weights
from tests.train.causal_rows import causal, plain_loss
from tests.unique_documents import unique_documents

SENTENCE = "the mill stands by water that turns its wheel and grinds all grain we bring until night falls "
ROW_TOKENS = 64


@dataclasses.dataclass(frozen=True)
class Runs:
    """Three runs below roots of their own: the first and the second share a tokenizer that has bytes alone."""

    own: Inputs
    wiki: Inputs
    other_tokenizer: Inputs


def small_run(run_stage, root: Path, lengths: list[int], vocabulary: int = 257) -> Inputs:
    """The artifacts of a run below ``root``: one document for each of ``lengths``, in characters."""
    texts = [(SENTENCE * (1 + length // len(SENTENCE)))[:length] for length in lengths]
    found = {"unique": unique_documents(root / "unique" / "0a", [texts[::2], texts[1::2]])}
    stages = (
        Tokenizer(settings=Trained(vocabulary_size=vocabulary)),
        Tokens(),
        Packed(packing=Packing(row_tokens=ROW_TOKENS, validation_fraction=0.2)),
    )
    for stage in stages:
        inputs = {name: found[name] for name in stage.inputs}
        found[stage.name] = run_stage(stage, inputs, root / stage.name / f"{len(lengths)}{len(stage.name)}")
    return found


@pytest.fixture(scope="module")
def runs(run_stage, tmp_path_factory) -> Runs:
    root = tmp_path_factory.mktemp("runs")
    return Runs(
        own=small_run(run_stage, root / "own", [150 + n for n in range(40)]),
        wiki=small_run(run_stage, root / "wiki", [90 + n for n in range(14)]),
        other_tokenizer=small_run(run_stage, root / "other", [200] * 9, vocabulary=260),
    )


def mixture(runs: Runs, weights=(3, 1), **more) -> Mixture:
    sources = [
        {"name": "crawl", "weight": weights[0]},
        {"name": "wiki", "weight": weights[1], "packed": str(runs.wiki["packed"].folder)},
    ]
    return decode(Mixture, {"sources": sources, **more})


def test_weights_are_taken_as_they_are_typed():
    assert whole_numbers({"a": 60, "b": 22, "c": 8, "d": 8, "e": 3}) == (60, 22, 8, 8, 3)
    assert whole_numbers({"a": 0.6, "b": 0.2, "c": 0.2}) == (3, 1, 1)
    assert whole_numbers({"a": 0.1, "b": 0.2, "c": 0.0}) == (1, 2, 0)
    assert whole_numbers({"a": 2e11, "b": 6e11}) == (1, 3)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ((0, 0), "the weights are {'crawl': 0.0, 'wiki': 0.0}; give one of them more than 0"),
        (
            (0.33333, 0.66667),
            "the weights {'crawl': 0.33333, 'wiki': 0.66667} only come out even after 100,000 rows; "
            "round them so that it is 10,000 or less, like {'crawl': 333, 'wiki': 667}",
        ),
    ],
)
def test_weights_that_are_none_are_refused(runs, weights, message):
    with pytest.raises(ConfigError) as error:
        mixture(runs, weights)
    assert str(error.value) == f"mixture.sources: {message}"


OWN, OTHER = {"name": "a", "weight": 1}, {"name": "b", "weight": 1, "packed": "runs/packed/b8e44e9d7440"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"sources": [OTHER]},
            "mixture.sources: 0 of them are this run's own rows (packed: null); name it once, with weight 0 if need be",
        ),
        (
            {"sources": [OWN, OWN | {"name": "c"}]},
            "mixture.sources: 2 of them are this run's own rows (packed: null); name it once, with weight 0 if need be",
        ),
        (
            {"sources": [OWN, OTHER | {"name": "a"}]},
            "mixture.sources: 'a' is no name of its own; give letters and digits, each name once",
        ),
        (
            {"sources": [OWN, OTHER | {"name": "b c"}]},
            "mixture.sources: 'b c' is no name of its own; give letters and digits, each name once",
        ),
        (
            {"curriculum": [{"from_tokens": 5, "weights": {}}]},
            "mixture.curriculum: changes the weights of no source; name mixture.sources",
        ),
        (
            {"sources": [OWN, OTHER], "curriculum": [{"from_tokens": 5, "weights": {"b": 1, "c": 2}}]},
            "mixture.curriculum: weights from 5 tokens on are those of ['b', 'c']; give a weight to each of ['a', 'b']",
        ),
        (
            {"sources": [OWN], "curriculum": [{"from_tokens": n, "weights": {"a": 1}} for n in (7, 7)]},
            "mixture.curriculum: from_tokens are [7, 7]; give rising numbers above 0",
        ),
    ],
)
def test_what_is_no_mixture_is_refused(values, message):
    with pytest.raises(ConfigError) as error:
        decode(Mixture, values)
    assert str(error.value) == message


def test_weights_change_at_the_first_end_of_a_cycle(runs):
    """Cycles of 4 rows, then of 3; 1,000 and 1,900 tokens are rows 16 and 30: the second change waits for row 31."""
    changes = [
        {"from_tokens": 1_000, "weights": {"wiki": 2, "crawl": 1}},
        {"from_tokens": 1_900, "weights": {"wiki": 0, "crawl": 5}},
    ]
    mix = Mix.of(mixture(runs, curriculum=changes), ROW_TOKENS)
    assert mix.stretches == (Stretch(0, (3, 1)), Stretch(16, (1, 2)), Stretch(31, (1, 0)))


def test_a_change_that_a_cycle_outlasts_leaves_no_row_to_its_weights(runs):
    changes = [{"from_tokens": n * ROW_TOKENS, "weights": {"wiki": n, "crawl": 1}} for n in (1, 2)]
    mix = Mix.of(mixture(runs, curriculum=changes), ROW_TOKENS)
    assert mix.stretches == (Stretch(0, (3, 1)), Stretch(4, (1, 1)), Stretch(4, (1, 2)))


def test_nothing_is_mixed_by_default():
    assert Mix.of(Mixture(), ROW_TOKENS) == Mix()


def test_a_source_is_what_it_holds_not_where_it_lies(runs, tmp_path):
    here = Mix.of(mixture(runs), ROW_TOKENS)
    shutil.copytree(runs.wiki["packed"].folder.parents[1], tmp_path / "moved")
    folder = tmp_path / "moved" / "packed" / runs.wiki["packed"].folder.name
    sources = (mixture(runs).sources[0], dataclasses.replace(mixture(runs).sources[1], packed=str(folder)))
    there = Mix.of(Mixture(sources=sources), ROW_TOKENS)
    assert there != here
    assert digest(there) == digest(here)
    assert digest(Mix.of(mixture(runs, (6, 2)), ROW_TOKENS)) == digest(here)
    assert digest(Mix.of(mixture(runs, (1, 3)), ROW_TOKENS)) != digest(here)
    (tmp_path / "moved/packed" / folder.name).rename(tmp_path / "moved/packed/ffff")
    sources = (sources[0], dataclasses.replace(sources[1], packed=str(folder.with_name("ffff"))))
    assert digest(Mix.of(Mixture(sources=sources), ROW_TOKENS)) != digest(here)


def test_what_cannot_be_a_source_is_refused(runs, tmp_path):
    def refusal(kind, packed: Path, row_tokens: int = ROW_TOKENS, also: tuple = ()) -> str:
        sources = [OWN, *({"name": name, "weight": 1, "packed": str(at)} for name, at in [("b", packed), *also])]
        with pytest.raises(kind) as error:
            Mix.of(decode(Mixture, {"sources": sources}), row_tokens)
        return str(error.value)

    remedy = "give the folder of another run's artifact, like runs/packed/b8e44e9d7440"
    for folder in (runs.wiki["tokens"].folder, tmp_path):
        wrong = f"mixture.sources: {str(folder)!r} is no finished artifact of stage packed"
        assert refusal(ConfigError, folder) == f"{wrong}; {remedy}"
    wiki = runs.wiki["packed"].folder
    assert refusal(ConfigError, wiki, 128) == (
        f"mixture.sources: rows of {str(wiki)!r} have 64 tokens, this run's 128; pack both with the same "
        "packing.row_tokens"
    )
    other = runs.other_tokenizer["packed"].folder
    assert refusal(ConfigError, wiki, also=(("c", other),)) == (
        f"mixture.sources: the tokenizer of 'c' ({runs.other_tokenizer['tokenizer'].folder}) is not that of 'b' "
        f"({runs.wiki['tokenizer'].folder}); make all with one tokenizer: tokenizer=file "
        "tokenizer.path=…/tokenizer.json"
    )
    shutil.copytree(wiki, tmp_path / "packed" / wiki.name)
    tokens = tmp_path / "tokens" / runs.wiki["tokens"].folder.name
    assert refusal(ArtifactError, tmp_path / "packed" / wiki.name) == (
        f"mixture.sources: {tmp_path / 'packed' / wiki.name} was made from {tokens}, which is not there; "
        "keep what a source was made from below the same root"
    )


def test_a_source_of_another_tokenizer_than_this_run_is_refused(runs):
    sources = [OWN, {"name": "b", "weight": 1, "packed": str(runs.other_tokenizer["packed"].folder)}]
    mix = Mix.of(decode(Mixture, {"sources": sources}), ROW_TOKENS)
    with pytest.raises(ConfigError) as error:
        training_data(0, runs.own, mix)
    assert str(error.value).startswith(
        f"mixture.sources: the tokenizer of 'b' ({runs.other_tokenizer['tokenizer'].folder}) is not that of this run "
        f"({runs.own['tokenizer'].folder}); "
    )


def test_rows_are_those_of_their_sources(runs):
    rows, order = training_data(3, runs.own, Mix.of(mixture(runs), ROW_TOKENS))
    sources = [Rows(run["packed"], run["tokens"], "train") for run in (runs.own, runs.wiki)]
    assert len(rows) == order.rows == sum(map(len, sources))
    numbers = order.batch(5, 40)
    batch = causal(rows, numbers)
    found = [rows.source(row) for row in numbers.tolist()]
    assert {source for source, _ in found} == {0, 1}
    for b, (source, row) in enumerate(found):
        alone = causal(sources[source], [row])
        for name, array in vars(alone).items():
            assert (getattr(batch, name)[b] == array[0]).all(), name


def test_what_decides_the_order_is_named(runs):
    """Each thing that differs, and the hash of all."""
    mix = Mix.of(mixture(runs), ROW_TOKENS)
    parts = parts_of_order(3, runs.own, mix)
    inputs = {name: runs.own[name] for name in ("tokenizer", "tokens", "packed")}
    assert parts_of_order(3, inputs, Mix()).keys() == {
        "tokenizer", "tokens", "packed", "training.seed", "mixture", "order",
    }  # fmt: skip

    def changed(**others) -> set[str]:
        values = {"seed": 3, "inputs": runs.own, "mix": mix} | others
        found = parts_of_order(**values)
        return {name for name in parts.keys() | found.keys() if parts.get(name) != found.get(name)}

    assert changed() == set()
    assert changed(seed=4) == {"training.seed", "order"}
    assert changed(mix=Mix.of(mixture(runs, (1, 1)), ROW_TOKENS)) == {"mixture", "order"}
    assert changed(mix=Mix()) == {"mixture", "order", "packed of wiki", "tokens of wiki"}
    packed = Artifact(runs.own["packed"].folder)
    packed.manifest["counts"] = {}
    assert changed(inputs=runs.own | {"packed": packed}) == {"packed", "order"}


def test_a_model_is_trained_on_a_mixture_and_says_how_often_it_saw_each(runs, run_stage, tmp_path):
    stage = decode(
        Weights,
        {
            "model": dataclasses.asdict(
                ModelConfig(layers=1, width=16, heads=2, kv_heads=2, context=ROW_TOKENS, mlp_width=16)
            ),
            "optimizer": {"type": "adamw", "learning_rate": 1e-2},
            "schedule": {"type": "constant", "warmup_steps": 1},
            "training": {"steps": 4, "batch_rows": 8, "precision": "fp32", "device": "cpu", "save_every": 2},
            "tracking": {"wandb": "off"},
        },
    )
    stage = dataclasses.replace(stage, mixture=Mix.of(mixture(runs), ROW_TOKENS))
    inputs = {name: runs.own[name] for name in stage.inputs}
    run_stage(stage, inputs, tmp_path)
    rows = read_metrics(tmp_path / "metrics.jsonl")
    own, wiki = (len(Rows(run["packed"], run["tokens"], "train")) for run in (runs.own, runs.wiki))
    assert [(row["epoch:crawl"], row["epoch:wiki"]) for row in rows] == [
        (6 * step / own, 2 * step / wiki) for step in (1, 2, 3, 4)
    ]
    assert "epoch" not in rows[-1]
    validated = dataclasses.replace(stage, training=dataclasses.replace(stage.training, source_rows=3))
    artifact = run_stage(validated, inputs, tmp_path / "validated")
    metrics = read_metrics(artifact.path("metrics.jsonl"))
    assert [row["loss"] for row in metrics] == [row["loss"] for row in rows]
    held_out = {name: Rows(run["packed"], run["tokens"], "validation") for name, run in vars(runs).items()}
    losses = {
        f"source_loss:{name}": plain_loss(artifact, held_out[run], range(min(3, len(held_out[run]))))
        for name, run in (("crawl", "own"), ("wiki", "wiki"))
    }
    assert {name: metrics[-1][name] for name in losses} == pytest.approx(losses, abs=1e-5)
    assert not losses.keys() & rows[-1].keys()
    other = dataclasses.replace(stage, mixture=Mix.of(mixture(runs, (1, 1)), ROW_TOKENS))
    with pytest.raises(ArtifactError, match=r"^weights: the checkpoint of step 4 .* other data: mixture changed;"):
        run_stage(other, inputs, tmp_path)


PILE = {
    "pile_cc": (227.12, 1), "pubmed_central": (90.27, 2), "books3": (100.96, 1.5), "openwebtext2": (62.77, 2),
    "arxiv": (56.21, 2), "github": (95.16, 1), "freelaw": (51.15, 1.5), "stackexchange": (32.20, 2),
    "uspto": (22.90, 2), "pubmed_abstracts": (19.26, 2), "gutenberg": (10.88, 2.5), "opensubtitles": (12.98, 1.5),
    "wikipedia": (6.38, 3), "dm_mathematics": (7.75, 2), "ubuntu_irc": (5.52, 2), "bookcorpus2": (6.30, 1.5),
    "europarl": (4.59, 2), "hackernews": (3.90, 2), "youtube_subtitles": (3.73, 2), "philpapers": (2.38, 2),
    "nih_exporter": (1.89, 2), "enron_emails": (0.88, 2),
}  # fmt: skip
"""GiB and epochs of each part (Gao et al. 2020, table 1)."""


def test_the_weights_of_the_pile_are_the_sizes_of_its_parts_times_their_epochs():
    weights = {source["name"]: source["weight"] for source in option_values("mixture", "pile")["sources"]}
    total = sum(size * epochs for size, epochs in PILE.values())
    assert list(weights) == list(PILE)
    assert weights == {name: pytest.approx(100 * a * b / total, abs=0.006) for name, (a, b) in PILE.items()}
    assert sum(whole_numbers(weights)) == 10_000


def test_wikipedia_and_books_are_mixed_by_berts_words():
    weights = {source["name"]: source["weight"] for source in option_values("mixture", "wikipedia_books")["sources"]}
    assert weights["wikipedia"] / weights["books"] == 2_500 / 800  # million words


@pytest.mark.parametrize(("exponent", "limit"), [(1.0, None), (1.0, 1000), (0.5, None), (0.7, None), (0.3, 700)])
def test_shares_follow_the_rows_by_the_formula(exponent, limit):
    rows = [500, 2000, 2500]
    sizing = Sizing(exponent, limit, ((1.0, 1.0, 1.0), (2.0, 0.0, 1.0)), (0, 7))
    powers = [math.exp(exponent * math.log(min(number, limit or number))) for number in rows]
    assert sizing.shares((1.0, 1.0, 1.0), rows) == pytest.approx([power / sum(powers) for power in powers], rel=1e-12)
    first, second = sizing.stretches(rows)
    cycle = sum(first.weights)
    assert 10_000 % cycle == 0
    exact = [10_000 * power / sum(powers) for power in powers]
    assert [weight * 10_000 / cycle for weight in first.weights] == pytest.approx(exact, abs=1)
    assert second.first_row % cycle == 0
    assert 7 <= second.first_row < 7 + cycle
    assert second.weights[0] / second.weights[2] == pytest.approx(2 * powers[0] / powers[2], rel=2e-3)
    assert second.weights[1] == 0


def test_a_tiny_share_is_one_row_of_a_cycle():
    assert rounded([1e-9, 1 - 1e-9, 0.0]) == (1, 9999, 0)
    assert rounded([0.25, 0.75]) == (1, 3)
    shares = [1 / 3] * 3
    assert sorted(rounded(shares)) == [3333, 3333, 3334]


def test_a_mixture_by_exponent_reads_its_shares_of_the_rows(runs):
    mix = Mix.of(mixture(runs, (1, 1), exponent=0.5), ROW_TOKENS)
    assert mix.stretches == ()
    _, order = training_data(0, runs.own, mix)
    own, wiki = (len(Rows(inputs["packed"], inputs["tokens"], "train")) for inputs in (runs.own, runs.wiki))
    given = order.given(10_000)
    assert given.sum() == 10_000
    assert given[1] == pytest.approx(10_000 * wiki**0.5 / (own**0.5 + wiki**0.5), abs=1)
    limited = Mix.of(mixture(runs, (1, 1), exponent=1.0, limit_rows=1), ROW_TOKENS)
    assert training_data(0, runs.own, limited)[1].stretches == (Stretch(0, (1, 1)),)
    assert len({digest(each) for each in (mix, limited, Mix.of(mixture(runs, (1, 1)), ROW_TOKENS))}) == 3


def test_a_rule_of_rows_without_sources_or_exponent_is_refused(runs):
    with pytest.raises(ConfigError, match=r"^mixture.limit_rows: is 9, and no weight depends on rows; give mixture"):
        mixture(runs, limit_rows=9)
    with pytest.raises(ConfigError, match=r"^mixture.exponent: is 0.7, and there is no source; name mixture.sources"):
        Mixture(exponent=0.7)
