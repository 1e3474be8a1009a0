"""A file of several options: its table has an entry for each."""

from pathlib import Path

import pytest

from headrace.pipeline.command_line.setting_help import explanation
from headrace.pipeline.config import decoded
from headrace.pipeline.configuration.composition import combinations, compose
from headrace.pipeline.configuration.options import about, completions, fields, groups
from headrace.pipeline.core.errors import ConfigError
from tests.command_line import headrace_here

TABLE = """# Shared by both.
# A second line.
defaults: [wsd]
warmup_steps: 7
options:
  # The short one.
  mine_short: {final_fraction: 0.5}
  # The long one,
  # of two lines.
  mine_long:
    warmup_steps: 90
"""


@pytest.fixture(autouse=True)
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "conf" / "schedule" / "mine.yaml"
    file.parent.mkdir(parents=True)
    file.write_text(TABLE)
    return file


@pytest.mark.parametrize(
    ("settings", "warmup_steps", "final_fraction"),
    [
        (["schedule=mine_short"], 7, 0.5),
        (["schedule=mine_long"], 90, 0.0),
        (["schedule=mine", "schedule.size=long"], 90, 0.0),
        (["schedule.size=short", "schedule=mine", "schedule.warmup_steps=8"], 8, 0.5),
    ],
)
def test_an_entry_is_an_option_over_what_all_share(settings, warmup_steps, final_fraction) -> None:
    schedule = compose(settings)["schedule"]
    assert schedule["type"] == "wsd"
    assert (schedule["warmup_steps"], schedule["final_fraction"]) == (warmup_steps, final_fraction)


def test_a_sweep_takes_several_sizes() -> None:
    swept = combinations(["schedule=mine", "schedule.size=short,long"])
    assert [values["schedule"]["warmup_steps"] for _, values, _ in swept] == [7, 90]


def test_help_and_completion_know_the_entries() -> None:
    assert {"mine_short", "mine_long"} <= set(groups()["schedule"])
    assert "mine" not in groups()["schedule"]
    assert about("schedule", "mine_long") == "The long one, of two lines. Shared by both. A second line."
    assert completions("schedule=mine") == ["schedule=mine_long", "schedule=mine_short"]
    assert {"final_fraction", "warmup_steps"} <= set(fields("schedule"))


def test_help_shows_the_sizes_of_a_table() -> None:
    assert explanation("schedule=mine").splitlines() == [
        "schedule=mine schedule.size=SIZE: Shared by both. A second line.",
        "",
        "Sizes:",
        "  mine_short  The short one.",
        "  mine_long   The long one, of two lines.",
    ]


def test_names_inside_brackets_are_no_settings(table: Path) -> None:
    table.write_text("x: 1\noptions:\n  mine_a: {first: {inner: 1, more: [{deep: 2}]}, second: [a, b]}\n")
    assert {"first", "second", "x"} <= set(fields("schedule"))
    assert not {"inner", "deep", "more"} & set(fields("schedule"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["schedule=mine"], "schedule: mine has the sizes short, long; give one, such as schedule.size=short, or"),
        (["schedule=mine", "schedule.size=wide"], "schedule: unknown option 'mine_wide'; "),
        (["schedule=mien"], "schedule: unknown option 'mien'; did you mean 'mine'?"),
        (["schedule=linear", "schedule.size=long"], "schedule.size: unknown key 'size'"),
    ],
)
def test_a_size_that_is_missing_or_wrong_is_named(settings, message) -> None:
    with pytest.raises(ConfigError) as refused:
        decoded(compose(settings))
    assert str(refused.value).startswith(message), refused.value


def test_a_broken_table_is_named(table: Path) -> None:
    table.write_text(TABLE + "  mine_long: {}\n")
    refused = headrace_here("config", "schedule=mine_long")
    assert "line 12: the key 'mine_long' is also in line 10" in refused.stderr


def test_a_plan_takes_the_vocabulary_of_the_size() -> None:
    plans = [headrace_here("plan", *model).stdout for model in (["model=gpt3", "model.size=125m"], ["model=gpt3_125m"])]
    assert plans[0] == plans[1]
    assert "125,226,240" in plans[0]
