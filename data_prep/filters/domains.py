"""Pages by where they come from: sites and addresses that the user lists, to keep or to drop.

    http://www.sub.paper.co.uk/a?b   ── host ──>    www.sub.paper.co.uk
                                     ── sites ──>   www.sub.paper.co.uk, sub.paper.co.uk, paper.co.uk, co.uk, uk

Lists are files of the user's: nothing is downloaded and none is carried.
"""

import functools
import json
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import Filter, filter_settings
from headrace.data_prep.filters.own_files import need_file, own_file, own_text
from headrace.data_prep.filters.urls import normalize_url, url_of
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.settings import Positive
from headrace.pipeline.core.stage import RawFile

MOST_CHARACTERS = 2000
"""No host has more than 253 characters, with a user's name and password before it somewhat more."""


@filter_settings
class AllowedDomains(Filter):
    """Keeps pages of listed sites, RealNews' way: ``{"bbc.co.uk": true, "example.org": ["", "news"]}``.

    ``true`` takes every host of the site, a list only those with one of these subdomains (``""`` is the site itself).
    ``is_realnews_domain`` of TFDS text/c4_utils.py, which asks the public suffix list what the site of a host is: the
    same pages for every list whose names are registrable domains, as those of RealNews are. As there, ``www`` is a
    subdomain like any other; unlike there, case does not matter.
    """

    type: Literal["allowed_domains"] = "allowed_domains"
    path: str
    """A JSON file in the form of RealNews' ``domain_to_allowed_subdomains.json`` (Zellers et al. 2019)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        need_file("allowed_domains.path", self.path, "a JSON file of sites")

    def raw_files(self) -> tuple[RawFile, ...]:
        return (own_file(self.path),)

    def judge(self, document: Document) -> Drop | None:
        host = host_of(url_of(document))
        allowed = domain_table(self.path)
        for site in sites(host, longest(domain_table, self.path)):
            if site in allowed:
                subdomains, subdomain = allowed[site], host[: -len(site)].rstrip(".")
                is_in = not isinstance(subdomains, frozenset) or subdomain in subdomains
                return None if is_in else Drop(f"{self.type}.subdomain", host)
        return Drop(f"{self.type}.domain", host)


@filter_settings
class AllowedUrls(Filter):
    """Keeps pages whose normalized URL is in the list, normalized too: WebText's way.

    ``filter_by_webtextlike`` of TFDS text/c4_utils.py, there with OpenWebText's addresses.
    """

    type: Literal["allowed_urls"] = "allowed_urls"
    path: str
    """A text file with a URL a line, or a folder of ``*.txt`` of them."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not list_files(self.path):
            raise ConfigError("allowed_urls.path", f"{self.path} holds no list", "name a text file or folder of *.txt")

    def raw_files(self) -> tuple[RawFile, ...]:
        return tuple(own_file(str(path)) for path in list_files(self.path))

    def judge(self, document: Document) -> Drop | None:
        url = normalize_url(url_of(document))
        return None if url in url_table(self.path) else Drop(self.type, url)


@filter_settings
class BlockedDomains(Filter):
    """Drops pages of listed sites, subdomains included, and pages with listed words in their URL.

    RefinedWeb's rules for URLs (Penedo et al. 2023, "The RefinedWeb Dataset for Falcon LLM", appendix G.1): a block
    list of sites, then words: ``strict`` ones anywhere in the URL without its dots and hyphens, ``hard`` ones as words
    of it, ``soft`` ones when there are at least ``min_soft_words`` different ones. Pages without URL stay.
    """

    type: Literal["blocked_domains"] = "blocked_domains"
    domains_path: str | None = None
    """A text file with a domain a line, such as the block lists of the University of Toulouse; None: no sites."""
    strict_words_path: str | None = None
    """A text file with a word a line; None: no such words."""
    hard_words_path: str | None = None
    """A text file with a word a line; None: no such words."""
    soft_words_path: str | None = None
    """A text file with a word a line; None: no such words."""
    min_soft_words: Positive = 2
    """How many soft words make a URL bad (RefinedWeb: 2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, path in self._paths().items():
            need_file(f"blocked_domains.{name}", path, "a text file with an entry a line")

    def _paths(self) -> dict[str, str]:
        names = ("domains_path", "strict_words_path", "hard_words_path", "soft_words_path")
        return {name: path for name in names if (path := getattr(self, name)) is not None}

    def raw_files(self) -> tuple[RawFile, ...]:
        return tuple(own_file(path) for path in self._paths().values())

    def judge(self, document: Document) -> Drop | None:
        url = url_of(document).lower()
        blocked = entries(self.domains_path)
        for site in sites(host_of(url), longest(entries, self.domains_path)):
            if site in blocked:
                return Drop(f"{self.type}.domain", site)
        strict = strict_pattern(self.strict_words_path).search(url.replace("-", "").replace(".", ""))
        if strict:
            return Drop(f"{self.type}.strict_word", strict.group())
        words = set(re.split(r"[\W_]+", url))
        hard = words & entries(self.hard_words_path)
        if hard:
            return Drop(f"{self.type}.hard_word", min(hard))
        soft = words & entries(self.soft_words_path)
        return Drop(f"{self.type}.soft_words", " ".join(sorted(soft))) if len(soft) >= self.min_soft_words else None


def host_of(url: str) -> str:
    """The host of ``url`` in lower case, without port; empty when it has none.

    Beyond ASCII, more than MOST_CHARACTERS are none: ``urlsplit`` takes the square of the time of marks out of order.
    """
    if not url.isascii() and len(re.split("[/?#]", url.partition("//")[2] or url, maxsplit=1)[0]) > MOST_CHARACTERS:
        return ""
    try:
        return (urlsplit(url if "//" in url else f"//{url}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def sites(host: str, most_characters: int) -> Iterator[str]:
    """``host`` and every domain that it lies in, longest first, without those of more than ``most_characters``."""
    start = len(host) - most_characters
    if start > 0:
        host = host[start - 1 :].partition(".")[2]
    while host:
        yield host
        host = host.partition(".")[2]


@functools.cache
def longest(table: Callable[[Any], Collection[str]], path: str | None) -> int:
    """The characters of the longest name in ``table(path)``."""
    return max(map(len, table(path)), default=0)


def list_files(path: str) -> list[Path]:
    """The file ``path``, or the ``*.txt`` of the folder ``path``."""
    return [Path(path)] if Path(path).is_file() else sorted(Path(path).glob("*.txt"))


@functools.cache
def domain_table(path: str) -> dict[str, "frozenset[str] | bool"]:
    """Site → its allowed subdomains, or True; all in lower case.

    Raises:
        ArtifactError: when the file is not JSON of that form.
    """
    remedy = 'write {"site": true} or {"site": ["subdomain"]}'
    try:
        table = json.loads(own_text(path))
    except ValueError as error:
        raise ArtifactError(path, f"is not JSON ({error})", remedy) from None
    if not isinstance(table, dict):
        raise ArtifactError(path, "is not a JSON object", remedy)
    return {
        site.lower(): frozenset(str(name).lower() for name in allowed) if isinstance(allowed, list) else True
        for site, allowed in table.items()
    }


@functools.cache
def url_table(path: str) -> frozenset[str]:
    """The normalized URLs of a list."""
    lines = (line for file in list_files(path) for line in own_text(file).splitlines())
    return frozenset(normalize_url(line.strip()) for line in lines if line.strip())


@functools.cache
def entries(path: str | None) -> frozenset[str]:
    """The lower-cased lines of a list, without blank ones and ``#`` comments."""
    lines = own_text(path).splitlines() if path else []
    return frozenset(stripped for line in lines if (stripped := line.strip().lower()) and stripped[0] != "#")


@functools.cache
def strict_pattern(path: str | None) -> "re.Pattern[str]":
    """What finds an entry of a list anywhere; without list, a pattern that finds nothing."""
    words = sorted(entries(path))
    return re.compile("|".join(map(re.escape, words)) if words else r"(?!)")
