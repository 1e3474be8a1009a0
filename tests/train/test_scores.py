"""The stage scores: from a run's artifacts, and from real benchmark files, to a table."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml

from headrace.data_prep.decontamination.config import Decontamination
from headrace.data_prep.overlaps import Overlaps
from headrace.pipeline.core.artifact import Artifact
from headrace.pipeline.core.errors import ArtifactError
from headrace.pipeline.core.settings import decode
from headrace.train.data.batches import IGNORED
from headrace.train.data.rows import Rows
from headrace.train.evaluation.settings import Evaluation
from headrace.train.families.hf_folder import load
from headrace.train.scores import Scores
from tests.train.causal_rows import causal
from tests.train.small_models import line, one_thread, story, write_lines

__all__ = ["line", "one_thread", "write_lines"]

CONF = Path(__file__).parents[2] / "conf" / "evaluation"


def evaluation(name: str, **values) -> Evaluation:
    return decode(Evaluation, yaml.safe_load((CONF / f"{name}.yaml").read_text()) | values)


@pytest.fixture(scope="module")
def demo(line, run_stage, tmp_path_factory):
    return run_stage(Scores(evaluation=evaluation("demo")), line, tmp_path_factory.mktemp("demo"))


def entries(artifact) -> dict[str, dict]:
    report = json.loads(artifact.path("scores.json").read_text())
    return {entry["name"]: entry for entry in report["benchmarks"]}


def metric(entry, name: str) -> dict:
    return next(metric for metric in entry["metrics"] if metric["name"] == name and not metric["group"])


def samples(artifact, name: str) -> list[dict]:
    return [json.loads(row) for row in artifact.path(f"samples/{name}.jsonl").read_text().splitlines()]


def test_a_damaged_config_of_the_model_is_named(line, run_stage, tmp_path):
    """A digit of config.json is another one: the weights would fit, and the scores would be wrong."""
    copy = tmp_path / "weights"
    shutil.copytree(line["weights"].folder, copy)
    config = copy / "hf/config.json"
    config.write_text(config.read_text().replace('"n_head": 2', '"n_head": 4'))
    with pytest.raises(ArtifactError) as error:
        run_stage(Scores(evaluation=evaluation("demo")), {**line, "weights": Artifact(copy)}, tmp_path / "scores")
    assert str(error.value) == f"{config}: is damaged or missing; remove {copy} and run again"


def test_the_demo_scores_everything_without_a_file(demo, line):
    found = entries(demo)
    held_out = ["held_out_order", "held_out_sentences", "held_out_words"]
    assert list(found) == ["agreement", "continuations", *held_out, "validation"]
    assert found["agreement"]["items"] == 104
    assert found["continuations"]["items"] == 6
    assert all(entry["items"] > 20 for name, entry in found.items() if name != "continuations")
    assert demo.counts["benchmarks"] == 6
    assert demo.counts["items"] == sum(entry["items"] for entry in found.values())
    validation = found["validation"]
    assert validation["tokens"] == line["packed"].counts["validation_tokens"]
    assert validation["truncated_contexts"] == validation["split_continuations"] == 0


def test_the_validation_loss_is_the_one_of_the_packed_rows(demo, line):
    """Summed independently over the rows as training reads them, every row at once."""
    torch = pytest.importorskip("torch")
    rows = Rows(line["packed"], line["tokens"], "validation")
    batch = causal(rows, range(len(rows)))
    model = load(line["weights"].path("hf/config.json").parent)
    with torch.no_grad():
        arrays = (torch.from_numpy(a) for a in (batch.inputs, batch.positions, batch.documents))
        logits = model(*arrays)
        nats = torch.nn.functional.cross_entropy(
            logits.double().flatten(0, 1), torch.from_numpy(batch.targets).flatten(), ignore_index=IGNORED
        ).item()
    validation = entries(demo)["validation"]
    assert metric(validation, "loss")["value"] == pytest.approx(nats, abs=1e-5)
    assert metric(validation, "perplexity")["value"] == pytest.approx(math.exp(nats), rel=1e-5)
    counts = line["packed"].counts
    bits = nats * counts["validation_tokens"] / math.log(2) / counts["validation_text_bytes"]
    assert metric(validation, "bits_per_byte")["value"] == pytest.approx(bits, abs=1e-5)


def test_samples_explain_the_scores(demo):
    found = entries(demo)
    for name in ("agreement", "held_out_sentences", "held_out_words"):
        rows = samples(demo, name)
        assert len(rows) == found[name]["items"]
        right = sum(row["outcome"]["acc"] for row in rows) / len(rows)
        assert metric(found[name], "acc")["value"] == pytest.approx(right)
    for row in samples(demo, "held_out_sentences"):
        assert len(row["prompts"]) == 1
        assert len(row["continuations"]) == len(row["log_likelihoods"]) == 4
        assert row["outcome"]["acc"] == float(np.argmax(row["log_likelihoods"]) == row["gold"])
    words = samples(demo, "held_out_words")
    assert all(row["outcome"]["log_likelihood"] == row["log_likelihoods"][0] < 0 for row in words)


def test_the_table_shows_every_benchmark(demo):
    table = demo.path("scores.md").read_text()
    for name in entries(demo):
        assert f"| {name} | 0 | " in table
    assert "| agreement / attractor | 0 | acc | " in table


def test_twice_the_same_bytes(demo, line, run_stage, tmp_path):
    again = run_stage(Scores(evaluation=evaluation("demo", device="cpu")), line, tmp_path, twice=True)
    assert again.manifest["files"] == demo.manifest["files"]
    assert again.manifest["counts"] == demo.manifest["counts"]


STORY = story(7)
STRANGE = (
    "Yesterday seven green parrots sang an opera for two hundred astonished tax inspectors who wept until Thursday"
)


@pytest.fixture(scope="module")
def split(line, run_stage, tmp_path_factory, write_lines):
    """Scores of a quiz, of its passages as lines of a text, and of two articles.

    Two of the quiz's passages are in the documents, three are not, and one is too short for an n-gram. Each article
    holds a passage from the documents, which is most of only one of them."""
    quiz = [
        STORY[:150].rpartition(" ")[0],
        STRANGE,
        "Too few words",
        STRANGE[10:],
        STORY[200:330].strip(),
        STRANGE[20:],
    ]
    path = write_lines("quiz.jsonl", *(json.dumps({"text": text}) for text in quiz))
    pairs = [("he runs", "he run", "a"), (STORY[:150], "x" + STORY[:150], "a"), (STRANGE, STRANGE + " s", "b")]
    rows = [{"sentence_good": good, "sentence_bad": bad, "UID": group} for good, bad, group in pairs]
    pairs_path = write_lines("pairs.jsonl", *map(json.dumps, rows))
    text_path = write_lines("text.txt", *quiz)
    articles = [" = Known = ", STORY, STRANGE, " = Quoted = ", STORY[:150], *(f"{STRANGE} {n}" for n in range(9))]
    articles_path = write_lines("articles.txt", *articles)
    settings = {
        "lines": {"type": "language_modelling", "paths": [str(text_path)], "documents": "line"},
        "articles": {"type": "language_modelling", "paths": [str(articles_path)], "documents": "article"},
        "text": {"type": "language_modelling", "paths": [str(text_path)]},
        "quiz": {"type": "lambada", "paths": [str(path)]},
        "quiz_2shot": {"type": "lambada", "paths": [str(path)], "shots": 2, "limit": 3},
        "pairs": {"type": "minimal_pairs", "paths": [str(pairs_path)]},
        "validation": {"type": "validation"},
    }
    decoded = decode(Evaluation, {"benchmarks": settings})
    folder = tmp_path_factory.mktemp("split")
    overlaps = run_stage(Overlaps.of(Decontamination(), decoded.texts()), line, folder / "overlaps")
    return run_stage(Scores(evaluation=decoded), line | {"overlaps": overlaps}, folder / "scores")


def test_scores_are_split_into_clean_and_dirty(split):
    found = entries(split)
    assert found["quiz"]["overlap"] == {"clean": 3, "dirty": 2, "too_short": 1}
    rows = samples(split, "quiz")
    parts = ["dirty", "clean", "too_short", "clean", "dirty", "clean"]
    assert [row["overlap"] for row in rows] == parts
    for name, key in (("acc", "acc"), ("perplexity", "log_likelihood")):
        whole = metric(found["quiz"], name)
        for part in ("clean", "dirty"):
            values = [row["outcome"][key] for row, one in zip(rows, parts, strict=True) if one == part]
            mean = sum(values) / len(values)
            expected = mean if name == "acc" else math.exp(-mean)
            assert whole[part]["value"] == pytest.approx(expected, rel=1e-4)
            assert whole[part]["items"] == len(values)
        assert whole["items"] == 6
    assert metric(found["quiz"], "perplexity")["clean"] != metric(found["quiz"], "perplexity")["dirty"]


def test_raw_text_is_split_by_lines_and_articles(split):
    """Each part's perplexity is per word, and per token, of the part."""
    found, parts = entries(split), ["dirty", "clean", "too_short", "clean", "dirty", "clean"]
    assert [row["overlap"] for row in samples(split, "lines")] == parts
    assert [row["overlap"] for row in samples(split, "articles")] == ["dirty", "clean"]
    for name in ("lines", "articles"):
        rows = samples(split, name)
        for part in ("clean", "dirty"):
            outcomes = [row["outcome"] for row in rows if row["overlap"] == part]
            for unit in ("words", "tokens"):
                nats, units = (sum(outcome[key] for outcome in outcomes) for key in ("nats", unit))
                value = metric(found[name], f"{unit[:-1]}_perplexity")[part]["value"]
                assert value == pytest.approx(math.exp(nats / units), rel=1e-4)
    assert found["articles"]["overlap"] == {"clean": 1, "dirty": 1, "too_short": 0}


def test_other_shots_are_split_by_the_same_texts(split):
    assert entries(split)["quiz_2shot"]["overlap"] == {"clean": 1, "dirty": 1, "too_short": 1}


def test_groups_are_split_and_parts_without_items_are_absent(split):
    pairs = entries(split)["pairs"]
    assert pairs["overlap"] == {"clean": 1, "dirty": 1, "too_short": 1}
    by_group = {one["group"]: one for one in pairs["metrics"]}
    assert by_group.keys() == {"", "a", "b"}
    assert by_group["a"]["clean"] is by_group["b"]["dirty"] is None
    assert by_group["a"]["dirty"]["items"] == by_group["b"]["clean"]["items"] == 1
    assert by_group[""]["clean"]["items"] == by_group[""]["dirty"]["items"] == 1


def test_what_was_not_searched_for_is_not_split(split, demo):
    for artifact, name in ((split, "validation"), (split, "text"), (demo, "agreement"), (demo, "held_out_words")):
        entry = entries(artifact)[name]
        assert entry["overlap"] is None
        assert all(one["clean"] is one["dirty"] is None for one in entry["metrics"])
    assert {row["overlap"] for row in samples(split, "validation")} == {None}


def test_the_table_shows_clean_and_dirty(split):
    table = split.path("scores.md").read_text()
    quiz = entries(split)["quiz"]
    accuracy, perplexity = metric(quiz, "acc"), metric(quiz, "perplexity")
    row = next(line for line in table.splitlines() if line.startswith("| quiz | 0 | acc | "))
    assert row.endswith(
        f" | 6 | {100 * accuracy['clean']['value']:.2f} % (3) | {100 * accuracy['dirty']['value']:.2f} % (2) |"
    )
    assert f"({perplexity['clean']['items']}) | " in table
    assert "quiz: 1 items have too few words to be called clean or dirty." in table


def test_batch_tokens_change_no_score(demo, line, run_stage, tmp_path):
    small = entries(run_stage(Scores(evaluation=evaluation("demo", batch_tokens=400)), line, tmp_path))
    for name, entry in entries(demo).items():
        assert {key: value for key, value in entry.items() if key != "metrics"} == {
            key: value for key, value in small[name].items() if key != "metrics"
        }
        for ours, theirs in zip(entry["metrics"], small[name]["metrics"], strict=True):
            assert ours["value"] == pytest.approx(theirs["value"], rel=1e-5)


@pytest.mark.slow
def test_standard_benchmarks_on_real_files(line, run_stage, data_folder, tmp_path):
    data = data_folder("evaluation")
    settings = yaml.safe_load((CONF / "standard.yaml").read_text()) | {"data": str(data)}
    for name, benchmark in settings["benchmarks"].items():
        benchmark["limit"] = {"triviaqa": 8, "gsm8k": 8, "blimp": 68}.get(name, 50)  # two pairs of each paradigm
    del settings["benchmarks"]["arithmetic"]["limit_per_group"]
    stage = Scores(evaluation=decode(Evaluation, settings))
    names = sorted(path.name for path in data.glob("*") if path.name in str(settings))
    assert sorted({file.name for file in stage.raw_files()}) == names
    assert len(names) == 12
    artifact = run_stage(stage, line, tmp_path)
    found = entries(artifact)
    assert set(found) == set(settings["benchmarks"])
    chance = {"piqa": 0.5, "piqa_5shot": 0.5, "arc_easy": 0.25, "copa": 0.5, "openbook_qa": 0.25, "blimp": 0.5}
    for name, random in (chance | {"boolq": 0.5, "winogrande": 0.5, "winograd": 0.5}).items():
        accuracy = metric(found[name], "acc")
        assert found[name]["items"] == accuracy["items"] == settings["benchmarks"][name]["limit"]
        assert accuracy["random"] == pytest.approx(random, abs=0.02)
        low, high = accuracy["interval"]
        assert 0 < low < accuracy["value"] < high < 1
    assert metric(found["lambada"], "acc")["value"] == metric(found["arithmetic"], "acc")["value"] == 0
    assert metric(found["lambada"], "perplexity")["value"] > 100
    for name, metrics in (("triviaqa", 3), ("gsm8k", 2)):
        assert [(m["items"], m["random"]) for m in found[name]["metrics"]] == metrics * [(8, 0.0)]
        assert any(row["written"] != [""] for row in samples(artifact, name))
    assert found["piqa_5shot"]["shots"] == 5
    assert found["piqa_5shot"]["truncated_contexts"] == found["piqa_5shot"]["queries"] == 100
    prompts = [row["prompts"][0] for row in samples(artifact, "piqa_5shot")]
    assert all(prompt.count("Answer:") == 6 and prompt.endswith("\nAnswer:") for prompt in prompts)


def test_every_line_of_the_real_files_is_an_item(data_folder):
    settings = evaluation("standard", data=str(data_folder("evaluation")))
    expected = {"lambada": 5153, "piqa": 1838, "arc_easy": 2376, "copa": 100, "openbook_qa": 500, "blimp": 34_000}
    expected |= {"boolq": 3270, "winogrande": 1267, "winograd": 273, "arithmetic": 26_000}
    expected |= {"triviaqa": 3000, "gsm8k": 1319}
    for name, number in expected.items():
        assert len(settings.benchmarks[name].read(Path(settings.data))) == number
