"""What is gone ends with its remedy, however it is named."""

import pytest

from headrace.pipeline.command_line.group import command_remedy, obey
from headrace.pipeline.command_line.setting_help import explanation
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import compose
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.gone import GONE

OPTIONS = [name for name in GONE if "=" in name]
COMMANDS = [name for name in GONE if name.startswith("headrace ")]
FORMATS = [name for name in GONE if name.startswith("--format ")]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_or_an_option_of_one_gives_the_remedy(name):
    words = name.split()[1:]
    if len(words) == 1:
        assert command_remedy(words[0]) == GONE[name]
        return
    with pytest.raises(ConfigError) as refused:
        obey([*words, "value"])
    assert refused.value.remedy == GONE[name]


@pytest.mark.parametrize("name", sorted(GONE.keys() - {*COMMANDS, *FORMATS}))
def test_a_setting_or_an_option_gives_the_remedy(name):
    with pytest.raises(ConfigError) as refused:
        decoded(compose([name if name in OPTIONS else f"{name}=1"]))
    assert refused.value.remedy == GONE[name]


@pytest.mark.parametrize("name", OPTIONS)
def test_help_and_files_give_the_remedy_of_an_option(name, tmp_path, monkeypatch):
    group, _, option = name.partition("=")
    with pytest.raises(ConfigError) as refused:
        explanation(name)
    assert refused.value.remedy == GONE[name]
    monkeypatch.setenv("HEADRACE_CONFIG_DIR", str(tmp_path / "conf"))
    (tmp_path / "conf" / group).mkdir(parents=True)
    (tmp_path / "conf" / group / "mine.yaml").write_text(f"defaults: [{option}, _self_]\n")
    with pytest.raises(ConfigError) as refused:
        compose([f"{group}=mine"])
    assert refused.value.remedy == GONE[name]


def test_a_type_in_a_file_gives_the_remedy():
    with pytest.raises(ConfigError) as refused:
        decoded(compose([]) | {"source": {"type": "wikipedia", "paths": ["a"]}})
    assert refused.value.remedy == GONE["source=wikipedia"]
