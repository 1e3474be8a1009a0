"""The layers of docs/architecture.md, enforced on the source as it is written."""

import ast
import functools
import graphlib
import subprocess
import sys
from pathlib import Path

from tests.house import tree

ROOT = Path(__file__).parents[1]
OURS = ("pipeline", "data_prep", "train")
SOURCES = sorted(path.relative_to(ROOT) for package in OURS for path in (ROOT / package).rglob("*.py"))

ROOMS = (
    "pipeline.core",
    "pipeline.tracking",
    "data_prep.kernel",
    "data_prep.document",
    "data_prep.text",
    "data_prep.shuffle",
    "data_prep.extraction",
    "data_prep.extraction.main_text",
    "data_prep.sources",
    "data_prep.classifiers",
    "data_prep.filters",
    "data_prep.tokenization",
    "data_prep.dedup",
    "data_prep.decontamination",
    "data_prep.columns",
    "data_prep.selection_rules",
    "data_prep",
    "train.parts",
    "train.model_shape",
    "train.config",
    "train.distillation_config",
    "train.training_config",
    "train.context",
    "train.distributed",
    "train.data",
    "train.model",
    "train.objectives",
    "train.engine",
    "train.cost",
    "train.checkpoint",
    "train.families",
    "train.inference",
    "train.evaluation",
    "train.loop",
    "train.finetune.files",
    "train.finetune.tasks",
    "train.finetune",
    "train",
    "pipeline.report.formatting",
    "pipeline.report.funnel",
    "pipeline.documents.stored_documents",
    "pipeline.documents.marking",
    "pipeline.documents.document_choice",
    "pipeline.documents.samples",
    "pipeline.documents.audit_estimates",
    "pipeline.report",
    "pipeline.output",
    "pipeline.clusters",
    "pipeline.configuration.options",
    "pipeline.configuration.yaml_values",
    "pipeline.configuration.option_values",
    "pipeline.configuration.setting_names",
    "pipeline.config",
    "pipeline.configuration",
    "pipeline.stages",
    "pipeline.run",
    "pipeline.tracking.stage_runs",
    "pipeline.documents",
    "pipeline.command_line",
    "pipeline.papers",
    "pipeline.experiments",
    "pipeline.api",
    "pipeline.commands",
    "pipeline",
)
"""A module imports from its own room and from rooms above it in this list, so there are no circles between rooms. A
module directly in data_prep, train or pipeline is in the room of that name, unless the list names it."""

TRAIN_READS = ("pipeline.core", "pipeline.tracking", "data_prep.tokenization", "train")
"""All that train imports of ours."""

ONLY_IN = {
    "hydra": (
        "pipeline/configuration/merged_options.py",
        "pipeline/configuration/override_values.py",
        "pipeline/configuration/overrides.py",
    ),
    "omegaconf": (
        "pipeline/configuration/composition.py",
        "pipeline/configuration/merged_options.py",
        "pipeline/configuration/yaml_values.py",
    ),
    "wandb": ("pipeline/tracking/wandb_run.py",),
    "deepspeed": ("train/engine/engine.py", "train/engine/engine.py"),
    "torch": ("train/",),
    "bz2": ("pipeline/core/compression.py",),
    "lzma": ("pipeline/core/compression.py",),
    "gzip": ("pipeline/core/compression.py", "pipeline/report/html_page.py"),
    "isal": ("pipeline/core/compression.py",),
    "zlib": ("data_prep/sources/warc_payload.py", "pipeline/core/compression.py"),
    "zstandard": ("pipeline/core/compression.py", "data_prep/sources/damaged_files.py"),
}

LOAD_LATE = (
    "data_prep/sources/html.py",
    "data_prep/unique.py",
    "pipeline/run/run_execution.py",
    "pipeline/run/rank.py",
    "pipeline/run/run_state.py",
    "pipeline/api/verdict.py",
    "pipeline/report/report.py",
    "pipeline/report/stage_warnings.py",
    "train/weights.py",
    "train/finetuned.py",
    "train/scores.py",
    "train/inference/language_model.py",
)
"""Modules that load only when they need them: torch, the machinery of HTML, stages that few runs have, the code of the
report and of jobs, documents, all settings."""


@functools.cache
def imports(path: Path) -> list[tuple[str, bool]]:
    """Returns every module that ``path`` imports, and whether it does so inside a function."""
    nodes = [*ast.walk(tree(ROOT / path))]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef)]
    inner = {id(node) for function in functions for node in ast.walk(function)}
    found: list[tuple[str, bool]] = []
    for node in nodes:
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) in inner) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                inside = Path("src", *f"{node.module}.{alias.name}".split("."))
                is_module = (ROOT / inside).with_suffix(".py").exists() or (ROOT / inside).is_dir()
                found.append((f"{node.module}.{alias.name}" if is_module else node.module or "", id(node) in inner))
    return found


def within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")


def ours(module: str) -> str | None:
    """The module without the import name, for one of ours."""
    return module.removeprefix("headrace.") if module.startswith("headrace.") else None


def allocate(module: str) -> int:
    """The index of the room in ``ROOMS``."""
    return max(range(len(ROOMS)), key=lambda index: len(ROOMS[index]) if within(module, ROOMS[index]) else 0)


def test_a_module_imports_only_from_rooms_above_its_own() -> None:
    for path, imported in [(source, found) for source in SOURCES for found, _ in imports(source)]:
        module = ".".join(path.with_suffix("").parts)
        if other := ours(imported):
            assert allocate(other) <= allocate(module), f"{path} imports {imported}"
            assert path.parts[0] != "train" or any(within(other, read) for read in TRAIN_READS), f"{path}: {imported}"
        assert imported.split(".")[0] not in OURS, f"{path} imports {imported}: the import name is headrace"
        for package, places in ONLY_IN.items():
            if within(imported, package):
                assert path.as_posix().startswith(places), f"{path} imports {imported}"


def test_no_module_imports_a_command() -> None:
    """A command reads arguments and prints; what it prints comes from rooms that the Python API calls, too."""
    for path in SOURCES:
        assert not [found for found, _ in imports(path) if within(ours(found) or "", "pipeline.commands")], path


def test_there_are_no_circles_between_modules() -> None:
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in SOURCES}
    graph = {name: {ours(found) for found, _ in imports(path)} & modules.keys() for name, path in modules.items()}
    graphlib.TopologicalSorter(graph).prepare()


def test_our_own_packages_are_imported_at_the_top() -> None:
    late = {path.as_posix() for path in SOURCES if any(is_inner and ours(module) for module, is_inner in imports(path))}
    assert late == {*LOAD_LATE}


IMPORT_BY_NAME = {
    "pipeline/command_line/declaration.py": "our modules, where a command is invoked",
    "pipeline/run/planned_stage.py": "the class of one stage: a rank imports no other",
    "pipeline/core/kinds.py": "the class of a kind that a setting chooses",
    "pipeline/core/user_classes.py": "a class of the user's in an installed package",
    "data_prep/filters/datatrove_filter.py": "a class of the user's",
    "data_prep/filters/punkt.py": "a module of nltk without annotations",
    "train/evaluation/scoring.py": "our module that needs lm-evaluation-harness, an optional extra",
}


def test_modules_are_imported_by_name_in_few_places() -> None:
    found = {path.as_posix() for path in SOURCES if "import_module(" in (ROOT / path).read_text()}
    assert found == IMPORT_BY_NAME.keys()


def test_package_files_are_empty_or_define_a_union() -> None:
    for path in [path for path in SOURCES if path.name == "__init__.py"]:
        body = tree(ROOT / path).body
        assert all(isinstance(node, (ast.Expr, ast.Import, ast.ImportFrom, ast.Assign)) for node in body), path


def test_slow_packages_are_not_loaded_by_the_command_line() -> None:
    """Stages and workers are imported on login nodes and for each job: each of these would cost 0.2 s or more.

    The summary of a run loads plotly, but not what draws.
    """
    slow = ("torch", "scipy.stats", "scipy.special", "jinja2", "transformers", "wandb", "numba", "huggingface_hub")
    ours = "headrace.pipeline.stages, headrace.pipeline.command_line.request, headrace.pipeline.run.worker"
    assert loaded(ours, (*slow, "plotly")) == ""
    assert loaded("headrace.pipeline.run.run_execution", (*slow, "plotly.basedatatypes")) == ""


def loaded(modules: str, slow: tuple[str, ...]) -> str:
    """Returns those of ``slow`` that a process has loaded after ``modules``, or its error."""
    code = f"import sys, {modules}; sys.exit(', '.join(name for name in {slow} if name in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT / "src", capture_output=True, text=True)
    return done.stderr


def test_the_line_fits_one_screen() -> None:
    assert len((ROOT / "pipeline/stages.py").read_text().splitlines()) <= 60
