"""Settings, options and commands that Headrace had once, and what to use in place of each.

headrace source=wikipedia  ->  headrace: source: unknown option 'wikipedia'; it is gone: read Parquet …

``suggestion`` (errors.py) says it, so every place that refuses an unknown name does.
"""

GONE = {
    "source=wikipedia": "it is gone: read the wiki's published Parquet (wikimedia/wikipedia) with source=parquet",
    "source.passages_alone": "it is gone, with source=wikipedia: read the wiki's published Parquet with source=parquet",
}
"""The remedy by what is gone. ``GROUP=OPTION`` is an option of a group, or a type in its settings; ``headrace NAME`` is
a command; others are dotted names of settings."""
