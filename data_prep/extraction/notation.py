"""Exponents, indices and formulas in a line of text: the marks that keep what their place on the page says.

    10<sup>80</sup>, CO<sub>2</sub>, x<sub>1</sub>, 1<sup>st</sup>        ──>  10^80, CO2, x_1, 1st
    <mfrac><mi>p</mi><mrow><mi>v</mi><mo>+</mo><mn>1</mn></mrow></mfrac>  ──>  p/(v+1)

``^`` and ``_`` stand where a number or a formula would run into the letters or digits before it. Words, ordinals, notes
and the digits of chemical formulas stay as they are. MathML is written in the way of UnicodeMath (Sargent, 2016), and
as TeX in Markdown: ``\\frac{p}{v+1}``.
"""

import re
from itertools import pairwise, zip_longest

from headrace.data_prep.extraction.edits import Edits
from headrace.data_prep.extraction.markup import numbers
from headrace.data_prep.extraction.scan import FLAG, Element

A, MATH, SUB, SUP = numbers("a math sub sup")
FORMULA = re.compile(r"[+\-−–±]?[\w.′'∞]+([ ]?[+\-−–±*/×·=:,][ ]?[\w.′'∞]+)*[+\-−–]?")
SIMPLE = {SUP: re.compile(r"[+\-−–±]?(\d[\d.,]*|\w)|\d*[+\-−–]"), SUB: re.compile(r"\w+")}
BASE = re.compile(r"[^\W_]+$|[)\]}|]$")
ELEMENT = re.compile(
    "(?:A[cglmrstu]|B[aehikr]?|C[adeflmnorsu]?|D[bsy]|E[rsu]|F[elmr]?|G[ade]|H[efgos]?|I[nr]?|Kr?|L[airuv]|M[cdgnot]|"
    "N[abdehiop]?|O[gs]?|P[abdmortu]?|R[abefghnu]|S[bcegimnr]?|T[abcehilms]|U|V|W|Xe|Yb?|Z[nr])$"
)
"""A chemical element."""
RAISED = "st nd rd th er ers re res e es ère ères eme ème èmes nde d de me mes mme lle lles gr te tes o os ª º ste bis"
ABBREVIATIONS = frozenset([*RAISED.split(), "ter", "to", "ta", "tm", "sm", "mc", "md", "®"])
"""Raised letters of ordinals, titles and trademarks."""
LONGEST = 24
"""Characters of what may be an exponent."""


def add_notation(edits: Edits, parts: list[Element], as_tex: bool) -> None:
    """Adds the marks of ``parts``, elements of a page in their order, to ``edits``; ``as_tex``: MathML is TeX."""
    scripts = [part for part in parts if part.name in (SUB, SUP)]
    is_fraction = False
    for part, after in zip_longest(scripts, scripts[1:]):
        is_fraction = not is_fraction and _add_script(edits, part, after)
    for part in parts:
        if (
            part.name == MATH
            and not part.flags & (FLAG.alt_text | FLAG.tex)
            and not edits.is_removed(part.start, part.end)
        ):
            _add_math(edits, part, as_tex)


def _add_script(edits: Edits, part: Element, after: Element | None) -> bool:
    """Adds the mark of an element. Returns whether it also added that of the one ``after`` it."""
    first, last = edits.trimmed(part)
    block_start, block_end = edits.bounds(first)
    content = edits.string(first, last)
    if not content or last > block_end or last - first > 4 * LONGEST or _is_link(edits, part):
        return False
    base = BASE.search(edits.string(max(block_start, first - 4 * LONGEST), first))
    word, rest = base[0] if base else "", edits.string(last, min(block_end, last + 8))
    if part.name == SUP and content.isdigit() and (not word or word.isdigit()):
        slash = rest[:1] if rest[:1] in tuple("/⁄∕") else ""
        is_next = after and after.name == SUB and after.start == last + len(slash.encode())
        if after and is_next and edits.string(*edits.trimmed(after)).isdigit():
            is_isotope = not slash and not word and edits.string(after.end, after.end + 1).isalpha()
            if is_isotope or word:
                edits.insert(first, "^" if is_isotope else " ", part)
            if not slash:
                edits.insert(after.start, "_" if is_isotope else "/", after)
            return True
    if word and _is_needed(part.name, word, content):
        runs_on = content[-1].isdigit() and rest[:1].isdigit() and not (after and after.start == last)
        is_simple = SIMPLE[part.name].fullmatch(content) and not runs_on
        edits.insert(first, "^" if part.name == SUP else "_", part)
        if not is_simple:
            edits.enclose(first, last, part)
    return False


def _is_needed(name: int, word: str, content: str) -> bool:
    if not FORMULA.fullmatch(content) or len(content) > LONGEST:
        return False
    if name == SUB:
        if content.isdigit() and (word in tuple(")]}") or ELEMENT.search(word)):
            return False
        return len(word) < 4 or not content.isalpha() or len(content) < 4
    if content.isalpha():
        return content.lower() not in ABBREVIATIONS and len(content) < 3 and (len(word) == 1 or not word.isalpha())
    return len(word) < 4 or not word.isalpha()


def _is_link(edits: Edits, part: Element) -> bool:
    """Whether all of ``part`` is a link, as the numbers of notes are."""
    inner = edits.part(part.number + 1)
    outer = edits.part(part.parent)
    return any(
        other is not None and other.name == A and edits.trimmed(other) == edits.trimmed(part)
        for other in (inner, outer)
    )


MI, MN, MO, MS, MTEXT = numbers("mi mn mo ms mtext")
TOKENS = (MI, MN, MO, MS, MTEXT)
(
    MFENCED, MFRAC, MMULTISCRIPTS, MOVER, MPHANTOM, MPRESCRIPTS, MROOT, MSQRT, MSUB, MSUBSUP, MSUP, MTABLE,
    MTD, MTR, MLABELEDTR, MUNDER, MUNDEROVER, ANNOTATION, ANNOTATION_XML, MACTION, MENCLOSE,
) = numbers(
    "mfenced mfrac mmultiscripts mover mphantom mprescripts mroot msqrt msub msubsup msup mtable"
    " mtd mtr mlabeledtr munder munderover annotation annotation-xml maction menclose"
)  # fmt: skip
MARKS = {MSUB: "_", MSUP: "^", MSUBSUP: "_^", MUNDER: "_", MOVER: "^", MUNDEROVER: "_^", MFRAC: "/", MROOT: "^"}
"""The marks before the second and the third child."""
PLACING = (*MARKS, MSQRT, MMULTISCRIPTS)
ACCENTS = {
    "¯": "\u0304", "‾": "\u0304", "ˉ": "\u0304", "_": "\u0332", "‗": "\u0332", "^": "\u0302", "ˆ": "\u0302",
    "~": "\u0303", "˜": "\u0303", "→": "\u20d7", "\u20d7": "\u20d7", "˙": "\u0307", ".": "\u0307", "¨": "\u0308",
    "ˇ": "\u030c",
}  # fmt: skip
"""An accent over or under a letter → the character that combines with it."""
CLOSING = {"(": ")", "[": "]", "{": "}", "|": "|", "‖": "‖", "⟨": "⟩", "⌊": "⌋", "⌈": "⌉"}
PAIRS, CHOOSE = (("(", ")"), ("{", "}")), (" choose ", r" \choose ")
"""The pair around a part, and the mark of a binomial coefficient: in signs, and in TeX."""
FUNCTION = re.compile("(?:arc)?(?:cos|sin|tan)|(?:cos|sin|tan)h|det|dim|exp|inf|ker|lim|ln|log|max|min|sup")
INVISIBLE = re.compile("[\u2061-\u2064]")


def _add_math(edits: Edits, math: Element, as_tex: bool) -> None:
    """Adds the marks of one formula without TeX."""
    parts = edits.inside(math)
    children: dict[int, list[Element]] = {}
    tokens = dict.fromkeys((part.number for part in (math, *parts)), 0)
    for part in parts:
        children.setdefault(part.parent, []).append(part)
    for part in reversed(parts):
        tokens[part.number] += part.name in TOKENS and edits.trimmed(part)[0] < part.end
        if part.parent in tokens:
            tokens[part.parent] += tokens[part.number]
    for part in parts:
        if part.name == ANNOTATION and "tex" in edits.attributes(part).get("encoding", "").lower():
            edits.remove(edits.trimmed(math)[0], edits.trimmed(part)[0])
            edits.remove(part.end, math.end)
            edits.mark_tex(math)
            return
    for part in (math, *parts):
        own = children.get(part.number, [])
        if part.name in (ANNOTATION, ANNOTATION_XML, MPHANTOM):
            edits.remove(part.start, part.end)
        elif part.name in TOKENS:
            _add_token(edits, part, as_tex)
        elif own and not _add_layout(edits, part, own, tokens, as_tex):
            for before, after in pairwise(own):
                _add_space(edits, before, after)
        if as_tex and part.name in TOKENS and edits.trimmed(part)[0] > edits.trimmed(math)[0]:
            edits.gap(edits.trimmed(part)[0], "", part)
    if as_tex:
        edits.mark_tex(math)


def _add_space(edits: Edits, before: Element, after: Element) -> None:
    """Adds a space between names, and after what is high or low, where the one would run into the other."""
    first, last = edits.trimmed(before)
    begin, end = edits.trimmed(after)
    pair = edits.string(first, last), edits.string(begin, end)
    if last != begin or not pair[0][-1:].isalnum() or not pair[1][:1].isalnum():
        return
    is_name = any(
        token.name in TOKENS and len(text) > 1 and text.isalpha()
        for token, text in zip((before, after), pair, strict=True)
    )
    if is_name or before.name in PLACING or before.name == after.name == MN:
        edits.insert(begin, " ", None, closes=True)


def _add_token(edits: Edits, part: Element, as_tex: bool) -> None:
    """Writes quotes, operators that are not seen, and the commands of TeX."""
    first, last = edits.trimmed(part)
    text = edits.string(first, last)
    if as_tex:
        is_text = part.name in (MS, MTEXT)
        if FUNCTION.fullmatch(text) or text in ("{", "}"):
            edits.insert(first, "\\", part)
        elif is_text or (len(text) > 1 and text.isalpha()):
            edits.enclose(first, last, part, (r"\text{" if is_text else r"\mathrm{", "}"))
    elif part.name == MS:
        quote = edits.attributes(part).get("lquote", "") or '"'
        edits.insert(first, quote, part)
        edits.insert(last, edits.attributes(part).get("rquote", "") or quote, part, closes=True)
    if INVISIBLE.fullmatch(text):
        edits.remove(first, last)
        after = edits.string(last, last + 4).lstrip()[:1]
        if mark := {"\u2061": " " if after.isalnum() else "", "\u2063": ",", "\u2064": "+"}.get(text, ""):
            edits.insert(last, mark, None, closes=True)


def _add_layout(edits: Edits, part: Element, own: list[Element], tokens: dict[int, int], as_tex: bool) -> bool:
    """Adds the marks of an element that places its children. Returns whether it is none of a row of them."""
    if part.name == MTABLE:
        _join(edits, [child for child in own if child.name in (MTR, MLABELEDTR)], r" \\ " if as_tex else "; ")
        if as_tex:
            edits.enclose(*edits.trimmed(part), part, (r"\begin{matrix}", r"\end{matrix}"))
    elif part.name in (MTR, MLABELEDTR):
        _join(edits, own, " & " if as_tex else " ")
    elif part.name == MFENCED:
        _add_fence(edits, part, own)
    elif part.name == MSQRT or (part.name == MENCLOSE and "radical" in edits.attributes(part).get("notation", "")):
        edits.insert(edits.trimmed(part)[0], r"\sqrt" if as_tex else "√", part)
        if as_tex or tokens[part.number] != 1:
            edits.enclose(*edits.trimmed(part), part, PAIRS[as_tex])
        return False
    elif part.name == MACTION:
        for child in own[1:]:
            edits.remove(child.start, child.end)
    elif part.name == MMULTISCRIPTS:
        _add_scripts(edits, own, tokens)
    elif part.name in MARKS and len(own) == len(MARKS[part.name]) + 1:
        _add_marks(edits, part, own, tokens, as_tex)
    else:
        return False
    return True


def _add_marks(edits: Edits, part: Element, own: list[Element], tokens: dict[int, int], as_tex: bool) -> None:
    accent = ACCENTS.get(edits.string(*edits.trimmed(own[1]))) if part.name in (MOVER, MUNDER) else None
    if accent and len(edits.string(*edits.trimmed(own[0]))) == 1:
        edits.remove(edits.trimmed(own[0])[1], own[1].end)
        edits.insert(edits.trimmed(own[0])[1], accent, own[0], closes=True)
        return
    is_choice = part.name == MFRAC and re.match(r"0+(?![.\d]*[1-9])", edits.attributes(part).get("linethickness", ""))
    if is_choice:
        edits.enclose(*edits.trimmed(part), part, PAIRS[as_tex])
    is_fraction = as_tex and part.name == MFRAC and not is_choice
    if is_fraction:
        edits.insert(edits.trimmed(part)[0], r"\frac", part)
    for child, mark in zip(own, ("", *MARKS[part.name]), strict=True):
        first, last = edits.trimmed(child)
        if mark:
            if first == last and part.name != MFRAC:
                continue
            edits.gap(first, CHOOSE[as_tex] if is_choice else "" if is_fraction else mark, child)
        if part.name == MROOT and mark:
            edits.enclose(first, last, child, (f"{PAIRS[as_tex][0]}1/", PAIRS[as_tex][1]))
        elif is_fraction or (as_tex and mark and last - first > 1):
            edits.enclose(first, last, child, PAIRS[True])
        elif _is_complex(edits, child, tokens, is_exponent=mark in tuple("^_")):
            edits.enclose(first, last, child, PAIRS[as_tex])


def _is_complex(edits: Edits, part: Element, tokens: dict[int, int], is_exponent: bool) -> bool:
    """Whether a child needs parentheses."""
    first, last = edits.trimmed(part)
    count = tokens[part.number]
    if count < 2:
        return False
    text = edits.string(first, last) if last - first < 4 * LONGEST else "?"
    if is_exponent and count == 2 and text[0] in "+-−–±∓":
        return False
    if text[0] in "([{" and text[-1] == CLOSING[text[0]]:
        return text[0] in text[1:] and text.index(CLOSING[text[0]]) < len(text) - 1
    return True


def _join(edits: Edits, own: list[Element], mark: str) -> None:
    for child in own[1:]:
        edits.gap(edits.trimmed(child)[0], mark, child)


def _add_fence(edits: Edits, part: Element, own: list[Element]) -> None:
    known = edits.attributes(part)
    first, last = edits.trimmed(part)
    edits.insert(first, known.get("open", "("), part)
    edits.insert(last, known.get("close", ")"), part, closes=True)
    separators = "".join(known.get("separators", ",").split())
    for index, child in enumerate(own[1:]):
        if separators:
            edits.gap(edits.trimmed(child)[0], separators[min(index, len(separators) - 1)], child)


def _add_scripts(edits: Edits, own: list[Element], tokens: dict[int, int]) -> None:
    """Adds the marks of indices and exponents after the first child, and moves those that stand before it there."""
    base, scripts = own[0], own[1:]
    names = [child.name for child in scripts]
    split = names.index(MPRESCRIPTS) if MPRESCRIPTS in names else len(scripts)
    for index, child in enumerate(scripts[:split]):
        if edits.trimmed(child)[0] < child.end:
            edits.gap(edits.trimmed(child)[0], "_^"[index % 2], child)
            if _is_complex(edits, child, tokens, is_exponent=True):
                edits.enclose(*edits.trimmed(child), child)
    moved = ""
    for index, child in enumerate(scripts[split + 1 :]):
        if text := edits.string(*edits.trimmed(child)):
            moved += "_^"[index % 2] + (f"({text})" if _is_complex(edits, child, tokens, is_exponent=True) else text)
    if moved:
        edits.remove(scripts[split].start, scripts[-1].end)
        edits.insert(edits.trimmed(base)[0], moved, base)
