"""Compares the pages and texts that ``cleaning=c4`` keeps with those of the plain reference.

    python -m benchmarks.data.c4_exact [FILES…] [--html-field html] [--generated N] [--seed 0] [--tasks 4]

FILES: JSONL (plain or compressed) with ``url`` and ``text``, ``date`` optional; with ``--html-field`` the project's
extractor makes the text from that field, with ``--text-field`` names another field. ``--generated N`` adds N synthetic
pages at the edge of every rule, the same for the same seed. All pages are one corpus: the pages of one URL and repeated
lines may be in different files. They go through the stages ``texts`` and ``clean`` with conf/cleaning/c4.yaml, and
through the slow reference of tests/data_prep/c4_reference.py with nltk's Punkt tokenizer and langdetect. Prints one
JSON line:

    pages       records with text that both read; records without JSON or text are ``unreadable``
    differing   pages that one kept and the other did not, or both with different text
    kept        by the reference
    dropped     by the stage, by rule

The first differing pages go to standard error. Exit status 1 when there are any.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import nltk
import yaml

from headrace.data_prep.clean import Cleaning
from headrace.data_prep.document import read_documents
from headrace.data_prep.filters.c4.bad_words import LISTS
from headrace.data_prep.filters.punkt import punkt_folder
from headrace.data_prep.sources.jsonl import Jsonl
from headrace.pipeline.core.settings import decode
from tests.data_prep.c4_reference import Page, c4
from tests.stage_run import texts_and_clean

PRESET = Path(__file__).parents[2] / "conf" / "cleaning" / "c4.yaml"
SHOWN = 5
"""Number of differing pages that are shown."""
WORDS = ["river", "valley", "wheel", "mill", "water", "stone", "bridge", "winter", "road", "garden", "letter", "window"]
SENTENCES = [
    "The {} runs down the {} and turns the old {}.",
    "It had rained for three days. Nobody was surprised that the {} was gone.",
    "Mr. Smith of the U.S. went to see Dr. Jones about the {}.",
    "He asked what they would do with all that {} and the {}?",
    '"We will build another {}," said the man with the {}."',
    'They sold the {} at 3.5 p.m. "What a pity!" she said. (He agreed.)',
    "Look at the {}! Is this the {} that you bought? It is not... a {}.",
    "In the {} of 1999 the {} and the {} were still the same; nobody minded.",
]
"""Filled with WORDS, some numbered so that they are on no other page. Most lines, so that pages get far."""
FOREIGN = [
    "Das Wasser fließt den {} hinunter und treibt das alte Rad von {}.",
    "Les eaux de la rivière {} descendent la vallée et tournent la roue.",
    "Вода течёт с горы {} в долину и крутит старое колесо.",
    "El agua baja de la montaña {} y mueve la rueda del {}?",
]
EDGES = [
    "Only four words here.",
    "Exactly five words are here.",
    "Five words without the citation [1].",
    "Words before the mark at the end. [12]",
    "Some claim that this is true.[citation needed]",
    "This one has a heading mark[edit] in the middle of it.",
    "[] [2] [edit] four words left.",
    "This sentence trails off into nothing much...",
    "This one ends with two dots only..",
    "This one ends in an apostrophe, which is no mark'",
    "No end mark on this line at all",
    "Please enable JavaScript to see this page properly.",
    "Please enable javascript and { then } see the page.",
    "This page must not stay because of { one bracket.",
    "A bracket { in a line without an end",
    "Here is some Lorem Ipsum text to fill the page.",
    "lorem ipsum without an end mark",
    "By using this site you accept the Terms of Use.",
    "We use cookies to make this site a better one.",
    "This page uses  cookies with two spaces between the words.",
    "Our Privacy Policy was changed { on the first of May.",
    "THE RIVER RUNS DOWN THE VALLEY AND TURNS THE OLD WHEEL.",
    "  The river runs down the valley and turns the old wheel.  ",
    "Sexual selection was what Darwin wrote about in it.",
    "x" * 1000 + " is the longest word that may stay here.",
    "x" * 1001 + " is too long a word to stay here.",
    "A line that is split\u2028 by a separator in the middle of it.",
    "One line here.\x0bAnother line is after the vertical tab now.",
    "İt was the dotted capital that grew when it was lowered.",
    "Write to some.one@example.org or see https://example.org/a?b=c for the rest of it.",
    "A line of five\u00a0words with\u3000odd spaces.\r",
    "",
    "   ",
    "...",
    '"',
]
BAD_EDGES = ["They found the {} of the old animal.", "A {}less word is not the word.", "The end is: {}"]
"""Filled with an entry of the bad-word list: as a word, inside one, and in a line that another rule takes."""
HOSTS = ["http://a.org/", "https://www.a.org/", "https://b.org/", "http://b.org//", "https://c.org/ü/"]
TAILS = ["", "/", "?utm_source=feed", "?ref=1", "?id=1&ref=2", "?feed=rss", "/https://www.a.org/x"]
DATES = ["2019-04-18T10:00:00Z", "2019-04-18T10:00:01Z", "2020-01-01T00:00:00Z", ""]


def generated(number: int, seed: int, bad_words: list[str]) -> Iterator[Page]:
    """``number`` pages: some lines only theirs, some of other pages, some on an edge; URLs meet in variants."""
    chance = random.Random(seed)
    for page in range(number):
        foreign = chance.choice([0, 0, 0, 0, 0, 0, 0, 0.05, 0.5, 1])
        lines = [made_line(chance, bad_words, foreign) for _ in range(chance.randint(1, 9))]
        if chance.random() < 1e-3:
            size = 190_000 - sum(map(len, lines)) - len(lines) + chance.randint(-1, 1)
            lines.append(("word " * (size // 5 + 1))[: size - 1] + ".")
        url = chance.choice(HOSTS) + str(chance.randrange(max(1, 3 * number // 4))) + chance.choice(TAILS)
        text = "\n".join(lines) if chance.random() < 0.95 else " \r\n\n".join(lines)
        if text.strip():
            yield Page(url if page % 1000 else "http://", text, chance.choice(DATES))


def made_line(chance: random.Random, bad_words: list[str], foreign: float) -> str:
    """Returns one line; a share of ``foreign`` of the lines without an edge case is in another language."""
    kind = chance.random()
    if kind < 0.03:
        return chance.choice(BAD_EDGES).format(chance.choice(bad_words))
    if kind < 0.2:
        return chance.choice(EDGES)
    sentence = chance.choice(FOREIGN if chance.random() < foreign else SENTENCES)
    words = [chance.choice(WORDS) for _ in range(sentence.count("{}"))]
    if chance.random() < 0.7:
        words[0] += f" {chance.randrange(10**6)}"
    return sentence.format(*words)


def read_pages(source: Jsonl) -> tuple[list[Page], int]:
    """Returns the pages of ``source`` in its order, and the number of records without a page."""
    records = [record for file in source.listing() for record in source.read(file.name)]
    pages = [Page(d.metadata["url"], d.text, d.metadata.get("date", "")) for d, drop in records if drop is None]
    if not all(page.url for page in pages):
        raise SystemExit("a record has no url: C4's pages have one, and the reference takes all others for one page")
    return pages, len(records) - len(pages)


def write_pages(path: Path, pages: Iterator[Page], tasks: int) -> None:
    """Writes ``pages`` to ``tasks`` files in turn."""
    files = [(path / f"{task:03d}.jsonl").open("w", encoding="utf-8") for task in range(tasks)]
    for number, page in enumerate(pages):
        row = {"url": page.url, "text": page.text, "date": page.timestamp}
        files[number % tasks].write(json.dumps(row) + "\n")
    for file in files:
        file.close()


def nltk_sentences() -> Callable[[str], list[str]]:
    nltk.data.path.insert(0, str(punkt_folder().parents[2]))
    return nltk.data.load("tokenizers/punkt/english.pickle").tokenize


def differences(ours: list[tuple[str, str]], theirs: list[tuple[str, str]]) -> list[str]:
    """One line for each page that only one kept, or both with different text."""
    only_ours, only_theirs = dict(set(ours) - set(theirs)), dict(set(theirs) - set(ours))
    urls = sorted(only_ours.keys() | only_theirs.keys())
    return [f"{url}: ours {only_ours.get(url)!r:.300}, reference {only_theirs.get(url)!r:.300}" for url in urls]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*")
    parser.add_argument("--text-field", default="text")
    parser.add_argument("--html-field")
    parser.add_argument("--generated", type=int, default=0, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tasks", type=int, default=4, help="files that the generated pages are dealt out to")
    options = parser.parse_args()
    if not options.files and not options.generated:
        parser.error("name files or give --generated N")
    if options.generated and (options.html_field or options.text_field != "text"):
        parser.error("generated pages have a field text: compare them in a run of their own")
    preset = yaml.safe_load(PRESET.read_text(encoding="utf-8"))
    bad_words = set(json.loads((LISTS / "en.json").read_text(encoding="utf-8")))
    bad_words -= set(preset["filters"][-1]["allowed"]["en"])
    with tempfile.TemporaryDirectory() as name:
        made = Path(name, "generated")
        made.mkdir()
        if options.generated:
            write_pages(made, generated(options.generated, options.seed, sorted(bad_words)), options.tasks)
        paths = (*options.files, *([str(made)] if options.generated else []))
        source = Jsonl(paths=paths, task_bytes=1, text_field=options.text_field, html_field=options.html_field)
        pages, unreadable = read_pages(source)
        start = time.process_time()
        _, artifact = texts_and_clean(source, decode(Cleaning, preset), Path(name, "out"))
        middle = time.process_time()
        expected = c4(pages, nltk_sentences(), bad_words)
        end = time.process_time()
        kept = [(d.metadata["url"], d.text) for path in artifact.shards("documents") for d in read_documents(path)]
    differing = differences(kept, expected)
    for line in differing[:SHOWN]:
        print(line, file=sys.stderr)
    drops = {key[8:]: number for key, number in artifact.counts.items() if key.startswith("dropped:")}
    summary = {
        "benchmark": "c4_exact",
        "pages": len(pages),
        "differing": len(differing),
        "kept": len(expected),
        "same_order": kept == expected,
        "unreadable": unreadable,
        "generated": options.generated,
        "seed": options.seed,
        "dropped": drops,
        "cpu_seconds": {"stage": round(middle - start, 1), "reference": round(end - middle, 1)},
    }
    print(json.dumps(summary))
    return 1 if differing or kept != expected else 0


if __name__ == "__main__":
    sys.exit(main())
