r"""The fate of a page's lines in one compiled pass; a line whose fate is not plain is left to the rules themselves.

    text ── UTF-32 ──> scan ──> start, end (stripped) │ verdict: KEPT, ASK, or the number of the rule that it fails

A rule says by its ``Check`` what decides it. Checks of a line's end and of its words are decided here for good. Strings
that are rare on the web (``javascript``, ``[``) are only looked for: a line that may hold one is asked about. All are
looked for at once, by their first characters in lower case, with one shift and one mask a character (Shift-And:
Baeza-Yates and Gonnet 1992, "A New Approach to Text Searching"); a false find costs time, never a line.

Lines are those of ``str.splitlines``, white space is that of ``str.split``.
"""

import functools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from headrace.data_prep.filters.characters import (
    FLAG,
    NUMBER,
    SECOND_FLAG,
    UNSURE,
    codes_of,
    matching,
    numbered,
    numbers_of,
)
from headrace.data_prep.kernel import kernel

KEPT, ASK = -1, -2
SPACE, LINE_END = FLAG, SECOND_FLAG
STATE_BITS = 64

WORD_LENGTH, WORD_COUNT, ENDS, ENDS_NOT, RARE = range(5)


class Check(NamedTuple):
    """What decides a rule.

    WORD_LENGTH   fails a line with a word of more than ``number`` characters
    WORD_COUNT    fails a line of fewer than ``number`` words
    ENDS          fails a line that ends in none of ``strings``
    ENDS_NOT      fails a line that ends in one of ``strings``
    RARE          lets a line without any of ``strings``, in any case, pass unchanged; others must be asked about
    """

    kind: int
    number: int = 0
    strings: tuple[str, ...] = ()


class Program(NamedTuple):
    """The checks as the kernel reads them. R rules, N numbered characters, S strings of ENDS and ENDS_NOT."""

    characters: "np.ndarray"
    """uint16 (0x110000,): number of the lower case, SPACE, LINE_END."""
    masks: "np.ndarray"
    """uint64 (N,): the places of the searched beginnings where the numbered character stands."""
    firsts: "np.uint64"
    """The first place of each beginning."""
    lasts: "np.ndarray"
    """uint64 (R,): the last place of each beginning that the rule asks about."""
    kinds: "np.ndarray"
    """int64 (R,)."""
    numbers: "np.ndarray"
    """int64 (R,): ``Check.number``."""
    owners: "np.ndarray"
    """int64 (S,): the rule that a string belongs to."""
    bounds: "np.ndarray"
    """int64 (S + 1,): where each string begins in ``ends``."""
    ends: "np.ndarray"
    """uint32 (characters of all S strings,)."""


def scanned(text: str, checks: tuple[Check, ...]) -> Iterator[tuple[int, int, int]]:
    """(start, end, verdict) of each stripped, non-empty line of ``text``, as slices of it."""
    starts, ends, verdicts = scan(codes_of(text), compiled(checks))
    return zip(starts.tolist(), ends.tolist(), verdicts.tolist(), strict=True)


@functools.cache
def compiled(checks: tuple[Check, ...]) -> Program:
    """The program of ``checks``, once a process."""
    searched = [(rule, string) for rule, check in enumerate(checks) if check.kind == RARE for string in check.strings]
    numbers = numbers_of("".join(string for _, string in searched))
    masks = np.zeros(UNSURE + 1 + len(numbers), np.uint64)
    firsts, lasts = 0, [0] * len(checks)
    room = max(1, STATE_BITS // max(1, len(searched)))
    for place, (rule, string) in enumerate(searched):
        # Beyond 64 strings places are shared: more false finds.
        beginning = [(place * room + offset) % STATE_BITS for offset in range(min(room, max(1, len(string))))]
        firsts |= 1 << beginning[0]
        lasts[rule] |= 1 << beginning[-1]
        for offset, bit in enumerate(beginning):
            masks[numbers[string[offset]] if string else slice(None)] |= np.uint64(1 << bit)
    endings = [(rule, s) for rule, check in enumerate(checks) if check.kind in (ENDS, ENDS_NOT) for s in check.strings]
    return Program(
        characters=numbered(numbers) | _spaces(),
        masks=masks,
        firsts=np.uint64(firsts),
        lasts=np.array(lasts, np.uint64),
        kinds=np.array([check.kind for check in checks], np.int64),
        numbers=np.array([check.number for check in checks], np.int64),
        owners=np.array([rule for rule, _ in endings], np.int64),
        bounds=np.cumsum([0, *(len(string) for _, string in endings)]),
        ends=codes_of("".join(string for _, string in endings)),
    )


@functools.cache
def _spaces() -> "np.ndarray":
    """uint16 (0x110000,): SPACE for white space, LINE_END too where ``str.splitlines`` cuts."""
    flags = matching(r"\s") * np.uint16(SPACE)
    for code in np.flatnonzero(flags):
        flags[code] |= LINE_END * (len(f"a{chr(code)}b".splitlines()) == 2)
    return flags


@kernel
def scan(codes: "np.ndarray", program: Program) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
    """Start, end and verdict of each line of ``codes`` that is more than white space: int64 (lines,) each."""
    starts = np.empty(len(codes) // 2 + 1, np.int64)
    ends, verdicts = np.empty_like(starts), np.empty_like(starts)
    lines = 0
    start = 0
    while start < len(codes):
        words = 0
        unsure = False
        state = found = np.uint64(0)
        after_space = np.uint16(1)
        end = start
        while end < len(codes):
            character = program.characters[codes[end]]
            if character & np.uint16(LINE_END):
                break
            space = character >> np.uint16(15)
            words += after_space > space
            after_space = space
            number = character & np.uint16(NUMBER)
            unsure |= number == UNSURE
            state = ((state << np.uint64(1)) | program.firsts) & program.masks[number]
            found |= state
            end += 1
        next_start = end + 1
        if words:
            while program.characters[codes[start]] & np.uint16(SPACE):
                start += 1
            while program.characters[codes[end - 1]] & np.uint16(SPACE):
                end -= 1
            if unsure:
                found = ~np.uint64(0)
            starts[lines], ends[lines] = start, end
            verdicts[lines] = _verdict(codes, start, end, words, found, program)
            lines += 1
        start = next_start
    return starts[:lines], ends[:lines], verdicts[:lines]


@kernel
def _verdict(codes: "np.ndarray", start: int, end: int, words: int, found: "np.uint64", program: Program) -> int:
    """What becomes of the line codes[start:end], of ``words`` words, with beginnings found at the places ``found``."""
    for rule in range(len(program.kinds)):
        kind, number = program.kinds[rule], program.numbers[rule]
        if kind == RARE:
            if found & program.lasts[rule]:
                return ASK
        elif kind == WORD_COUNT:
            if words < number:
                return rule
        elif kind == WORD_LENGTH:
            if end - start > number and _longest_word(codes, start, end, program) > number:
                return rule
        elif _ends_in(codes, start, end, rule, program) != (kind == ENDS):
            return rule
    return KEPT


@kernel
def _longest_word(codes: "np.ndarray", start: int, end: int, program: Program) -> int:
    """The characters of the longest word of codes[start:end]."""
    longest = characters = 0
    for place in range(start, end):
        characters = 0 if program.characters[codes[place]] & np.uint16(SPACE) else characters + 1
        longest = max(longest, characters)
    return longest


@kernel
def _ends_in(codes: "np.ndarray", start: int, end: int, rule: int, program: Program) -> bool:
    """Whether codes[start:end] ends in one of the strings of ``rule``."""
    for string in range(len(program.owners)):
        first, last = program.bounds[string], program.bounds[string + 1]
        if program.owners[string] == rule and last - first <= end - start:
            place = last - 1
            while place >= first and codes[end - last + place] == program.ends[place]:
                place -= 1
            if place < first:
                return True
    return False
