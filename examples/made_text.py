"""Writes made parallel text and made summaries, the same on every machine, for docs/fine-tuning.md.

    python examples/made_text.py

    made/train.source, train.target, validation.source, validation.target      a sentence a line; the target is made up
    made/summaries_train.jsonl, summaries_validation.jsonl                     {"document": …, "summary": …}
    made/texts.jsonl                                                           all of it, for the tokenizer

The target language has a word for each English one, adjectives after nouns, and the verb at the end. A document has an
event and remarks that are always the same; the summary is the event without adjectives. No score on them says anything
about real text.
"""

import json
import random
from pathlib import Path

NOUNS = {"river": "ravo", "mill": "milu", "farmer": "farem", "bridge": "brida", "garden": "garo", "letter": "letim"}
VERBS = {"follows": "folit", "crosses": "krosit", "watches": "vatit", "builds": "bilit", "finds": "fidit"}
ADJECTIVES = {"old": "olda", "quiet": "kita", "green": "grena", "small": "smala", "early": "erla"}
TRAIN, HELD_OUT = 4000, 100
REMARKS = (
    "It rained.",
    "We had time.",
    "Nothing else was new.",
    "All went home.",
    "Then it was late.",
    "So it is told.",
)
MOST_REMARKS = 3
"""The most remarks of a document after its event."""

Clause = tuple[str, str, str, str, str]
"""Adjective, noun, verb, adjective, noun."""


def clause(words: random.Random) -> Clause:
    noun, other = words.sample(list(NOUNS), 2)
    first, second = (words.choice(list(ADJECTIVES)) for _ in range(2))
    return first, noun, words.choice(list(VERBS)), second, other


def english(parts: Clause) -> str:
    adjective, noun, verb, other, thing = parts
    return f"The {adjective} {noun} {verb} the {other} {thing}."


def made_up(parts: Clause) -> str:
    adjective, noun, verb, other, thing = parts
    return f"Na {NOUNS[noun]} {ADJECTIVES[adjective]} na {NOUNS[thing]} {ADJECTIVES[other]} {VERBS[verb]}."


def document(words: random.Random) -> tuple[str, str]:
    """Returns a document and its summary."""
    parts = clause(words)
    remarks = words.sample(REMARKS, words.randint(1, MOST_REMARKS))
    _, noun, verb, _, thing = parts
    return " ".join([english(parts), *remarks]), f"The {noun} {verb} the {thing}."


def main(folder: Path = Path("made")) -> None:
    """Writes all files to ``folder``."""
    folder.mkdir(exist_ok=True)
    words, texts = random.Random(2017), list[str]()
    clauses = list(dict.fromkeys(clause(words) for _ in range(10 * TRAIN)))[: TRAIN + HELD_OUT]
    for split, chosen in (("validation", clauses[:HELD_OUT]), ("train", clauses[HELD_OUT:])):
        for side, written in (("source", english), ("target", made_up)):
            lines = [written(parts) for parts in chosen]
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            texts += lines
    documents = list(dict.fromkeys(document(words) for _ in range(TRAIN + HELD_OUT)))
    for split, own in (("validation", documents[:HELD_OUT]), ("train", documents[HELD_OUT:])):
        rows = [json.dumps({"document": text, "summary": summary}) for text, summary in own]
        (folder / f"summaries_{split}.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    texts += [text for text, _ in documents]
    rows = [json.dumps({"text": text}) for text in texts]
    (folder / "texts.jsonl").write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    main()
