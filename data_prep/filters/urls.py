"""Filters by the URL or site of a page: the newest of each URL, and lists of the user.

    http://www.a.org/x/?utm_source=feed   2019-04-18T…    dropped
    https://a.org/x                       2019-04-20T…    kept

    http://www.sub.paper.co.uk/a?b   ── host ──>      www.sub.paper.co.uk
                                     ── domains ──>   www.sub.paper.co.uk, sub.paper.co.uk, paper.co.uk, co.uk, uk

The project neither contains nor downloads any list.
"""

import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import datetime, timedelta, timezone
from email.utils import parsedate_to_datetime
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

import numpy as np
from datatrove.data import Document

from headrace.data_prep.document import Drop
from headrace.data_prep.filters.filter import (
    Explanations,
    Filter,
    GlobalFilter,
    filter_settings,
    read_text,
    require_file,
    user_file,
)
from headrace.pipeline.core.errors import ArtifactError, ConfigError
from headrace.pipeline.core.json_files import each_once
from headrace.pipeline.core.settings import FilePath, Positive, settings
from headrace.pipeline.core.stage import RawFile

DATE = re.compile(
    r"(\d{4})(?:-?(\d\d)(?:-?(\d\d)(?:[T ]?(\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,](\d{1,6})\d*)?)?)?"
    r"(?: ?([+-]\d\d):?(\d\d)?)?)?)?)?(?!-?\d)"
)
"""The beginning of a date as ISO 8601 has it."""
FIRST_DATE = datetime.min.replace(tzinfo=timezone.utc)

_SCHEME = re.compile(r"https?://(www\.)?")
_TAIL = re.compile(r"\?(utm_|ref|feed).*")


def normalize_url(url: str) -> str:
    """Removes scheme, ``www.``, a query that begins with ``utm_``, ``ref`` or ``feed``, and trailing slashes.

    Source: ``normalize_url`` of TFDS text/c4_utils.py.
    """
    return _TAIL.sub("", _SCHEME.sub("", url)).rstrip("/")


def url_of(document: Document) -> str:
    """Returns the document's URL; empty when it has none."""
    return str(document.metadata.get("url") or "")


def date_of(text: str) -> datetime | None:
    """Returns the date ``text`` in UTC, also where it names no zone; None where it is none. Read are ISO 8601 (WARC's),
    the dates of HTTP, and seconds or milliseconds from 1970."""
    try:
        if text.isdecimal() and len(text) in (9, 10, 13):
            return datetime.fromtimestamp(int(text[:10]), timezone.utc)
        if match := DATE.match(text):
            *parts, fraction, zone, zone_minutes = match.groups("00")
            year, month, day, hour, minute, second = map(int, parts)
            minute -= 60 * int(zone) + int(zone[0] + zone_minutes)
            time = timedelta(hours=hour, minutes=minute, seconds=second, microseconds=int(fraction.ljust(6, "0")))
            return datetime(year, month or 1, day or 1, tzinfo=timezone.utc) + time
        moment = parsedate_to_datetime(text)
        return moment.replace(tzinfo=moment.tzinfo or timezone.utc).astimezone(timezone.utc)
    except (ValueError, OverflowError):  # the 30th of February, say
        return None


def url_number(document: Document) -> int:
    """Returns the MD5 of the normalized URL (of the id where there is none) as a number. C4 samples pages by it."""
    name = normalize_url(url_of(document)) or document.id
    return int(hashlib.md5(name.encode("utf-8", "surrogatepass")).hexdigest(), 16)


def md5_words(texts: Iterable[str]) -> "np.ndarray":
    """Returns the MD5 of each text as uint64 (n, 2). Rows compare from left to right as the hex digests do."""
    digests = b"".join([hashlib.md5(text.encode("utf-8", "surrogatepass")).digest() for text in texts])
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64).reshape(-1, 2)


@settings
class OnePagePerUrl(GlobalFilter):
    """Keeps one page of each normalized URL: the newest, and of equally new ones the first. Pages without URL are kept.

    Source: ``normalize_url`` and ``select_newest_page`` of TFDS text/c4_utils.py.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Keeps only the newest page of each URL.", "the URL {value} has a newer page"),
    }
    revision: ClassVar[int] = 1
    """In revision 0, dates were compared as texts."""
    type: Literal["one_page_per_url"] = "one_page_per_url"
    rank_words: ClassVar[int] = 1

    def keys(self, document: Document) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
        url = url_of(document)
        keys = md5_words([normalize_url(url)] if url else [])
        date = date_of(str(document.metadata.get("date") or "")) or FIRST_DATE
        newest_first = ~np.array([(date - FIRST_DATE) // timedelta(microseconds=1)], np.uint64)
        return keys, newest_first, np.zeros(len(keys), np.uint32)

    def trim(self, document: Document, losers: "np.ndarray") -> Drop | None:
        return Drop(self.type, normalize_url(url_of(document))) if len(losers) else None


MAX_HOST_CHARACTERS = 2000
"""A host has at most 253 characters; a user name and password may come before it."""

NO_HOST = re.compile(r"[/:@\s]|^$")
"""Matches what no name of a host holds."""


@filter_settings
class AllowedDomains(Filter):
    """Keeps pages of listed sites. The list has RealNews' form: ``{"bbc.co.uk": true, "example.org": ["", "news"]}``.

    ``true`` allows every host of the site. A list allows only these subdomains (``""`` is the site itself).

    Source: ``is_realnews_domain`` of TFDS text/c4_utils.py, which finds the site of a host by the public suffix list.
    The result is the same for every list whose names are registrable domains, and RealNews' names are. ``www`` is a
    subdomain like any other, as in TFDS; unlike in TFDS, case does not matter.
    """

    explanations: ClassVar[Explanations] = {
        "": ("Drops pages of sites that are not in the list.", "{value} is not in the list"),
        "domain": ("Drops pages of sites that are not in the list.", "{value} is not in the list"),
        "subdomain": (
            "Drops pages of listed sites whose subdomain is not in the list.",
            "the subdomain of {value} is not in the list",
        ),
    }
    type: Literal["allowed_domains"] = "allowed_domains"
    path: FilePath
    """A JSON file in the form of RealNews' ``domain_to_allowed_subdomains.json`` (Zellers et al. 2019)."""

    def __post_init__(self) -> None:
        require_file("allowed_domains.path", self.path, "a JSON file of sites")

    def check(self) -> None:
        """Refuses a list without a site."""
        require_sites("allowed_domains.path", self.path, domain_table(self.path))

    def raw_files(self) -> tuple[RawFile, ...]:
        return (user_file(self.path),)

    def judge(self, document: Document) -> Drop | None:
        host = host_of(url_of(document))
        allowed = domain_table(self.path)
        for site in domains_of(host, longest_name(domain_table, self.path)):
            if site in allowed:
                subdomains, subdomain = allowed[site], host[: -len(site)].rstrip(".")
                is_allowed = not isinstance(subdomains, frozenset) or subdomain in subdomains
                return None if is_allowed else Drop(f"{self.type}.subdomain", host)
        return Drop(f"{self.type}.domain", host)


@filter_settings
class BlockedDomains(Filter):
    """Drops pages of listed sites, including their subdomains, and pages with listed words in their URL.

    Source: Penedo et al. 2023 ("The RefinedWeb Dataset for Falcon LLM"), appendix G.1. After the list of sites come
    three lists of words. A ``strict`` word counts anywhere in the URL, once dots and hyphens are removed from it. A
    ``hard`` word must be a whole word of the URL. ``soft`` words count when at least ``min_soft_words`` different ones
    are words of the URL. Pages without URL are kept.
    """

    explanations: ClassVar[Explanations] = {
        "domain": ("Drops pages of listed sites.", "{value} is in the list"),
        "strict_word": ("Drops pages with a listed word anywhere in the URL.", "the URL has “{value}”"),
        "hard_word": ("Drops pages with a listed word as a word of the URL.", "the URL has “{value}”"),
        "soft_words": ("Drops pages with {min_soft_words} or more listed words in the URL.", "the URL has “{value}”"),
    }
    type: Literal["blocked_domains"] = "blocked_domains"
    domains_path: FilePath | None = None
    """A text file with one domain per line, such as the block lists of the University of Toulouse; None: no sites."""
    strict_words_path: FilePath | None = None
    """A text file with one word per line; None: no such words."""
    hard_words_path: FilePath | None = None
    """A text file with one word per line; None: no such words."""
    soft_words_path: FilePath | None = None
    """A text file with one word per line; None: no such words."""
    min_soft_words: Positive = 2
    """Number of different soft words that drop a page (RefinedWeb: 2)."""

    def __post_init__(self) -> None:
        for name, path in self._paths().items():
            require_file(f"blocked_domains.{name}", path, "a text file with one entry per line")

    def check(self) -> None:
        """Refuses a list without a site."""
        if self.domains_path is not None:
            require_sites("blocked_domains.domains_path", self.domains_path, entries(self.domains_path))

    def _paths(self) -> dict[str, str]:
        names = ("domains_path", "strict_words_path", "hard_words_path", "soft_words_path")
        return {name: path for name in names if (path := getattr(self, name)) is not None}

    def raw_files(self) -> tuple[RawFile, ...]:
        return tuple(user_file(path) for path in self._paths().values())

    def judge(self, document: Document) -> Drop | None:
        url = url_of(document).lower()
        blocked = entries(self.domains_path)
        for site in domains_of(host_of(url), longest_name(entries, self.domains_path)):
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
    """Returns the host of ``url`` in lower case, without port; empty when it has none.

    Beyond ASCII, a host of more than MAX_HOST_CHARACTERS counts as none: the time of ``urlsplit`` grows with the square
    of the number of combining marks.
    """
    authority = "" if url.isascii() else re.split("[/?#]", url.partition("//")[2] or url, maxsplit=1)[0]
    if len(authority) > MAX_HOST_CHARACTERS:
        return ""
    try:
        return (urlsplit(url if "//" in url else f"//{url}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def domains_of(host: str, max_characters: int) -> Iterator[str]:
    """Yields ``host`` and its parent domains, longest first, without those of more than ``max_characters``."""
    start = len(host) - max_characters
    if start > 0:
        host = host[start - 1 :].partition(".")[2]
    while host:
        yield host
        host = host.partition(".")[2]


def require_sites(where: str, path: str, names: Collection[str]) -> None:
    """Checks that some of the ``names`` in the list ``path`` can be the name of a host.

    Raises:
        ConfigError: for the setting ``where``, when there is none: the list would match no page.
    """
    if not any(NO_HOST.search(name) is None for name in names):
        first = next(iter(sorted(names)), None)
        problem = f"{path} lists no site" + f" ({first!r} is not the name of a host)" * bool(first)
        raise ConfigError(where, problem, "write names such as example.org, without http:// and path")


@functools.cache
def longest_name(table: Callable[[Any], Collection[str]], path: str | None) -> int:
    """Returns the number of characters of the longest name in ``table(path)``."""
    return max(map(len, table(path)), default=0)


@functools.cache
def domain_table(path: str) -> dict[str, "frozenset[str] | bool"]:
    """Reads a JSON file of sites: site -> its allowed subdomains, or True; all in lower case.

    Raises:
        ArtifactError: when the file is not JSON of that form.
    """
    remedy = 'write {"site": true} or {"site": ["subdomain"]}'
    try:
        table = json.loads(read_text(path), object_pairs_hook=each_once)
    except ValueError as error:
        raise ArtifactError(path, f"is not JSON ({error})", remedy) from None
    if not isinstance(table, dict):
        raise ArtifactError(path, "is not a JSON object", remedy)
    return {
        site.lower(): frozenset(str(name).lower() for name in allowed) if isinstance(allowed, list) else True
        for site, allowed in table.items()
    }


@functools.cache
def entries(path: str | None) -> frozenset[str]:
    """Reads the lower-cased lines of a list, without blank lines and ``#`` comments."""
    lines = read_text(path).splitlines() if path else []
    return frozenset(stripped for line in lines if (stripped := line.strip().lower()) and stripped[0] != "#")


@functools.cache
def strict_pattern(path: str | None) -> "re.Pattern[str]":
    """Returns a pattern that finds an entry of a list anywhere. Without a list it finds nothing."""
    words = sorted(entries(path))
    return re.compile("|".join(map(re.escape, words)) if words else r"(?!)")
