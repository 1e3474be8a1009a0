"""lm-evaluation-harness's tasks on our models: its own backend's results, from local files, in our table."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from headrace.data_prep.overlaps import Overlaps
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.benchmarks.language_modelling import DETOKENIZERS, LanguageModelling, articles
from headrace.train.evaluation.file_records import read_text
from headrace.train.evaluation.harness_files import RESULTS
from headrace.train.evaluation.prompt import PromptForm
from headrace.train.evaluation.scoring import score
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.transformers_model import open_folder
from headrace.train.scores import FolderScores, Scores
from tests.train.small_models import story

lm_eval = pytest.importorskip("lm_eval", reason="the optional extra 'evaluation' is not installed")
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.metrics import bits_per_byte, weighted_perplexity  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.tasks import TaskManager  # noqa: E402
from lm_eval.utils import make_table  # noqa: E402

from headrace.train.evaluation.harness import HeadraceLM  # noqa: E402

pytestmark = pytest.mark.slow

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
ALONE = TaskManager(include_defaults=False)
PIQA = Path(lm_eval.__file__).parent / "tasks" / "piqa" / "piqa.yaml"


@pytest.fixture(scope="module")
def folder(line):
    return line["weights"].path("hf/config.json").parent


@pytest.fixture(scope="module")
def models(folder):
    """Ours, and the harness's backend on the same folder."""
    return HeadraceLM(open_folder(folder, Evaluation(device="cpu")), PromptForm()), HFLM(
        pretrained=str(folder), dtype="float32", batch_size=4, device="cpu"
    )


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    """piqa.yaml as the harness ships it, over a local file."""
    root = tmp_path_factory.mktemp("task")
    lines = [story(number).split(" day ")[0:3] for number in range(12)]
    rows = [{"goal": goal, "sol1": one, "sol2": other, "label": len(one) % 2} for goal, one, other in lines]
    (root / "piqa.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = {"validation": str(root / "piqa.jsonl")}
    local = {"task": "piqa_local", "dataset_path": "json", "dataset_kwargs": {"data_files": files}}
    path = root / "piqa_local.yaml"
    # JSON is YAML
    path.write_text(json.dumps({"include": str(PIQA), "training_split": None, **local}))
    return path


def requests(kind: str, arguments: list[tuple]) -> list[Instance]:
    return [Instance(kind, {}, arguments=one, idx=0, metadata=("task", 0, 1)) for one in arguments]


def test_log_likelihoods_are_those_of_the_harness(models):
    ours, theirs = models
    texts = [(story(n)[: 20 + 40 * n], " " + story(n + 1)[: 5 + n]) for n in range(20)]
    texts += [("", "The old miller."), ("the old mill ", "er turns")]
    asked = requests("loglikelihood", texts)
    found, expected = ours.loglikelihood(asked), theirs.loglikelihood(asked, disable_tqdm=True)
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected], abs=1e-4)
    assert [greedy for _, greedy in found] == [greedy for _, greedy in expected]
    assert ours.tallies["task"].queries == 22
    assert ours.tallies["task"].truncated_contexts > 0


def test_wikitext_is_that_of_the_harness(models, folder, data_folder, tmp_path):
    """Articles, de-tokenizer, windows, words and metrics of its task; all but the model's part on the whole file."""
    spec = importlib.util.spec_from_file_location("wikitext", PIQA.parents[1] / "wikitext" / "preprocess_wikitext.py")
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    whole = read_text(data_folder("evaluation") / "wikitext2_valid.txt.zst")
    assert DETOKENIZERS["lm_eval_wikitext"](whole) == theirs.wikitext_detokenizer({"page": whole})
    path = tmp_path / "wiki.tokens"
    path.write_text(whole[:30_000])
    names = ("word_perplexity", "byte_perplexity", "bits_per_byte")
    own = {"documents": "article", "detokenizer": "lm_eval_wikitext", "words": "lm_eval"}
    benchmark = LanguageModelling(paths=(str(path),), scores=names, **own)
    subject = open_folder(folder, Evaluation(device="cpu"))
    sources = Sources(Path(), None, "0", tokenizer=subject.tokenizer, window_tokens=subject.window_tokens)
    found = score("wikitext", benchmark, sources, None, subject).scores.metrics
    pages = [{"page": page} for page in articles(whole[:30_000]) if page.strip()]
    assert len(pages) == 4
    asked = requests("loglikelihood_rolling", [(theirs.wikitext_detokenizer(page),) for page in pages])
    likelihoods = models[1].loglikelihood_rolling(asked, disable_tqdm=True)
    rows = [theirs.process_results(page, [one]) for page, one in zip(pages, likelihoods, strict=True)]
    for metric in found:
        sum_up = bits_per_byte if metric.name == "bits_per_byte" else weighted_perplexity
        assert metric.value == pytest.approx(sum_up([row[metric.name] for row in rows]), rel=1e-6)


def test_texts_are_those_of_the_harness(models):
    """Prompts of different lengths, one longer than the window; stops, and tasks with other settings in one call."""
    ours, theirs = models
    prompts = [story(n)[: 10 + 60 * n] for n in range(6)]
    asked = requests("generate_until", [(prompt, {"until": ["e", "On"], "max_gen_toks": 20}) for prompt in prompts])
    asked += requests("generate_until", [(prompt, {"until": "\n\n", "max_gen_toks": 9}) for prompt in prompts])
    found = ours.generate_until(asked)
    assert found == theirs.generate_until(asked, disable_tqdm=True)
    assert len(set(found)) > 3


def scores(run_stage, line, folder, task, **settings):
    evaluation = decode(Evaluation, {"tasks": [str(task)], "device": "cpu", **settings})
    overlaps = run_stage(Overlaps(ngram_words=13), line, folder / "overlaps")
    return run_stage(Scores(evaluation=evaluation), line | {"overlaps": overlaps}, folder / "scores")


def test_a_task_in_our_table_and_in_the_harness_s_format(line, run_stage, task, models, tmp_path):
    artifact = scores(run_stage, line, tmp_path, task, task_shots=1, benchmarks={"agreement": {"type": "agreement"}})
    report = json.loads(artifact.path("scores.json").read_text())
    agreement, piqa = report["benchmarks"]
    assert (piqa["name"], piqa["type"], piqa["shots"], piqa["items"], piqa["queries"]) == (
        "piqa_local", "lm_eval", 1, 12, 24
    )  # fmt: skip
    accuracy, normalized = piqa["metrics"]
    assert (accuracy["name"], normalized["name"], accuracy["items"]) == ("acc", "acc_norm", 12)
    rows = [json.loads(row) for row in artifact.path("samples/piqa_local.jsonl").read_text().splitlines()]
    assert [len(row["continuations"]) for row in rows] == [2] * 12
    assert sum(row["outcome"]["acc"] for row in rows) / 12 == pytest.approx(accuracy["value"])
    assert accuracy["standard_error"] > 0
    for row in rows:
        best = row["log_likelihoods"].index(max(row["log_likelihoods"]))
        assert row["outcome"]["acc"] == float(best == row["gold"])
        assert row["prompts"][0].count("\nAnswer:") == 2
    theirs = lm_eval.simple_evaluate(
        model=models[1], tasks=[str(task)], task_manager=ALONE, num_fewshot=1, bootstrap_iters=10
    )["results"]
    assert accuracy["value"] == theirs["piqa_local"]["acc,none"]
    assert normalized["value"] == theirs["piqa_local"]["acc_norm,none"]
    assert accuracy["standard_error"] == pytest.approx(theirs["piqa_local"]["acc_stderr,none"])
    written = json.loads(artifact.path(RESULTS).read_text())
    assert written["results"]["piqa_local"]["acc,none"] == accuracy["value"]
    assert written["group_subtasks"]["agreement"] == [f"agreement_{one['group']}" for one in agreement["metrics"][1:]]
    table = make_table(written)
    value = next(m["value"] for m in agreement["metrics"] if m["group"] == "attractor")
    (row,) = [cells for cells in (line.split("|") for line in table.splitlines()) if "agreement_attractor" in cells[1]]
    assert [cell.strip() for cell in row[3:8]] == ["none", "0", "acc", "↑", f"{value:.4f}"]


@pytest.mark.parametrize("examples", ["turns", "text"])
def test_tasks_with_a_chat_template_are_those_of_the_harness(folder, run_stage, task, examples, tmp_path):
    """Prompts and likelihoods of its own backend with --apply_chat_template, on the same folder."""
    copied = shutil.copytree(folder, tmp_path / "hf")
    config = json.loads((copied / "tokenizer_config.json").read_text())
    (copied / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": CHATML}))
    chat = {"template": "own", "examples": examples, "system": "The mill."}
    evaluation = decode(Evaluation, {"tasks": [str(task)], "task_shots": 1, "device": "cpu", "chat": chat})
    artifact = run_stage(FolderScores(evaluation=evaluation, folder=str(copied)), {}, tmp_path / "scores")
    rows = [json.loads(row) for row in artifact.path("samples/piqa_local.jsonl").read_text().splitlines()]
    theirs = lm_eval.simple_evaluate(
        model=HFLM(pretrained=str(copied), dtype="float32", batch_size=4, device="cpu"),
        tasks=[str(task)],
        task_manager=ALONE,
        num_fewshot=1,
        bootstrap_iters=0,
        apply_chat_template=True,
        fewshot_as_multiturn=examples == "turns",
        system_instruction="The mill.",
    )
    samples = sorted(theirs["samples"]["piqa_local"], key=lambda sample: sample["doc_id"])
    for row, sample in zip(rows, samples, strict=True):
        assert [(row["prompts"][0], text) for text in row["continuations"]] == sample["arguments"]
        assert row["prompts"][0].count("<|im_start|>") == {"turns": 5, "text": 3}[examples]
        assert row["log_likelihoods"] == pytest.approx([answer[0] for (answer,) in sample["resps"]], abs=1e-4)


def test_without_the_harness(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ConfigError) as caught:
        Evaluation(tasks=("piqa",)).raw_files()
    assert str(caught.value) == "evaluation.tasks: lm_eval is not installed; pip install 'headrace[evaluation]'"
