"""Turns files of separated words into ordinary text, such that the words can be restored: invertible de-tokenizers.

    wikitext        The 12 @-@ year @-@ old ( or 13 ) isn 't here .       ──>  The 12-year-old (or 13) isn't here.
    penn_treebank   the company 's profit rose $ N or N %                 ──>  the company's profit rose $N or N%
    treebank_text   `` I do n't know , '' said Ann -LRB- aloud -RRB- .    ──>  "I don't know," said Ann (aloud).

GPT-2 was measured so, because it has seldom read separated words (Radford et al. 2019, §3.1; its own de-tokenizers were
not published). The likelihood of the text is that of the words if no two lines of words give the same text. So each
join has an inverse, and a line whose words would not be restored is left as it is.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence

ABBREVIATION = re.compile(
    r"(?:\w\.)+|(?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Gen|Col|Lt|Capt|Sgt|Rev|Gov|Sen|Rep|Maj|Mt|Ft|No|Nos|Bros|Co|Corp|Inc|"
    r"Ltd|vs|etc|var|vol|pp|Jan|Feb|Aug|Sept|Oct|Nov|Dec)\."
)
"""A word with a period of its own."""
MARK = '"'
CURRENCIES = "$£€"
BEFORE, AFTER = r"[\w>]", r"[\w<]"
"""The last and the first character of words that a sign may join; <unk> is such a word."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Detokenizer:
    """The rules that join words, and separate them again."""

    after: str = ""
    """Signs that join the word before them."""
    before: str = ""
    """Signs that join the word after them; currencies join only a number."""
    between: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Words that become a sign, which joins the words around it."""
    suffixes: Sequence[str] = ()
    """Words that join the word before them; "'" joins only words that end with s."""
    spelled: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Words that stand for a sign."""
    quotes: tuple[str, str] | None = None
    """The words that stand for a quotation mark where it opens and where it closes."""

    def detokenize(self, line: str) -> str:
        """Returns the text of a line of words."""
        words = line.split()
        text = self._joined(words)
        return text if self.words(text) == words else " ".join(words)

    def text(self, document: str) -> str:
        """Applies ``detokenize`` to each line."""
        return "\n".join(map(self.detokenize, document.split("\n")))

    def words(self, text: str) -> list[str]:
        """Returns the words of a line of text."""
        return [word for chunk in text.split() for word in self._parted(chunk)]

    def _joined(self, words: Sequence[str]) -> str:
        text, is_glued, is_quoted = "", True, False
        for previous, word, following in zip(["", *words], words, [*words[1:], ""], strict=False):
            sign = self.spelled.get(word, word)
            joins_left, joins_right = self._joins_left(sign, previous, text), self._joins_right(sign, following)
            if word in self.between and _is_inner(self.between[word], text, following):
                sign, joins_left, joins_right = self.between[word], True, True
            elif self.quotes and word == self.quotes[is_quoted]:
                sign, joins_left, joins_right = MARK, is_quoted, not is_quoted
                is_quoted = not is_quoted
            text += sign if is_glued or joins_left else f" {sign}"
            is_glued = joins_right
        return text

    def _joins_left(self, word: str, previous: str, text: str) -> bool:
        if word in self.suffixes:
            return text.endswith("s") if word == "'" else text.endswith(".") or bool(re.match(BEFORE, text[-1:]))
        has_own = word == "." and ABBREVIATION.fullmatch(previous + word)
        return len(word) == 1 and word in self.after and not has_own

    def _joins_right(self, word: str, following: str) -> bool:
        is_for_it = word not in CURRENCIES or re.match("[0-9N]", following)
        return len(word) == 1 and word in self.before and bool(is_for_it)

    def _parted(self, chunk: str) -> Iterator[str]:
        """Yields the words of ``chunk``, which has no white space."""
        mark = MARK if self.quotes else ""
        begin, end = 0, len(chunk)
        while end - begin > 1 and chunk[begin] in self.before + mark:
            begin += 1
        while end - begin > 1 and chunk[end - 1] in self.after + mark:
            if chunk[end - 1] == "." and (ABBREVIATION.fullmatch(chunk[begin:end]) or chunk[end - 2] == "."):
                break
            end -= 1
        yield from (self._word(sign, 0) for sign in chunk[:begin])
        yield from self._inner(chunk[begin:end])
        yield from (self._word(sign, 1) for sign in chunk[end:])

    def _inner(self, core: str) -> Iterator[str]:
        """Yields the words of a chunk without signs at its ends."""
        for word, sign in self.between.items():
            left, right = _sides(sign)
            core = re.sub(f"(?<={left}){re.escape(sign)}(?={right})", f" {word} ", core)
        *firsts, last = core.split(" ")
        yield from firsts
        ends = (
            suffix
            for suffix in self.suffixes
            if last.endswith(suffix) and self._joins_left(suffix, "", last[: -len(suffix)])
        )
        suffix = next(ends, "")
        yield from (last.removesuffix(suffix), suffix) if suffix else (last,)

    def _word(self, sign: str, side: int) -> str:
        """Returns the word for ``sign``, before (0) or after (1) others."""
        if sign == MARK and self.quotes:
            return self.quotes[side]
        return next((word for word, spelled in self.spelled.items() if spelled == sign), sign)


def _is_inner(sign: str, text: str, following: str) -> bool:
    left, right = _sides(sign)
    return bool(re.match(left, text[-1:]) and re.match(right, following))


def _sides(sign: str) -> tuple[str, str]:
    """Returns patterns of the characters before and after ``sign`` within a word."""
    return ("[0-9]", "[0-9]") if sign in ",." else (BEFORE, AFTER)


CLOSING = ".,;:!?)]%"
CONTRACTED = ("'s", "'re", "'ve", "'ll", "'d", "'m", "'")
STRAIGHT = Detokenizer(
    after=CLOSING, before="([" + CURRENCIES, suffixes=("'t", *CONTRACTED), quotes=(MARK, MARK)
)  # fmt: skip
WIKITEXT = dataclasses.replace(STRAIGHT, between={"@-@": "-", "@,@": ",", "@.@": ".", "/": "/"})
PENN_TREEBANK = Detokenizer(after="%", before=CURRENCIES, suffixes=("n't", *CONTRACTED))
"""The detokenizer for Mikolov's files of lower-case words without punctuation."""
TREEBANK_TEXT = Detokenizer(
    after=CLOSING,
    before="([" + CURRENCIES,
    suffixes=("n't", *CONTRACTED),
    spelled={"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"},
    quotes=("``", "''"),
)
"""The detokenizer for whole sentences that are split as in the Penn Treebank: the Children's Book Test."""
wikitext, penn_treebank, one_billion_words = WIKITEXT.text, PENN_TREEBANK.text, STRAIGHT.text
"""The detokenizers of the benchmark language_modelling, as settings name them."""
