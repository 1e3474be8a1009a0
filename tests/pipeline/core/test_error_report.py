from pathlib import Path

import pytest

from headrace.pipeline.core import error_report
from headrace.pipeline.core.errors import ArtifactError, ConfigError, HeadraceError, RetryableError, TaskError


@pytest.mark.parametrize("kind", [ArtifactError, ConfigError, RetryableError, TaskError])
def test_an_error_comes_back_as_what_it_was(tmp_path: Path, kind: type[HeadraceError]) -> None:
    error_report.write(tmp_path, ConfigError("an", "earlier", "one"))
    error_report.write(tmp_path, kind("weights", "a rank was killed", "run again"))
    found = error_report.read(tmp_path)
    assert type(found) is kind
    assert str(found) == "weights: a rank was killed; run again"


def test_a_folder_that_takes_no_report_is_no_error_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").touch()
    error_report.write(tmp_path, TaskError("weights", "failed", "mend it"))
    assert capsys.readouterr().err == f"headrace: {tmp_path}/logs/error.json could not be written (File exists)\n"


def test_nothing_is_found_where_nothing_was_left_or_it_was_cleared(tmp_path: Path) -> None:
    assert error_report.read(tmp_path) is None
    error_report.write(tmp_path, TaskError("weights", "failed", "mend it"))
    error_report.clear(tmp_path)
    assert error_report.read(tmp_path) is None


def test_a_damaged_report_is_said_to_be_damaged(tmp_path: Path) -> None:
    """It is not taken for another error, whose kind would decide whether a job comes back."""
    error_report.write(tmp_path, RetryableError("weights", "a rank was killed", "run again"))
    path = tmp_path / error_report.FILE
    for damaged in (path.read_text().replace("killed", "kilned"), path.read_text()[:-9], ""):
        path.write_text(damaged)
        found = error_report.read(tmp_path)
        assert type(found) is ArtifactError
        assert found.where == str(path)
