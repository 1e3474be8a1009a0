"""Writes the practice data of the tutorials: small, made from a grammar, the same on every machine.

    python examples/practice.py pages      pages/*.jsonl, site/*.html, crawl.warc.gz     tutorial_curator.md
    python examples/practice.py model      my_model/, a tiny untrained LLaMA             tutorial_researcher.md
    python examples/practice.py quiz       quiz.jsonl, 100 questions about its sentences tutorial_researcher.md
    python examples/practice.py tags       tags/*.txt, names of people and places tagged fine-tuning.md

The files are written to the current folder. The pages are of every kind that a rule of C4 decides about: most are
kept; some are too short, not English, source code, placeholder text, or near copies of others.
"""

import gzip
import json
import random
import re
import sys
from collections.abc import Iterator
from pathlib import Path

NOUNS = ("river", "mill", "wheel", "farmer", "village", "bridge", "winter", "harvest", "garden", "teacher", "letter")
VERBS = ("carries", "follows", "remembers", "repairs", "crosses", "watches", "paints", "builds", "finds", "describes")
ADJECTIVES = ("old", "quiet", "narrow", "green", "broken", "famous", "early", "heavy", "small", "distant")
GERMAN = "Die alte Mühle steht am Ufer des Flusses und mahlt seit vielen Jahren das Korn der Bauern aus dem Dorf."
CODE = "function turn(wheel) { return wheel.speed + 1; } is the whole program of the mill, as the teacher wrote it."
PLACEHOLDER = "Lorem ipsum dolor sit amet, consectetur adipiscing elit, sed do eiusmod tempor incididunt ut labore."
GOOD_PAGES = 220
COPIES = 12
QUESTIONS = 100
WRITERS = ("Ann Miller", "Tom Reed", "Sue Park")

FIRST_NAMES = ("Ann", "Tom", "Sue", "Max", "Ida", "Paul", "Rose", "Hugo")
LAST_NAMES = ("Miller", "Reed", "Park", "Stone", "Brook", "Hill")
PLACES = ("Norwood", "Easton", "Westfield", "Milford", "Stonebridge", "Rosedale")
Page = tuple[str, str]
"""The URL and the text of a page."""


def sentence(words: random.Random) -> str:
    subject, place = words.choice(ADJECTIVES), words.choice(ADJECTIVES)
    first, second, third = (words.choice(NOUNS) for _ in range(3))
    year = words.randint(1700, 1999)
    return f"In {year} the {subject} {first} {words.choice(VERBS)} the {second} near the {place} {third}."


def paragraphs(words: random.Random) -> list[str]:
    return [" ".join(sentence(words) for _ in range(words.randint(6, 10))) for _ in range(words.randint(2, 4))]


def good_page(words: random.Random, number: int) -> Page:
    """Returns a page with a title, a menu and, on every fifth page, a line about cookies. C4 removes these lines."""
    lines = [f"Story {number} of the valley", "Home | News | Contact", *paragraphs(words)]
    if number % 5 == 0:
        lines.append("We use cookies, and our cookie policy is written on another page.")
    return f"https://valley.example/story/{number}", "\n".join(lines)


def near_copy(page: Page, number: int) -> Page:
    """Returns ``page`` on another site, which has added a short sentence to each line."""
    lines = [f"{line} Copied by mirror {number}." for line in page[1].splitlines()[2:]]
    return f"https://mirror.example/{number}", "\n".join(lines)


def all_pages() -> list[Page]:
    words = random.Random(0)
    good = [good_page(words, number) for number in range(GOOD_PAGES)]
    bad = [(f"https://valley.example/note/{n}", f"{sentence(words)} That is all.") for n in range(15)]
    for name, line, count in (("de", GERMAN, 10), ("code", CODE, 8), ("draft", PLACEHOLDER, 6)):
        for number in range(count):
            numbered = [line.replace(".", f" {number}{part}.") for part in "abcde"]
            bad.append((f"https://valley.example/{name}/{number}", "\n".join([*numbered, *paragraphs(words)[:1]][:5])))
    pages = good + bad + [near_copy(good[number], number) for number in range(COPIES)]
    words.shuffle(pages)
    return pages


def write_jsonl(folder: Path) -> None:
    """Writes two files of records with nested fields; the second one ends with three that cannot be read."""
    folder.mkdir()
    rows = [
        json.dumps({"content": text, "meta": {"url": url}, "writer": WRITERS[number % len(WRITERS)]})
        for number, (url, text) in enumerate(all_pages())
    ]
    half = len(rows) // 2
    broken = ['{"content": "A line that was cut', '{"content": ""}', '{"content": null}']
    for name, lines in (("first", rows[:half]), ("second", rows[half:] + broken)):
        (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def html(text: str) -> str:
    title, menu, *body = text.splitlines()
    paragraph_tags = "".join(f"<p>{line}</p>" for line in body)
    return (
        f"<html><head><title>{title}</title></head><body><nav>{menu}</nav><main>{paragraph_tags}</main></body></html>"
    )


def write_html(folder: Path, pages: list[Page]) -> None:
    folder.mkdir()
    for number, (_, text) in enumerate(pages):
        (folder / f"page-{number}.html").write_text(html(text))


def warc_records(pages: list[Page]) -> Iterator[bytes]:
    """Yields one response for each page; every fourth has status 404."""
    for number, (url, text) in enumerate(pages):
        status = "404 Not Found" if number % 4 == 3 else "200 OK"
        body = f"HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\n\r\n{html(text)}".encode()
        head = (
            f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Record-ID: <urn:uuid:{number:032x}>\r\n"
            f"WARC-Target-URI: {url}\r\nWARC-Date: 2026-11-01T00:00:00Z\r\n"
            f"Content-Type: application/http; msgtype=response\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        yield head.encode() + body + b"\r\n\r\n"


def write_pages() -> None:
    write_jsonl(Path("pages"))
    words = random.Random(1)
    others = [good_page(words, number) for number in range(1000, 1012)]
    write_html(Path("site"), others[:6])
    records = warc_records(others)
    Path("crawl.warc.gz").write_bytes(b"".join(gzip.compress(record, mtime=0) for record in records))


def write_model() -> None:
    """Writes a LLaMA of 2 layers with random weights and a tokenizer of 512 tokens, as transformers saves them."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator((text for _, text in all_pages()), trainer)
    end = "<|endoftext|>"
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=end, eos_token=end).save_pretrained("my_model")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
        tie_word_embeddings=True,
        bos_token_id=0,
        eos_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained("my_model")


def write_quiz() -> None:
    """Writes questions for the end of a sentence; in the wrong choice the words stand in another order."""
    words, rows = random.Random(2), []
    for _ in range(QUESTIONS):
        beginning, verb, end = re.split(f"({'|'.join(VERBS)})", sentence(words))
        right, wrong = verb + end, f"{end.strip(' .')} {verb}."
        gold = words.randint(0, 1)
        rows.append({"query": beginning.strip(), "choices": [wrong, right] if gold else [right, wrong], "gold": gold})
    Path("quiz.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def tagged(words: random.Random) -> list[str]:
    """Returns the lines of a sentence with a person and a place; the same names stand elsewhere without being one."""
    person, place = words.choice(FIRST_NAMES), words.choice(PLACES)
    if words.random() < 0.5:
        person = f"{person} {words.choice(LAST_NAMES)}"
    subject, thing = words.choice(ADJECTIVES), words.choice(NOUNS)
    patterns: list[tuple[tuple[str, str], ...]] = [
        ((person, "PER"), (words.choice(VERBS), ""), (f"the {subject} {thing} in", ""), (place, "LOC")),
        ((f"The {thing} of", ""), (place, "LOC"), ("is known to", ""), (person, "PER")),
        ((f"The {subject} {thing} near the {words.choice(PLACES)} {words.choice(NOUNS)} is", ""), (subject, "")),
    ]
    lines = list[str]()
    for text, type_ in words.choice(patterns):
        for number, word in enumerate(text.split()):
            lines.append(f"{word} {('B-' if number == 0 else 'I-') + type_ if type_ else 'O'}")
    return [*lines, ". O"]


def write_tags() -> None:
    """Writes columns as of CoNLL-2003: 600 sentences of training and 150 of validation."""
    Path("tags").mkdir()
    words, seen = random.Random(3), set[str]()
    for name, count in (("train", 600), ("dev", 150)):
        sentences = list[str]()
        while len(sentences) < count:
            text = "\n".join(tagged(words))
            if text not in seen:
                sentences.append(text)
                seen.add(text)
        Path(f"tags/{name}.txt").write_text("\n\n".join(sentences) + "\n")


if __name__ == "__main__":
    writers = {"pages": write_pages, "model": write_model, "quiz": write_quiz, "tags": write_tags}
    if len(sys.argv) != 2 or sys.argv[1] not in writers:
        sys.exit(f"usage: python {sys.argv[0]} {'|'.join(writers)}")
    writers[sys.argv[1]]()
