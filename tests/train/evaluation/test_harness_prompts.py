"""Prompts and gold answers of the standard benchmarks equal lm-evaluation-harness's byte for byte, on real files."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmark_files import read_records
from headrace.train.evaluation.benchmarks.base import Sources
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.queries import Written

pytest.importorskip("lm_eval", reason="the optional extra 'evaluation' is not installed")
from lm_eval.api.instance import Instance

from benchmarks.evaluation import harness_tasks

ROOT = Path(__file__).parents[3]
STANDARD = yaml.safe_load((ROOT / "conf/evaluation/standard.yaml").read_text())["benchmarks"]
LIMIT = 40
"""Items whose prompts are compared. Worked examples are drawn from the whole file."""


def requests(task, limit: int) -> list[tuple]:
    """(context, continuation) of each request, and the number of the right choice, item by item."""
    found = []
    for _, document in task.doc_iterator(limit=limit):
        context = task.fewshot_context(document, num_fewshot=task.config.num_fewshot or 0)
        made = task.construct_requests(document, context, metadata=("", 0, 1))
        made = made if isinstance(made, list) else [made]
        found.append(([one.arguments for one in made], gold(task, document)))
    return found


def gold(task, document) -> int:
    if task.OUTPUT_TYPE in ("loglikelihood", "generate_until"):
        return 0
    answer = task.doc_to_text(document) if task.multiple_input else task.doc_to_target(document)
    return answer if isinstance(answer, int) else task.doc_to_choice(document).index(answer)


@pytest.mark.parametrize("shots", [0, 1, 5])
@pytest.mark.parametrize("name", ["triviaqa", "gsm8k"])
def test_what_is_written_is_asked_and_judged_as_by_the_harness(data_folder, name, shots):
    """Prompts, stops, and the metrics of texts that are right, nearly right and wrong."""
    data = data_folder("evaluation")
    settings = STANDARD[name] | {"shots": shots, "limit": 200}
    benchmark = decode(Evaluation, {"benchmarks": {name: settings}, "data": str(data)}).benchmarks[name]
    items = benchmark.items(Sources(data, None, "0"))
    lines = [record.values for path in benchmark.paths for record in read_records(data / path)]
    (task,) = harness_tasks.tasks(name, lines, shots).values()
    asked = [(query.context, list(query.stops)) for item in items for query in item.queries]
    theirs = [arguments for ((arguments,), _) in requests(task, 200)]
    assert asked == [(context, settings["until"]) for context, settings in theirs]
    seen = Counter()
    for number, (item, document) in enumerate(zip(items, task.eval_docs, strict=False)):
        text = written(item.choices, items[number - 1].choices, number)
        found = benchmark.outcome(item, [Written(text, 1)])
        instance = Instance("generate_until", document, ("", {}), 0, resps=[text])
        for ensemble in task._filters:
            ensemble.apply([instance])
            result = task.process_results(document, [instance.filtered_resps[ensemble.name]])
            assert found[f"exact_match ({ensemble.name})"] == result["exact_match"], text
            seen[ensemble.name, result["exact_match"]] += 1
    assert min(seen.values()) > 20
    assert len(seen) == 2 * len(task._filters)


def written(right: Sequence[str], wrong: Sequence[str], number: int) -> str:
    """Texts as models write them."""
    forms = (
        " {}", " {}\n", "{}!", " the {}", " {} or so", " So 3 + 4 = 7\n#### {}", "#### {}.", "#### ${}",
        "It is $3,000.", " #### -{} #### 7", " Answer: {} dollars.", "", "...", " {} eggs, {} in all",
        "#### {}\n\nIt is $5",
    )  # fmt: skip
    answers = right if number % 3 else wrong
    answer = answers[number % len(answers)]
    return forms[number % len(forms)].format(*2 * [answer.upper() if number % 2 else answer])


@pytest.mark.parametrize("shots", [0, 1, 5])
@pytest.mark.parametrize(
    "name", ["lambada", "piqa", "arc_easy", "openbook_qa", "copa", "boolq", "winogrande", "winograd", "arithmetic"]
)
def test_prompts_equal_the_harness(data_folder, name, shots):
    data = data_folder("evaluation")
    settings = STANDARD[name] | {"shots": shots, "limit": None}
    if name == "arithmetic":
        settings["limit_per_group"] = LIMIT
    benchmark = decode(Evaluation, {"benchmarks": {name: settings}, "data": str(data)}).benchmarks[name]
    items = benchmark.items(Sources(data, None, "0"))
    lines = [record.values for path in benchmark.paths for record in read_records(data / path)]
    tasks = harness_tasks.tasks(name, lines, shots)
    assert tasks
    for group, task in tasks.items():
        ours = [item for item in items if item.group == group][:LIMIT]
        assert [([(q.context, q.continuation) for q in item.queries], item.gold) for item in ours] == requests(
            task, LIMIT
        )


def test_blimp_requests_equal_the_harness(data_folder):
    data = data_folder("evaluation")
    benchmark = decode(Evaluation, {"benchmarks": {"blimp": STANDARD["blimp"] | {"limit": 50}}}).benchmarks["blimp"]
    items = benchmark.items(Sources(data, None, "0"))
    lines = [record.values for record in read_records(data / benchmark.paths[0])[:50]]
    (task,) = harness_tasks.tasks("blimp", lines, 0).values()
    assert [([(q.context, q.continuation) for q in item.queries], 0) for item in items] == requests(task, 50)
    assert json.dumps(task.config.num_fewshot) == "0"
