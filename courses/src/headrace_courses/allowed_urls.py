"""WebText's pages: a filter by a list of URLs, as the published lists of OpenWebText are.

https://www.a.org/x?utm_source=1   ── normalized ──>  a.org/x   listed: kept
"""

import functools
from pathlib import Path
from typing import ClassVar, Literal

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Explanations, Filter, filter_settings, read_text, user_file
from headrace.data_prep.filters.urls import MAX_HOST_CHARACTERS, domains_of, host_of, normalize_url, url_of
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.core.settings import FilePath, TextList
from headrace.pipeline.core.stage import RawFile


@filter_settings
class AllowedUrls(Filter):
    """Keeps pages whose normalized URL is in the list, as WebText does. The listed URLs are normalized too.

    Source: ``filter_by_webtextlike`` of TFDS text/c4_utils.py, which uses the URLs of OpenWebText.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Drops pages whose URL is not in the list.", "{value} is not in the list"),
        "site": ("Drops listed pages of excluded sites.", "{value} is excluded"),
    }
    type: Literal["allowed_urls"] = "allowed_urls"
    path: FilePath
    """A text file with one URL per line, or a folder of such files (``*.txt``)."""
    without_sites: TextList = ()
    """Sites whose pages are dropped although they are listed, with all subdomains: WebText has no page of Wikipedia
    (Radford et al. 2019, section 2.1)."""

    def __post_init__(self) -> None:
        if not list_files(self.path):
            raise ConfigError("allowed_urls.path", f"{self.path} holds no list", "name a text file or folder of *.txt")

    def check(self) -> None:
        """Refuses a list without a URL."""
        if not url_table(self.path):
            raise ConfigError("allowed_urls.path", f"{self.path} lists no URL", "write one URL a line")

    def raw_files(self) -> tuple[RawFile, ...]:
        return tuple(user_file(str(path)) for path in list_files(self.path))

    def judge(self, document: Document) -> Drop | None:
        url = normalize_url(url_of(document))
        if url not in url_table(self.path):
            return Drop(self.type, url)
        excluded = {site.lower() for site in self.without_sites}
        sites = (site for site in domains_of(host_of(url), MAX_HOST_CHARACTERS) if site in excluded)
        return next((Drop(f"{self.type}.site", site) for site in sites), None)


def list_files(path: str) -> list[Path]:
    """Returns the file ``path``, or the ``*.txt`` files of the folder ``path``."""
    return [Path(path)] if Path(path).is_file() else sorted(Path(path).glob("*.txt"))


@functools.cache
def url_table(path: str) -> frozenset[str]:
    """Reads the normalized URLs of a list."""
    lines = (line for file in list_files(path) for line in read_text(file).splitlines())
    return frozenset(normalize_url(line.strip()) for line in lines if line.strip())
