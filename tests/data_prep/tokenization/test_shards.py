"""Keys: fixed numbers, since the validation split of every artifact rests on them."""

from headrace.data_prep.tokenization.shards import key_of


def test_keys_never_change():
    """Against ``printf 'split\\0crawl/a.warc.gz:7' | sha256sum``: its first 8 bytes, the last one first."""
    assert key_of("split", "crawl/a.warc.gz:7") == 0xDA1293DC4E5B83FC
    assert key_of("sample", "crawl/a.warc.gz:7") == 0x24FC661699EA0296
    assert key_of("split", "猫") == 0x2753A52E8BFD134F
