"""Measures ``headrace why FILE --as text``: time and memory of the search for passages of a text in a training text.

    python -m benchmarks.data.text_passages --megabytes 10 100

Prints one line of JSON for each size. The pages are made of 20,000 words whose frequencies follow Zipf's law (seed 0),
400 words each; they go through the stages up to ``packed``. The text is of ``--pieces`` pieces of 40 words of as many
pages, each followed by 40 other words, so that the number of long passages is known.

    index_seconds      CPU time until the automaton of the text is made
    search_seconds     CPU time of both passes over the tokens, without compilation
    command_seconds    CPU time of the whole command, with start-up, documents and steps, compiled before
    command_peak_mb    its highest resident memory (10^6 bytes)
    planted            pieces that were found with their page, of all pieces
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.text_index import TextIndex
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.documents.passages import TrainingText
from headrace.pipeline.documents.training_rows import TrainingRows

WORDS, PAGE_WORDS, PIECE_WORDS = 20_000, 400, 40
LEAST, DOCUMENTS = 30, 10


def zipf_words(generator: np.random.Generator, number: int) -> list[str]:
    """Returns ``number`` words, ``wda`` (30) and so on, the k-th of them with a probability proportional to 1/k."""
    shares = np.cumsum(1 / np.arange(1, WORDS + 1))
    drawn = np.searchsorted(shares, generator.random(number) * shares[-1])
    names = ["w" + "".join(chr(97 + int(digit)) for digit in str(n + 30)) for n in range(WORDS)]
    return [names[index] for index in drawn.tolist()]


def write_pages(path: Path, megabytes: int, pieces: int) -> tuple[str, list[str]]:
    """Writes pages of ``megabytes``; returns the text that has pieces of them, and the URLs of these pages."""
    generator, size, number = np.random.default_rng(0), 0, 0
    taken, urls = [], []
    with path.open("w") as file:
        while size < megabytes * 10**6:
            words = zipf_words(generator, 1000 * PAGE_WORDS)
            for first in range(0, len(words), PAGE_WORDS):
                page, url = words[first : first + PAGE_WORDS], f"https://example.org/{number}"
                size += file.write(json.dumps({"text": " ".join(page), "url": url}) + "\n")
                if len(taken) < pieces and number % 97 == 5:
                    taken.append(page[100 : 100 + PIECE_WORDS])
                    urls.append(url)
                number += 1
    others = zipf_words(generator, len(taken) * PIECE_WORDS)
    texts = (" ".join(piece + others[n * PIECE_WORDS :][:PIECE_WORDS]) for n, piece in enumerate(taken))
    return " ".join(texts), urls


def settings(folder: Path) -> list[str]:
    steps = ["training.batch_rows=512", "training.steps=1000", "training.micro_batch_rows=8"]
    source = ["source=jsonl", f"source.paths=[{folder}/pages.jsonl]", "cleaning=none", f"root={folder}/runs"]
    return [*source, *steps, "tokenizer.vocabulary_size=16384", "tracking.wandb=off"]


def headrace(*arguments: str) -> str:
    command = [sys.executable, "-m", "headrace", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def measured(folder: Path, megabytes: int, pieces: int) -> dict[str, object]:
    text, urls = write_pages(folder / "pages.jsonl", megabytes, pieces)
    (folder / "text.txt").write_text(text)
    headrace(*settings(folder), "until=packed")
    command = ["why", f"{folder}/text.txt", "--as", "text", "--tokens", str(LEAST), "--documents", str(DOCUMENTS)]
    headrace(*command, *settings(folder), "until=packed")
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", *command, *settings(folder), "until=packed"],
        stdout=subprocess.PIPE,
        text=True,
    )
    told = process.stdout.read() if process.stdout else ""
    _, status, used = os.wait4(process.pid, 0)
    assert not status
    trained = TrainingRows.of(run_of([*settings(folder), "until=packed"]))
    corpus = TrainingText(trained)
    encoder = Encoder.load(trained.tokenizer.path("tokenizer.json"))
    (tokens,) = encoder.encode([text])
    assert trained.read_rows
    TextIndex(tokens[:1], encoder.end_of_text)  # loads numba
    begin = time.process_time()
    index = TextIndex(tokens, encoder.end_of_text)
    made = time.process_time()
    passages, searched = index.passages(corpus.parts(), LEAST)
    index.places(corpus.parts(), corpus.bounds, passages, DOCUMENTS)
    end = time.process_time()
    known = sum(line.endswith(f" {url}") for url in urls for line in told.splitlines())
    return {
        "megabytes": megabytes,
        "text_tokens": int(tokens.size),
        "searched_tokens": searched,
        "passages": len(passages),
        "planted": f"{known} of {len(urls)}",
        "index_seconds": round(made - begin, 3),
        "search_seconds": round(end - made, 3),
        "command_seconds": round(used.ru_utime + used.ru_stime, 2),
        "command_peak_mb": round(used.ru_maxrss * 1024 / 1e6),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--megabytes", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--pieces", type=int, default=15)
    options = parser.parse_args(arguments)
    for megabytes in options.megabytes:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(measured(Path(folder), megabytes, options.pieces)), flush=True)


if __name__ == "__main__":
    main()
