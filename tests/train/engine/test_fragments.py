"""Fragments of files that other ranks wrote: values, and which files are opened."""

import pytest
import torch
from safetensors import safe_open

from headrace.pipeline.core.errors import ArtifactError
from headrace.train.engine import fragments
from headrace.train.engine.fragments import MASTER, Fragment, HostCopy, key, read

VALUES = torch.arange(24.0)


def parts(ranks: int) -> list[Fragment]:
    """The equal parts of a parameter that ``ranks`` ranks hold."""
    return [Fragment("w", 24 // ranks * rank, {MASTER: part.clone()}) for rank, part in enumerate(VALUES.chunk(ranks))]


@pytest.fixture
def files(tmp_path):
    """Those of four ranks."""
    paths = [tmp_path / f"{rank}.safetensors" for rank in range(4)]
    for path, part in zip(paths, parts(4), strict=True):
        HostCopy({key(part, MASTER): part.values[MASTER]}, updates=7).write(path)
    return paths


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    names: list[str] = []

    def noted(path, framework):
        names.append(path.stem)
        return safe_open(path, framework)

    monkeypatch.setattr(fragments, "safe_open", noted)
    return names


@pytest.mark.parametrize(
    ("ranks", "rank", "names"),
    [(4, 0, "0"), (4, 3, "3"), (2, 1, "23"), (8, 5, "2"), (1, 0, "0123"), (3, 1, "12"), (3, 2, "23")],
)
def test_a_rank_opens_the_files_with_its_values(files, opened, ranks, rank, names):
    part = parts(ranks)[rank]
    expected = part.values[MASTER].clone()
    part.values[MASTER].zero_()
    assert read(files, [part], rank * len(files) // ranks) == 7
    assert torch.equal(part.values[MASTER], expected)
    assert opened == list(names)


def test_values_that_no_file_has(files):
    longer = Fragment("w", 20, {MASTER: torch.zeros(8)})
    with pytest.raises(ArtifactError, match="holds 4 of the 8 values from 20 of w; remove this checkpoint: it is of"):
        read(files, [longer], 2)
