"""lm-evaluation-harness's own tasks over local files, for comparisons (parity.py, the tests).

    {"query": "Question: goal\\n", "choices": [...], "gold": 0}       a line of our file
    {"goal": "goal", "sol1": ..., "sol2": ..., "label": 0}           with the field names of the task's data set
        ── the task's YAML as the harness ships it ──> prompts, metrics

Nothing of the prompts is written here: templates, delimiters, sampling of worked examples and metrics are the
harness's. Worked examples come from the file itself, as ours do, so the splits of all tasks are one: ``test``.
"""

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import datasets
import lm_eval.tasks
from lm_eval.api.task import ConfigurableTask
from lm_eval.defaults import DEFAULT_OTHER_SEED
from lm_eval.tasks._yaml_loader import load_yaml

Fields = Mapping[str, Any]
BUILT_IN = Path(lm_eval.tasks.__file__).parent


def piqa(line: Fields) -> Fields:
    sol1, sol2 = line["choices"]
    goal = line["query"].removeprefix("Question: ").removesuffix("\n")
    return {"goal": goal, "sol1": sol1, "sol2": sol2, "label": line["gold"]}


def lettered(line: Fields) -> Fields:
    """The fields of ARC and OpenBookQA."""
    letters = "ABCDEFGH"[: len(line["choices"])]
    question = line["query"].removeprefix("Question: ")
    return {
        "question": question,
        "question_stem": question,
        "choices": {"text": line["choices"], "label": list(letters)},
        "answerKey": letters[line["gold"]],
    }


def copa(line: Fields) -> Fields:
    premise, _, connector = line["query"].rpartition(", ")
    choice1, choice2 = line["choices"]
    question = {"because": "cause", "therefore": "effect"}[connector]
    return {
        "premise": premise + ".",
        "question": question,
        "choice1": choice1,
        "choice2": choice2,
        "label": line["gold"],
    }


def boolq(line: Fields) -> Fields:
    passage, _, question = line["query"].removeprefix("Passage: ").rpartition("\nQuestion: ")
    return {"passage": passage, "question": question.removesuffix("?"), "label": line["gold"]}


def winogrande(line: Fields) -> Fields:
    start, (first, other) = common_start(line["context_options"])
    sentence = f"{start}_ {line['continuation']}"
    return {"sentence": sentence, "option1": first, "option2": other, "answer": str(line["gold"] + 1)}


def winograd(line: Fields) -> Fields:
    start, options = common_start(line["context_options"])
    space = "" if line["continuation"] == "." else " "
    return {
        "text": f"{start}it{space}{line['continuation']}",
        "pronoun": "it",
        "pronoun_loc": len(start),
        "options": options,
        "label": line["gold"],
    }


def common_start(options: Sequence[str]) -> tuple[str, list[str]]:
    """Returns the whole words that all ``options`` begin with, and the rest of each."""
    alike = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*options, strict=False))
    start = "".join(letters[0] for letters in alike)
    start = start[: start.rfind(" ") + 1]
    return start, [option.removeprefix(start) for option in options]


def lambada(line: Fields) -> Fields:
    return {"text": f"{line['context']} {line['continuation']}"}


def triviaqa(line: Fields) -> Fields:
    question = line["context"].removeprefix("Question: ").removesuffix("\nAnswer:").removesuffix("?")
    return {"question": question, "answer": {"aliases": line["aliases"], "value": line["answer"]}}


def gsm8k(line: Fields) -> Fields:
    return {"question": line["context"], "answer": f"{line['chain_of_thought']}\n#### {line['answer']}"}


def unchanged(line: Fields) -> Fields:
    return line


@dataclasses.dataclass(frozen=True)
class Source:
    """The source of the harness's tasks for one of our benchmarks."""

    yaml: str
    """Path below the harness's folder of tasks; ``{}`` is the group."""
    fields: Callable[[Fields], Fields]
    group_field: str = ""
    """The field of our lines that names a group: the harness has a task for each."""
    groups: Mapping[str, str] | None = None
    """The harness's names of the groups it has; None where they are ours."""


ARITHMETIC = {
    "single_digit_three_ops": "1dc",
    "two_digit_addition": "2da",
    "two_digit_multiplication": "2dm",
    "two_digit_subtraction": "2ds",
    "three_digit_addition": "3da",
    "three_digit_subtraction": "3ds",
    "four_digit_addition": "4da",
    "four_digit_subtraction": "4ds",
    "five_digit_addition": "5da",
    "five_digit_subtraction": "5ds",
}
SOURCES = {
    "lambada": Source("lambada/lambada_openai.yaml", lambada),
    "piqa": Source("piqa/piqa.yaml", piqa),
    "arc_easy": Source("arc/arc_easy.yaml", lettered),
    "openbook_qa": Source("openbookqa/openbookqa.yaml", lettered),
    "copa": Source("super_glue/copa/default.yaml", copa),
    "boolq": Source("super_glue/boolq/default.yaml", boolq),
    "winogrande": Source("winogrande/default.yaml", winogrande),
    "winograd": Source("wsc273/default.yaml", winograd),
    "arithmetic": Source("arithmetic/arithmetic_{}.yaml", unchanged, "set", ARITHMETIC),
    "triviaqa": Source("triviaqa/default.yaml", triviaqa),
    "gsm8k": Source("gsm8k/gsm8k.yaml", gsm8k),
    "blimp": Source("blimp/{}.yaml", unchanged, "UID"),
}
"""Sources by the benchmarks' names in conf/evaluation/standard.yaml."""


def tasks(name: str, lines: Sequence[Fields], shots: int) -> dict[str, ConfigurableTask]:
    """The harness's tasks for benchmark ``name`` over ``lines`` of its file, by group; shots where the task has any."""
    source = SOURCES[name]
    groups: dict[str, list[Fields]] = defaultdict(list)
    for line in lines:
        groups[line[source.group_field] if source.group_field else ""].append(source.fields(line))
    known = source.groups or {group: group for group in groups}
    return {
        group: _task(BUILT_IN / source.yaml.format(known[group]), documents, shots)
        for group, documents in groups.items()
        if not group or group in known
    }


def _task(yaml: Path, documents: Sequence[Fields], shots: int) -> ConfigurableTask:
    config = load_yaml(yaml) | {
        "custom_dataset": lambda **_: {"test": datasets.Dataset.from_list(documents)},
        "dataset_kwargs": {},
        "metadata": {},
        "training_split": None,
        "validation_split": None,
        "test_split": "test",
        "fewshot_split": "test",
    }
    task = ConfigurableTask(config=config)
    if task.config.num_fewshot != 0:
        task.set_config("num_fewshot", shots)
    task.set_fewshot_seed(DEFAULT_OTHER_SEED)
    return task
