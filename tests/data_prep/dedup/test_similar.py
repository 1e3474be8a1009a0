import random
import re

import numpy as np
import pytest

from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.lsh import band_hashes
from headrace.data_prep.dedup.minhash import permutations, signature
from headrace.data_prep.dedup.shingles import shingle_hashes
from headrace.data_prep.dedup.similar import similar
from headrace.data_prep.signatures import Signatures
from headrace.pipeline.core.errors import ConfigError
from tests.data_prep.dedup.corpus import clean, deal, family, slow_jaccard


@pytest.fixture(scope="module")
def corpus():
    generator = random.Random(5)
    texts = [text for _ in range(6) for text in family(generator, 12, changes=12)] + ["", "…"]
    return {f"file:{i}": text for i, text in enumerate(texts)}


@pytest.fixture(scope="module")
def look_up(corpus, run_stage, tmp_path_factory):
    """``look_up(text, dedup)`` returns what ``similar`` finds in ``corpus``."""

    def find(text, dedup):
        folder = tmp_path_factory.mktemp("similar")
        documents = clean(folder / "clean", deal(corpus, 3))
        return similar(text, run_stage(Signatures.of(dedup), {"clean": documents}, folder / "signatures"), documents)

    return find


@pytest.mark.parametrize("dedup", [Dedup(), Dedup(recall=0.99, seed=4), Dedup(bands=5, rows=2)])
def test_finds_documents_that_share_a_band(corpus, look_up, dedup):
    """Kernels and brute force agree, for a text in the corpus and for another one."""
    hashers = permutations(dedup.banding.hashes, dedup.seed)
    rows = {name: signature(shingle_hashes(text, 5), hashers) for name, text in corpus.items()}
    for text in (corpus["file:7"], " ".join(corpus["file:7"].split()[:-9]) + " and another end"):
        row = signature(shingle_hashes(text, 5), hashers)
        own = band_hashes(row[None], dedup.banding.bands)
        expected = [
            (name, float((other == row).mean()), slow_jaccard(text, corpus[name]))
            for name, other in rows.items()
            if (band_hashes(other[None], dedup.banding.bands) == own).any()
        ]
        found = look_up(text, dedup)
        assert [(match.id, match.estimate, match.jaccard) for match in found] == sorted(
            expected, key=lambda match: (-match[2], -match[1], match[0])
        )
        assert len(found) > 1
    assert look_up(corpus["file:7"], dedup)[0].jaccard == 1


def test_nothing_similar(look_up):
    assert look_up("quite another thing, in words that no document has", Dedup()) == []
    assert look_up("…", Dedup()) == []


def test_too_few_bands_for_datasketch(look_up):
    message = "dedup.bands: 1 band is too few for datasketch's index; give 2 or more"
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        look_up("any text", Dedup(bands=1))


def test_estimates_are_near_the_truth(corpus, look_up):
    """1,024 hashes: within 5 standard deviations."""
    for match in look_up(corpus["file:7"], Dedup(bands=512, rows=2)):
        deviation = np.sqrt(match.jaccard * (1 - match.jaccard) / 1024)
        assert abs(match.estimate - match.jaccard) <= 5 * deviation
