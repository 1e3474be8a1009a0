"""Small real inputs for training: a byte-level tokenizer, token shards of made-up text, packed rows."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from headrace.data_prep.packed import Packed, Packing
from headrace.pipeline.core.artifact import Artifact, TaskOutput, finish
from headrace.pipeline.core.stage import Inputs
from tests.stage_run import RunStage

END = "<|endoftext|>"
SENTENCE = "the mill stands by water that turns its wheel and grinds all grain we bring until night falls"
WORDS = SENTENCE.split()


def bytes_tokenizer() -> Tokenizer:
    """One token for each byte, and the end of text: 257 tokens."""
    vocabulary = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([END])
    return tokenizer


def texts(documents: int, seed: int) -> list[str]:
    """Documents of 2 to 40 words in a fixed cycle, so that the model has something to learn."""
    generator = random.Random(seed)
    starts = [(generator.randrange(len(WORDS)), generator.randrange(2, 40)) for _ in range(documents)]
    return [" ".join(WORDS[(start + i) % len(WORDS)] for i in range(length)) + " ü" for start, length in starts]


def token_shard(task: int, out: TaskOutput, documents: int, spoiled: Sequence[tuple[int, int, int]]) -> None:
    tokenizer = bytes_tokenizer()
    end, ids, bounds, lengths = tokenizer.token_to_id(END), [], [0], []
    ids.append(end)
    for text in texts(documents, seed=task):
        ids += [*tokenizer.encode(text).ids, end]
        bounds.append(len(ids) - 1)
        lengths.append(len(text.encode()))
    noise = random.Random(task)
    for shard, start, length in spoiled:
        for place in range(start + 1, start + length + 1) if shard == task else ():
            ids[place] = ids[place] if ids[place] == end else noise.randrange(end)
    keys = np.random.default_rng(task).integers(0, 2**64, len(lengths), dtype=np.uint64)
    with out.shard("tokens", "bin") as path:
        path.write_bytes(np.array(ids, "<u2").tobytes())
    arrays = {"bounds": np.array(bounds, "<u8"), "text_bytes": np.array(lengths, "<u4"), "keys": keys}
    for kind, array in arrays.items():
        with out.shard(kind, "npy") as path, path.open("wb") as stream:
            np.save(stream, array)
    out.done({"documents": len(lengths), "tokens": len(ids), "text_bytes": sum(lengths)})


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small only wait for a second thread."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADRACE_CORES", "1")
        yield


@pytest.fixture(scope="module")
def one_thread_in_torch() -> Iterator[None]:
    """As the ranks have: another number of threads rounds bf16 in another order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def steady_products() -> None:
    """A row of a matrix product has the same bits whatever the others are: train/model/cache.py builds on it."""
    generator = torch.Generator().manual_seed(0)
    for width, features in ((32, 64), (64, 32), (48, 257), (256, 1024)):
        rows, weights = (torch.randn(n, width, generator=generator) for n in (640, features))
        alone = torch.nn.functional.linear(rows[:4], weights)
        for number in (8, 12, 20, 64, 640):
            if not torch.equal(torch.nn.functional.linear(rows[:number], weights)[:4], alone):
                pytest.skip(f"on this CPU a row of {width} values is rounded otherwise among {number}")


@pytest.fixture(scope="session")
def inputs(tmp_path_factory, run_stage) -> Inputs:
    """Inputs of 120 documents: fewer rows than most trainings here read."""
    return make_inputs(tmp_path_factory.mktemp("inputs"), run_stage, documents=60)


def make_inputs(
    root: Path, run_stage: RunStage, documents: int, spoiled: Sequence[tuple[int, int, int]] = ()
) -> Inputs:
    """The three input artifacts of ``weights``: 2 shards of ``documents`` each, rows of 64 tokens, a tenth held out.

    The text of the ``spoiled`` spans (shard, start, length) is noise.
    """
    out = TaskOutput(root / "tokenizer", "tokenizer", 0)
    with out.file("tokenizer.json") as path:
        bytes_tokenizer().save(str(path))
    out.done({})
    tokenizer = finish(root / "tokenizer", {"stage": "tokenizer"}, {"tokenizer": 1})
    for task in range(2):
        token_shard(task, TaskOutput(root / "tokens", "tokens", task), documents, spoiled)
    tokens = finish(root / "tokens", {"stage": "tokens"}, {"tokens": 2})
    packing = Packing(row_tokens=64, validation_fraction=0.1, group_shards=2)
    packed = run_stage(Packed(packing=packing), {"tokens": tokens}, root / "packed")
    return {"tokenizer": tokenizer, "tokens": tokens, "packed": Artifact(packed.folder)}
