"""C4's rules in their plainest form: a whole corpus in, the kept pages out. Slow and simple.

Written from the description of TFDS text/c4.py (config ``en``), one function for each step, without code of data_prep.
"""

import hashlib
import re
from collections.abc import Callable, Collection
from typing import NamedTuple


class Page(NamedTuple):
    url: str
    text: str
    timestamp: str


def md5(text: str) -> str:
    return hashlib.md5(text.encode("utf-8")).hexdigest()


def c4(pages: list[Page], sentences: Callable[[str], list[str]], bad_words: Collection[str]) -> list[tuple[str, str]]:
    """(URL, text) of the pages that stay, in the order they came."""
    pages = [Page(p.url, wet_text(p.text), p.timestamp) for p in pages]
    pages = [p for p in pages if len(p.text) <= 190_000]
    pages = newest_of_each_url(pages)
    pages = [p._replace(text=text) for p in pages if (text := cleaned(p.text, sentences)) is not None]
    pages = without_repeated_lines(pages, sentences)
    pages = [p for p in pages if is_english(p.text)]
    pages = [p for p in pages if not has_bad_word(p.text, bad_words)]
    return [(p.url, p.text) for p in pages]


def wet_text(text: str) -> str:
    lines = [line.strip() for line in re.split("\r\n|\r|\n", text)]
    return "\n".join(line for line in lines if line)


def normalized(url: str) -> str:
    url = re.sub(r"https?://(www\.)?", "", url)
    url = re.sub(r"\?(utm_|ref|feed).*", "", url)
    while url.endswith("/"):
        url = url[:-1]
    return url


def newest_of_each_url(pages: list[Page]) -> list[Page]:
    newest: dict[str, Page] = {}
    for page in pages:
        key = normalized(page.url)
        if key not in newest or page.timestamp > newest[key].timestamp:
            newest[key] = page
    chosen = [id(page) for page in newest.values()]
    return [page for page in pages if id(page) in chosen]


def cleaned(text: str, sentences: Callable[[str], list[str]]) -> str | None:
    valid, number = [], 0
    for line in text.splitlines():
        line = line.strip()
        if any(len(word) > 1000 for word in line.split()):
            continue
        line = re.sub(r"\[\d*\]|\[edit\]|\[citation needed\]", "", line)
        if line[-1:] not in (".", "?", "!", '"') or line[-1:] == "":
            continue
        if line[-3:] == "...":
            continue
        if len(line.split()) < 5:
            continue
        if "lorem ipsum" in line.lower():
            return None
        if "javascript" in line.lower():
            continue
        if "{" in line:
            return None
        policies = ["terms of use", "privacy policy", "cookie policy", "uses cookies", "use of cookies", "use cookies"]
        if [policy for policy in policies if policy in line.lower()]:
            continue
        number += len(sentences(line))
        valid.append(line)
    if number < 3:
        return None
    return "\n".join(valid).strip()


def without_repeated_lines(pages: list[Page], sentences: Callable[[str], list[str]]) -> list[Page]:
    owners: dict[str, str] = {}
    for page in pages:
        for line in page.text.split("\n"):
            key = md5(line.strip().lower())
            owners[key] = min(owners.get(key, page.url), page.url, key=md5)
    result = []
    for page in pages:
        lines: list[str] = []
        seen: list[str] = []
        for line in page.text.split("\n"):
            key = md5(line.strip().lower())
            if owners[key] == page.url and key not in seen:
                lines.append(line)
                seen.append(key)
        text = "\n".join(lines)
        if text and len(sentences(text)) >= 3:
            result.append(page._replace(text=text))
    return result


def is_english(text: str) -> bool:
    import langdetect

    langdetect.DetectorFactory.seed = 0
    try:
        best = langdetect.detect_langs(text)[0]
    except langdetect.lang_detect_exception.LangDetectException:
        return False
    return bool(best.lang == "en" and best.prob >= 0.99)


def has_bad_word(text: str, words: Collection[str]) -> bool:
    pattern = r"(?:\W|^)({})(?:\W|$)".format("|".join(re.escape(word) for word in sorted(words)))
    return re.search(pattern, text.lower()) is not None
