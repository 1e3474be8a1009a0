"""Tables of kinds: their lines, classes of installed packages, and classes of the user's own."""

import importlib
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.sources import SOURCES
from headrace.data_prep.texts import Texts
from headrace.pipeline.config import RunConfig, decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.environment import EXTENSIONS
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.kinds import TAG, Kinds
from headrace.pipeline.core.settings import decode

ROOMS = {
    "data_prep.columns": "SCORERS",
    "data_prep.filters": "FILTERS",
    "data_prep.selection_rules": "SELECTION_RULES",
    "data_prep.sources": "SOURCES",
    "data_prep.tokenizer": "TOKENIZERS",
    "pipeline.clusters": "CLUSTERS",
    "train.engine.optimizers": "OPTIMIZERS",
    "train.evaluation.benchmarks": "BENCHMARKS",
    "train.finetune.files": "FORMATS",
    "train.finetune.tasks": "TASKS",
    "train.objectives": "OBJECTIVES",
}
ZIM = '''
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.core.settings import Positive, settings
import zim_words


@settings
class Zim(Jsonl):
    """JSON lines by another name."""

    type: str
    least: Positive = 1


class NoSettings:
    type = "zim"
'''
RUN = ["experiment=smoke", "source=jsonl", "source.paths=[x.jsonl]", "until=texts"]


@pytest.mark.parametrize("room", ROOMS)
def test_each_line_leads_to_the_class_with_its_tag(room: str) -> None:
    table: Kinds = getattr(importlib.import_module(f"headrace.{room}"), ROOMS[room])
    assert {tag: getattr(table[tag], TAG) for tag in table.tags} == {tag: tag for tag in table.tags}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the module zim.py and the module that it imports. Its classes leave no trace."""
    monkeypatch.setattr(SOURCES, "_of_users", {})
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zim.py").write_text(ZIM)
    (tmp_path / "zim_words.py").write_text("WORDS = 1\n")
    (tmp_path / "x.jsonl").write_text('{"text": "a"}\n')
    return tmp_path


def source_of(*overrides: str) -> Any:
    return decoded(compose([*RUN, *overrides])).source


def test_a_class_of_the_users_own_is_named_by_its_module(folder: Path) -> None:
    source = source_of("source.type=zim:Zim", "+source.least=3")
    assert (source.type, source.least, type(source).__name__) == ("zim:Zim", 3, "Zim")
    copy = pickle.loads(pickle.dumps(source))
    assert copy == source, "a worker loads its class"


def test_its_code_belongs_to_the_address(folder: Path) -> None:
    def code() -> Any:
        description: dict[str, Any] = Texts(source=source_of("source.type=zim:Zim")).description({})
        return description["hashed"]["code"]

    first = code()
    assert sorted(first) == ["zim.py", "zim_words.py"]
    (folder / "zim_words.py").write_text("WORDS = 2\n")
    assert (code()["zim.py"], code()["zim_words.py"] == first["zim_words.py"]) == (first["zim.py"], False)
    assert "code" not in Texts(source=source_of()).description({})["hashed"]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["source.type=zim:Zom"], "source.type: zim.py has no source 'Zom'; did you mean 'Zim'?"),
        (["source.type=zom:Zim"], "source.type: 'zom:Zim' names no class: there is no file zom.py here; give <module>"),
        (["source.type=zim:NoSettings"], "source.type: zim.py has no source 'NoSettings'; known: Zim"),
        (["source.type=json:JSONDecoder"], "source.type: "),
        (["source.type=zim:Zim", "+source.leest=1"], "source.leest: unknown key 'leest'; did you mean 'source.least'?"),
        (["source.type=zim:Zim", "+source.least=0"], "source.least: must be at least 1 (got 0); correct the value"),
    ],
)
def test_mistakes(folder: Path, overrides: list[str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        source_of(*overrides)
    assert str(caught.value).startswith(message)


def test_a_filter_is_held_until_it_is_used(folder: Path) -> None:
    """The short form is the long one, so its results have the same addresses, and reading a run loads no code."""
    (folder / "zim.py").write_text("raise SystemExit")
    forms = ({"type": "python", "path": "zim:Long", "settings": {"most": 3}}, {"type": "zim:Long", "most": 3})
    long, short = (decode(Cleaning, {"filters": [form]}).filters for form in forms)
    assert long == short


def test_the_code_of_another_user_is_not_run(folder: Path) -> None:
    values = compose([*RUN, "source.type=zim:Zim"])
    with pytest.raises(ConfigError, match=r"zim:Zim: is a class whose code is not run here"):
        decode(RunConfig, values)


@pytest.fixture
def install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Installs a package with entry points of kinds."""
    monkeypatch.delenv(EXTENSIONS)

    def installed(package: str, *entries: str) -> None:
        facts = folder / f"{package}-1.0.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (facts / "entry_points.txt").write_text("\n".join(["[headrace.kinds]", *entries]))
        monkeypatch.syspath_prepend(folder)
        vars(SOURCES).pop("places", None)

    yield installed
    vars(SOURCES).pop("places", None)


def test_a_class_of_an_installed_package_has_a_tag(install: Callable[..., None], folder: Path) -> None:
    (folder / "their_zim.py").write_text(ZIM.replace("type: str", 'type: str = "zim"'))
    install("theirs", "source.zim = their_zim:Zim", "filter.zim = their_zim:Zim")
    assert SOURCES.tags[-1] == "zim"
    assert source_of("source.type=zim").type == "zim"
    with pytest.raises(ConfigError, match="unknown type 'zimm'; did you mean 'zim'"):
        source_of("source.type=zimm")


def test_two_packages_with_one_tag_are_refused(install: Callable[..., None]) -> None:
    install("theirs", "source.jsonl = their_zim:Zim")
    with pytest.raises(ConfigError, match=r"headrace.kinds: their_zim:Zim and .*:Jsonl are both installed as the sour"):
        _ = SOURCES.tags
