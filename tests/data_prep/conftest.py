"""Real pages, which a process reads once: the file holds 416 MB of HTML."""

import itertools
from typing import Any

import orjson
import pytest

from headrace.pipeline.core.text_files import read_lines

PAGES = "web/wcxb_dev.jsonl.zst"


@pytest.fixture(scope="session")
def real_pages(data_folder) -> list[dict[str, Any]]:
    """The first 150 real pages: ``url``, ``html`` and the checked main text, ``truth`` (None on a few)."""
    return [orjson.loads(line) for line in itertools.islice(read_lines(data_folder(PAGES)), 150)]


@pytest.fixture(scope="session")
def web_texts(real_pages) -> list[str]:
    """The main text of these pages."""
    return [page["truth"] or "" for page in real_pages]


@pytest.fixture(scope="session")
def all_web_texts(data_folder) -> list[str]:
    """The main text of all 1,497 real pages."""
    return [orjson.loads(line)["truth"] or "" for line in read_lines(data_folder(PAGES))]
