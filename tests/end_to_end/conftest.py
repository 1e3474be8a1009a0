"""The documents of runs that other processes start."""

import pytest

from headrace import documentation


@pytest.fixture(scope="session")
def few_documents(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A sixth of the documents of experiment=smoke, as ``source.paths`` from any folder."""
    folder = tmp_path_factory.mktemp("few")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        documentation.main(("fsspec", "rich"))
    return f"source.paths=[{folder}/documentation/fsspec.jsonl,{folder}/documentation/rich.jsonl]"
