from pathlib import Path

from headrace.train.checkpoint.names import checkpoint_name, checkpoints, step_of


def test_checkpoints_are_listed_by_step_and_other_folders_are_not(tmp_path: Path) -> None:
    steps = [999_999_999, 50, 99_999_999]
    for name in (*map(checkpoint_name, steps), "writing-step_00000060", "removing-step_00000040", "step_old"):
        (tmp_path / name).mkdir()
    found = checkpoints(tmp_path)
    assert list(found) == sorted(steps), "a ninth digit does not change the order"
    assert found[50] == tmp_path / "step_00000050"
    assert [step_of(path) for path in found.values()] == sorted(steps)
    assert checkpoints(tmp_path / "missing") == {}
