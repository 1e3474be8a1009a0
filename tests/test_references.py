"""The pages that follow from the code are what the code gives now."""

import pytest

import headrace
from docs.references import FOLDER, PAGES, written
from headrace.pipeline.command_line.group import COMMANDS


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_what_the_code_gives(name: str) -> None:
    """``python -m docs.references`` writes the pages again."""
    assert (FOLDER / name).read_text(encoding="utf-8") == written(name)


def test_every_command_and_every_name_has_a_section() -> None:
    commands, api = (PAGES[name]() for name in ("commands.md", "api.md"))
    assert [
        command for command in COMMANDS if f"\n### {command}\n\n```text\nUsage: headrace {command}" not in commands
    ] == []
    assert [name for name in headrace.__all__ if f"\n## {name}\n" not in api] == []
    assert "### Run.funnel\n" in api
