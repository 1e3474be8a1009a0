import io
import itertools
import json

import pytest
import zstandard


@pytest.fixture(scope="session")
def web_texts(data_folder) -> list[str]:
    """The checked main text of 150 real pages."""
    with io.TextIOWrapper(zstandard.open(data_folder("web/wcxb_dev.jsonl.zst"), "rb"), encoding="utf-8") as stream:
        return [json.loads(line)["truth"] or "" for line in itertools.islice(stream, 150)]
