"""The wheel and what it depends on, from a package index, in an empty environment: the data stages without torch.

It is tested with this Python, and with the oldest and the newest supported one on this machine. Each environment takes
0.8 GB on the disk and a few minutes, most of which numba compiles.
"""

import functools
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.installed_wheel import REPOSITORY, build_wheel, copy_kernels, copy_sources, environment_variables, run

PAGES = ("source=jsonl", "source.paths=pages", "source.text_field=content", "source.url_field=meta.url", "workers=1")
SMALL = ("tokenizer.vocabulary_size=400", "name=mine")
NOT_THERE = ("torch", "deepspeed", "transformers", "safetensors", "wandb", "pandas", "lm_eval", "llama_index")
REFUSED = "headrace: weights: torch is not installed; pip install 'headrace[train]', or end with the data: until=packed"
CLASSIFIER = re.compile(r'"Programming Language :: Python :: (3[.]\d+)"')
SUPPORTED: list[str] = CLASSIFIER.findall((REPOSITORY / "pyproject.toml").read_text())

IMPORT_ALL = """
import importlib, importlib.util, pathlib, sys
import headrace
from headrace.pipeline.core.extras import EXTRAS
assert not [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
root = pathlib.Path(headrace.__file__).parent
imported = 0
for path in sorted(root.rglob("*.py")):
    module = ".".join(("headrace", *path.relative_to(root).with_suffix("").parts)).removesuffix(".__init__")
    if path.name == "__main__.py":
        continue
    try:
        importlib.import_module(module)
        imported += 1
    except ModuleNotFoundError as error:
        assert error.name.partition(".")[0] in EXTRAS and ".data_prep" not in module, (module, error)
print(imported)
"""
"""Checks that none of the named packages is there, and imports each module of ours that needs no extra."""

COUNT = """
import headrace
run = headrace.open_run("mine")
print(len(list(run.documents("unique"))), next(iter(run.documents("unique")))["url"].partition(":")[0])
"""

NOTEBOOK = """
import pathlib
import datasets
import headrace

source = headrace.open_run("mine").documents("texts")
pages = datasets.Dataset.from_dict({"html": ["<p>" + row["text"].replace("\\n", "<p>") for row in source]})
cleaner = headrace.Cleaner("c4")
tokenizer = headrace.Tokenizer(*pathlib.Path("runs/tokenizer").glob("*/tokenizer.json"))

def cleaned(row):
    verdict = cleaner(headrace.text(row["html"]))
    return {"text": verdict.text, "rule": verdict.rule}

before = datasets.fingerprint.Hasher.hash(cleaned)
rows = pages.map(cleaned).filter(lambda row: row["rule"] is None)
removed = {link.removed for link in headrace.near_duplicates(rows["text"])}
unique = rows.select([number for number in range(len(rows)) if number not in removed])
tokens = unique.map(lambda row: {"ids": tokenizer.encode(row["text"])})
assert datasets.fingerprint.Hasher.hash(cleaned) == before
assert sum(map(len, tokens["ids"])) > 1000
assert 5 < len(unique) < len(rows) < len(pages)
"""
BLOCKS = """
import json, pathlib
from datatrove.data import Document
from datatrove.executor.local import LocalPipelineExecutor
from datatrove.pipeline.writers import JsonlWriter
import headrace
from headrace.datatrove import Clean, Pii, Text, Tokens, Unique

if __name__ == "__main__":
    source = headrace.open_run("mine").documents("texts")
    pages = ["<p>" + row["text"].replace("\\n", "<p>") for row in source]
    (tokenizer,) = pathlib.Path("runs/tokenizer").glob("*/tokenizer.json")
    documents = [Document(page, str(number)) for number, page in enumerate(pages)]
    writer = JsonlWriter("kept", compression=None)
    steps = [documents, Text(), Clean("c4"), Pii(), Unique(), writer, Tokens("tokens", str(tokenizer))]
    LocalPipelineExecutor(steps, logging_dir="logs").run()
    kept = [verdict.text for verdict in map(headrace.Cleaner("c4"), map(headrace.text, pages)) if verdict]
    rows = [json.loads(line) for line in pathlib.Path("kept/00000.jsonl").read_text().splitlines()]
    removed = {link.removed for link in headrace.near_duplicates(map(headrace.mask_pii, kept))}
    texts = [headrace.mask_pii(text) for number, text in enumerate(kept) if number not in removed]
    assert [row["text"] for row in rows] == texts
    assert list(pathlib.Path("tokens").glob("*.ds"))
"""
"""The engines in a notebook with datasets of Hugging Face, and as blocks of datatrove, which agree."""


def pythons() -> dict[str, str]:
    """Returns the Pythons to test with: their versions and paths. An absent one has an empty path."""
    found = {version: path for version in SUPPORTED if (path := python_of(version))}
    own = ".".join(map(str, sys.version_info[:2]))
    newest = next(iter(reversed(found)), SUPPORTED[-1])
    return {version: found.get(version, "") for version in (SUPPORTED[0], newest)} | {own: sys.executable}


def python_of(version: str) -> str | None:
    """Returns a Python of ``version`` that runs: on the path, or where pyenv keeps its own. A shim may not run."""
    candidates = [path] if (path := shutil.which(f"python{version}")) else []
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates += map(str, sorted(root.glob(f"versions/{version}.*/bin/python{version}")))
    works = (path for path in candidates if subprocess.run([path, "-c", ""], capture_output=True).returncode == 0)
    return next(works, None)


@functools.cache
def unreachable() -> str:
    """Returns why pip reaches no package index; empty when it does."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, "click>=8.2,<9"]
        done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def environment() -> Iterator[Path]:
    """A folder on the disk, because the folders of tests may be in memory."""
    with tempfile.TemporaryDirectory(prefix="headrace-base-") as folder:
        yield Path(folder) / "environment"


@pytest.mark.slow
def test_the_lines_of_the_readme_install_from_a_clone(tmp_path: Path) -> None:
    """Each command of the table, in its order, without the packages that it would download."""
    (version,) = re.findall(r'^version = "(.+)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE)
    lines = re.findall(r"`pip ([^`]+)`(?=;| \|)", (REPOSITORY / "README.md").read_text())
    assert len(lines) == 5
    folder = copy_sources(tmp_path)
    for line in lines:
        kind, *arguments = shlex.split(line.replace("VERSION", version))
        offline = ["--no-deps", "--no-index", "--no-build-isolation"]
        offline += ["--dry-run", "--ignore-installed"] if kind == "install" else []
        command = [sys.executable, "-m", "pip", kind, *arguments, *offline]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert "does not provide the extra" not in done.stderr, line


@pytest.mark.slow
@pytest.mark.timeout(3000)
@pytest.mark.parametrize("version", pythons())
def test_the_data_stages_need_no_torch(version: str, wheel: Path, environment: Path, tmp_path: Path) -> None:
    if not (python := pythons()[version]):
        pytest.skip(f"this machine has no Python {version}")
    if reason := unreachable():
        pytest.skip(f"pip reaches no package index ({reason})")
    subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True, capture_output=True)
    install = [sys.executable, "-m", "pip", f"--python={environment}", "install", "-q", "--no-compile", wheel]
    done = subprocess.run(install, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    if python == sys.executable:
        copy_kernels(next(environment.glob("lib/python*/site-packages/headrace")))

    programs = environment / "bin"
    assert int(run(tmp_path, programs / "python", "-I", "-c", IMPORT_ALL, *NOT_THERE)) > 400
    run(tmp_path, programs / "python", REPOSITORY / "examples/practice.py", "pages")
    for settings in ([*PAGES, "until=weights"], ["experiment=demo"], ["run"]):
        command, variables = [programs / "headrace", *settings], environment_variables()
        refused = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert (refused.returncode, refused.stderr.strip()) == (2, REFUSED), settings
    assert not (tmp_path / "runs").exists(), "nothing has run"
    run(tmp_path, programs / "headrace", *PAGES, *SMALL, "until=packed", timeout=2000)
    assert run(tmp_path, programs / "python", "-c", COUNT).split() == ["220", "https"], "practice.GOOD_PAGES"
    done = subprocess.run([*install[:-2], "datasets"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, script in (("notebook.py", NOTEBOOK), ("blocks.py", BLOCKS)):
        (tmp_path / name).write_text(script)
        run(tmp_path, programs / "python", name, timeout=2000)
    assert len(list(tmp_path.glob("runs/packed/*/manifest.json"))) == 1
    assert len(list(tmp_path.glob("runs/report/*/report.html"))) == 1
