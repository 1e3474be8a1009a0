"""The presets of other installed packages: their folders join those of Headrace."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headrace.pipeline.configuration import options
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.environment import EXTENSIONS
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Installs a package with the files ``texts`` in its folder ``presets``, by name; returns this folder."""
    monkeypatch.delenv(EXTENSIONS)

    def installed(package: str, folder: str = "presets", **texts: str) -> Path:
        module, facts = tmp_path / package / package, tmp_path / package / f"{package}-1.0.dist-info"
        for path, text in {"__init__": "raise ImportError", **texts}.items():
            file = module / "presets" / f"{path.replace('__', '/')}.yaml" if texts.get(path) else module / f"{path}.py"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text(f"[headrace.options]\n{package} = {package}:{folder}\n")
        monkeypatch.syspath_prepend(tmp_path / package)
        forget()
        return module / "presets"

    yield installed
    forget()


def forget() -> None:
    options.installed_folders.cache_clear()
    options.installed_options.cache_clear()


STUDY = "title: Theirs\n"


def test_options_of_a_package_are_composed_listed_and_completed(install: Install) -> None:
    """The package is not imported: its module raises an error."""
    folder = install("theirs_one", schedule__theirs="# A schedule of theirs.\ndefaults: [cosine]\nwarmup_steps: 3\n",
                     experiment__theirs="# @package _global_\ndefaults: [{override /schedule: theirs}]\nworkers: 5\n",
                     study__their_study=STUDY)  # fmt: skip
    composed = compose(["experiment=theirs"])
    assert (composed["schedule"]["type"], composed["schedule"]["warmup_steps"], composed["workers"]) == ("cosine", 3, 5)
    assert options.option_file("schedule", "theirs") == folder / "schedule" / "theirs.yaml"
    assert options.completions("schedule=the") == ["schedule=theirs"]
    assert "their_study" in options.studies()
    with pytest.raises(ConfigError, match="did you mean 'theirs'"):
        compose(["schedule=theris"])
    assert "A schedule of theirs." in headrace_here("help", "schedule").stdout


def test_without_extensions_nothing_is_found(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    install("theirs_two", schedule__theirs="defaults: [cosine]\n")
    assert "theirs" in options.groups()["schedule"]
    monkeypatch.setenv(EXTENSIONS, "none")
    forget()
    assert "theirs" not in options.groups()["schedule"]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"schedule__cosine": "defaults: [linear]\n"}, "two installed packages have the option schedule=cosine: "),
        ({"shedule__theirs": "defaults: [linear]\n"}, "unknown group 'shedule'; did you mean 'schedule'?"),
        ({"folder": "gone"}, "headrace.options: the installed package theirs_three has no folder 'theirs_three:gone'; "
         "correct its entry point, or: pip uninstall theirs_three"),
    ],
)  # fmt: skip
def test_mistakes_of_a_package(install: Install, texts: dict[str, str], message: str) -> None:
    install("theirs_three", **texts)
    with pytest.raises(ConfigError) as error:
        compose([])
    assert message in str(error.value)
