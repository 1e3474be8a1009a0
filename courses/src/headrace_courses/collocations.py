"""N-grams of 2 to 5 words whose words belong together, by PMI, for masks of whole ones.

python -m headrace_courses.collocations                          of the tokens of your newest run, to collocations.jsonl
python -m headrace_courses.collocations --least 50 --most 10000 --to frequent.jsonl
headrace experiment=bert_demo objective=masked_collocations objective.collocations=collocations.jsonl

PMI is ln p(n-gram) less that of the likeliest division into parts (Levine et al. 2021, "PMI-Masking"). Each line of the
file is a JSON object with the tokens of each word, the count and the PMI; the highest PMI comes first.
"""

import itertools
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from headrace.data_prep.tokenization.encode import parse
from headrace.data_prep.tokenization.shards import TokenShards
from headrace.pipeline.command_line.declaration import NewFile, command, run_option
from headrace.pipeline.command_line.request import run_of
from headrace.pipeline.command_line.result_files import write_file
from headrace.pipeline.core.errors import ConfigError
from headrace.pipeline.documents.lookup import need
from headrace.pipeline.output import terminal
from headrace.train.objectives.token_texts import continuations
from headrace_courses.collocation_counts import WordRule, lines, ranked
from headrace_courses.program import run as run_program

SHOWN = 20
"""Collocations that are printed."""


@command
@click.option("--to", "out", metavar="FILE", type=NewFile(), default="collocations.jsonl", help="The file to write.")
@click.option("--least", default=10, show_default=True, help="Least occurrences of an n-gram.")
@click.option("--most", default=800_000, show_default=True, help="The most collocations that are written.")
@click.option("--memory-mb", default=1000, show_default=True, help="Memory for counting; the rest is on the disk.")
@run_option
def collocations(overrides: Sequence[str], out: Path, least: int, most: int, memory_mb: int, run: str) -> None:
    """Writes the n-grams of words with the highest PMI, the units of masks with objective=masked_collocations."""
    if min(least, most, memory_mb) < 1:
        problem = f"--least {least}, --most {most}, --memory-mb {memory_mb}"
        raise ConfigError("command line", problem, "give numbers of at least 1")
    stages = run_of(overrides, run).stages
    file = need("tokenizer", stages).path("tokenizer.json")
    tokenizer = parse(file.read_text(encoding="utf-8"), str(file))
    special = [number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special]
    rule = WordRule(continuations(tokenizer), np.array(sorted(special), np.int64))
    with tempfile.TemporaryDirectory(dir=out.resolve().parent) as folder:
        ordered = ranked(TokenShards(need("tokens", stages)), rule, least, memory_mb * 1_000_000, Path(folder))
    spellings = {number: token for token, number in tokenizer.get_vocab(with_added_tokens=True).items()}
    written = (json.dumps(line, ensure_ascii=False) + "\n" for line in lines(ordered[:most], spellings))
    write_file(out, "".join(written))
    for collocation in ordered[:SHOWN]:
        text = tokenizer.decode([*itertools.chain(*collocation.words)]).strip()
        terminal.show([(f"{collocation.pmi:.2f}", f"{text!r}, {collocation.count:,} times")])
    terminal.show([("written", f"{min(most, len(ordered)):,} of {len(ordered):,} collocations to {out}")])


if __name__ == "__main__":
    run_program(collocations)
