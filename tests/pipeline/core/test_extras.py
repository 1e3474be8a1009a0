"""What needs a package of an extra is refused before anything runs, and the error names the extra."""

import gc
import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.command_line.run_start import planned_start
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.extras import (
    EXTRAS,
    TRAIN,
    is_installed,
    loading,
    missing_packages_explained,
    require,
    uncollected,
)
from headrace.pipeline.tracking.wandb_run import KEY, Tracking
from tests.small_runs import page

ROOT = Path(__file__).parents[3]
DISTRIBUTIONS = {
    "lm_eval": "lm-eval", "rouge_score": "rouge-score", "sklearn": "scikit-learn",
}  # fmt: skip
"""The distributions whose name is not that of their module."""

Hide = Callable[..., None]


@pytest.fixture
def hide(monkeypatch: pytest.MonkeyPatch) -> Hide:
    """``hide("torch")``: from now on, the modules seem not to be installed."""
    find = importlib.util.find_spec

    def hidden(*modules: str) -> None:
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in modules else find(name))

    return hidden


def test_each_extra_of_the_table_installs_its_package() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for module, extra in EXTRAS.items():
        (listed,) = re.findall(rf"^{extra} = (\[.*?\](?= *(?:#.*)?$))", text, re.MULTILINE | re.DOTALL)
        assert f'"{DISTRIBUTIONS.get(module, module)}' in listed, (module, extra)


def test_the_first_missing_package_is_named(hide: Hide) -> None:
    require("here", *TRAIN)
    hide("deepspeed", "safetensors")
    with pytest.raises(ConfigError) as caught:
        require("weights", *TRAIN)
    assert str(caught.value) == "weights: deepspeed is not installed; pip install 'headrace[train]'"
    assert is_installed("torch")
    assert not is_installed("deepspeed")


def start(folder: Path, *settings: str) -> None:
    (folder / "pages.jsonl").write_text(f'{{"text": "{page(1)}"}}\n')
    own = ("source=jsonl", f"source.paths=[{folder}/pages.jsonl]", f"root={folder}/runs", *settings)
    planned_start(compose(own), own)


def test_a_training_without_torch(hide: Hide, tmp_path: Path) -> None:
    hide("torch")
    for settings in (["until=weights"], [], ["until=scores", "tracking=file"]):
        with pytest.raises(ConfigError) as caught:
            start(tmp_path, *settings)
        remedy = "pip install 'headrace[train]', or end with the data: until=packed"
        assert str(caught.value) == f"weights: torch is not installed; {remedy}"
    start(tmp_path, "until=packed")
    jobs = ("cluster=slurm", "cluster.launcher=[apptainer,exec,image.sif]")
    start(tmp_path, *jobs)


def test_wandb_that_was_asked_for(hide: Hide, tmp_path: Path) -> None:
    hide("wandb")
    for settings in (["tracking=wandb"], ["tracking.wandb=offline"], ["tracking.wandb=online"]):
        with pytest.raises(ConfigError) as caught:
            start(tmp_path, "until=texts", *settings)
        remedy = "pip install 'headrace[wandb]', or record in metrics.jsonl alone: tracking=file"
        assert str(caught.value) == f"tracking: wandb is not installed; {remedy}"
    start(tmp_path, "until=texts")
    start(tmp_path, "until=texts", "tracking=file")


def test_wandb_that_was_not_asked_for(hide: Hide, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEY, "secret")
    assert Tracking().is_on
    assert Tracking().records_stages(trains=False)
    assert Tracking().missing == ""
    hide("wandb")
    assert not Tracking().is_on
    assert not Tracking().records_stages(trains=True)
    line = (
        "wandb: is not installed, so WANDB_API_KEY has no effect; pip install 'headrace[wandb]', or unset WANDB_API_KEY"
    )
    assert Tracking().missing == line
    assert Tracking(wandb="off").missing == ""
    monkeypatch.delenv(KEY)
    assert Tracking().missing == ""


@pytest.mark.parametrize(("url", "module"), [("s3://bucket/a.jsonl", "s3fs"), ("gs://bucket/*.jsonl", "gcsfs")])
def test_a_cloud(hide: Hide, url: str, module: str) -> None:
    hide(module)
    with pytest.raises(ConfigError) as caught:
        Jsonl(paths=(url,)).listing()
    assert str(caught.value) == f"source.paths: {module} is not installed; pip install 'headrace[cloud]'"


def test_an_import_that_fails(hide: Hide) -> None:
    hide("wandb")
    with pytest.raises(ConfigError) as caught, missing_packages_explained("packages"):
        raise ModuleNotFoundError("No module named 'wandb.sdk'", name="wandb.sdk")
    assert str(caught.value) == "packages: wandb is not installed; pip install 'headrace[wandb]'"
    for name in ("numpy.nothing", "torch.nothing"):
        with pytest.raises(ModuleNotFoundError), missing_packages_explained("packages"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_the_collector_is_off_inside_and_on_again_afterwards() -> None:
    def fail() -> None:
        with uncollected():
            assert not gc.isenabled()
            raise ImportError

    with pytest.raises(ImportError):
        fail()
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_was_loaded_is_searched_no_more() -> None:
    loaded: list[object] = []
    with loading():
        assert not gc.isenabled()
        loaded.append(loaded)
    assert gc.isenabled()
    assert not any(one is loaded for one in gc.get_objects())
