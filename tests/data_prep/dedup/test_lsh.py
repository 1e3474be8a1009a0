import re

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.integrate import quad

from headrace.data_prep.dedup import lsh
from headrace.data_prep.dedup.lsh import GROUP_MEMBER, Banding, band_hashes, choose, groups, members
from headrace.pipeline.core.errors import ConfigError

VALUES = st.integers(0, 2) | st.just(2**32 - 1)


@given(st.lists(st.lists(VALUES, min_size=6, max_size=6), min_size=1, max_size=8))
def test_bands_hash_alike_exactly_when_all_their_rows_are_equal(rows):
    signatures = np.array(rows, dtype=np.uint32)
    hashes = band_hashes(signatures, bands=3)
    assert hashes.shape == (len(rows), 3)
    keys = {(band, tuple(row[2 * band : 2 * band + 2])) for row in rows for band in range(3)}
    assert len(np.unique(hashes)) == len(keys)


def test_hashes_spread_over_all_64_bits():
    signatures = np.arange(80_000, dtype=np.uint32).reshape(-1, 8)
    bits = np.unpackbits(band_hashes(signatures, bands=1).view(np.uint8)).reshape(-1, 64).mean(axis=0)
    assert abs(bits - 0.5).max() < 0.03


def test_groups_are_the_documents_that_share_a_hash():
    hashes = np.array([[5, 9], [7, 9], [5, 1]], dtype=np.uint64)
    documents = np.array([30, 20, 10], dtype=np.uint64)
    records = np.sort(members(documents, hashes), order=["hash", "document"])
    assert groups(records, np.zeros(6, np.bool_)).tolist() == [(5, 10), (5, 30), (9, 20), (9, 30)]
    assert groups(records, records["document"] > 10).tolist() == [(5, 10), (5, 30)]
    none = np.empty(0, dtype=GROUP_MEMBER)
    assert groups(none, np.empty(0, np.bool_)).tolist() == []


def test_choice_for_the_usual_threshold():
    assert choose(0.8, 0.99, 256) == Banding(26, 8)
    assert choose(0.8, 0.99, 207) == Banding(20, 7)
    assert choose(0.8, 0.99, 112) == Banding(16, 6)


@pytest.mark.slow
@given(st.floats(0.3, 1), st.floats(0.5, 0.999), st.integers(1, 300))
def test_choice_is_that_of_brute_force(threshold, recall, most_hashes):
    """Every banding there is, the areas by adaptive quadrature."""
    every = [(b, r) for b in range(1, most_hashes + 1) for r in range(1, most_hashes // b + 1)]
    reaching = [(b, r) for b, r in every if 1 - (1 - threshold**r) ** b >= recall]
    assume(reaching)
    chosen = choose(threshold, recall, most_hashes)
    assert (chosen.bands, chosen.rows) in reaching
    fewest = {r: min(b for b, rows in reaching if rows == r) for _, r in reaching}
    areas = {(b, r): quad(Banding(b, r).chance, 0, threshold)[0] for r, b in fewest.items()}
    assert areas[chosen.bands, chosen.rows] <= min(areas.values()) + 1e-5


def test_the_table_in_the_docstring_is_the_formula():
    lines = re.findall(r"^ +(\d+) × (\d+) +(\d+)((?: +\d\.\d{3}){4})$", lsh.__doc__, re.MULTILINE)
    assert len(lines) == 5
    for bands, rows, hashes, chances in lines:
        one = Banding(int(bands), int(rows))
        assert one.hashes == int(hashes)
        assert [f"{one.chance(s):.3f}" for s in (0.8, 0.5, 0.3, 0.1)] == chances.split()
        assert one.chance(0.8) >= 0.99 > Banding(one.bands - 1, one.rows).chance(0.8)


def test_expected_recall():
    shown = {(14, 8, 0.8): "92", (26, 8, 0.8): "99.2", (20, 3, 0.5): "93", (14, 8, 1.0): "more than 99.9"}
    for (bands, rows, threshold), share in shown.items():
        assert Banding(bands, rows).expected_recall(threshold) == (
            f"Near duplicates: pairs {100 * threshold:g} % alike are found in {share} % of cases"
        )


def test_identical_documents_only():
    assert choose(1, 0.99, 64) == Banding(1, 64)


def test_out_of_reach():
    message = (
        "dedup.recall: no banding of at most 64 hashes finds 0.99 of the pairs at similarity 0.05; "
        "raise dedup.most_hashes or dedup.threshold, or lower dedup.recall"
    )
    with pytest.raises(ConfigError, match=f"^{re.escape(message)}$"):
        choose(0.05, 0.99, 64)
