"""The table of docs/tokenizers.md: each cell is a test here, and the table has the cells of these tests."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Library
from transformers import AutoTokenizer

from headrace.data_prep.tokenization.encode import Encoder
from headrace.data_prep.tokenization.given_tokenizer import GivenFile, Gpt2Files
from headrace.data_prep.tokenization.made_tokenizers import (
    Bpe,
    Bytes,
    Characters,
    Sampled,
    Trained,
    WordPiece,
    Words,
)
from headrace.data_prep.tokenizer import Tokenizer, TokenizerSettings
from headrace.data_prep.tokens import Tokens
from headrace.train.config import ModelConfig
from headrace.train.families.hf_folder import export
from headrace.train.model.transformer import Transformer
from tests.train.small_models import story
from tests.unique_documents import unique_documents

ROOT = Path(__file__).parents[3]
TEXTS = [story(number) for number in range(40)]
MADE: dict[str, Sampled | Bytes] = {
    "`train`": Trained(vocabulary_size=400),
    "`byte`": Bytes(),
    "`bpe`": Bpe(vocabulary_size=600, alphabet_size=100),
    "`wordpiece`": WordPiece(vocabulary_size=400, alphabet_size=100, special_tokens="bert"),
    "`character`": Characters(vocabulary_size=100),
    "`word`": Words(vocabulary_size=300),
}
GIVEN = {
    "`file`, byte-level": "`train`",
    "`file`, any other": "`bpe`",
    "`gpt2_files`": "`train`",
}
"""Kinds from files, and the kind whose tokens are in them here."""
AT_SPEED = {"`train`", "`byte`", "`file`, byte-level", "`gpt2_files`"}
NAMES = [*MADE, *GIVEN]


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The tokenizer.json of each kind that is made here."""
    return {name: kind.train(TEXTS) if isinstance(kind, Sampled) else kind.make() for name, kind in MADE.items()}


def given_of(name: str, text: str, folder: Path) -> TokenizerSettings:
    """Writes the tokens of the tokenizer.json ``text`` as the files of the kind ``name``."""
    model = json.loads(text)["model"]
    path = folder / "given"
    if name == "`gpt2_files`":
        path.write_text(json.dumps(model["vocab"]))
        (folder / "merges.txt").write_text("".join(f"{left} {right}\n" for left, right in model["merges"]))
        return Gpt2Files(encoder=str(path), merges=str(folder / "merges.txt"))
    path.write_text(text)
    return GivenFile(path=str(path))


@pytest.fixture
def stored(made, tmp_path, run_stage):
    """``stored(name)`` runs the stage ``tokenizer`` of the kind, and returns its artifact and that of its documents."""

    def run(name: str) -> tuple[Any, Any]:
        kind = MADE.get(name) or given_of(name, made[GIVEN[name]], tmp_path)
        unique, stage = unique_documents(tmp_path / "unique", [TEXTS]), Tokenizer(settings=kind)
        stage.raw_files() if name in GIVEN else None
        return run_stage(stage, {"unique": unique}, tmp_path / "tokenizer"), unique

    return run


@pytest.mark.parametrize("name", MADE)
def test_trained(name, stored, tmp_path, run_stage):
    """Most tokens of a text that it was made from are known, and decoding gives its words."""
    tokenizer, unique = stored(name)
    tokens = run_stage(Tokens(), {"unique": unique, "tokenizer": tokenizer}, tmp_path / "tokens")
    encoder = Encoder.load(tokenizer.path("tokenizer.json"))
    assert tokens.counts["unknown_tokens"] <= tokens.counts["tokens"] / 10
    assert encoder.decode(encoder.encode([TEXTS[0]])[0]).lower().split()[:1] == TEXTS[0].lower().split()[:1]


@pytest.mark.parametrize("name", GIVEN)
def test_read(name, stored, made):
    """The ids are those of the kind that the tokens are from."""
    tokenizer, _ = stored(name)
    ours = Encoder.load(tokenizer.path("tokenizer.json"))
    texts = [*TEXTS, "naïve 水車\n\n  It's"]
    ids = [found.tolist() for found in ours.encode(texts)]
    library = Library.from_str(made[GIVEN[name]])
    assert ids == [library.encode(text, add_special_tokens=False).ids for text in texts]


@pytest.mark.parametrize("name", NAMES)
def test_at_speed(name, stored):
    tokenizer, _ = stored(name)
    reason = Encoder.load(tokenizer.path("tokenizer.json")).slow_because
    assert (reason is None) == (name in AT_SPEED), reason


@pytest.mark.parametrize("name", NAMES)
def test_exported(name, stored, tmp_path):
    """The tokenizer of an exported model has in transformers the ids that the documents have here."""
    tokenizer, _ = stored(name)
    file = tokenizer.path("tokenizer.json")
    encoder, sizes = Encoder.load(file), {"layers": 1, "width": 8, "heads": 1, "kv_heads": 1, "mlp_width": 8}
    parts: dict[str, Any] = {"positions": "rope", "norm": "rmsnorm", "activation": "swiglu", "bias": False}
    shape = ModelConfig(**sizes, **parts, context=16, tied=False)
    network = Transformer(shape, encoder.vocabulary_size)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.zero_()
    export(network.named_parameters(), shape, encoder.vocabulary_size, file, tmp_path / "hf")
    theirs = AutoTokenizer.from_pretrained(tmp_path / "hf", local_files_only=True)
    expected = [ids.tolist() for ids in encoder.encode(TEXTS)]
    assert theirs(TEXTS, add_special_tokens=False).input_ids == expected
    assert (tmp_path / "hf" / "tokenizer.json").read_bytes() == file.read_bytes()


def test_the_table_has_these_cells():
    columns = {"trained": [*MADE], "read": [*GIVEN], "at speed": AT_SPEED, "exported": NAMES}
    head = f"| kind | {' | '.join(columns)} |"
    rows = [f"| {name} | {' | '.join('✓' if name in has else '–' for has in columns.values())} |" for name in NAMES]
    page = (ROOT / "docs" / "tokenizers.md").read_text(encoding="utf-8")
    assert "\n".join((head, "|---|---|---|---|---|", *rows)) in page
