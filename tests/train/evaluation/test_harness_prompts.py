"""Prompts and gold answers of the standard benchmarks equal lm-evaluation-harness's byte for byte, on real files.

Each in five forms: as plain text; with a chat template, worked examples as turns or as text, with and without a system.
"""

import functools
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import get_args

import pytest
import yaml
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import PreTrainedTokenizerFast

from headrace.pipeline.core.settings import decode
from headrace.train.evaluation.benchmarks.base import Item, Sources
from headrace.train.evaluation.file_records import benchmark_records
from headrace.train.evaluation.prompt import ExampleForm, PromptForm
from headrace.train.evaluation.settings import Evaluation
from headrace.train.inference.chat_template import ChatTemplate
from headrace.train.inference.queries import Written

pytest.importorskip("lm_eval", reason="the optional extra 'evaluation' is not installed")
from lm_eval.api.instance import Instance
from lm_eval.defaults import DEFAULT_OTHER_SEED
from lm_eval.models.huggingface import HFLM

from benchmarks.evaluation import harness_tasks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
STANDARD = yaml.safe_load((ROOT / "conf/evaluation/standard.yaml").read_text())["benchmarks"]
LIMIT = 20
"""Items whose prompts are compared. Worked examples are drawn from the whole file."""


CHATML = (
    "{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
INST = (
    "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% elif m.role == 'user' %}"
    "[INST] {{ m.content | trim }} [/INST]{% else %} {{ m.content | trim }}{{ eos_token }}{% endif %}{% endfor %}"
)
"""A template that takes no message of the system, and trims what it writes, as Mistral's."""
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>"}
SYSTEM = "You are a miller."
FORMS = [
    PromptForm(),
    *(
        PromptForm(ChatTemplate(CHATML, SPECIAL), examples, system)
        for examples in get_args(ExampleForm)
        for system in ("", SYSTEM)
    ),
    PromptForm(ChatTemplate(INST, SPECIAL), "turns", SYSTEM, has_system=False),
]


def asked_by_form(form: PromptForm) -> dict:
    """The arguments with which the harness makes prompts of this form: its own code and transformers write them."""
    if form.template is None:
        return {}
    words = Tokenizer(WordLevel({"a": 0}, "a"))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, chat_template=form.template.text, **SPECIAL)
    model = SimpleNamespace(tokenizer=tokenizer, chat_template_args={})
    return {
        "apply_chat_template": True,
        "fewshot_as_multiturn": form.examples == "turns",
        "system_instruction": form.system or None,
        "chat_template": functools.partial(HFLM.apply_chat_template, model),
    }


def requests(task, limit: int, form: PromptForm) -> list[tuple]:
    """(context, continuation) of each request, and the number of the right choice, item by item."""
    found, arguments = [], asked_by_form(form)
    task.set_fewshot_seed(DEFAULT_OTHER_SEED)
    of_template = {name: arguments[name] for name in ("apply_chat_template", "chat_template") if arguments}
    for _, document in task.doc_iterator(limit=limit):
        prefix = task.doc_to_prefix(document)
        context = task.fewshot_context(
            document, num_fewshot=task.config.num_fewshot or 0, gen_prefix=prefix, **arguments
        )
        made = task.construct_requests(document, context, metadata=("", 0, 1), **of_template)
        made = made if isinstance(made, list) else [made]
        found.append(([one.arguments for one in made], gold(task, document)))
    return found


def gold(task, document) -> int:
    if task.OUTPUT_TYPE in ("loglikelihood", "generate_until"):
        return 0
    answer = task.doc_to_text(document) if task.multiple_input else task.doc_to_target(document)
    return answer if isinstance(answer, int) else task.doc_to_choice(document).index(answer)


def asked(items: Sequence[Item]) -> list[tuple]:
    """The same of our items."""
    return [([(query.context, query.continuation) for query in item.queries], item.gold) for item in items]


@pytest.mark.parametrize("shots", [0, 1, 5])
@pytest.mark.parametrize("name", ["triviaqa", "gsm8k"])
def test_what_is_written_is_asked_and_judged_as_by_the_harness(data_folder, name, shots):
    """Prompts, stops, and the metrics of texts that are right, nearly right and wrong."""
    data = data_folder("evaluation")
    settings = STANDARD[name] | {"shots": shots, "limit": 200}
    benchmark = decode(Evaluation, {"benchmarks": {name: settings}, "data": str(data)}).benchmarks[name]
    lines = [record.values for path in benchmark.paths for record in benchmark_records([data / path])]
    (task,) = harness_tasks.tasks(name, lines, shots).values()
    for form in FORMS:
        items = benchmark.items(Sources(data, None, "0", form=form))[:LIMIT]
        theirs = [arguments for ((arguments,), _) in requests(task, LIMIT, form)]
        assert [(query.context, list(query.sampling.stops)) for item in items for query in item.queries] == [
            (context, settings["until"]) for context, settings in theirs
        ]
    items = benchmark.items(Sources(data, None, "0"))
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
    lines = [record.values for path in benchmark.paths for record in benchmark_records([data / path])]
    tasks = harness_tasks.tasks(name, lines, shots)
    assert tasks
    for form in FORMS:
        items = benchmark.items(Sources(data, None, "0", form=form))
        for group, task in tasks.items():
            assert asked([item for item in items if item.group == group][:LIMIT]) == requests(task, LIMIT, form)


def test_blimp_requests_equal_the_harness(data_folder):
    data = data_folder("evaluation")
    benchmark = decode(Evaluation, {"benchmarks": {"blimp": STANDARD["blimp"]}}).benchmarks["blimp"]
    lines = [record.values for record in benchmark_records([data / benchmark.paths[0]])[:50]]
    ((group, task),) = harness_tasks.tasks("blimp", lines, 0).items()
    for form in FORMS:
        items = benchmark.items(Sources(data, None, "0", form=form))
        assert asked([item for item in items if item.group == group][:50]) == requests(task, 50, form)
    assert json.dumps(task.config.num_fewshot) == "0"
