"""Every file of conf/ has only fields of its settings class, and every experiment composes."""

import dataclasses
import functools
import inspect
import itertools
import re
import shlex
import shutil
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest

from headrace import documentation
from headrace.pipeline.command_line.help_text import field_meanings
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration import option_values
from headrace.pipeline.configuration.composition import combinations, compose
from headrace.pipeline.configuration.options import CONF, about, groups, option_file
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import canonical
from headrace.pipeline.stages import stages
from headrace.train.weights import Weights

GROUPS = sorted(path.name for path in CONF.iterdir() if path.is_dir() and path.name not in ("experiment", "study"))
OPTIONS = [(group, option) for group in GROUPS for option in groups()[group]]
REQUIRED = {
    ("cleaning", "dclm"): [f"cleaning.filters.6.path={CONF / 'config.yaml'}"],
    ("cleaning", "realnews_like"): [f"cleaning.filters.1.path={CONF / 'config.yaml'}"],
    **{("distillation", name): ["distillation.teacher=models/bert"] for name in ("distilbert", "logits")},
    ("evaluation", "lm_eval"): ["evaluation.tasks=[piqa]"],
    ("evaluation", "yaml"): ["evaluation.yaml=[my_task.yaml]"],
    **{
        ("mixture", name): [f"mixture.sources.{n}.packed=runs/packed/b8e44e9d7440" for n in range(1, sources)]
        for name, sources in (("gpt3", 5), ("pile", 22), ("wikipedia_books", 2))
    },
    ("notify", "command"): ["notify.command=[tell]"],
    ("notify", "email"): ["notify.host=mail.example.org", "notify.sender=a@example.org", "notify.to=[b@example.org]"],
    ("tokenizer", "file"): ["tokenizer.path=tokenizer.json"],
}
"""Options that need a value from the user; files only have to be there."""
FILES = ["finetune.train=[train.tsv]", "finetune.validation=[dev.tsv]"]
REQUIRED |= {("finetune", option): FILES for option in groups()["finetune"] if option != "none"}
TASK = "finetune.task={type: classification, format: {type: fields, label: label}}"
REQUIRED |= {("finetune", name): [*FILES, TASK] for name in ("own", "t5")}
EXPERIMENTS = groups()["experiment"]


def settings_classes(value: Any) -> set[type]:
    """Every settings class that occurs in ``value``."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [settings_classes(getattr(value, field.name)) for field in dataclasses.fields(value)]
        return {type(value)}.union(*inner)
    if isinstance(value, tuple):
        return set().union(*(settings_classes(item) for item in value))
    return set()


def test_the_groups_are_the_fields_of_the_configuration() -> None:
    assert set(GROUPS) <= {field.name for field in dataclasses.fields(RunConfig)}


@functools.cache
def default_values() -> dict[str, Any]:
    return compose([])


@functools.cache
def values_of_options() -> dict[tuple[str, str], Any]:
    """Returns the configuration of every option. One option of each group is composed at a time, except models, whose
    files have no defaults: Hydra would need a third of a second for each."""
    found: dict[tuple[str, str], Any] = {}
    for option in (option for group, option in OPTIONS if group == "model"):
        values = option_values.option_values("model", option)
        packing = default_values()["packing"] | {"row_tokens": values["context"]}
        found["model", option] = default_values() | {"model": values, "packing": packing}
    others = [[one for one in OPTIONS if one[0] == group] for group in GROUPS if group != "model"]
    for chosen in itertools.zip_longest(*others):
        options = [one for one in chosen if one is not None]
        required = [override for one in options for override in REQUIRED.get(one, ())]
        values = compose([*("=".join(one) for one in options), *required])
        found |= {(group, option): default_values() | {group: values[group]} for group, option in options}
    return found


@pytest.mark.parametrize("option", ["llama_1b", "t5_demo"])
def test_hydra_composes_what_is_in_the_file_of_a_model(option: str) -> None:
    assert compose([f"model={option}"]) == values_of_options()["model", option]


def partner(group: str, option: str) -> dict[str, Any]:
    """Returns the objective of a model that is no decoder, or the model of such an objective: they go together."""
    objectives = {"encoder": "masked", "encoder_decoder": "span_corruption"}
    model = values_of_options()[group, option].get("model", {})
    if group == "model" and model.get("stack") in objectives:
        objective = "sentence_order" if model.get("pair_head") else objectives[model.get("stack")]
        return {"objective": values_of_options()["objective", objective]["objective"]}
    models = {"masked": "bert_demo", "bart": "bart_demo"}
    models |= dict.fromkeys(("next_sentence", "sentence_order"), "albert_demo")
    if group == "objective" and option in models:
        return {"model": values_of_options()["model", models[option]]["model"]}
    return {}


FILES_OF_USERS = {
    "distilbert": ["tokenizer.path=tokenizer.json", "distillation.teacher=models/bert"],
    "translation_2017": ["finetune.train=[a.en,a.de]", "finetune.validation=[b.en,b.de]"],
}
"""Settings without which an experiment is refused: what it learns from is the user's."""


@functools.cache
def experiment_config(experiment: str) -> RunConfig:
    return decoded(compose([f"experiment={experiment}", *FILES_OF_USERS.get(experiment, [])]))


@pytest.mark.parametrize(("group", "option"), [one for one in OPTIONS if one != ("finetune", "none")])
def test_an_option_has_fields_of_its_class_only(group: str, option: str) -> None:
    written = option_values.preset_values(option_file(group, option), option)
    values = values_of_options()[group, option] | partner(group, option)
    known = {field.name for field in dataclasses.fields(getattr(decoded(values), group))}
    assert set(written) - {"defaults"} <= set(values[group]) <= known


def test_a_field_that_no_file_lists_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new field with a default needs no line in conf/: it has its default, or the value of an override."""
    conf = shutil.copytree(CONF, tmp_path / "conf")
    for path in (conf / "training").glob("*.yaml"):
        lines = path.read_text().splitlines(keepends=True)
        path.write_text("".join(line for line in lines if not line.startswith("log_every:")))
    monkeypatch.chdir(tmp_path)
    assert "log_every" not in compose([])["training"]
    assert decoded(compose([])).training.log_every == 1
    assert decoded(compose(["training.log_every=7"])).training.log_every == 7


def test_a_field_of_a_benchmark_that_no_file_lists_is_named_with_the_form_that_sets_it() -> None:
    typed = "evaluation.benchmarks.agreement.limit=5"
    with pytest.raises(ConfigError) as raised:
        compose(["experiment=demo", typed])
    assert str(raised.value).endswith(" (a field at its default: +evaluation.benchmarks.agreement.limit=…)")
    assert decoded(compose(["experiment=demo", f"+{typed}"])).evaluation.benchmarks["agreement"].limit == 5


def test_a_field_that_no_file_lists_is_not_blamed_for_another_mistake() -> None:
    with pytest.raises(ConfigError, match=r"^command line: unknown key 'modell'; did you mean 'model'\?$"):
        compose(["objective.nothing=1", "modell=gpt1"])


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_composes_and_decodes(experiment: str) -> None:
    experiment_config(experiment)


GPT2_AND_GPT3 = {
    "gpt2_small": (12, 6.0e-4), "gpt2_medium": (24, 3.0e-4), "gpt2_large": (36, 2.5e-4), "gpt2_xl": (48, 2.0e-4)
}  # fmt: skip
"""Layers of each size of GPT-2 (Radford et al. 2019, table 2), and the rate of GPT-3's of like size (table 2.1)."""


@pytest.mark.parametrize("name", GPT2_AND_GPT3)
def test_the_presets_of_gpt2_have_one_recipe(name: str) -> None:
    """Batches of 512 rows of 1,024 (section 2.3); the rest is GPT-3's: 300 billion tokens, warm-up over 375 million."""
    config = experiment_config(name)
    layers, rate = GPT2_AND_GPT3[name]
    assert (config.model.layers, config.packing.row_tokens, config.training.batch_rows) == (layers, 1024, 512)
    assert config.optimizer.learning_rate == rate
    update_tokens = 512 * 1024
    assert config.training.steps * update_tokens == pytest.approx(300e9, rel=1e-4)
    assert config.schedule.warmup_steps * update_tokens == pytest.approx(375e6, rel=1e-3)


OF_PAPERS = "gpt|llama|opt|bloom|t5_base|bert_(base|large)|roberta|bart_base|wikitext"
PAPERS = [name for name in EXPERIMENTS if re.match(OF_PAPERS, name)]


@pytest.mark.parametrize("name", PAPERS)
def test_a_preset_of_a_paper_names_its_source(name: str) -> None:
    assert re.search(r"[A-Z]\w+ (et al\.|and [A-Z]\w+) (19|20)\d\d", about("experiment", name))


def test_every_installation_has_the_documentation_of_the_demo() -> None:
    """headrace depends on torch, and torch requires this package on every system."""
    always = {re.split(r"[^\w.-]", line)[0] for line in requires("torch") or () if ";" not in line}
    written = {f"{documentation.FOLDER}/{name}.jsonl" for name in documentation.PACKAGES}
    assert {Path(path).stem for path in experiment_config("demo").source.paths} <= always
    assert written == {path for name in ("demo", "smoke") for path in experiment_config(name).source.paths}


@pytest.mark.parametrize(
    "override",
    [
        "source=warc source.paths=a.warc",
        "tokenizer=train",
        "packing=concatenate",
        "schedule=cosine",
    ],
)
def test_an_option_takes_the_place_of_that_of_the_demo(override: str) -> None:
    """The demo sets values only of groups whose options all have them (make demo-web)."""
    decoded(compose(["experiment=demo", *override.split()]))


def test_values_only() -> None:
    for path in CONF.rglob("*.yaml"):
        text = path.read_text()
        assert not any(word in text for word in ("_target_", "${now", "oc.env")), path


def test_every_setting_says_what_it_means() -> None:
    config = decoded(default_values())
    for cls in settings_classes(config):
        missing = {f.name for f in dataclasses.fields(cls)} - {"type"} - set(all_meanings(cls))
        assert not missing, f"{cls.__module__}.{cls.__name__}: {sorted(missing)} have no docstring"


def all_meanings(cls: type) -> dict[str, str]:
    """Returns the docstrings of a settings class's fields, inherited ones included."""
    found: dict[str, str] = {}
    for base in cls.__mro__:
        if dataclasses.is_dataclass(base):
            found |= field_meanings(Path(inspect.getfile(base)), base.__name__)
    return found


def test_where_and_how_fast_is_not_part_of_the_result() -> None:
    here = decoded(default_values())
    there = decoded(compose(["name=mine", "root=elsewhere", "workers=7", "ranks=2", "until=tokens"]))
    assert canonical(here) == canonical(there)


@pytest.mark.parametrize(
    "setting", ["training.initial_weights", "distillation.teacher", "tokenizer.path", "finetune.folder"]
)
def test_runs_of_different_files_are_different_runs(setting: str) -> None:
    """Addresses have the content of a file, not its path; with the id of another, a run would replace its record."""
    options = ["source=html", "source.paths=a", "tokenizer=file", "tokenizer.path=t", "finetune=sst2"]
    options += ["finetune.train=x", "finetune.validation=y"]
    one, other = (decoded(compose([*options, f"{setting}={name}"])) for name in ("one", "other"))
    assert one.id != other.id
    assert canonical(one) == canonical(other)


OWN_SOURCE = "mixture.sources=[{name: own, weight: 1}]"
TOGETHER = {
    "packing.row_tokens=4096 model.context=1024": "packing.row_tokens: 4096 is longer than model.context = 1024; "
    "make rows shorter or the context longer",
    f"training.unique_rows=9 '{OWN_SOURCE}'": "training.unique_rows: is 9, with 1 sources in mixture.sources; "
    "give one of them: rows of this run alone are counted",
    "training.source_rows=9": "training.source_rows: is 9, and mixture.sources names no source; "
    "name the sources, or give 0",
    "model.mixer=lstm model.positions=none objective=prefix": "objective: is prefix, in which tokens see later ones, "
    "and model.mixer is lstm; give objective=causal, or model.mixer=attention",
}


@pytest.mark.parametrize("overrides", TOGETHER)
def test_values_that_contradict_each_other_are_refused(overrides: str) -> None:
    with pytest.raises(ConfigError) as raised:
        decoded(compose(shlex.split(overrides)))
    assert str(raised.value) == TOGETHER[overrides]
    decoded(compose(["model.mixer=lstm", "model.positions=none"]))


def test_a_value_that_a_list_needs_is_named_as_it_is_given() -> None:
    with pytest.raises(ConfigError) as raised:
        compose(["cleaning=realnews_like"])
    assert str(raised.value) == ("cleaning.filters.1.path: has no value; give it one: cleaning.filters.1.path=…")
    assert compose(["cleaning=realnews_like", "cleaning.filters.1.path=x"])["cleaning"]["filters"][1]["path"] == "x"


@pytest.mark.parametrize(
    ("option", "given", "key"),
    [
        ("own", [], "task"),
        ("t5", ["finetune.train=a.tsv"], "task"),
        ("sst2", ["finetune.train=a.tsv"], "validation"),
        ("translation_2017", [], "train"),
    ],
)
def test_an_example_is_a_whole_command_that_is_valid(option: str, given: list[str], key: str) -> None:
    with pytest.raises(ConfigError) as raised:
        compose([f"finetune={option}", *given])
    known, command = str(raised.value).split(" headrace ")
    assert known == f"finetune.{key}: has no value; give it one, such as in:"
    assert command.startswith(f"finetune={option} ")
    assert f" finetune.{key}=" in command
    assert decoded(compose(command.split())).finetune is not None


def test_an_example_is_of_the_first_option_of_a_sweep() -> None:
    with pytest.raises(ConfigError, match=r"such as in: headrace finetune=own finetune\.task=classification"):
        combinations(["finetune=own,t5"])


@pytest.mark.parametrize(
    ("experiment", "batch_tokens", "tokens", "learning_rate"),
    [
        ("gpt1", 32_768, 100e9, 2.5e-4),
        ("gpt3_125m", 0.5e6, 300e9, 6.0e-4),
        ("gpt3_350m", 0.5e6, 300e9, 3.0e-4),
        ("gpt3_760m", 0.5e6, 300e9, 2.5e-4),
        ("gpt3_1_3b", 1e6, 300e9, 2.0e-4),
        ("gpt3_2_7b", 1e6, 300e9, 1.6e-4),
        ("gpt3_6_7b", 2e6, 300e9, 1.2e-4),
        ("gpt3_13b", 2e6, 300e9, 1.0e-4),
        ("gpt3_175b", 3.2e6, 300e9, 0.6e-4),
        ("t5_base", 2**16, 2**35, 0.01),
        ("bert_base", 2**17, 2**17 * 1e6, 1.0e-4),
        ("llama_7b", 4e6, 1.0e12, 3.0e-4),
        ("llama_13b", 4e6, 1.0e12, 3.0e-4),
        ("llama_33b", 4e6, 1.4e12, 1.5e-4),
        ("llama_65b", 4e6, 1.4e12, 1.5e-4),
        ("llama2_7b", 4e6, 2.0e12, 3.0e-4),
        ("llama2_13b", 4e6, 2.0e12, 3.0e-4),
        ("llama2_70b", 4e6, 2.0e12, 1.5e-4),
        ("llama3_8b", 16e6, 15.6e12, 3.0e-4),
        ("llama3_70b", 16e6, 15.6e12, 1.5e-4),
        ("llama3_405b", 16e6, 15.6e12, 8.0e-5),
        ("opt_175b", 2e6, 300e9, 1.2e-4),
        ("bloom_176b", 2048 * 2048, 366e9, 6.0e-5),
        ("gpt_neox_20b", 3.15e6, 1538 * 2048 * 150e3, 0.97e-4),
        ("bert_large", 2**17, 2**17 * 1e6, 1.0e-4),
        ("roberta_base", 2**22, 2**22 * 5e5, 6.0e-4),
        ("roberta_large", 2**22, 2**22 * 5e5, 4.0e-4),
    ],
)
def test_a_published_training_has_its_batch_length_and_rate(
    experiment: str, batch_tokens: float, tokens: float, learning_rate: float
) -> None:
    """Radford et al. 2018, section 4.1; Brown et al. 2020, table 2.1; Touvron et al. 2023, table 2; Raffel et al. 2020,
    section 3.1; Devlin et al. 2019, appendix A.2; Touvron et al. 2023b, section 2.2; Dubey et al. 2024, table 3;
    Zhang et al. 2022, table 1; BigScience Workshop 2022, table 3; Black et al. 2022; Liu et al. 2019, table 9."""
    config = experiment_config(experiment)
    update_tokens = config.training.batch_rows * config.packing.row_tokens
    assert update_tokens == pytest.approx(batch_tokens, rel=0.05)
    assert update_tokens * config.training.steps == pytest.approx(tokens, rel=1e-5)
    assert config.optimizer.learning_rate == learning_rate
    if experiment.startswith("gpt3"):
        assert config.schedule.warmup_steps * update_tokens == pytest.approx(375e6, rel=0.005)


@pytest.mark.parametrize(
    ("overrides", "two_sided"),
    [
        ("experiment=t5_demo model.stack=decoder model.context=160", True),
        ("experiment=t5_demo model.stack=decoder model.context=160 objective.input_mask=causal", None),
        ("experiment=t5_demo model.stack=decoder model.context=160 model.two_sided_bias=false", False),
        ("experiment=t5_demo", None),
        ("experiment=demo objective=prefix model.positions=t5", True),
        ("experiment=demo objective=prefix", None),
        ("experiment=demo model.positions=t5", None),
        ("experiment=bert_demo model=bert_tiny model.positions=t5", None),
    ],
)
def test_positions_t5_tell_later_tokens_apart_where_tokens_see_them(overrides: str, two_sided: bool | None) -> None:
    """No other model differs from what is configured, so its addresses stay."""
    config = decoded(compose(overrides.split()))
    trained = next(stage for stage in stages(config) if isinstance(stage, Weights)).model
    assert trained.two_sided_bias == two_sided
    assert canonical(trained) == canonical(config.model) | ({"two_sided_bias": True} if two_sided else {})
