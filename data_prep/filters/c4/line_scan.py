"""Compiled pass over a page that decides most of its lines and leaves the others to the rules themselves.

    text ── UTF-32 ──> scan ──> start, end (stripped) | verdict: KEPT, UNDECIDED, or the index of the rule that it fails

Each rule declares its ``Check``. The pass decides checks of a line's end and of its words. It only searches for strings
that are rare on the web (``javascript``, ``[``): a line that may hold one is UNDECIDED. It searches for all strings at
once, by their first characters in lower case, with one shift and one mask per character (Shift-And: Baeza-Yates and
Gonnet 1992, "A New Approach to Text Searching"). A false match costs time but never changes the result.

Lines are those of ``str.splitlines``, white space that of ``str.split``, case that of ``str.lower``, by tables:

    code point ── table[code] ──> number of its lower-case character among those that matter | flags

``UNSURE`` stands for capitals whose lower case is not one character by itself: ``İ`` becomes two characters, and ``Σ``
becomes ``σ`` or ``ς``, depending on its neighbours. A compiled pass leaves text that holds one of them to Python.
"""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from headrace.data_prep.kernel import kernel
from headrace.data_prep.text.folding import CODE_POINTS, all_characters, changed_by

OTHER, UNSURE = 0, 1
"""The numbers of characters that do not matter, and of those whose lower case is not certain. The others follow."""
FLAG = 1 << 15
SECOND_FLAG = 1 << 14
NUMBER = SECOND_FLAG - 1
"""The bits of an entry that hold the number. The flags are above them."""
CONTEXT_DEPENDENT = "Σ"
"""The only character whose ``str.lower`` depends on its neighbours (CPython's ``handle_capital_sigma``)."""


def code_points(text: str) -> "np.ndarray":
    """Returns the code points of ``text``, uint32 (characters,)."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def number_characters(characters: Iterable[str]) -> dict[str, int]:
    """Numbers the distinct characters, starting at ``UNSURE + 1``."""
    return {character: number for number, character in enumerate(sorted(set(characters)), UNSURE + 1)}


def lower_case_table(numbers: dict[str, int]) -> "np.ndarray":
    """Returns uint16 (0x110000,): the number of each code point's lower case. ``numbers`` holds at most 2^14 - 3."""
    table = np.full(CODE_POINTS, OTHER, np.uint16)
    for character, number in numbers.items():
        table[ord(character)] = number
    for code, lower in _lower_cases().items():
        is_unsure = len(lower) > 1 or chr(code) == CONTEXT_DEPENDENT
        table[code] = UNSURE if is_unsure else numbers.get(lower, OTHER)
    return table


@functools.cache
def character_class(pattern: str) -> "np.ndarray":
    """Returns bool (0x110000,), read-only: the code points that ``pattern``, a class such as ``\\s``, matches."""
    is_member = np.zeros(CODE_POINTS, bool)
    for match in re.finditer(f"{pattern}+", all_characters()):
        is_member[match.start() : match.end()] = True
    is_member.setflags(write=False)
    return is_member


@functools.cache
def _lower_cases() -> dict[int, str]:
    """Returns the lower case of each code point that is not its own lower case."""
    return {ord(character): lower for character, lower in changed_by(str.lower)}


KEPT, UNDECIDED = -1, -2
SPACE, LINE_END = FLAG, SECOND_FLAG
STATE_BITS = 64

WORD_LENGTH, WORD_COUNT, ENDS, ENDS_NOT, RARE = range(5)


class Check(NamedTuple):
    """Describes to the compiled pass how a rule decides.

    WORD_LENGTH   fails a line with a word of more than ``number`` characters
    WORD_COUNT    fails a line of fewer than ``number`` words
    ENDS          fails a line that ends in none of ``strings``
    ENDS_NOT      fails a line that ends in one of ``strings``
    RARE          passes a line that holds none of ``strings``, in any case, unchanged; other lines are undecided
    """

    kind: int
    number: int = 0
    strings: tuple[str, ...] = ()


class Program(NamedTuple):
    """The checks in the form that the kernel reads. R rules, N numbered characters, S strings of ENDS and ENDS_NOT.

    The search has a state of 64 bits. Each string of a RARE check owns a run of bits, one per character of its prefix.
    """

    characters: "np.ndarray"
    """uint16 (0x110000,): the number of the lower case, and the flags SPACE and LINE_END."""
    masks: "np.ndarray"
    """uint64 (N,): the bits of the prefixes' characters that are equal to the numbered character."""
    first_bits: "np.uint64"
    """The first bit of each prefix."""
    last_bits: "np.ndarray"
    """uint64 (R,): the last bits of the prefixes that belong to the rule."""
    kinds: "np.ndarray"
    """int64 (R,): ``Check.kind``."""
    numbers: "np.ndarray"
    """int64 (R,): ``Check.number``."""
    owners: "np.ndarray"
    """int64 (S,): the rule that a string belongs to."""
    bounds: "np.ndarray"
    """int64 (S + 1,): the start of each string in ``ends``."""
    ends: "np.ndarray"
    """uint32 (characters of all S strings,): the strings, one after the other."""


class ScannedLines(NamedTuple):
    """The stripped lines of a text that are not blank, in their order. C characters, N lines."""

    codes: "np.ndarray"
    """uint32 (C,): the code points of the text."""
    starts: "np.ndarray"
    """int64 (N,)"""
    ends: "np.ndarray"
    """int64 (N,)"""
    verdicts: "np.ndarray"
    """int64 (N,)"""

    def rows(self) -> Iterator[tuple[int, int, int]]:
        """Yields (start, end, verdict) of each line."""
        return zip(self.starts.tolist(), self.ends.tolist(), self.verdicts.tolist(), strict=True)

    def continued(self, verdict: int) -> int:
        """Returns how many lines with ``verdict`` are followed by one that begins with a lower-case letter."""
        after = self.starts[1:][self.verdicts[:-1] == verdict]
        return sum(map(str.islower, self.codes[after].tobytes().decode("utf-32-le", "surrogatepass")))


def scanned_lines(text: str, checks: tuple[Check, ...]) -> ScannedLines:
    """Returns the lines of ``text`` with the verdicts of ``checks``."""
    codes = code_points(text)
    return ScannedLines(codes, *scan(codes, compiled(checks)))


@functools.cache
def compiled(checks: tuple[Check, ...]) -> Program:
    """Builds the program of ``checks``, once per process."""
    searched = [(rule, string) for rule, check in enumerate(checks) if check.kind == RARE for string in check.strings]
    numbers = number_characters("".join(string for _, string in searched))
    masks = np.zeros(UNSURE + 1 + len(numbers), np.uint64)
    first_bits, last_bits = 0, [0] * len(checks)
    width = max(1, STATE_BITS // max(1, len(searched)))
    for index, (rule, string) in enumerate(searched):
        # More than 64 strings share bits, which causes more false matches.
        bits = [(index * width + offset) % STATE_BITS for offset in range(min(width, max(1, len(string))))]
        first_bits |= 1 << bits[0]
        last_bits[rule] |= 1 << bits[-1]
        for offset, bit in enumerate(bits):
            masks[numbers[string[offset]] if string else slice(None)] |= np.uint64(1 << bit)
    endings = [(rule, s) for rule, check in enumerate(checks) if check.kind in (ENDS, ENDS_NOT) for s in check.strings]
    return Program(
        characters=lower_case_table(numbers) | _spaces(),
        masks=masks,
        first_bits=np.uint64(first_bits),
        last_bits=np.array(last_bits, np.uint64),
        kinds=np.array([check.kind for check in checks], np.int64),
        numbers=np.array([check.number for check in checks], np.int64),
        owners=np.array([rule for rule, _ in endings], np.int64),
        bounds=np.cumsum([0, *(len(string) for _, string in endings)]),
        ends=code_points("".join(string for _, string in endings)),
    )


@functools.cache
def _spaces() -> "np.ndarray":
    """Returns uint16 (0x110000,): SPACE for white space, and LINE_END where ``str.splitlines`` splits."""
    flags = character_class(r"\s") * np.uint16(SPACE)
    for code in np.flatnonzero(flags):
        flags[code] |= LINE_END * (len(f"a{chr(code)}b".splitlines()) == 2)
    return flags


@kernel
def scan(codes: "np.ndarray", program: Program) -> "tuple[np.ndarray, np.ndarray, np.ndarray]":
    """Returns start, end and verdict of each line of ``codes`` that is not blank: int64 (lines,) each."""
    starts = np.empty(len(codes) // 2 + 1, np.int64)
    ends, verdicts = np.empty_like(starts), np.empty_like(starts)
    lines = 0
    start = 0
    while start < len(codes):
        words = 0
        unsure = False
        state = matched = np.uint64(0)
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
            state = ((state << np.uint64(1)) | program.first_bits) & program.masks[number]
            matched |= state
            end += 1
        next_start = end + 1
        if words:
            while program.characters[codes[start]] & np.uint16(SPACE):
                start += 1
            while program.characters[codes[end - 1]] & np.uint16(SPACE):
                end -= 1
            if unsure:
                matched = ~np.uint64(0)
            starts[lines], ends[lines] = start, end
            verdicts[lines] = _verdict(codes, start, end, words, matched, program)
            lines += 1
        start = next_start
    return starts[:lines], ends[:lines], verdicts[:lines]


@kernel
def _verdict(codes: "np.ndarray", start: int, end: int, words: int, matched: "np.uint64", program: Program) -> int:
    """Returns the verdict on the line codes[start:end] with ``words`` words. ``matched``: bits of the search."""
    for rule in range(len(program.kinds)):
        kind, number = program.kinds[rule], program.numbers[rule]
        if kind == RARE:
            if matched & program.last_bits[rule]:
                return UNDECIDED
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
    """Returns the number of characters of the longest word of codes[start:end]."""
    longest = characters = 0
    for index in range(start, end):
        characters = 0 if program.characters[codes[index]] & np.uint16(SPACE) else characters + 1
        longest = max(longest, characters)
    return longest


@kernel
def _ends_in(codes: "np.ndarray", start: int, end: int, rule: int, program: Program) -> bool:
    """Whether codes[start:end] ends in one of the strings of ``rule``."""
    for string in range(len(program.owners)):
        first, last = program.bounds[string], program.bounds[string + 1]
        if program.owners[string] == rule and last - first <= end - start:
            index = last - 1
            while index >= first and codes[end - last + index] == program.ends[index]:
                index -= 1
            if index < first:
                return True
    return False
