"""Entities in the tags of words, and precision, recall and F1 of them, as the package seqeval computes them.

    EU     rejects  German  call  Peter   Blackburn
    B-ORG  O        B-MISC  O     B-PER   I-PER        ──> ORG 0-0, MISC 2-2, PER 4-5

A predicted entity is right if its type, its first and its last word are right (Tjong Kim Sang and De Meulder 2003).
Without a scheme, tags that contradict each other begin entities, too, as in conlleval: ``O I-PER`` has one. A strict
scheme counts only what is written as the scheme says.
"""

from collections.abc import Sequence
from typing import Literal

TagScheme = Literal["lenient", "iob2", "iobes"]
OUTSIDE = "O"
"""The tag of a word outside of all entities."""
Entity = tuple[str, int, int]
"""Type, first and last word."""
ENDS = {"BB", "BS", "BO", "IB", "IS", "IO"}
"""Prefixes of two neighbouring words between which an entity ends, whatever their types."""
STARTS = {"EE", "EI", "SE", "SI", "OE", "OI"}
"""Prefixes between which one begins; it also does before each B and S."""


def entities(tags: Sequence[str], scheme: TagScheme = "lenient") -> list[Entity]:
    """Returns the entities of the ``tags`` of a sentence, none of which is empty."""
    return _lenient(tags) if scheme == "lenient" else _strict(tags, scheme == "iobes")


def _lenient(tags: Sequence[str]) -> list[Entity]:
    """Returns what ``get_entities`` of seqeval 1.2.2 does."""
    listed = list[Entity]()
    before, type_before, first = OUTSIDE, "", 0
    for index, tag in enumerate([*tags, OUTSIDE]):
        prefix, type_ = _parts(tag)
        differs = type_before != type_
        if before in "ES" or before + prefix in ENDS or (before not in "O." and differs):
            listed.append((type_before, first, index - 1))
        if prefix in "BS" or before + prefix in STARTS or (prefix not in "O." and differs):
            first = index
        before, type_before = prefix, type_
    return listed


def _strict(tags: Sequence[str], is_iobes: bool) -> list[Entity]:
    listed, index = list[Entity](), 0
    while index < len(tags):
        prefix, type_ = _parts(tags[index])
        first, index = index, index + 1
        if prefix == "B":
            last = prefix
            while index < len(tags) and last != "E" and _parts(tags[index]) in (("I", type_), ("E", type_)):
                last, index = _parts(tags[index])[0], index + 1
            if not is_iobes or last == "E":
                listed.append((type_, first, index - 1))
        elif prefix == "S" and is_iobes:
            listed.append((type_, first, first))
    return listed


def _parts(tag: str) -> tuple[str, str]:
    """Returns the prefix of ``tag`` and the type."""
    return tag[0], tag[1:].split("-", maxsplit=1)[-1] or "_"


def entity_scores(
    truth: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], scheme: TagScheme = "lenient"
) -> dict[str, float]:
    """Returns ``precision``, ``recall`` and ``f1`` of the entities of all sentences; each is 0 where it is 0 / 0."""
    right, of_truth, of_prediction = 0, 0, 0
    for tags, other_tags in zip(truth, predicted, strict=True):
        expected, given = set(entities(tags, scheme)), set(entities(other_tags, scheme))
        right += len(expected & given)
        of_truth, of_prediction = of_truth + len(expected), of_prediction + len(given)
    total = of_truth + of_prediction
    return {
        "f1": 2 * right / total if total else 0.0,
        "precision": right / of_prediction if of_prediction else 0.0,
        "recall": right / of_truth if of_truth else 0.0,
    }
