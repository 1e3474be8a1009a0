"""Files of results: their paths are checked before the work, and they are written whole."""

import json
import math
from pathlib import Path

import pytest

from headrace.pipeline.command_line import result_files
from headrace.pipeline.command_line.declaration import NewFile, read
from headrace.pipeline.command_line.group import COMMANDS
from headrace.pipeline.command_line.result_files import write_file, write_files
from headrace.pipeline.core.errors import ConfigError, TaskError

WRITTEN = {"--page", "--json"}
REQUIRED = {"compare": ["a", "b"], "evaluate": ["a"], "clean": ["c4"]}
OPTIONS = [
    (name, option.opts[0]) for name in COMMANDS for option in read(name).params if isinstance(option.type, NewFile)
]


def test_each_option_for_a_file_of_results_has_the_check() -> None:
    params = [(name, param) for name in COMMANDS for param in read(name).params if WRITTEN & set(param.opts)]
    named = {(name, param.opts[0]) for name, param in params if not param.is_flag}
    others = {("train-classifier", "--out"), ("audit", "--sheet"), ("clean", "--dropped"), ("unique", "--dropped")}
    assert named | others == set(OPTIONS)


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_a_path_where_no_file_can_be_is_refused_before_the_command_begins(
    name: str, option: str, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    for path, wrong in (
        (tmp_path, f"{str(tmp_path)!r} is a folder"),
        (tmp_path / "none/page", f"there is no folder {str(tmp_path / 'none')!r}"),
        (tmp_path / "file/page", f"there is no folder {str(tmp_path / 'file')!r}"),
    ):
        with pytest.raises(ConfigError) as caught:
            read(name).make_context(name, [*REQUIRED.get(name, []), option, str(path)])
        assert str(caught.value) == f"{option}: {wrong}; name another file"


def test_a_folder_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: Path(path) != tmp_path)
    with pytest.raises(ConfigError) as caught:
        read("ladder").make_context("ladder", ["--json", str(tmp_path / "a.json")])
    assert str(caught.value) == f"--json: the folder {str(tmp_path)!r} cannot be written to; name another file"


def test_what_is_no_number_is_null_in_json(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_files(file, {"loss": math.nan, "rates": (1.5, -math.inf, {"best": math.inf})}, None, dict)
    assert json.loads(file.read_text()) == {"loss": None, "rates": [1.5, None, {"best": None}]}


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page, link = tmp_path / "page.html", tmp_path / "link.html"
    page.write_text("old")
    link.symlink_to(page)
    write_file(link, "new")
    assert (page.read_text(), link.is_symlink()) == ("new", True)
    monkeypatch.setattr(result_files, "temporary_path", lambda path: tmp_path / "none" / path.name)
    with pytest.raises(TaskError) as caught:
        write_file(page, "newer")
    wrong = "cannot be written (No such file or directory)"
    assert str(caught.value) == f"{page}: {wrong}; name another file; nothing is computed twice"
    assert page.read_text() == "new"
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", "link.html"}


def test_a_device_is_written_to(tmp_path: Path) -> None:
    write_file(Path("/dev/null"), "text")
    assert Path("/dev/null").is_char_device()
