"""The features of a block, by name, in the order of their columns (features.py)."""

from headrace.data_prep.extraction.main_text.around import LANDMARKS

MOST = 30_000
"""The largest value of a feature."""
LEVELS = 6
"""Enclosing elements whose sums are features. An element with the same blocks as the one inside does not count."""
STEPS = (-1, 1, -2, 2)
"""Neighbors whose features a block has."""
REACHES = (4, 12)
"""Blocks on one side whose sums are features."""
UNITS_FEATURE = 1
"""The column with the words of a block."""
OWN = (
    "characters", "words", "linked characters", "sentences", "commas", "list symbols", "line breaks", "share linked",
    "share digits", "share capitals", "characters a word ×10", "words a sentence", "commas a word", "last character",
    "element", "share in title", "share in description", "share in linked data",
)  # fmt: skip
PLACE = (
    "depth", "share of blocks before", "share of characters before", "blocks before", "blocks after",
    "characters before", "characters after", "characters since heading", "blocks since heading",
    "level of last heading", "characters since h1", "level of heading",
)  # fmt: skip
LEVEL = (
    "blocks", "characters", "share linked", "words a block", "sentences", "share of page", "lexicon",
    "sentences a word", "element", "alike siblings", "share of page of alike siblings", "share in description",
    "share in linked data",
)  # fmt: skip
LEXICON = ("lexicon", "least lexicon around", "most lexicon around", "lexicon around", "levels")
PATH = (
    *(f"{path}: {name}" for path in ("same path", "same path and class")
      for name in ("blocks", "words a block", "share linked", "share of page")),
    "same path: sentences a word", "same path: share in linked data", "same text: blocks", "same text: blocks before",
)  # fmt: skip
NEIGHBOR = ("words", "share linked", "element", "last character", "same parent", "sentences", "share in summaries")
PAGE = (
    "blocks", "words", "share linked", "sentences", "sentences a word", "words a block", "paragraphs",
    "words in paragraphs", "list items", "cells", "share of largest path", "articles", "mains", "headings",
    "pairs in title", "pairs in description", "pairs in linked data", "kind article", "kind product", "kind list",
    "kind discussion", "kind place",
)  # fmt: skip
CANDIDATE = (
    "reading score of parent", "reading score of its parent", "levels inside best", "share of page of best",
    "blocks since begin of best", "blocks to end of best", "blocks since first paragraph", "blocks to last paragraph",
    "best reading score around", "best reading score", "blocks between paragraphs", "blocks since block in summaries",
    "blocks to block in summaries",
)  # fmt: skip
FEATURE_NAMES = (
    *OWN,
    *PLACE,
    *(f"distance to {landmark}" for landmark in LANDMARKS),
    *(f"level {level}: {name}" for level in range(LEVELS) for name in LEVEL),
    *LEXICON,
    *PATH,
    *(f"neighbor {step:+d}: {name}" for step in STEPS for name in NEIGHBOR),
    *(f"{reach} blocks {side}: {name}" for reach in REACHES for side in ("before", "after") for name in
      ("words", "share linked")),
    *(f"page: {name}" for name in PAGE),
    *CANDIDATE,
)  # fmt: skip
FEATURES = len(FEATURE_NAMES)
LEVEL_FEATURES, NEIGHBOR_FEATURES, PAGE_FEATURES, CANDIDATE_FEATURES = map(len, (LEVEL, NEIGHBOR, PAGE, CANDIDATE))
PLACE_FEATURES, LANDMARK_COUNT, KINDS = len(PLACE) - 1, len(LANDMARKS), 5
