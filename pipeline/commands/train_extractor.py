"""``headrace train-extractor``: a model for ``source.extractor=blocks``, from pages whose main text is known.

headrace train-extractor pages.jsonl.zst                writes extractor.npz
headrace train-extractor *.jsonl --out german.npz       then use source.extractor_model=german.npz
headrace train-extractor pages.jsonl --folds 0          without the judgement, which trains --folds more models

Each line of the files is a JSON object with ``html``, its ``url``, and either ``truth`` (the main text) or
``snippets_in`` and ``snippets_out`` (lists of sentences that belong to it, and that do not). ``page_type`` or
``language`` may name a group, which is judged apart.

The judgement is cross-validated: each page is read with a model that saw no page of its site. F1, precision and recall
are those of the words against ``truth``, the mean over pages.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import click

from headrace.data_prep.extraction.main_text.training import HEAD, cross_validated, labelled_pages, table, train
from headrace.pipeline.command_line.declaration import command
from headrace.pipeline.core.errors import ConfigError, local_path
from headrace.pipeline.output import terminal


@command
@click.argument("pages", metavar="PAGES...", nargs=-1, required=True, type=click.Path())
@click.option("--out", metavar="FILE", default="extractor.npz", show_default=True, help="The model to write.")
@click.option("--folds", default=5, show_default=True, help="Parts of the sites for the judgement; 0: none.")
@click.option("--trees", default=200, show_default=True, help="Trees of the model.")
@click.option("--seed", default=1, show_default=True, help="Seed of the parts and of the trees.")
def train_extractor(
    overrides: Sequence[str], pages: Sequence[str], out: str, folds: int, trees: int, seed: int
) -> None:
    """Trains a model that finds the main text of web pages, on labelled PAGES."""
    if folds < 0 or folds == 1:
        raise ConfigError("--folds", f"{folds} parts judge nothing", "give 2 or more, or 0 for no judgement")
    if trees < 1 or not 0 <= seed < 2**31:
        raise ConfigError("command line", f"trees={trees}, seed={seed}", "give at least 1 tree, and a seed of 31 bits")
    if not local_path(out, "--out").parent.is_dir():
        raise ConfigError("--out", f"there is no folder {Path(out).parent}", "make it, or name another file")
    for page in pages:
        if not Path(page).is_file():
            raise ConfigError("PAGES", f"there is no file {page}", "name JSONL files of labelled pages")
    known = list(labelled_pages([Path(page) for page in pages]))
    if not known:
        raise ConfigError("PAGES", "no page could be read", "name JSONL files of labelled pages")
    if folds:
        judged = cross_validated(known, folds, seed, lambda some: train(some, trees, seed, {}))
        terminal.show_lines(HEAD, table(list(judged)))
    files = {Path(page).name: hashlib.sha256(Path(page).read_bytes()).hexdigest() for page in pages}
    train(known, trees, seed, {"pages": len(known), "files": files, "trees": trees, "seed": seed}).save(Path(out))
    terminal.show([("written", out)])
