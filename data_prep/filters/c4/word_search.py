r"""Compiled search for the entries of a word list in a page.

    page ── UTF-32 ──> at each start of a word: walk down the trie of entries ──> entry and word end together: found

The answer no is exact for ``(?:\W|^)(entry|…)(?:\W|$)`` on the lower-cased page. Characters whose lower case only
Python knows (character_tables.py) make the answer yes. After a yes the regular expression decides, and it also gives
the entry.
"""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from headrace.data_prep.filters.c4.character_tables import (
    FLAG,
    NUMBER,
    UNSURE,
    character_class,
    code_points,
    lower_case_table,
    number_characters,
)
from headrace.data_prep.kernel import kernel

WORD = FLAG
ROOT = 0


class Trie(NamedTuple):
    """The entries in the form that the kernel reads. N nodes, C numbered characters."""

    characters: "np.ndarray"
    """uint16 (0x110000,): the number of the lower case, and the flag WORD for the class ``\\w``."""
    children: "np.ndarray"
    """int32 (N, C): the node after a character, or ROOT where there is none."""
    entries: "np.ndarray"
    """bool (N,): whether an entry ends at the node."""
    anywhere: bool
    """Whether an entry also counts inside a word."""


def trie_of(entries: Collection[str], anywhere: bool) -> Trie:
    """Builds the trie of ``entries``, which must not be empty strings."""
    numbers = number_characters("".join(entries))
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
    characters = lower_case_table(numbers) | character_class(r"\w") * np.uint16(WORD)
    return Trie(characters, table, np.isin(np.arange(len(children)), ends), anywhere)


def may_hold(text: str, trie: Trie) -> bool:
    """Whether ``text`` may hold an entry. False is exact for the lower-cased text."""
    return bool(search(code_points(text), trie))


@kernel
def search(codes: "np.ndarray", trie: Trie) -> bool:
    """Does the work of ``may_hold`` on code points."""
    after_word = False
    for index in range(len(codes)):
        character = trie.characters[codes[index]]
        if character & np.uint16(NUMBER) == UNSURE:
            return True
        if (trie.anywhere or not after_word) and _entry_begins(codes, index, trie):
            return True
        after_word = character & np.uint16(WORD) != 0
    return False


@kernel
def _entry_begins(codes: "np.ndarray", index: int, trie: Trie) -> bool:
    """Whether an entry begins at ``index`` and ends where a word ends."""
    node = ROOT
    while index < len(codes):
        node = trie.children[node, trie.characters[codes[index]] & np.uint16(NUMBER)]
        if node == ROOT:
            return False
        index += 1
        if trie.entries[node] and (
            trie.anywhere or index == len(codes) or not trie.characters[codes[index]] & np.uint16(WORD)
        ):
            return True
    return False
