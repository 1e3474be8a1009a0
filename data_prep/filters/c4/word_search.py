r"""Whether a page holds an entry of a list of words, found in one compiled pass.

    page ── UTF-32 ──> at each beginning of a word: down the tree of entries ──> an entry that a word ends with: found

For ``(?:\W|^)(entry|…)(?:\W|$)`` on the lower-cased page the answer no is sure. Characters whose lower case Python
alone can tell (characters.py) make the answer yes: then the regular expression is asked, which also says what is there.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from headrace.data_prep.filters.characters import FLAG, NUMBER, UNSURE, codes_of, matching, numbered, numbers_of
from headrace.data_prep.kernel import kernel

WORD = FLAG
ROOT = 0


class Tree(NamedTuple):
    """Entries as the kernel reads them. N nodes, C numbered characters."""

    characters: "np.ndarray"
    """uint16 (0x110000,): number of the lower case; WORD in the class ``\\w``."""
    children: "np.ndarray"
    """int32 (N, C): the node after a character; ROOT where there is none."""
    entries: "np.ndarray"
    """bool (N,): whether an entry ends at the node."""
    anywhere: bool
    """Whether an entry counts inside a word too."""


def tree_of(entries: Collection[str], anywhere: bool) -> Tree:
    """The tree of ``entries``, none of them empty."""
    numbers = numbers_of("".join(entries))
    children: list[dict[int, int]] = [{}]
    ends = []
    for entry in entries:
        node = ROOT
        for character in entry:
            if numbers[character] not in children[node]:
                children[node][numbers[character]] = len(children)
                children.append({})
            node = children[node][numbers[character]]
        ends.append(node)
    table = np.full((len(children), UNSURE + 1 + len(numbers)), ROOT, np.int32)
    for node, row in enumerate(children):
        table[node, list(row)] = list(row.values())
    characters = numbered(numbers) | matching(r"\w") * np.uint16(WORD)
    return Tree(characters, table, np.isin(np.arange(len(children)), ends), anywhere)


def may_hold(text: str, tree: Tree) -> bool:
    """False only if the lower-cased ``text`` holds no entry."""
    return bool(search(codes_of(text), tree))


@kernel
def search(codes: "np.ndarray", tree: Tree) -> bool:
    """``may_hold`` on code points."""
    after_word = False
    for place in range(len(codes)):
        character = tree.characters[codes[place]]
        if character & np.uint16(NUMBER) == UNSURE:
            return True
        if (tree.anywhere or not after_word) and _entry_begins(codes, place, tree):
            return True
        after_word = character & np.uint16(WORD) != 0
    return False


@kernel
def _entry_begins(codes: "np.ndarray", place: int, tree: Tree) -> bool:
    """Whether an entry begins at ``place`` and ends with a word."""
    node = ROOT
    while place < len(codes):
        node = tree.children[node, tree.characters[codes[place]] & np.uint16(NUMBER)]
        if node == ROOT:
            return False
        place += 1
        if tree.entries[node] and (
            tree.anywhere or place == len(codes) or not tree.characters[codes[place]] & np.uint16(WORD)
        ):
            return True
    return False
