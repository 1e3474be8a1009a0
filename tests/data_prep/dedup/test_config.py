import re

from headrace.data_prep.dedup import config
from headrace.data_prep.dedup.config import Dedup
from headrace.data_prep.dedup.lsh import Banding
from headrace.data_prep.duplicates import Duplicates
from headrace.data_prep.signatures import Signatures
from headrace.pipeline.configuration.option_values import option_values
from headrace.pipeline.core.settings import decode


def test_default_group_lists_the_defaults():
    values = option_values("dedup", "minhash")
    assert decode(Dedup, values) == Dedup()
    assert list(values) == list(Dedup.__dataclass_fields__)


def test_table_in_the_docstring_is_the_formula():
    similarities, chances = (
        [float(value) for value in re.findall(r"\d+\.\d+", line)]
        for line in config.__doc__.splitlines()
        if line.startswith(("    s ", "    candidate "))
    )
    assert len(similarities) == len(chances) == 8
    for s, chance in zip(similarities, chances, strict=True):
        assert abs(1 - (1 - s**8) ** 14 - chance) < 6e-4


def test_recall_chooses_the_banding():
    assert Dedup(bands=3, rows=5).banding == Banding(3, 5)
    assert Dedup(bands=3, rows=5, recall=0.99).banding == Banding(26, 8)
    values = option_values("dedup", "recall_99")
    assert decode(Dedup, values) == Dedup(recall=0.99)
    assert list(values) == list(Dedup.__dataclass_fields__)


def test_addresses_depend_on_the_banding():
    """Addresses do not depend on how the banding was chosen."""
    addresses = {"clean": "0", "signatures": "1"}
    chosen, given, default = Dedup(recall=0.99), Dedup(bands=26, rows=8, most_hashes=500), Dedup()
    for stage in (Signatures, Duplicates):
        one, two, three = (stage.of(dedup).address(addresses) for dedup in (chosen, given, default))
        assert one == two != three
    raised = Dedup(recall=0.99, threshold=0.9)
    assert Signatures.of(raised).address(addresses) != Signatures.of(chosen).address(addresses)
